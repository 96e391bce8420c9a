"""The checker's arithmetic against Python's rationals: exact is exact, outward is outward."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofs_check.certificates.arithmetic import (
    LONG,
    TINY,
    Tally,
    Whole,
    dot,
    exact,
    float_above,
    largest,
    nearest,
    plus,
    times,
)

FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=64)
SIZES = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
SMALL = st.one_of(SIZES, st.sampled_from([0.0, TINY, 2.0**-540, 2.0**-1022]))
INTEGERS = st.one_of(
    st.integers(-2, 2),
    st.integers(-(2**70), 2**70),
    st.integers(-(2**1400), 2**1400),
    st.sampled_from([2**20, 2**20 - 1, -(2**20), -(2**20) - 1, 2**40, -(2**40)]),
)


def matrices(entries: st.SearchStrategy[float], rows: int, columns: int):
    return st.lists(entries, min_size=rows * columns, max_size=rows * columns).map(
        lambda x: np.array(x).reshape(rows, columns)
    )


@given(matrices(FLOATS, 2, 3))
@settings(max_examples=200, deadline=None)
def test_floats_are_held_exactly(values) -> None:
    whole, unit = exact(values)
    assert [Fraction(n, unit) for n in whole.integers()] == [Fraction(x) for x in values.flat]


@given(st.lists(INTEGERS, min_size=6, max_size=6), st.integers(1, 2**80))
@settings(max_examples=200, deadline=None)
def test_the_nearest_float_is_as_near_as_it_says(numbers, unit) -> None:
    whole = Whole.of_integers(numbers, (2, 3))
    assert whole.integers() == numbers
    middle, error = nearest(whole, unit)
    for number, near, off in zip(numbers, middle.flat, error.flat, strict=True):
        if np.isfinite(off):
            assert abs(Fraction(number, unit) - Fraction(near)) <= Fraction(off)
            assert off <= 2.0**-40 * abs(near) + 2.0**-1060
        assert off == 0 or number != 0  # what is exact, 0 above all, is said to be


@given(st.lists(INTEGERS, min_size=6, max_size=6), st.lists(INTEGERS, min_size=6, max_size=6))
@settings(max_examples=200, deadline=None)
def test_sums_and_products_of_integers(first, second) -> None:
    a, b = Whole.of_integers(first, (2, 3)), Whole.of_integers(second, (2, 3))
    assert (a + b).integers() == [x + y for x, y in zip(first, second, strict=True)]
    assert (-a).integers() == [-x for x in first]
    assert a.times(b).integers() == [x * y for x, y in zip(first, second, strict=True)]
    assert a.scaled(3).integers() == [3 * x for x in first]
    assert a.scaled(2**33).integers() == [x << 33 for x in first]
    assert a.nonzero().tolist() == [[x != 0 for x in first[:3]], [x != 0 for x in first[3:]]]
    c = Whole.of_integers(second, (3, 2))
    wanted = [
        sum(first[3 * i + k] * second[2 * k + j] for k in range(3))
        for i in range(2)
        for j in range(2)
    ]
    assert (a @ c).integers() == wanted


@pytest.mark.parametrize("terms", [2**11, 2**11 + 1, 5000])
def test_products_at_the_edge_of_what_float64_holds(terms) -> None:
    """All digits as large as they get: one more bit, and a sum would be rounded."""
    top = 2**60 - 1
    row = Whole.of_integers([top] * terms, (1, terms))
    column = Whole.of_integers([-top] * (terms - 1) + [1], (terms, 1))
    assert (row @ column).integers() == [top * (-top) * (terms - 1) + top]


def test_long_and_short_numbers_multiply_alike() -> None:
    number = 3 ** (20 * LONG)
    long, short = Whole.of_integers([number, -1], (2, 1)), Whole.of_integers([7, 11], (1, 2))
    assert (long @ short).integers() == [7 * number, 11 * number, -7, -11]
    assert long.times(Whole.of_integers([-5], (1, 1))).integers() == [-5 * number, 5]


@given(matrices(SMALL, 2, 4), matrices(SMALL, 4, 2))
@settings(max_examples=300, deadline=None)
def test_products_of_floats_are_bounded_from_above_underflow_included(left, right) -> None:
    found = dot(left, right)
    for i, j in np.ndindex(2, 2):
        true = sum(Fraction(left[i, k]) * Fraction(right[k, j]) for k in range(4))
        assert found[i, j] == np.inf or Fraction(found[i, j]) >= true
        assert (found[i, j] == 0) == (true == 0)


@given(matrices(SMALL, 3, 1), matrices(SMALL, 3, 1))
@settings(max_examples=200, deadline=None)
def test_sums_and_products_entry_by_entry(x, y) -> None:
    for a, b, total, product in zip(x.flat, y.flat, plus(x, y).flat, times(x, y).flat, strict=True):
        assert total == np.inf or Fraction(total) >= Fraction(a) + Fraction(b)
        assert product == np.inf or Fraction(product) >= Fraction(a) * Fraction(b)
        assert (total == 0) == (a == b == 0)
        assert (product == 0) == (a == 0 or b == 0)


@given(st.lists(FLOATS, min_size=1, max_size=6))
@settings(max_examples=200, deadline=None)
def test_a_tally_is_never_above_its_sum(terms) -> None:
    tally = Tally.start(np.zeros(1), np.zeros(1))
    for term in terms:
        tally = tally.add(np.array([term]))
    low = tally.lowest()[0]
    assert low == -np.inf or Fraction(low) <= sum(map(Fraction, terms))


def test_what_is_not_known_is_infinite_and_nothing_times_it_is_zero() -> None:
    unknown = np.array([[np.inf, 1.0], [0.0, 1.0], [np.nan, 0.0]])
    assert dot(unknown, np.array([2.0, 3.0]))[0] == np.inf
    assert dot(unknown, np.array([2.0, 3.0]))[1] < 3.01
    assert dot(unknown, np.array([2.0, 3.0]))[2] == np.inf
    assert dot(np.array([[0.0, 1.0]]), np.array([np.inf, 2.0]))[0] == np.inf
    assert dot(np.array([[0.0, 1.0]]), np.array([np.inf, 0.0]))[0] == 0
    assert times(np.array([0.0]), np.array([np.inf]))[0] == 0
    assert plus(np.array([np.nan]), np.array([1.0]))[0] == np.inf


def test_what_is_too_small_for_a_float_is_not_lost() -> None:
    tiny = Whole.of_integers([1], (1, 1))
    assert largest(tiny, 2**5000)[0, 0] > 0
    assert float_above(Fraction(1, 2**5000)) == TINY
    assert float_above(Fraction(2**5000)) == np.inf
    assert float_above(Fraction(1, 4)) == 0.25
