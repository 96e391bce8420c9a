"""Each rounding term of double-double arithmetic has an input on which forgetting it is false.

Enclosures need not be normalised: `low` may be as large as `high`, so that single terms of a radius
can be made to stand alone. Values are compared as rational numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from reconstruct.numbers.double_double import Enclosure, quotient, square_root

U = 2.0**-53
NEAR = 1 - 2.0**-20  # a little less than half a unit: rounded away, by nearly as much as can be
ROUGH = 1 + 2.0**-52 * 0x5A5A5A5A5A5A5  # a number with all its bits


def one(high: float, low: float = 0.0, radius: float = 0.0) -> Enclosure:
    return Enclosure(*(np.array([part]) for part in (high, low, radius)))


def ends(X: Enclosure) -> list[Fraction]:
    middle, radius = Fraction(X.high[0]) + Fraction(X.low[0]), Fraction(X.radius[0])
    return [middle - radius, middle, middle + radius]


def assert_holds(found: Enclosure, value: Fraction) -> None:
    low, _, high = ends(found)
    assert low <= value <= high


SUMS = {
    "low parts are rounded": (one(0.0, 1.0), one(0.0, U * NEAR)),
    "low parts are rounded, the other way round": (one(0.0, U * NEAR), one(0.0, 1.0)),
    "and once more with the error of the high parts": (one(1.0, 1.0), one(U * NEAR, U * NEAR)),
    "negative low parts": (one(-1.0, -1.0), one(-U * NEAR, -U * NEAR)),
    "a negative low part that cancels": (one(0.0, -1.0), one(0.0, 1.0 + U * NEAR)),
    "the error of the high parts alone": (one(2.0**60, 2.0**-100), one(1 + U, 0.0)),
    "a negative error of the high parts": (one(2.0**60, 2.0**-60), one(-1.0 - 2.0**-52, 0.0)),
    "the first radius": (one(1.0, 0.0, 0.5), one(1.0)),
    "the second radius": (one(1.0), one(1.0, 0.0, 0.5)),
}


@pytest.mark.parametrize("name", list(SUMS))
def test_sums(name: str) -> None:
    a, b = SUMS[name]
    for x in ends(a):
        for y in ends(b):
            assert_holds(a + b, x + y)
            assert_holds(a - b, x - y)


PRODUCTS = {
    "the first product of a high and a low part": (one(3.0), one(1.0, ROUGH * 2.0**-80)),
    "the second": (one(1.0, ROUGH * 2.0**-80), one(3.0)),
    "both, and they cancel": (
        one(3.0, -ROUGH * 2.0**-80 * 3 / 5),
        one(5.0, ROUGH * 2.0**-80),
    ),
    "both, and they cancel the other way": (
        one(3.0, ROUGH * 2.0**-80 * 3 / 5),
        one(5.0, -ROUGH * 2.0**-80),
    ),
    "both are rounded up, and so is their sum": (  # by 1.98 u of the sum
        one(float.fromhex("0x1.cfp+0"), float.fromhex("0x1.300a96b9e39fep-80")),
        one(float.fromhex("0x1.b1fp+0"), float.fromhex("0x1.1c93cd175fea2p-80")),
    ),
    "their sum with the error of the high product": (
        one(1 + 2.0**-30, 0.0),
        one(1 + 2.0**-52, U * 2.0**-82 * NEAR),
    ),
    "negative numbers": (one(-3.0, 0.0), one(1.0, ROUGH * 2.0**-80)),
    "the product of the low parts": (one(1.0, 1.0), one(1.0, 1.0)),
    "the product of low parts of two signs": (one(1.0, -0.25), one(1.0, 0.25)),
    "the first radius": (one(2.0, 0.5, 0.25), one(-3.0, -0.5)),
    "the second radius": (one(-2.0, -0.5), one(3.0, 0.5, 0.25)),
    "both radii": (one(2.0, 0.5, 0.25), one(3.0, 0.25, 0.5)),
    "both radii of negative numbers": (one(-2.0, -0.5, 0.25), one(-3.0, -0.25, 0.5)),
}


@pytest.mark.parametrize("name", list(PRODUCTS))
def test_products(name: str) -> None:
    a, b = PRODUCTS[name]
    for x in ends(a):
        for y in ends(b):
            assert_holds(a * b, x * y)


def test_a_product_of_floats_that_underflows() -> None:
    a = b = Enclosure.exact([2.0**-540 * ROUGH])
    assert_holds(a * b, Fraction(a.high[0]) ** 2)


@pytest.mark.parametrize(
    "value",
    [one(2.0), one(1 + U * 2), one(4.0, 0.0, 3.0), one(2.0, 0.5, 1.0), one(2.0, -0.5, 1.0)],
)
def test_square_roots(value: Enclosure) -> None:
    found = square_root(value)
    low, _, high = ends(found)
    for x in ends(value):
        assert max(low, Fraction(0)) ** 2 <= x <= high**2


@pytest.mark.parametrize(
    ("above", "below"),
    [
        (one(1.0), one(3.0)),
        (one(1.0, 0.0, 0.5), one(3.0)),
        (one(1.0), one(1.0, 0.0, 0.5)),
        (one(1.0), one(1.0, -0.25, 0.5)),
        (one(1.0), one(1.0, 0.25, 0.5)),
        (one(-1.0, 2.0**-60, 0.25), one(1.0, 0.0, 0.75)),
    ],
)
def test_quotients(above: Enclosure, below: Enclosure) -> None:
    found = quotient(above, below)
    for x in ends(above):
        for y in ends(below):
            assert_holds(found, x / y)


def test_a_divisor_that_may_be_zero_bounds_nothing() -> None:
    for below in (one(1.0, 0.0, 1.0), one(1.0, -0.5, 0.5)):
        assert quotient(one(1.0), below).radius[0] == np.inf


@pytest.mark.parametrize("how", [lambda X: X.widened(np.array([0.5])), lambda X: X])
def test_magnitudes_and_wider_enclosures(how: Callable[[Enclosure], Enclosure]) -> None:
    for X in (one(1.0, 0.5, 0.25), one(-1.0, -0.5, 0.25), one(1.0, -0.5, 0.25)):
        wide = how(X)
        assert max(abs(x) for x in ends(wide)) <= Fraction(float(wide.magnitude()[0]))
        more = Fraction(0 if wide is X else 1, 2)
        assert Fraction(wide.radius[0]) >= Fraction(X.radius[0]) + more
