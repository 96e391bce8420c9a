"""Floats as integers: every float is m·2^−k, and sums and products of such numbers are again.

`Dyadic(low, high, shift)` is an interval of such numbers, entry by entry, with Python integers in
object arrays: nothing overflows and nothing is rounded unless `trimmed` is asked to round outward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reconstruct.numbers.rationals import RationalInterval

Integers = NDArray[Any]  # object arrays of Python integers


def integers(values: ArrayLike) -> tuple[Integers, int]:
    """`(N, k)` with values = N·2^−k exactly, N of Python integers and k ≥ 0 as small as can be."""
    array = np.asarray(values, dtype=np.float64)
    fraction, exponent = np.frexp(array)
    mantissa = np.asarray(np.ldexp(fraction, 53).astype(np.int64))
    power = exponent.astype(np.int64) - 53
    zeros = np.where(mantissa == 0, 0, mantissa & -mantissa)
    trailing = np.where(mantissa == 0, 0, np.frexp(zeros.astype(np.float64))[1] - 1)
    lowest = np.min(np.where(mantissa == 0, 0, power + trailing), initial=0)
    shift = int(max(0, -lowest))
    left = power + shift  # below zero only where that many zeros trail
    down = np.where(mantissa == 0, 0, np.maximum(-left, 0))
    whole = np.asarray(mantissa >> down).astype(object)
    return whole << np.maximum(left, 0).astype(object), shift


@dataclass(frozen=True, eq=False)
class Dyadic:
    """Vectors between `low`·2^−shift and `high`·2^−shift; the same object twice when exact."""

    low: Integers
    high: Integers
    shift: int

    @classmethod
    def exact(cls, values: ArrayLike) -> Dyadic:
        whole, shift = integers(values)
        return cls(whole, whole, shift)

    @classmethod
    def around(cls, intervals: Sequence[RationalInterval], bits: int) -> Dyadic:
        """Intervals of rationals over one power of two, rounded outward where that is needed."""
        ends = [end for pair in intervals for end in pair]
        if all(end.denominator & (end.denominator - 1) == 0 for end in ends):
            places = max((end.denominator.bit_length() - 1 for end in ends), default=0)
        else:
            sizes = (e.denominator.bit_length() - e.numerator.bit_length() for e in ends if e)
            places = bits + max(0, max(sizes, default=0))
        scale = 1 << places
        low = [lo.numerator * scale // lo.denominator for lo, _ in intervals]
        high = [-(-hi.numerator * scale // hi.denominator) for _, hi in intervals]
        below, above = np.array(low, dtype=object), np.array(high, dtype=object)
        return cls(below, below if low == high else above, places)

    def at(self, shift: int) -> Dyadic:
        """The same interval over a larger shift."""
        more = shift - self.shift
        if more == 0:
            return self
        low = self.low << more
        return Dyadic(low, low if self.low is self.high else self.high << more, shift)

    def __add__(self, other: Dyadic) -> Dyadic:
        shift = max(self.shift, other.shift)
        a, b = self.at(shift), other.at(shift)
        low = a.low + b.low
        if a.low is a.high and b.low is b.high:
            return Dyadic(low, low, shift)
        return Dyadic(low, a.high + b.high, shift)

    def __mul__(self, other: Dyadic) -> Dyadic:
        """The product entry by entry: the extremes are met at the ends."""
        shift = self.shift + other.shift
        low = self.low * other.low
        if self.low is self.high and other.low is other.high:
            return Dyadic(low, low, shift)
        ends = [low, self.low * other.high, self.high * other.low, self.high * other.high]
        return Dyadic(np.minimum.reduce(ends), np.maximum.reduce(ends), shift)

    def __neg__(self) -> Dyadic:
        low = -self.high
        return Dyadic(low, low if self.low is self.high else -self.low, self.shift)

    def times(self, matrix: Integers, shift: int) -> Dyadic:
        """`M v` for an exact matrix of integers over 2^shift."""
        if self.low is self.high:
            low = matrix @ self.low
            return Dyadic(low, low, self.shift + shift)
        above, below = np.maximum(matrix, 0), np.minimum(matrix, 0)
        low = above @ self.low + below @ self.high
        return Dyadic(low, above @ self.high + below @ self.low, self.shift + shift)

    def rising(self, function: Callable[[Integers], Integers]) -> Dyadic:
        """A function that never falls, applied to both ends, over the same shift."""
        low = function(self.low)
        return Dyadic(low, low if self.low is self.high else function(self.high), self.shift)

    def __getitem__(self, key: Any) -> Dyadic:
        low = self.low[key]
        return Dyadic(low, low if self.low is self.high else self.high[key], self.shift)

    def trimmed(self, bits: int, most: int | None = None) -> Dyadic:
        """Outward to at most `bits` binary places; an exact value only if it has above `most`."""
        exact = self.low is self.high
        less = self.shift - bits
        if less <= 0 or (exact and (most is None or self.shift <= most)):
            return self
        kept = most if exact and most is not None else bits
        less = self.shift - kept
        return Dyadic(self.low >> less, -((-self.high) >> less), kept)

    def fractions(self) -> tuple[RationalInterval, ...]:
        """The interval of each entry, as rational numbers."""
        scale = 1 << self.shift
        pairs = zip(self.low.tolist(), self.high.tolist(), strict=True)
        return tuple((Fraction(lo, scale), Fraction(hi, scale)) for lo, hi in pairs)
