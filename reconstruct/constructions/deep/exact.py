"""The induction over the rationals: the composed map equals W by ==.

Rationals grow: each block multiplies their length by about its number of equations plus one, so
that the last of D blocks has (m·K + 1)^(D−1) times the digits of the first. `height` says how
long they will get; beyond LIMIT `proof` proves that the solution exists without writing it down.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from reconstruct.constructions.construction import ExactMap, ExactNorm, Task
from reconstruct.constructions.deep.arithmetic import Rationals
from reconstruct.constructions.deep.chain import Chain, Link
from reconstruct.constructions.deep.induction import arriving, solve_backward
from reconstruct.constructions.nodes import kernel_of
from reconstruct.constructions.shifts import Placing, place
from reconstruct.constructions.two_layers import exact_norm
from reconstruct.khatri_rao import ExactSolution, solve_exact
from reconstruct.networks import dense
from reconstruct.numbers.arrays import Array, Vector

LIMIT = 200_000  # bits of the longest number: beyond it an exact solve takes minutes
ENTRY_BITS = 30  # of a float32 weight over a common power of two
RATIONALS = Rationals()


def height(chain: Chain, rows: int) -> float:
    """About how many bits the longest numerator of the exact solution will have."""
    longest, before = float(ENTRY_BITS), float(ENTRY_BITS)
    for link in reversed(chain.links):
        equations = rows * (link.block[1] - link.block[0])
        longest = equations * (before + ENTRY_BITS)
        before += longest + ENTRY_BITS
    return longest


@dataclass(frozen=True, eq=False)
class _Exactly:
    """`B_i diag(σ_i) A_i == W^(i)`; free entries as in the float64 solution `near`.

    Spare width leaves entries free, and taking them from there keeps the exact solution beside
    the numerical one.
    """

    weight: tuple[tuple[Fraction, ...], ...]
    near: list[Vector]
    reasons: list[str]

    arithmetic = RATIONALS

    def solve(self, index: int, link: Link, B: Array) -> ExactSolution | None:
        start, stop = link.block
        right = [list(row[start:stop]) for row in self.weight]
        free = self.near[index].tolist()
        solution = solve_exact(dense(link.entry), B.tolist(), right, free=free)
        if solution.solved:
            return solution
        self.reasons.append(f"block {index + 1}: {solution.message}")
        return None

    def scales(self, block: ExactSolution) -> Array:
        return np.array(block.s, dtype=object)


@dataclass(frozen=True, eq=False)
class ExactChain:
    """The rational σ of the blocks, first to last; None where a block failed, for that reason."""

    scales: tuple[Array, ...] | None
    reason: str = ""


def solve_over_rationals(
    chain: Chain, weight: tuple[tuple[Fraction, ...], ...], near: list[Vector]
) -> ExactChain:
    """The exact scales; `near[i]` is the float64 σ of block i."""
    solver = _Exactly(weight, near, [])
    found = solve_backward(chain, solver)
    if found.failed is not None:
        return ExactChain(None, solver.reasons[0])
    return ExactChain(tuple(solver.scales(block) for block in found.blocks))


def exact_norms(
    chain: Chain, scales: tuple[Array, ...], task: Task, exact: ExactMap
) -> list[ExactNorm]:
    """The rational norms: shifts from the exact values, each taken back exactly one layer later."""
    norms: list[ExactNorm] = []
    linear: Array = np.zeros((0, 0), dtype=object)
    constant: Array = np.zeros(0, dtype=object)
    back = Fraction(1)
    for link, sigma in zip(chain.links, scales, strict=True):
        slope = Fraction(link.piece.slope)
        s = sigma / slope
        values = s[:, None] * arriving(link, linear, RATIONALS)
        met = _constant(link, constant)
        held = _place(link, values, task)
        scale = Fraction(held.scale) if link is chain.links[-1] else Fraction(1)
        shift = RATIONALS.lift(held.shift)
        norms.append(exact_norm(link.norm, list(scale * s), list(shift - scale * s * met)))
        linear, constant, back = slope * scale * values, slope * shift, 1 / scale
    met = RATIONALS.product(kernel_of(chain.last), constant[:, None])[:, 0]
    t = np.array(exact.bias, dtype=object) - back * (met + RATIONALS.lift(chain.last.channel_bias))
    return [*norms, exact_norm(chain.norm, [back] * len(t), list(t))]


def _constant(link: Link, constant: Array) -> Array:
    """What reaches the norm besides the inputs: `M·constant + biases`."""
    bias = RATIONALS.lift(link.bias)
    if link.carry is None:
        return bias
    return np.asarray(RATIONALS.product(link.carry, constant[:, None])[:, 0] + bias)


def _place(link: Link, values: Array, task: Task) -> Placing:
    """The placement of the exact values, rounded to float64 for their bounds."""
    rounded = np.zeros((len(values), task.weight.shape[1]))
    rounded[:, : values.shape[1]] = values.astype(np.float64)
    lo, hi = task.functionals(rounded)
    return place(link.piece, lo, hi, np.abs(rounded) @ task.magnitude)
