"""The induction of Theorem 2, once for every arithmetic.

    B_D = M_out,    B_i diag(σ_i) A_i = W^(i),    B_{i-1} = B_i diag(σ_i) M_i

from the last block to the first, σ_i = λ_i s_i with the slope λ_i of the activation. Whoever solves
a block says how; `compose` runs the chain forwards with the scales found, first layer to last.
Checked in `proofs_check/statements/theorem_2_deep/backward_induction.py`.

Rests on proofs_check: deep-backward-induction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from reconstruct.constructions.deep.arithmetic import ChainArithmetic
from reconstruct.constructions.deep.chain import Chain, Link
from reconstruct.constructions.nodes import kernel_of
from reconstruct.numbers.arrays import Array

Block = TypeVar("Block")


class BlockSolver(Protocol[Block]):
    """How a block is solved in some arithmetic."""

    @property
    def arithmetic(self) -> ChainArithmetic: ...

    def solve(self, index: int, link: Link, B: Array) -> Block | None:
        """The solution of block `index` (from 0), which meets `B`; None where there is none."""
        ...

    def scales(self, block: Block) -> Array:
        """`σ` of a solved block."""
        ...


@dataclass(frozen=True, eq=False)
class Induction(Generic[Block]):
    """The solved blocks, first to last; `failed` is the one that had no solution, from 1."""

    blocks: tuple[Block, ...]
    failed: int | None


def solve_backward(chain: Chain, solver: BlockSolver[Block]) -> Induction[Block]:
    """Solve the blocks from the last to the first, each with the B that the later ones leave."""
    arithmetic = solver.arithmetic
    B = arithmetic.lift(kernel_of(chain.last))
    found: list[Block] = []
    for i in reversed(range(len(chain.links))):
        link = chain.links[i]
        block = solver.solve(i, link, B)
        if block is None:
            return Induction(tuple(reversed(found)), i + 1)
        found.append(block)
        if link.carry is not None:
            B = arithmetic.product(arithmetic.times(B, solver.scales(block)), link.carry)
    return Induction(tuple(reversed(found)), None)


def arriving(link: Link, linear: Array, arithmetic: ChainArithmetic) -> Array:
    """What a layer's norm meets: `[M·linear, A]` for a layer before that computes `linear·x`."""
    entry = arithmetic.lift(link.entry)
    if link.carry is None:
        return entry
    return np.hstack([arithmetic.product(link.carry, linear), entry])


def compose(chain: Chain, scales: Sequence[Array], arithmetic: ChainArithmetic) -> Array:
    """The map that the chain composes to with these σ, first layer to last."""
    linear: Array = np.zeros((0, 0), dtype=object)
    for link, sigma in zip(chain.links, scales, strict=True):
        linear = arithmetic.times(sigma[:, None], arriving(link, linear, arithmetic))
    return arithmetic.product(kernel_of(chain.last), linear)
