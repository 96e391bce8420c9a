"""Exact numbers: floats as integers over a power of two, rationals, and rationals around the rest.

Every float is m·2^−k, and sums and products of such numbers are again. `Dyadic(low, high, shift)`
is an interval of them, entry by entry, with Python integers in object arrays: nothing overflows and
nothing is rounded unless `trimmed` is asked to round outward. Roots and exponentials are exact
where they are rational, else enclosed. A `RationalMatrix` has one denominator for all its entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isqrt, lcm, nextafter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reconstruct.numbers.arrays import Array, dense
from reconstruct.numbers.double_double import Enclosure

RationalInterval: TypeAlias = tuple[Fraction, Fraction]
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
        return self.rising(lambda ends: ends[key])

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


# --- rationals around what is irrational ---------------------------------------------------------


def float_beside(value: Fraction, *, up: bool) -> float:
    """The nearest float that is not below the rational (`up`), or not above it."""
    near = float(value)
    beyond = Fraction(near) < value if up else Fraction(near) > value
    return nextafter(near, inf if up else -inf) if beyond else near


def rational_root(value: Fraction) -> Fraction | None:
    """The square root of a rational when it is rational itself."""
    top, bottom = isqrt(value.numerator), isqrt(value.denominator)
    if top * top == value.numerator and bottom * bottom == value.denominator:
        return Fraction(top, bottom)
    return None


def root_bounds(value: Fraction, bits: int) -> RationalInterval:
    """Rationals around √value, equal when the root is rational."""
    root = rational_root(value)
    if root is not None:
        return root, root
    p, q = value.numerator, value.denominator
    places = bits + max(0, q.bit_length() - p.bit_length())
    floor = isqrt((p << (2 * places)) // q)
    return Fraction(floor, 1 << places), Fraction(floor + 1, 1 << places)


def times(first: RationalInterval, second: RationalInterval) -> RationalInterval:
    """The product of two intervals: the extremes are met at the ends."""
    if first[0] == first[1] and second[0] == second[1]:
        value = first[0] * second[0]
        return value, value
    ends = [a * b for a in first for b in second]
    return min(ends), max(ends)


def exp_bounds(z: Fraction, bits: int) -> RationalInterval:
    """Rationals around exp(z) for z ≤ 0: Taylor's series of z/2^r, squared r times.

    With 0 ≤ y = −z/2^r ≤ 1/2 the series alternates, so two partial sums in a row enclose it;
    every step is rounded outward to 2^−places.
    """
    halvings = max(0, (-z.numerator // z.denominator).bit_length() + 1)
    if halvings > 20:
        return Fraction(0), Fraction(1, 1 << bits)
    places = bits + 2 * halvings + 16
    one = 1 << places
    y_low = -z.numerator * one // (z.denominator << halvings)
    y_high = y_low + 1
    low = _series(y_high, places)[0]
    high = _series(y_low, places)[1]
    for _ in range(halvings):
        low, high = low * low >> places, -(-high * high >> places)
    return Fraction(max(low, 0), one), Fraction(min(high, one), one)


def _series(y: int, places: int) -> tuple[int, int]:
    """Bounds of exp(−y·2^−places)·2^places for 0 ≤ y·2^−places ≤ 1/2 + 2^−places.

    A term's floor errs by at most e' = e/2 + 1 ≤ 2; the alternating rest is below its first term.
    """
    total, term, index = 0, 1 << places, 0
    while term > 1:
        total += term if index % 2 == 0 else -term
        index += 1
        term = term * y // (index << places)
    return total - 2 * index - 6, total + 2 * index + 6


# --- arrays of rationals --------------------------------------------------------------------------


def rationals(values: Any) -> Array:
    """Floats as an array of Fractions, each the same number; what holds Fractions stays."""
    array = values if isinstance(values, np.ndarray) else dense(values)
    if array.dtype == object:
        return array
    flat = [Fraction(float(value)) for value in array.ravel()]
    return np.array(flat, dtype=object).reshape(array.shape)


@dataclass(frozen=True, eq=False)
class RationalMatrix:
    """`numbers`/`denominator`, entry by entry: Python integers in an object array."""

    numbers: Integers
    denominator: int

    @classmethod
    def exact(cls, values: ArrayLike) -> RationalMatrix:
        """The array of these floats: every float is an integer over a power of two."""
        numbers, shift = integers(values)
        return cls(numbers, 1 << shift)

    @classmethod
    def of(cls, values: Sequence[Fraction]) -> RationalMatrix:
        """A vector of fractions over their least common denominator."""
        common = lcm(*(value.denominator for value in values))
        whole = [value.numerator * (common // value.denominator) for value in values]
        return cls(np.array(whole, dtype=object), common)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.numbers.shape

    def __getitem__(self, key: Any) -> RationalMatrix:
        return RationalMatrix(self.numbers[key], self.denominator)

    def __add__(self, other: RationalMatrix) -> RationalMatrix:
        common = lcm(self.denominator, other.denominator)
        return RationalMatrix(self.over(common) + other.over(common), common)

    def __neg__(self) -> RationalMatrix:
        return RationalMatrix(-self.numbers, self.denominator)

    def __sub__(self, other: RationalMatrix) -> RationalMatrix:
        return self + (-other)

    def __mul__(self, other: RationalMatrix) -> RationalMatrix:
        """The product entry by entry (shapes broadcast)."""
        product = self.numbers * other.numbers
        return RationalMatrix(product, self.denominator * other.denominator)

    def __matmul__(self, other: RationalMatrix) -> RationalMatrix:
        product = self.numbers @ other.numbers
        return RationalMatrix(product, self.denominator * other.denominator)

    def scaled(self, factor: float) -> RationalMatrix:
        return self if factor == 1.0 else self * RationalMatrix.exact(np.full(1, factor))

    def over(self, denominator: int) -> Integers:
        """The numerators over a multiple of the denominator."""
        factor = denominator // self.denominator
        return self.numbers if factor == 1 else self.numbers * factor

    def is_zero(self) -> bool:
        return not self.numbers.any()

    def near(self) -> Enclosure:
        """The rounded quotients, each with its distance to the next float as a radius.

        Python rounds the quotient of two integers correctly, and says so where it overflows.
        """
        flat = [_near(int(number), self.denominator) for number in self.numbers.ravel()]
        near: Array = np.array(flat, dtype=np.float64).reshape(self.numbers.shape)
        return Enclosure(near, np.zeros_like(near), np.spacing(np.abs(near)))


def _near(number: int, denominator: int) -> float:
    try:
        return number / denominator
    except OverflowError:
        return np.inf if number > 0 else -np.inf
