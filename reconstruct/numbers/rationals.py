"""Rational numbers around roots and exponentials: exact where they are rational, else enclosed."""

from __future__ import annotations

from fractions import Fraction
from math import inf, isqrt, nextafter
from typing import TypeAlias

RationalInterval: TypeAlias = tuple[Fraction, Fraction]


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
