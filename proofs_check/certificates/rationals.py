"""Matrices of rationals known to within a radius: what the checker computes with.

Entries are integers over one denominator, N/D ± r, and nothing of N/D is rounded unless `rounded`
says so; radii are floats, rounded up. One column of them is a scale, a shift, or a value at a given
input; with a layout it is an affine map (`affine`).

A norm is z ↦ s∘z + t with s = γ/√(v+ε) and t = β − s∘μ. Its numbers are rational unless the root
is irrational; a root is found by integer square roots,

    R = ⌊√(D·4^B)⌋,   R/2^B ≤ √D < (R + 1)/2^B,

and what is not known of s and t goes into the radius.

Rests on proofs_check: norm-is-affine, exact-splitting, accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt, lcm
from typing import Self

import numpy as np
import numpy.typing as npt

from proofs_check.certificates.arithmetic import BITS as DIGIT
from proofs_check.certificates.arithmetic import (
    Floats,
    Marks,
    Whole,
    above,
    below,
    carried,
    dot,
    exact,
    float_above,
    largest,
    nearest,
    plus,
    times,
)
from proofs_check.certificates.report import NotCheckable
from reconstruct.networks.maps import Cast, Diagonal, Norm, Scaling

BITS = 256  # binary digits of what is irrational
SHARED_BITS = 4096  # a common denominator of more bits than this is given up for BITS digits
MOST_BITS = 2**20  # a denominator of more bits than this is refused

Interval = tuple[Fraction, Fraction]
Places = npt.NDArray[np.int64]
Range = tuple[Floats, Floats]
RationalNorm = tuple[Sequence[Fraction], Sequence[Fraction]]


@dataclass(frozen=True, eq=False)
class Rationals:
    """A matrix of numbers `whole`/`unit`, each within `radius` of the truth."""

    whole: Whole
    unit: int
    radius: Floats

    @classmethod
    def of(cls, values: npt.ArrayLike, radius: Floats | float = 0.0) -> Self:
        """Floats as they are, numbers in a row as a column; each off by at most `radius`."""
        matrix = np.asarray(values, dtype=np.float64)
        matrix = matrix[:, None] if matrix.ndim == 1 else matrix
        room = np.asarray(radius, dtype=np.float64)
        room = room[:, None] if room.ndim == 1 else room
        return cls(*exact(matrix), np.broadcast_to(room, matrix.shape))

    @classmethod
    def shared(cls, values: Sequence[Fraction]) -> Self:
        """A column of rationals over one denominator."""
        unit = lcm(*(value.denominator for value in values))
        numbers = [value.numerator * (unit // value.denominator) for value in values]
        whole = Whole.of_integers(numbers, (len(values), 1))
        return cls(whole, unit, np.zeros(whole.shape))

    @classmethod
    def between(cls, ends: Sequence[Interval], bits: int) -> Self:
        """A column of intervals; exact if all are, over a denominator of bearable length."""
        units = {low.denominator for low, high in ends if low == high}
        known = all(low == high for low, high in ends)
        if known and sum(unit.bit_length() for unit in units) <= SHARED_BITS:
            return cls.shared([low for low, _ in ends])
        small = min((abs(low + high) for low, high in ends if low + high), default=Fraction(1))
        unit = 1 << (bits + max(0, small.denominator.bit_length() - small.numerator.bit_length()))
        numbers = [int((low + high) * unit / 2) for low, high in ends]
        radius = [
            float_above(max(abs(Fraction(n, unit) - end) for end in pair))
            for n, pair in zip(numbers, ends, strict=True)
        ]
        return cls(Whole.of_integers(numbers, (len(ends), 1)), unit, np.array(radius)[:, None])

    @property
    def rows(self) -> int:
        return self.whole.shape[0]

    # --- other forms of the same numbers --------------------------------------------------------

    def part(self, start: int, stop: int) -> Self:
        rows = slice(start, stop)
        return replace(self, whole=self.whole.part(rows), radius=self.radius[rows])

    def placed(self, index: Places) -> Self:
        """The rows of these places, zeros for −1."""
        there = (index >= 0)[:, None]
        whole = Whole(np.where(there, self.whole.digits[:, index], 0))
        return replace(self, whole=whole, radius=np.where(there, self.radius[index], 0.0))

    def reshaped(self, rows: int, columns: int) -> Self:
        digits = self.whole.digits.reshape(-1, rows, columns)
        return replace(self, whole=Whole(digits), radius=self.radius.reshape(rows, columns))

    def rounded(self, bits: int) -> Self:
        """Longer numbers rounded down to multiples of 2^-bits."""
        power = self.unit & (self.unit - 1) == 0
        if power and self.unit.bit_length() <= bits + 1:
            return self
        if power:
            whole, lost = _shifted(self.whole, self.unit.bit_length() - 1 - bits)
        else:
            pairs = [divmod(number << bits, self.unit) for number in self.whole.integers()]
            whole = Whole.of_integers([number for number, _ in pairs], self.whole.shape)
            lost = np.array([rest != 0 for _, rest in pairs]).reshape(whole.shape)
        radius = plus(self.radius, np.where(lost, 2.0**-bits, 0.0))
        return replace(self, whole=whole, unit=1 << bits, radius=radius)

    def largest(self) -> Floats:
        """An upper bound of every |entry|; an exact zero stays zero."""
        return plus(largest(self.whole, self.unit), self.radius)

    def floats(self) -> Range:
        """(F, E) with |exact − F| ≤ E entry by entry."""
        middle, error = nearest(self.whole, self.unit)
        return middle, plus(error, self.radius)

    def ends(self) -> Range:
        """Floats around each unit of a column."""
        middle, room = (part[:, 0] for part in self.floats())
        return (
            np.where(room == 0, middle, below(middle - room)),
            np.where(room == 0, middle, above(middle + room)),
        )

    def intervals(self) -> list[Interval]:
        """Intervals of rationals around each unit of a column; refused where nothing is known."""
        if not np.isfinite(self.radius).all():
            raise NotCheckable("a value at an input is beyond what the checker can enclose")
        ends = zip(self.whole.integers(), self.radius[:, 0].tolist(), strict=True)
        found = [(Fraction(n, self.unit), Fraction(r)) for n, r in ends]
        return [(middle - radius, middle + radius) for middle, radius in found]

    def fractions(self) -> npt.NDArray[np.object_]:
        """The numbers, which have to be known exactly."""
        if self.radius.any():
            raise NotCheckable("a number is not rational")
        flat = [Fraction(number, self.unit) for number in self.whole.integers()]
        return np.array(flat, dtype=object).reshape(self.whole.shape)

    # --- sums and products ----------------------------------------------------------------------

    def plus(self, other: Self) -> Self:
        """The sum, entry by entry, over a common denominator."""
        unit = common_unit(self, other)
        a, b = (part.whole.scaled(unit // part.unit) for part in (self, other))
        return replace(self, whole=a + b, unit=unit, radius=plus(self.radius, other.radius))

    def negated(self) -> Self:
        return replace(self, whole=-self.whole)

    def minus(self, other: Self) -> Self:
        return self.plus(other.negated())

    def scaled(self, column: Rationals) -> Self:
        """Each row times its own factor; behind the sums of a site, which is mostly there, that is
        1 everywhere."""
        digits = column.whole.digits
        if len(digits) == column.unit == 1 and (digits == 1).all() and not column.radius.any():
            return self
        whole = self.whole.times(column.whole)
        radius = times(self.radius, column.largest())
        if column.radius.any():
            radius = plus(radius, times(self.largest(), column.radius))
        return replace(self, whole=whole, unit=self.unit * column.unit, radius=radius)

    def mixed(self, matrix: Rationals) -> Self:
        """`matrix @ self`."""
        radius = np.zeros((matrix.rows, self.radius.shape[1]))
        if self.radius.any():
            radius = dot(matrix.largest(), self.radius)
        if matrix.radius.any():
            radius = plus(radius, dot(matrix.radius, largest(self.whole, self.unit)))
        whole, unit = matrix.whole @ self.whole, matrix.unit * self.unit
        return replace(self, whole=whole, unit=unit, radius=radius)


def common_unit(*parts: Rationals) -> int:
    unit = lcm(*(part.unit for part in parts))
    if unit.bit_length() > MOST_BITS:
        raise NotCheckable(f"numbers over a denominator of {unit.bit_length()} bits")
    return unit


def _shifted(whole: Whole, shift: int) -> tuple[Whole, Marks]:
    """⌊N/2^shift⌋, and where that is not exact: digits but the last are not negative, so that
    dropping them rounds down."""
    digits, (places, small) = whole.digits, divmod(shift, DIGIT)
    if places >= len(digits):  # a sign is left
        return Whole(np.where(digits[-1:] < 0, np.int64(-1), np.int64(0))), whole.nonzero()
    mask = (1 << small) - 1
    lost = (digits[:places] != 0).any(axis=0) | (digits[places] & mask != 0)
    kept = digits[places:]
    low = kept >> small
    low[:-1] |= (kept[1:] & mask) << (DIGIT - small)
    return Whole(carried(low)), np.asarray(lost)


def root(square: Fraction, bits: int) -> Interval:
    """Rationals around √square, equal where it is rational, else 2^-bits of it apart."""
    top, bottom = isqrt(square.numerator), isqrt(square.denominator)
    if top * top == square.numerator and bottom * bottom == square.denominator:
        return Fraction(top, bottom), Fraction(top, bottom)
    bits += max(0, square.denominator.bit_length() - square.numerator.bit_length())
    found = isqrt((square.numerator << 2 * bits) // square.denominator)
    return Fraction(found, 1 << bits), Fraction(found + 1, 1 << bits)


# --- maps that scale and shift each unit on its own -----------------------------------------------


def columns_of(
    op: Diagonal, norm: RationalNorm | None = None, bits: int = BITS, positions: int = 1
) -> tuple[Rationals, Rationals]:
    """`(s, t)` of a map; `norm` gives rational gammas and betas in place of the file's.

    With `positions` there is one number per channel: its units must be alike (see `affine`).
    """
    if isinstance(op, Norm):
        repeats = op.positions if positions == 1 else op.positions // positions
        spread = np.repeat(np.arange(len(op.gamma)), repeats)
        scale, shift = _norm(op, norm, bits)
        return scale.placed(spread), shift.placed(spread)
    if isinstance(op, Scaling):
        parts = (op.factor, op.divisor, op.offset)
        factor, divisor, offset = (np.asarray(part)[::positions] for part in parts)
        if (divisor == 1).all():
            return Rationals.of(factor), Rationals.of(offset)
        pairs = zip(_fractions(factor), _fractions(divisor), strict=True)
        return Rationals.between([(f / d, f / d) for f, d in pairs], bits), Rationals.of(offset)
    if isinstance(op, Cast):  # the identity
        count = op.units // positions
        return Rationals.of(np.ones(count)), Rationals.of(np.zeros(count))
    scales, shifts = op.rationals(bits)
    return Rationals.between(list(scales), bits), Rationals.between(list(shifts), bits)


def _norm(op: Norm, norm: RationalNorm | None, bits: int) -> tuple[Rationals, Rationals]:
    """One number for each channel."""
    if norm is None and plain(op):
        return Rationals.of(op.gamma), Rationals.of(op.beta)
    eps = Fraction(op.eps)
    squares = [var + eps for var in _fractions(op.var)]
    if min(squares, default=Fraction(1)) <= 0:
        raise NotCheckable(f"a variance of {float(min(squares))} has no scale")
    gammas, betas = norm or (_fractions(op.gamma), _fractions(op.beta))
    scales: list[Interval] = []
    shifts: list[Interval] = []
    for square, gamma, beta, mean in zip(squares, gammas, betas, _fractions(op.mean), strict=True):
        low, high = sorted(gamma / end for end in root(square, bits))
        first, last = sorted(beta - end * mean for end in (low, high))
        scales.append((low, high))
        shifts.append((first, last))
    if norm is None:
        return Rationals.between(scales, bits), Rationals.between(shifts, bits)
    if any(low != high for low, high in (*scales, *shifts)):
        raise NotCheckable("an exact identity needs norms whose √(v + ε) is rational")
    return Rationals.shared([low for low, _ in scales]), Rationals.shared([t for t, _ in shifts])


def plain(op: Norm) -> bool:
    """Whether √(v+ε) is exactly 1 and the mean 0: then s = γ and t = β."""
    total = op.var + op.eps
    part = total - op.var
    lost = (op.var - (total - part)) + (op.eps - part)  # Knuth's TwoSum: what rounding took
    return bool((total == 1).all() and (lost == 0).all() and (op.mean == 0).all())


def _fractions(values: Floats) -> list[Fraction]:
    return [Fraction(value) for value in values.tolist()]
