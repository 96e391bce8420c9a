"""Each rounding term of double-double arithmetic has an input on which forgetting it is false.

Enclosures need not be normalised: `low` may be as large as `high`, so that single terms of a radius
can be made to stand alone. Values are compared as rational numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from reconstruct.networks import Dense
from reconstruct.numbers import rounding
from reconstruct.numbers.double_double import (
    Enclosure,
    exponential,
    quotient,
    square_root,
    two_product,
    two_sum,
    upward,
)
from reconstruct.numbers.exact import exp_bounds
from reconstruct.numbers.precision import Precision
from reconstruct.numbers.splitting import product

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


def test_sums_and_products_of_floats_are_split_without_loss() -> None:
    rng = np.random.default_rng(4)
    for a, b in np.ldexp(rng.uniform(0.5, 1, (4000, 2)), rng.integers(-30, 30, (4000, 2))).tolist():
        for x, y in ((a, b), (-a, b)):
            (total, rest), (p, e) = two_sum(x, y), two_product(np.array(x), np.array(y))
            assert total == x + y and Fraction(total) + Fraction(rest) == Fraction(x) + Fraction(y)
            assert p == x * y and Fraction(p.item()) + Fraction(e.item()) == Fraction(x) * Fraction(
                y
            )


def test_roots_and_quotients_are_known_to_nearly_twice_as_many_digits() -> None:
    for found in (square_root(one(2.0)), square_root(one(3.0)), quotient(one(1.0), one(3.0))):
        assert found.radius[0] <= 2.0**-98


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


@pytest.mark.parametrize("value", [0.0, -0.1, -5.0, -50.0, -600.0, -693.9, -694.1, -800.0])
@pytest.mark.parametrize("radius", [0.0, 2.0**-60, 0.01, 10.0])
def test_exponentials(value: float, radius: float) -> None:
    """Down to what is nothing but a radius, where a wide enough one reaches above that again; at
    −600 what the series leaves out is more than all that is rounded."""
    found = exponential(one(value, 0.0, radius))
    for x in {value - radius, value, min(value + radius, 0.0)}:
        low, high = exp_bounds(Fraction(x), 1200)
        assert holds(found, [low]) and holds(found, [high])
    assert radius > 2.0**-60 or found.radius[0] <= max(2.0**-60 * math.exp(value) * 2, 2.0**-80)


@pytest.mark.parametrize(
    "X", [one(1.0, -(2.0**-60), 1 - 2.0**-53), one(1.0, 0.0, 2.0**-60), one(-1.0, 0.0, 2.0**-60)]
)
def test_ends_are_rounded_outward(X: Enclosure) -> None:
    """Where nearly all cancels, and where nearly nothing is added."""
    lo, hi = (Fraction(end.item()) for end in X.ends())
    assert lo <= min(ends(X)) and max(ends(X)) <= hi


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


# --- outward rounding (rounding.py) and formats (precision.py) ---

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 400)) * 2.0 ** RNG.integers(-40, 40, (2, 400))


def exact(values: object) -> list[Fraction]:
    return [Fraction(float(v)) for v in np.ravel(values)]


def test_gamma_is_never_below_its_fraction() -> None:
    for n in [*range(1, 3000), 2**20 + 1, 2**39 + 12345]:
        nu = n * Fraction(U)
        assert Fraction(rounding.gamma(n)) >= nu / (1 - nu)
    with pytest.raises(ValueError, match="outside of what the rounding bounds cover"):
        rounding.gamma(2**40)


@pytest.mark.parametrize("power", range(-1080, -990, 3))
def test_underflow_counts_what_products_lose(power: int) -> None:
    """Relative to γ_1 alone a product below the normal range is off by far more."""
    for a in (ROUGH, 1.5 * ROUGH, -ROUGH):
        x, y = a * 2.0 ** (power // 2), ROUGH * 2.0 ** (power - power // 2)
        lost = abs(Fraction(x * y) - Fraction(x) * Fraction(y))
        known = Fraction(rounding.gamma(1)) * abs(Fraction(x) * Fraction(y))
        assert lost <= known + Fraction(rounding.underflow(1, abs(x), abs(y)))
    assert rounding.underflow(3, 2.0**-600, 2.0**-600) == 3 * rounding.underflow(
        1, 2.0**-600, 2.0**-600
    )


def test_outward_rounding_of_single_operations() -> None:
    assert all(a > b for a, b in zip(exact(rounding.up(X)), exact(X), strict=True))
    assert all(a < b for a, b in zip(exact(rounding.down(X)), exact(X), strict=True))
    for factor in (1 + 2.0**-52, 3.0, 0.1):
        found = exact(rounding.inflate(np.abs(X), factor, 0.1))
        for value, bound in zip(exact(np.abs(X)), found, strict=True):
            assert bound >= value * Fraction(factor) + Fraction(0.1)
    assert not rounding.inflate(np.zeros(3), 2.0).any()
    for total, x, y in zip(X + Y, X, Y, strict=True):
        rest = rounding.sum_error(np.array(x), np.array(y), np.array(total))
        assert Fraction(float(total)) + Fraction(float(rest)) == Fraction(x) + Fraction(y)


def test_intervals_hold_what_they_are_made_of() -> None:
    lo, hi = rounding.widen(X, np.abs(Y))
    for low, high, x, y in zip(exact(lo), exact(hi), exact(X), exact(np.abs(Y)), strict=True):
        assert low <= x - y and x + y <= high
    below, above = np.minimum(X, Y), np.maximum(X, Y)
    centre, radius = rounding.midpoint(below, above)
    for c, r, a, b in zip(exact(centre), exact(radius), exact(below), exact(above), strict=True):
        assert c - r <= a and b <= c + r
    for sign in (1.0, -1.0):
        lo, hi = rounding.times(below, above, sign * np.abs(X[::-1]))
        for low, high, a, b, f in zip(
            exact(lo), exact(hi), exact(below), exact(above), exact(sign * np.abs(X[::-1])),
            strict=True,
        ):  # fmt: skip
            assert low <= min(a * f, b * f) and max(a * f, b * f) <= high
    assert rounding.magnitude(np.array([-3.0]), np.array([2.0])) == 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_formats_count_every_rounding(dtype: type) -> None:
    kind = Precision(dtype)
    u = Fraction(1, 2**24) if dtype == np.float32 else Fraction(1, 2**53)
    for n in (1, 2, 3, 100, 4097, 10**5):
        gamma = n * u / (1 - n * u)
        assert Fraction(kind.gamma(n)) >= gamma
        for extra in (1, 2, 7):
            more = (n + extra) * u / (1 - (n + extra) * u)
            assert Fraction(kind.more(n, extra)) >= more - gamma
    assert kind.gamma(2**53) == kind.more(2**53, 1) == np.inf
    assert kind.moved(0.1) == abs(float(dtype(0.1)) - 0.1)
    assert kind.moved(-0.1) == kind.moved(0.1)
    numbers = np.array([0.0, kind.tiny, -kind.tiny, kind.tiny / 2, kind.largest / 2])
    assert kind.normal(numbers).tolist() == [True, True, True, False, False]


def test_radii_and_magnitudes_are_rounded_up() -> None:
    """1 + a little less than u is 1 in floats: what is added up must be pushed up."""
    little = U * NEAR
    whole = 1 + Fraction(little)
    assert Fraction(float(one(1.0, little).magnitude()[0])) >= whole
    assert Fraction(one(1.0, 0.0, 1.0).widened(np.array([little])).radius[0]) >= whole
    assert Fraction((one(1.0, 0.0, 1.0) + one(1.0, 0.0, little)).radius[0]) >= whole


def test_upward_counts_what_underflows() -> None:
    """2^-600 · 2^-600 is 0 in floats, and 0 is no bound of it."""
    assert upward(np.float64(2.0**-600) * 2.0**-600) >= 2.0**-1020
    small = Enclosure(np.array([2.0**-600]), np.array([2.0**-660]), np.zeros(1))
    assert holds(small * small, [(Fraction(2) ** -600 + Fraction(2) ** -660) ** 2])
    matrix = np.array([[2.0**-600]])
    assert holds(product(matrix, Enclosure.exact(matrix)), [Fraction(2) ** -1200])


def test_a_divisor_that_is_nearly_unknown_has_its_sum_rounded_up() -> None:
    """Y may be 2^-52 − 2^-54: |low| + radius rounds to 1 − 2^-52, which would leave 2^-52."""
    low, radius = -(2.0**-54), 1 - 2.0**-52
    below = Enclosure(np.ones(1), np.array([low]), np.array([radius]))
    least = 1 + Fraction(low) - Fraction(radius)
    assert holds(quotient(Enclosure.exact(np.ones(1)), below), [1 / least])


def test_sums_of_exact_products_count_what_their_tails_round() -> None:
    """Numbers of 53 bits have three slices each: every product is exact, and their sum is not."""
    rng = np.random.default_rng(5)
    left, right = rng.uniform(0.5, 1.0, (20, 1000)), rng.uniform(0.5, 1.0, (1000, 1))
    found = product(left, Enclosure.exact(right))
    column = [Fraction(x) for x in right[:, 0].tolist()]
    truth = [
        sum((Fraction(a) * b for a, b in zip(row, column, strict=True)), Fraction(0))
        for row in left.tolist()
    ]
    middle = [
        Fraction(h) + Fraction(t) for h, t in zip(found.high[:, 0], found.low[:, 0], strict=True)
    ]
    assert any(m != t for m, t in zip(middle, truth, strict=True))
    assert holds(found, truth)


def holds(found: Enclosure, truth: list[Fraction]) -> bool:
    """Whether the enclosure holds these numbers, entry by entry."""
    parts = (part.ravel().tolist() for part in (found.high, found.low, found.radius))
    return all(
        radius == np.inf or abs(Fraction(high) + Fraction(low) - true) <= Fraction(radius)
        for high, low, radius, true in zip(*parts, truth, strict=True)
    )


def test_gammas_and_their_differences_are_rounded_up() -> None:
    """Of hundreds of quotients some are rounded down, and would be no bound."""
    unit = Fraction(1, 2**53)

    def exact(n: int) -> Fraction:
        return n * unit / (1 - n * unit)

    double = Precision(np.float64)
    for n in range(1, 400):
        assert Fraction(rounding.gamma(n)) >= exact(n)
        assert Fraction(double.gamma(n)) >= exact(n)
        assert Fraction(double.more(n, 1)) >= exact(n + 1) - exact(n)


def test_inflating_is_rounded_up() -> None:
    rng = np.random.default_rng(6)
    x, factor = rng.uniform(1.0, 2.0, 50), 1.1
    found = rounding.inflate(x, factor)
    assert all(Fraction(f) >= Fraction(a) * Fraction(factor) for f, a in zip(found, x, strict=True))


def test_slack_covers_what_the_sum_of_magnitudes_lost_itself() -> None:
    """1 and many units roundoff: summed in floats they are less than they are."""
    n = 2**14
    weight, reach = np.full((1, n), rounding.UNIT), np.ones((1, n))
    weight[0, 0] = 1.0
    true = 1 + (n - 1) * Fraction(rounding.UNIT)
    op = Dense(weight)
    assert Fraction(op.absolute(reach).item()) < true  # else the input shows nothing
    unit = Fraction(1, 2**53)
    assert Fraction(op.pull_error(reach).error.item()) >= unit / (1 - unit) * true
    lo, hi = op.image(-reach, reach)
    assert Fraction(lo.item()) <= -true and Fraction(hi.item()) >= true


def test_the_smallest_magnitude_is_that_of_a_negative_number_too() -> None:
    assert rounding.smallest(np.array([-(2.0**-600), 0.0, 1.0])) == 2.0**-600
    assert rounding.underflow(3, rounding.smallest(np.array([-(2.0**-600)])), 2.0**-600) > 0


ODD = (2.0**20 - 1) * 2.0**-20 + (2.0**19 - 1) * 2.0**-40 + (2.0**12 - 1) * 2.0**-53


@pytest.mark.parametrize("columns", [7, 1536, 9000])
def test_products_of_large_slices_are_summed_without_rounding(columns: int) -> None:
    """Slices as large as they can be and odd: above 2^13 terms of them float64 would round."""
    left = np.full((1, columns), ODD)
    found = product(left, Enclosure.exact(left.T))
    assert holds(found, [columns * Fraction(ODD) ** 2])
    assert found.radius[0, 0] <= columns * 2.0**-90


@pytest.mark.parametrize("tail", [0.0, ROUGH * 2.0**-60])
def test_slices_that_never_meet_are_counted_for_every_term(tail: float) -> None:
    """Numbers far below the largest of their row have five slices, and what is dropped adds up."""
    small, columns = ROUGH * 2.0**-49, 1000
    left = np.array([[1.0, *[small] * columns]])
    high = np.array([[0.0], *[[ROUGH]] * columns])
    right = Enclosure(high, np.where(high > 0, tail, 0.0), np.zeros_like(high))
    whole = columns * Fraction(small) * (Fraction(ROUGH) + Fraction(tail))
    assert holds(product(left, right), [whole])
    turned = product(right.high.T, Enclosure.exact(left.T))
    assert holds(turned, [columns * Fraction(small) * Fraction(ROUGH)])


def test_rests_behind_the_last_slices_are_within_what_is_dropped() -> None:
    """Both factors have more than 100 bits below the largest number beside them."""
    rng = np.random.default_rng(8)
    for _ in range(200):
        left = np.array([[1.0, *rng.uniform(0.5, 1, 30) * 2.0 ** rng.integers(-75, -45, 30)]])
        low = rng.uniform(0.5, 1, (31, 1)) * 2.0**-55
        high = np.array(
            [[1.0], *(rng.uniform(0.5, 1, (30, 1)) * 2.0 ** rng.integers(-60, 0, (30, 1)))]
        )
        right = Enclosure(high, low * high, np.zeros_like(high))
        parts = zip(left[0].tolist(), high[:, 0].tolist(), right.low[:, 0].tolist(), strict=True)
        truth = sum((Fraction(a) * (Fraction(h) + Fraction(t)) for a, h, t in parts), Fraction(0))
        assert holds(product(left, right), [truth])


def test_a_radius_that_underflows_is_none_of_zero() -> None:
    """2^-540 times a range of 2^-540 around 0: the product of the radii is 0 in floats."""
    op = Dense(np.array([[2.0**-540]]))
    lo, hi = op.image(np.full((1, 1), -(2.0**-540)), np.full((1, 1), 2.0**-540))
    assert Fraction(lo.item()) <= -(Fraction(2) ** -1080) and Fraction(hi.item()) > 0
