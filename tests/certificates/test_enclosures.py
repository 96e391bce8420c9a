"""Enclosures and error-free products against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconstruct.certificates.arithmetic import Rigorous
from reconstruct.networks import Norm
from reconstruct.numbers.double_double import Enclosure, upward
from reconstruct.numbers.exact import exp_bounds, integers, root_bounds
from reconstruct.numbers.splitting import CHUNK, product


def inside(enclosure: Enclosure, index: tuple[int, ...], value: Fraction) -> bool:
    middle = Fraction(float(enclosure.high[index])) + Fraction(float(enclosure.low[index]))
    return abs(value - middle) <= Fraction(float(enclosure.radius[index]))


def random_enclosure(rng: np.random.Generator, shape: tuple[int, ...], spread: float) -> Enclosure:
    high = rng.standard_normal(shape) * np.exp(spread * rng.standard_normal(shape))
    return Enclosure(high, high * rng.standard_normal(shape) * 2.0**-55, np.abs(high) * 2.0**-90)


def value(enclosure: Enclosure, index: tuple[int, ...]) -> Fraction:
    return Fraction(float(enclosure.high[index])) + Fraction(float(enclosure.low[index]))


@pytest.mark.parametrize("spread", [0.0, 3.0, 40.0])
@pytest.mark.parametrize("seed", range(3))
def test_sums_and_products_of_entries_hold_the_truth(seed: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    a, b = random_enclosure(rng, (40,), spread), random_enclosure(rng, (40,), spread)
    total, times = a + b, a * b
    for i in range(40):
        assert inside(total, (i,), value(a, (i,)) + value(b, (i,)))
        assert inside(times, (i,), value(a, (i,)) * value(b, (i,)))


@pytest.mark.parametrize(
    ("kind", "spread"),
    [(np.float32, 0.0), (np.float32, 4.0), (np.float64, 4.0), (np.float64, 40.0)],
)
def test_matrix_products_hold_the_truth_and_are_narrow(kind: type, spread: float) -> None:
    rng = np.random.default_rng(5)
    spreads = np.exp(spread * rng.standard_normal((3, 50)))
    left = (rng.standard_normal((3, 50)) * spreads).astype(kind)
    right = random_enclosure(rng, (50, 4), spread)
    found = product(left.astype(np.float64), right)
    for i in range(3):
        for j in range(4):
            terms = [Fraction(float(left[i, n])) * value(right, (n, j)) for n in range(50)]
            assert inside(found, (i, j), sum(terms, Fraction(0)))
            scale = 50 * float(np.max(np.abs(left[i]))) * float(np.max(np.abs(right.high[:, j])))
            assert found.radius[i, j] <= 2.0**-85 * scale


@pytest.mark.parametrize("exponent", [0, -480, 480, -515])
def test_products_of_floats_are_exact_but_for_underflow(exponent: int) -> None:
    rng = np.random.default_rng(1)
    a, b = (np.ldexp(rng.standard_normal(50), exponent) for _ in range(2))
    a[3] = 0.0
    found = Enclosure.exact(a) * Enclosure.exact(b)
    for i in range(50):
        truth = Fraction(float(a[i])) * Fraction(float(b[i]))
        assert inside(found, (i,), truth)
        if exponent > -515:
            assert found.high[i] == a[i] * b[i] and value(found, (i,)) == truth
    assert (found.radius <= 2.0**-1000).all()


def test_columns_of_one_radius_and_of_many_are_both_counted() -> None:
    rng = np.random.default_rng(8)
    left = rng.standard_normal((3, 20))
    high, radius = rng.standard_normal((20, 4)), np.zeros((20, 4))
    radius[:, 1], radius[:, 2] = 0.25, rng.random(20)
    found = product(left, Enclosure(high, np.zeros_like(high), radius))
    everywhere = product(left, Enclosure(high, np.zeros_like(high), np.broadcast_to(0.25, (20, 4))))
    for i in range(3):
        for j in range(4):
            terms = [Fraction(float(left[i, n])) * Fraction(high[n, j]) for n in range(20)]
            doubts = [abs(Fraction(float(left[i, n]))) * Fraction(radius[n, j]) for n in range(20)]
            for sign in (-1, 1):
                assert inside(found, (i, j), sum(terms) + sign * sum(doubts))
            if sum(doubts):
                assert found.radius[i, j] <= float(sum(doubts)) * (1 + 2.0**-25)
            largest = Fraction(1, 4) * sum(abs(Fraction(float(w))) for w in left[i])
            assert inside(everywhere, (i, j), sum(terms) + largest)
            assert everywhere.radius[i, j] <= float(largest) * (1 + 2.0**-25)


@pytest.mark.parametrize("exponent", [950, -950])
def test_products_of_numbers_far_from_one_hold_the_truth(exponent: int) -> None:
    rng = np.random.default_rng(9)
    left = np.ldexp(rng.standard_normal((2, 6)), exponent)
    right = np.ldexp(rng.standard_normal((6, 2)), -exponent)
    found = product(left, Enclosure.exact(right))
    for i in range(2):
        for j in range(2):
            terms = [Fraction(left[i, n]) * Fraction(right[n, j]) for n in range(6)]
            assert inside(found, (i, j), sum(terms))
            assert found.radius[i, j] < 2.0**-80


def test_products_longer_than_a_chunk() -> None:
    rng = np.random.default_rng(2)
    n = CHUNK + 17
    left = rng.standard_normal((1, n)).astype(np.float32).astype(np.float64)
    right = Enclosure.exact(rng.standard_normal((n, 1)))
    a, shift_a = integers(left)
    b, shift_b = integers(right.high)
    exact = Fraction(int((a @ b)[0, 0]), 1 << (shift_a + shift_b))
    assert inside(product(left, right), (0, 0), exact)


@pytest.mark.parametrize("seed", range(4))
def test_effective_norm_holds_the_truth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 12
    norm = Norm(
        rng.standard_normal(n) * 10.0 ** rng.integers(-6, 6, n),
        rng.standard_normal(n),
        rng.standard_normal(n) * 100,
        rng.random(n) * 10.0 ** rng.integers(-9, 3, n),
        1e-5,
    )
    scale, shift = norm.enclosed()
    for i in range(n):
        low, high = root_bounds(Fraction(float(norm.var[i])) + Fraction(norm.eps), 400)
        g, b, m = (Fraction(float(v[i])) for v in (norm.gamma, norm.beta, norm.mean))
        for root in (low, high):
            assert inside(scale, (i,), g / root)
            assert inside(shift, (i,), b - g / root * m)
        assert scale.radius[i] <= 2.0**-95 * abs(scale.high[i])


def test_a_drawn_norm_is_its_gamma_without_doubt() -> None:
    norm = Norm([0.3, -2.0], [1.0, 2.0], [0.0, 0.0], np.full(2, 1 - 2.0**-17), 2.0**-17)
    scale, shift = norm.enclosed()
    assert scale.high.tolist() == [0.3, -2.0]
    assert not scale.radius.any() and not scale.low.any()
    assert shift.high.tolist() == [1.0, 2.0] and not shift.radius.any()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_floats_are_integers_over_a_power_of_two(values: list[float]) -> None:
    whole, shift = integers(np.array(values))
    assert [Fraction(n, 1 << shift) for n in whole] == [Fraction(v) for v in values]


@pytest.mark.parametrize("z", [0.0, -1e-9, -0.3, -1.0, -7.5, -40.0])
def test_exponentials_are_enclosed(z: float) -> None:
    low, high = exp_bounds(Fraction(z), 128)
    fine_low, fine_high = exp_bounds(Fraction(z), 300)
    assert low <= fine_low <= fine_high <= high
    assert float(low) == pytest.approx(np.exp(z), rel=1e-14)
    assert high - low <= Fraction(1, 1 << 110)


def test_upward_is_above_any_order_of_summation() -> None:
    values = np.random.default_rng(0).random(1000)
    exact = sum((Fraction(float(v)) for v in values), Fraction(0))
    assert Fraction(float(upward(values.sum()))) >= exact


@pytest.mark.parametrize("left", [(0, 1.1 * 2.0**-60, 0), (0, 2.0**-60, 0.25), (1.1, 0, 0)])
@pytest.mark.parametrize("right", [(1.1, 0.0, 0.0), (0.0, 2.0**-60, 0.0), (1.0, 0.3, 1.0)])
def test_products_of_enclosures_hold_those_of_what_they_hold(left, right) -> None:
    """Each term is by itself somewhere: low parts and radii of both, and the product's rounding."""
    made = Rigorous().times(
        *(Enclosure(*np.array(part).reshape(3, 1, 1)) for part in (left, right))
    )
    middle = Fraction(made.high.item()) + Fraction(made.low.item())
    for s in (-1, 1):
        for t in (-1, 1):
            parts = [(Fraction(h), Fraction(lo), Fraction(r)) for h, lo, r in (left, right)]
            x, y = (h + lo + sign * r for (h, lo, r), sign in zip(parts, (s, t), strict=True))
            assert abs(x * y - middle) <= Fraction(made.radius.item())
