"""A proof that the deep construction has an exact solution, without writing it down.

The induction is run modulo a prime p: floats are dyadic rationals and have residues. If
every block's Khatri-Rao matrix has full row rank modulo p, the same pivots are non-zero over the
rationals, so every block has a rational solution, and its residues are the ones computed here:
**the scales exist and the frozen network composes to W exactly**. If a rank is lost modulo p
nothing is proved; another prime may do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions.deep.arithmetic import Residues
from reconstruct.constructions.deep.chain import Chain, Link
from reconstruct.constructions.deep.induction import compose, solve_backward
from reconstruct.numbers.arrays import Array

PRIME = 2**61 - 1
COST_LIMIT = 3e8  # multiplications modulo the prime, about a minute
FREE = 1  # the value of entries that spare width leaves free: not zero, so that they carry


@dataclass(frozen=True)
class DeepProof:
    """`proved`: gammas exist for which the chain composes to W exactly; `composed` checks it.

    `composed` says that the residues of the composed map equal those of W, as they must;
    `blocks` is 0 when nothing was tried.
    """

    proved: bool
    composed: bool
    prime: int
    blocks: int
    failed: int | None

    @property
    def message(self) -> str:
        """One sentence."""
        if self.blocks == 0:
            return "no proof was tried, the systems are too large for it"
        if self.proved:
            return (
                f"an exact solution exists: proved, all {self.blocks} blocks have full rank "
                f"modulo {self.prime}"
            )
        return f"block {self.failed} loses rank modulo {self.prime}, which proves nothing"


def prove_deep(chain: Chain, weight: NDArray[np.float64], prime: int = PRIME) -> DeepProof:
    """Try to prove that the chain can be made to compose to `weight` (m × k) exactly."""
    if _cost(chain, len(weight)) > COST_LIMIT:
        return DeepProof(False, False, prime, 0, None)
    numbers = Residues(prime)
    W, count = numbers.lift(weight), len(chain.links)
    found = solve_backward(chain, _Modulo(W, numbers))
    if found.failed is not None:
        return DeepProof(False, False, prime, count, found.failed)
    composed = compose(chain, found.blocks, numbers)
    return DeepProof(True, bool(np.all(composed == W)), prime, count, None)


@dataclass(frozen=True, eq=False)
class _Modulo:
    """Blocks by elimination modulo the prime."""

    W: Array
    arithmetic: Residues

    def solve(self, index: int, link: Link, B: Array) -> Array | None:
        start, stop = link.block
        A, prime = self.arithmetic.lift(link.entry), self.arithmetic.prime
        K = (B[:, None, :] * A.T[None, :, :]).reshape(-1, link.width) % prime
        return _solve(K, self.W[:, start:stop].ravel(), prime)

    def scales(self, block: Array) -> Array:
        return block


def _cost(chain: Chain, rows: int) -> float:
    """Multiplications modulo the prime."""
    equations = [rows * (link.block[1] - link.block[0]) for link in chain.links]
    pairs = zip(chain.links, equations, strict=True)
    return float(sum(link.width * (e * e + link.width * rows) for link, e in pairs))


def _solve(K: Array, w: Array, prime: int) -> Array | None:
    """A solution of `K s = w` with free entries FREE, or None when K has not full row rank."""
    rows, width = K.shape
    table = np.hstack([K, w[:, None]])
    pivots: list[int] = []
    for row in range(rows):
        column = next((c for c in range(width) if table[row, c]), None)
        if column is None:
            return None
        pivots.append(column)
        table[row] = table[row] * pow(int(table[row, column]), -1, prime) % prime
        others = np.arange(rows) != row
        table[others] = (table[others] - np.outer(table[others, column], table[row])) % prime
    s = np.array([FREE] * width, dtype=object)
    free = np.setdiff1d(np.arange(width), pivots)
    s[pivots] = (table[:, -1] - table[:, free].dot(s[free])) % prime if len(free) else table[:, -1]
    return s
