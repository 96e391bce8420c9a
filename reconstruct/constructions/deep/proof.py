"""A proof that the deep construction has an exact solution, without writing it down.

The backward induction is run modulo a prime p: floats are dyadic rationals and have residues. If
every block's Khatri-Rao matrix has full row rank modulo p, the same pivots are non-zero over the
rationals, so every block has a rational solution, and its residues are the ones computed here:
**the scales exist and the frozen network composes to W exactly**. If a rank is lost modulo p
nothing is proved; another prime may do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions.deep.chain import Chain
from reconstruct.networks import (
    Matrix,
    dense,
)

PRIME = 2**61 - 1
COST_LIMIT = 3e8  # multiplications modulo the prime, about a minute
FREE = 1  # the value of entries that spare width leaves free: not zero, so that they carry

Residues = NDArray[Any]  # dtype object, Python integers modulo the prime


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
    W, B = residues(weight, prime), residues(chain.last.matrix, prime)
    scales: list[Residues] = []
    count = len(chain.links)
    for i in reversed(range(count)):
        link = chain.links[i]
        start, stop = link.block
        A = residues(link.entry, prime)
        K = (B[:, None, :] * A.T[None, :, :]).reshape(-1, link.width) % prime
        s = _solve(K, W[:, start:stop].ravel(), prime)
        if s is None:
            return DeepProof(False, False, prime, count, i + 1)
        scales.append(s)
        if link.carry is not None:
            B = (B * s % prime).dot(residues(link.carry, prime)) % prime
    composed = _composed(chain, scales[::-1], prime)
    return DeepProof(True, bool(np.all(composed == W)), prime, count, None)


def _cost(chain: Chain, rows: int) -> float:
    """Multiplications modulo the prime."""
    equations = [rows * (link.block[1] - link.block[0]) for link in chain.links]
    pairs = zip(chain.links, equations, strict=True)
    return float(sum(link.width * (e * e + link.width * rows) for link, e in pairs))


def residues(values: Matrix, prime: int) -> Residues:
    """`a/2^b ↦ a·2^−b mod p` for every entry."""
    half = pow(2, -1, prime)
    found = []
    for value in dense(values).ravel():
        top, bottom = float(value).as_integer_ratio()
        found.append(top * pow(half, bottom.bit_length() - 1, prime) % prime)
    return np.array(found, dtype=object).reshape(np.shape(values))


def _solve(K: Residues, w: Residues, prime: int) -> Residues | None:
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


def _composed(chain: Chain, scales: list[Residues], prime: int) -> Residues:
    """The map that the chain composes to, first layer to last."""
    linear: Residues = np.zeros((0, 0), dtype=object)
    for link, s in zip(chain.links, scales, strict=True):
        entry = residues(link.entry, prime)
        if link.carry is not None:
            carried = residues(link.carry, prime).dot(linear) % prime
            entry = np.hstack([carried, entry])
        linear = s[:, None] * entry % prime
    return np.asarray(residues(chain.last.matrix, prime).dot(linear) % prime)
