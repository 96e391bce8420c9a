"""The deep construction over the rationals, and a proof that its solution exists modulo a prime.

The backward induction of `deep` in exact numbers: the composed map equals W by ==. Rationals grow:
each block multiplies their length by about its number of equations plus one, so that the last of D
blocks has (m·K + 1)^(D−1) times the digits of the first. `height` says how long they will get.

Where they get too long, the induction is run modulo a prime p instead: floats are dyadic rationals
and have residues. If every block's Khatri-Rao matrix has full row rank modulo p, the same pivots
are non-zero over the rationals, so every block has a rational solution, and its residues are the
ones computed here: **the scales exist and the frozen network composes to W exactly**. If a rank is
lost modulo p nothing is proved; another prime may do.

Rests on proofs_check: deep-backward-induction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions.chain import Chain, Link, padded
from reconstruct.constructions.construction import ExactMap, ExactNorm, Task
from reconstruct.constructions.shifts import find_shift
from reconstruct.constructions.sites import kernel_of
from reconstruct.constructions.two_layers import exact_norm
from reconstruct.khatri_rao import solve_exact
from reconstruct.networks import Matrix, dense
from reconstruct.numbers.arrays import Array, Vector


class ChainArithmetic(Protocol):
    """Exact numbers in arrays of objects: how floats become such, and how they are multiplied."""

    def lift(self, values: Matrix) -> Array:
        """Floats as numbers of this arithmetic; what already is stays."""
        ...

    def times(self, left: Array, right: Array) -> Array:
        """Entry by entry, shapes as NumPy broadcasts them."""
        ...

    def product(self, left: Matrix, right: Matrix) -> Array:
        """`left @ right`; either may still be floats."""
        ...


class Rationals:
    """Fractions: every float is a dyadic rational, so nothing is lost."""

    def lift(self, values: Matrix) -> Array:
        if isinstance(values, np.ndarray) and values.dtype == object:
            return values
        array = dense(values)
        flat = [Fraction(float(value)) for value in array.ravel()]
        return np.array(flat, dtype=object).reshape(array.shape)

    def times(self, left: Array, right: Array) -> Array:
        return np.asarray(left * right)

    def product(self, left: Matrix, right: Matrix) -> Array:
        """In integers: each row and each column over one denominator."""
        top, rows = _over_common(self.lift(left))
        side, columns = _over_common(self.lift(right).T)
        found = top.dot(side.T)
        return np.array(
            [
                [Fraction(v, d * e) for v, e in zip(row, columns, strict=True)]
                for row, d in zip(found, rows, strict=True)
            ],
            dtype=object,
        ).reshape(found.shape)


def _over_common(rows: Array) -> tuple[Array, list[int]]:
    """Integer rows and the denominator of each."""
    common = [lcm(*(int(v.denominator) for v in row)) for row in rows]
    integers = [
        [v.numerator * (d // v.denominator) for v in row]
        for row, d in zip(rows, common, strict=True)
    ]
    return np.array(integers, dtype=object).reshape(rows.shape), common


@dataclass(frozen=True)
class Residues:
    """Integers modulo a prime: `a/2^b ↦ a·2^−b mod p`, a ring homomorphism on the dyadics."""

    prime: int

    def lift(self, values: Matrix) -> Array:
        if isinstance(values, np.ndarray) and values.dtype == object:
            return values
        half = pow(2, -1, self.prime)
        found = []
        for value in dense(values).ravel():
            top, bottom = float(value).as_integer_ratio()
            found.append(top * pow(half, bottom.bit_length() - 1, self.prime) % self.prime)
        return np.array(found, dtype=object).reshape(np.shape(values))

    def times(self, left: Array, right: Array) -> Array:
        return np.asarray(left * right % self.prime)

    def product(self, left: Matrix, right: Matrix) -> Array:
        return np.asarray(self.lift(left).dot(self.lift(right)) % self.prime)


# --- the induction, in either arithmetic --------------------------------------------------------

BlockSolver = Callable[
    [int, Link, Array], Array | None
]  # index, link and B: σ, None if there is none


def solve_backward(
    chain: Chain, numbers: ChainArithmetic, solve: BlockSolver
) -> tuple[tuple[Array, ...], int | None]:
    """σ of the blocks, first to last, and the number (from 1) of one that had none."""
    B = numbers.lift(kernel_of(chain.last))
    found: list[Array] = []
    for i in reversed(range(len(chain.links))):
        link = chain.links[i]
        sigma = solve(i, link, B)
        if sigma is None:
            return (), i + 1
        found.append(sigma)
        if link.carry is not None:
            B = numbers.product(numbers.times(B, sigma), link.carry)
    return tuple(reversed(found)), None


def _arriving(link: Link, linear: Array, numbers: ChainArithmetic) -> Array:
    """What a layer's norm meets: `[M·linear, A]` for a layer before that computes `linear·x`."""
    entry = numbers.lift(link.entry)
    if link.carry is None:
        return entry
    return np.hstack([numbers.product(link.carry, linear), entry])


def compose(chain: Chain, scales: Sequence[Array], numbers: ChainArithmetic) -> Array:
    """The map that the chain composes to with these σ, first layer to last."""
    linear: Array = np.zeros((0, 0), dtype=object)
    for link, sigma in zip(chain.links, scales, strict=True):
        linear = numbers.times(sigma[:, None], _arriving(link, linear, numbers))
    return numbers.product(kernel_of(chain.last), linear)


# --- over the rationals -------------------------------------------------------------------------


def height(chain: Chain, rows: int, entry_bits: float = 30.0) -> float:
    """About how many bits the longest numerator of the exact solution will have.

    A float32 weight over a common power of two has about `entry_bits`.
    """
    longest, before = entry_bits, entry_bits
    for link in reversed(chain.links):
        equations = rows * (link.block[1] - link.block[0])
        longest = equations * (before + entry_bits)
        before += longest + entry_bits
    return longest


def solve_exactly(
    chain: Chain, weight: tuple[tuple[Fraction, ...], ...], near: list[Vector]
) -> tuple[tuple[Array, ...] | None, str]:
    """The exact σ, first to last, or None and the reason; `near[i]` is the float64 σ of block i.

    Spare width leaves entries free, and taking them from there keeps the exact solution beside
    the numerical one.
    """
    reasons: list[str] = []

    def solve(index: int, link: Link, B: Array) -> Array | None:
        start, stop = link.block
        right = [list(row[start:stop]) for row in weight]
        found = solve_exact(dense(link.entry), B.tolist(), right, free=near[index].tolist())
        if found.solved:
            return np.array(found.s, dtype=object)
        reasons.append(f"block {index + 1}: {found.message}")
        return None

    scales, failed = solve_backward(chain, Rationals(), solve)
    return (scales, "") if failed is None else (None, reasons[0])


def exact_norms(
    chain: Chain, scales: tuple[Array, ...], task: Task, exact: ExactMap
) -> list[ExactNorm]:
    """The rational norms: shifts from the exact values, each taken back exactly one layer later."""
    numbers = Rationals()
    norms: list[ExactNorm] = []
    linear: Array = np.zeros((0, 0), dtype=object)
    constant: Array = np.zeros(0, dtype=object)
    back = Fraction(1)
    for link, sigma in zip(chain.links, scales, strict=True):
        slope = Fraction(link.piece.slope)
        s = sigma / slope
        values = s[:, None] * _arriving(link, linear, numbers)
        met = numbers.lift(link.bias)
        if link.carry is not None:
            met = met + numbers.product(link.carry, constant[:, None])[:, 0]
        rounded = padded(values.astype(np.float64), task.weight.shape[1])
        held = find_shift(link.piece, *task.functionals(rounded), np.abs(rounded) @ task.magnitude)
        scale = Fraction(held.scale) if link is chain.links[-1] else Fraction(1)
        shift = numbers.lift(held.shift)
        norms.append(exact_norm(link.norm, list(scale * s), list(shift - scale * s * met)))
        linear, constant, back = slope * scale * values, slope * shift, 1 / scale
    met = numbers.product(kernel_of(chain.last), constant[:, None])[:, 0]
    t = np.array(exact.bias, dtype=object) - back * (met + numbers.lift(chain.last.channel_bias))
    return [*norms, exact_norm(chain.norm, [back] * len(t), list(t))]


# --- modulo a prime -----------------------------------------------------------------------------


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


def prove_deep(
    chain: Chain, weight: NDArray[np.float64], prime: int = 2**61 - 1, most: float = 3e8
) -> DeepProof:
    """Try to prove that the chain can be made to compose to `weight` (m × k) exactly.

    `most` are multiplications modulo the prime: 3e8 take about a minute.
    """
    rows, count = len(weight), len(chain.links)
    equations = [rows * (link.block[1] - link.block[0]) for link in chain.links]
    pairs = zip(chain.links, equations, strict=True)
    if sum(link.width * (e * e + link.width * rows) for link, e in pairs) > most:
        return DeepProof(False, False, prime, 0, None)
    numbers = Residues(prime)
    W = numbers.lift(weight)

    def solve(index: int, link: Link, B: Array) -> Array | None:
        A = numbers.lift(link.entry)
        K = (B[:, None, :] * A.T[None, :, :]).reshape(-1, link.width) % prime
        return _solve(K, W[:, slice(*link.block)].ravel(), prime)

    scales, failed = solve_backward(chain, numbers, solve)
    if failed is not None:
        return DeepProof(False, False, prime, count, failed)
    composed = bool(np.all(compose(chain, scales, numbers) == W))
    return DeepProof(True, composed, prime, count, None)


def _solve(K: Array, w: Array, prime: int) -> Array | None:
    """A solution of `K s = w`, or None when K has not full row rank.

    Entries that spare width leaves free are 1: not zero, so that they carry what comes before.
    """
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
    s = np.array([1] * width, dtype=object)
    free = np.setdiff1d(np.arange(width), pivots)
    s[pivots] = (table[:, -1] - table[:, free].dot(s[free])) % prime if len(free) else table[:, -1]
    return s
