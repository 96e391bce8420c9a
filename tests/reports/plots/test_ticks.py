"""Ticks: inside of the range, ascending, few, at least two, and labels that say where they are."""

from __future__ import annotations

import math
import re
import sys
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from reconstruct.reports.plots.digits import decimal, readable, scientific
from reconstruct.reports.plots.ticks import (
    Ticks,
    doubling_ticks,
    even_ticks,
    power_ticks,
    signed_ticks,
)

LARGEST, LEAST = sys.float_info.max, math.ulp(0.0)
ANY = st.floats(allow_nan=False, allow_infinity=False)
POSITIVE = st.floats(min_value=LEAST, allow_infinity=False)
MOST = st.integers(2, 9)
PLAIN = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")


def meant(label: str) -> Fraction:
    """The number that a label names, read as a person reads it."""
    text = label.replace("·", "×").replace(",", "")
    text = re.sub(r"(\d)(?=10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹])", r"\1", text)
    mantissa, _, power = text.rpartition("×")
    raised = re.fullmatch(r"([−+]?)(10|2)([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", power)
    if not raised:
        return Fraction(power.translate(PLAIN))
    value = Fraction(int(raised[2])) ** int(raised[3].translate(PLAIN))
    value *= Fraction((mantissa or "1").translate(PLAIN))
    return -value if raised[1] == "−" else value


def named(ticks: Ticks, label: str) -> Fraction:
    """What a label stands for together with the note."""
    factor, added = Fraction(1), Fraction(0)
    for part in ticks.note.split():
        if part.startswith("×"):
            factor = meant(part[1:])
        else:
            added = meant(part.lstrip("+"))
    return meant(label) * factor + added


def check(ticks: Ticks, low: float, high: float, most: int) -> None:
    values = [tick.value for tick in ticks.ticks]
    assert all(low <= value <= high for value in values)
    assert all(a < b for a, b in pairwise(values))
    assert len(values) <= most
    assert len({tick.label for tick in ticks.ticks}) == len(values)
    for tick in ticks.ticks:
        assert float(named(ticks, tick.label)) == tick.value, (tick, ticks.note)


@given(ANY, ANY, MOST)
@example(0.0, LEAST, 7)
@example(-LARGEST, LARGEST, 7)
@example(1e16, 1e16 + 2, 5)
@example(1.0, math.nextafter(1.0, 2.0), 2)
@example(1e300, math.nextafter(1e300, math.inf), 7)
def test_even_ticks_of_any_range(low: float, high: float, most: int) -> None:
    assume(low < high)
    ticks = even_ticks(low, high, most)
    check(ticks, low, high, most)
    assert len(ticks.ticks) >= 2 or math.nextafter(math.nextafter(low, high), high) >= high


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), MOST)
def test_even_steps_are_even_and_round(low: float, span: float, most: int) -> None:
    exact = [
        named(ticks, t.label) for ticks in [even_ticks(low, low + span, most)] for t in ticks.ticks
    ]
    steps = {b - a for a, b in pairwise(exact)}
    assert len(steps) <= 1
    for step in steps:
        digits = str(step.numerator * 10**12 // step.denominator).rstrip("0")
        assert int(digits) < 1000


@pytest.mark.parametrize("most", range(2, 9))
@pytest.mark.parametrize(
    ("low", "high", "count"), [(0.4, 3.6, 3), (0.5, 1.5, 1), (0.2, 0.8, 0), (0, 1e6, 2)]
)
def test_whole_ticks_are_whole(low: float, high: float, count: int, most: int) -> None:
    ticks = even_ticks(low, high, most, whole=True)
    assert all(tick.value == int(tick.value) for tick in ticks.ticks)
    assert min(count, most, 2) <= len(ticks.ticks) <= most


@given(POSITIVE, POSITIVE, MOST)
@example(LEAST, LARGEST, 7)
@example(LEAST, 2 * LEAST, 7)
@example(3.1e-8, 4.9e-8, 4)
@example(1.0, math.nextafter(1.0, 2.0), 5)
def test_powers_of_any_range(low: float, high: float, most: int) -> None:
    assume(low < high)
    ticks = power_ticks(low, high, most)
    check(ticks, low, high, most)
    assert len(ticks.ticks) >= 2 or math.nextafter(math.nextafter(low, high), high) >= high


@given(POSITIVE, POSITIVE, MOST)
def test_powers_of_two_of_any_range(low: float, high: float, most: int) -> None:
    assume(low < high)
    ticks = doubling_ticks(low, high, most)
    values = [tick.value for tick in ticks.ticks]
    assert len(values) <= most and all(low <= value <= high for value in values)
    assert len(values) >= 2 or math.nextafter(math.nextafter(low, high), high) >= high


@given(ANY, ANY, st.floats(1e-300, 1e300), st.integers(3, 9))
def test_signed_ticks_of_any_range(low: float, high: float, near: float, most: int) -> None:
    assume(low < high)
    ticks = signed_ticks(low, high, near, most)
    check(ticks, low, high, most)
    assert len(ticks.ticks) >= 2 or math.nextafter(math.nextafter(low, high), high) >= high


def labels(ticks: Ticks) -> list[str]:
    return [tick.label for tick in ticks.ticks]


def test_labels_are_the_ones_a_person_writes() -> None:
    assert labels(even_ticks(-1.05, 1.05, 5)) == ["−1.0", "−0.5", "0", "0.5", "1.0"]
    assert labels(even_ticks(0, 24_000, 4)) == ["0", "10,000", "20,000"]
    assert labels(power_ticks(1e-15, 1.0, 7)) == ["10⁻¹⁵", "10⁻¹²", "10⁻⁹", "10⁻⁶", "10⁻³", "10⁰"]
    assert labels(power_ticks(4e-14, 3e-13, 7)) == ["5·10⁻¹⁴", "10⁻¹³", "2·10⁻¹³"]
    assert labels(power_ticks(30, 700, 7)) == ["50", "100", "200", "500"]
    assert labels(doubling_ticks(0.4, 10, 7)) == ["1/2", "1", "2", "4", "8"]
    assert labels(signed_ticks(-3000, 20_000, 10, 7)) == ["−100", "0", "100", "10⁴"]


def test_common_factors_and_offsets_are_noted_once() -> None:
    small = even_ticks(-2.1e-13, 2.1e-13, 5)
    assert (labels(small), small.note) == (["−2", "−1", "0", "1", "2"], "×10⁻¹³")
    far = even_ticks(1000.000009, 1000.000051, 5)
    assert (labels(far), far.note) == (["1", "2", "3", "4", "5"], "×10⁻⁵ +1,000")
    below = even_ticks(-1e12 - 0.5, -1e12 + 0.5, 3)
    assert (labels(below), below.note) == (["9.5", "10.0", "10.5"], "−1.00000000001·10¹²")


def test_numbers_in_words() -> None:
    assert [decimal(n, -2) for n in (0, 5, -150, 123456)] == ["0", "0.05", "−1.50", "1,234.56"]
    assert [scientific(n, -9) for n in (1, 10, -25)] == ["10⁻⁹", "10⁻⁸", "−2.5·10⁻⁸"]
    assert [readable(1, n) for n in (-3, -2, 3, 4)] == ["10⁻³", "0.01", "1,000", "10⁴"]
