"""Maps that scale and shift each unit on its own, in the checker's own arithmetic.

A norm is z ↦ s∘z + t with s = γ/√(v+ε) and t = β − s∘μ. Its numbers are
rational unless the root is irrational; a root is found by integer square roots,

    R = ⌊√(D·4^B)⌋,   R/2^B ≤ √D < (R + 1)/2^B,

and what is not known of s and t goes into the column's `slip`.

Rests on proofs_check: norm-is-affine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt, lcm
from typing import TypeVar

import numpy as np

from proofs_check.certificates.arithmetic import (
    Floats,
    Whole,
    exact,
    float_above,
    largest,
    nearest,
    plus,
)
from proofs_check.certificates.report import NotCheckable
from reconstruct.networks.maps import Cast, Diagonal, Norm, Scaling

BITS = 256  # binary digits of what is irrational
SHARED_BITS = 4096  # a common denominator of more bits than this is given up for BITS digits

Interval = tuple[Fraction, Fraction]
Number = TypeVar("Number")
RationalNorm = tuple[Sequence[Fraction], Sequence[Fraction]]


@dataclass(frozen=True, eq=False)
class Column:
    """One number per unit: integers over a denominator, each within `slip` of the truth."""

    whole: Whole
    unit: int
    slip: Floats

    @classmethod
    def of_floats(cls, values: Floats) -> Column:
        return cls(*exact(values[:, None]), np.zeros(len(values)))

    @classmethod
    def doubt(cls, slip: Floats) -> Column:
        """Zeros that may be off."""
        return cls(Whole.zeros(len(slip), 1), 1, slip)

    @classmethod
    def shared(cls, values: Sequence[Fraction]) -> Column:
        """Rationals over one denominator."""
        unit = lcm(*(value.denominator for value in values))
        numbers = [value.numerator * (unit // value.denominator) for value in values]
        return cls(Whole.of_integers(numbers, (len(values), 1)), unit, np.zeros(len(values)))

    @classmethod
    def between(cls, ends: Sequence[Interval], bits: int) -> Column:
        """Numbers known as intervals; exact if all are, over a denominator of bearable length."""
        units = {low.denominator for low, high in ends if low == high}
        exact = all(low == high for low, high in ends)
        if exact and sum(unit.bit_length() for unit in units) <= SHARED_BITS:
            return cls.shared([low for low, _ in ends])
        small = min((abs(low + high) for low, high in ends if low + high), default=Fraction(1))
        unit = 1 << (bits + max(0, small.denominator.bit_length() - small.numerator.bit_length()))
        numbers = [int((low + high) * unit / 2) for low, high in ends]
        slips = [
            float_above(max(abs(Fraction(n, unit) - end) for end in pair))
            for n, pair in zip(numbers, ends, strict=True)
        ]
        return cls(Whole.of_integers(numbers, (len(ends), 1)), unit, np.array(slips))

    def part(self, start: int, stop: int) -> Column:
        rows = slice(start, stop)
        return Column(self.whole.part(rows), self.unit, self.slip[rows])

    def floats(self) -> tuple[Floats, Floats]:
        """Floats, and how far from the truth they may be."""
        middle, error = nearest(self.whole, self.unit)
        return middle[:, 0], plus(error[:, 0], self.slip)

    def repeated(self, times: int) -> Column:
        """Each number so many times, one after the other."""
        digits = np.repeat(self.whole.digits, times, axis=1)
        return Column(Whole(digits), self.unit, np.repeat(self.slip, times))

    def largest(self) -> Floats:
        return plus(largest(self.whole, self.unit)[:, 0], self.slip)


def columns_of(
    op: Diagonal, norm: RationalNorm | None, bits: int, positions: int = 1
) -> tuple[Column, Column]:
    """`(s, t)` of a map; `norm` gives rational gammas and betas in place of the file's.

    With `positions` there is one number per channel: its units must be alike (see `affine`).
    """
    if isinstance(op, Norm):
        each = op if positions == 1 else replace(op, positions=op.positions // positions)
        return _norm(each, norm, bits)
    if isinstance(op, Scaling):
        return _scaling(op, bits, positions)
    if isinstance(op, Cast):  # the identity
        count = op.units // positions
        return Column.of_floats(np.ones(count)), Column.of_floats(np.zeros(count))
    scales, shifts = op.rationals(bits)
    return Column.between(list(scales), bits), Column.between(list(shifts), bits)


def _norm(op: Norm, norm: RationalNorm | None, bits: int) -> tuple[Column, Column]:
    if norm is None and _plain(op):
        return Column.of_floats(op.spread(op.gamma)), Column.of_floats(op.spread(op.beta))
    gammas, betas = norm or (_fractions(op.gamma), _fractions(op.beta))
    scales: list[Interval] = []
    shifts: list[Interval] = []
    for root, gamma, beta, mean in zip(
        _roots(op, bits), gammas, betas, _fractions(op.mean), strict=True
    ):
        low, high = sorted(gamma / end for end in root)
        first, last = sorted(beta - end * mean for end in (low, high))
        scales.append((low, high))
        shifts.append((first, last))
    scales, shifts = _spread(op, scales), _spread(op, shifts)
    if norm is None:
        return Column.between(scales, bits), Column.between(shifts, bits)
    if any(low != high for low, high in (*scales, *shifts)):
        raise NotCheckable("an exact identity needs norms whose √(v + ε) is rational")
    return Column.shared([low for low, _ in scales]), Column.shared([low for low, _ in shifts])


def _plain(op: Norm) -> bool:
    """Whether √(v+ε) is exactly 1 and the mean 0: then s = γ and t = β."""
    total = op.var + op.eps
    part = total - op.var
    lost = (op.var - (total - part)) + (op.eps - part)  # Knuth's TwoSum: what rounding took
    return bool((total == 1).all() and (lost == 0).all() and (op.mean == 0).all())


def _scaling(op: Scaling, bits: int, positions: int) -> tuple[Column, Column]:
    factor, divisor, offset = (
        np.asarray(part)[::positions] for part in (op.factor, op.divisor, op.offset)
    )
    if (divisor == 1).all():
        return Column.of_floats(factor), Column.of_floats(offset)
    pairs = zip(_fractions(factor), _fractions(divisor), strict=True)
    return Column.between([(f / d, f / d) for f, d in pairs], bits), Column.of_floats(offset)


def _roots(op: Norm, bits: int) -> list[Interval]:
    """Rationals around √(v+ε), equal where it is rational."""
    eps = Fraction(op.eps)
    return [_root(var + eps, bits) for var in _fractions(op.var)]


def _root(square: Fraction, bits: int) -> Interval:
    if square <= 0:
        raise NotCheckable(f"a variance of {float(square)} has no scale")
    above, below = isqrt(square.numerator), isqrt(square.denominator)
    if above * above == square.numerator and below * below == square.denominator:
        return Fraction(above, below), Fraction(above, below)
    bits += max(0, square.denominator.bit_length() - square.numerator.bit_length())
    root = isqrt((square.numerator << 2 * bits) // square.denominator)
    return Fraction(root, 1 << bits), Fraction(root + 1, 1 << bits)


def _fractions(values: Floats) -> list[Fraction]:
    return [Fraction(value) for value in values.tolist()]


def _spread(op: Norm, values: list[Number]) -> list[Number]:
    """Numbers per channel as numbers per unit."""
    return [value for value in values for _ in range(op.positions)]
