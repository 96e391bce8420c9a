"""The summary fits 80 columns, and no bound is printed smaller than it is."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconstruct.reports.words import (
    at_least,
    at_most,
    duration,
    headline,
    in_words,
    number,
    percent,
    pretty,
    size,
    summary,
)
from tests.reports.conftest import refuted, undecided

POSITIVE = st.floats(min_value=1e-300, max_value=1e300)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("change", [lambda r: r, refuted, undecided])
def test_summary_fits_80_columns(report: dict[str, Any], change: Any) -> None:
    report = change(report)
    wide = dict(report["layers"][0])
    wide.update(index=100, rows=1024, cols=1024, width=1572864, status="ill_conditioned")
    wide.update(iterations=12345, residual=1.23e-105, condition=1e101, shift_max=1e101)
    report["layers"] += [wide] * 60
    for key, value in report["error"].items():
        report["error"][key] = value and value * 1e-101 if key.endswith(("max", "bound")) else value
    text = summary(report)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "more in report.json" in text


def test_headline_names_verdict_rigor_and_domain(report: dict[str, Any]) -> None:
    assert headline(report).startswith("CERTIFIED (rigorous): |f − g| ≤ ")
    assert headline(report).endswith("for every x in [-1, 1]^4")
    assert "≥ 0.25" in headline(refuted(report))
    assert headline(undecided(report)).startswith("UNDECIDED (numerical)")


@given(POSITIVE)
def test_printed_bounds_hold(value: float) -> None:
    assert float(at_most(value)) >= value
    assert float(at_least(value)) <= value


@given(POSITIVE)
def test_printed_bounds_are_close(value: float) -> None:
    assert float(at_most(value)) <= 1.11 * value
    assert float(at_least(value)) >= 0.89 * value


@given(FINITE)
@example(sys.float_info.max)
@example(5e-324)
def test_what_is_printed_bounds_every_float(value: float) -> None:
    """As decimals: 1.8e308 is no float, but it is a bound of the largest one."""
    assert Fraction(at_most(value)) >= Fraction(value) >= Fraction(at_least(value))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_not_known(value: float) -> None:
    assert number(value) == at_most(value) == at_least(value) == "–"


def test_shares_for_people() -> None:
    assert [percent(share) for share in (0, 1, 0.5, 0.123)] == ["0 %", "100 %", "50 %", "12 %"]
    assert [percent(share) for share in (0.00123, 1e-4, 1e-9)] == ["0.12 %", "0.01 %", "< 0.01 %"]
    assert [percent(share) for share in (0.995, 0.9999999)] == ["99.50 %", "99.99 %"]


def test_a_bound_that_is_not_finite_is_none() -> None:
    assert in_words("0 boxes in 5.1 s, bound inf; over") == "0 boxes in 5.1 s, no bound; over"
    assert in_words("layer 'inf': bound 1e-09, boundary inf") == (
        "layer 'inf': bound 1e-09, boundary inf"
    )


def test_numbers_for_people() -> None:
    assert (number(None), number(0.0), number(0.000123)) == ("–", "0", "0.00012")
    assert (number(613.2), number(99_999.0), number(123456.0)) == ("610", "1e+05", "1.2e+05")
    assert (pretty("3.1e-08"), pretty("1e+05"), pretty("0.5")) == ("3.1·10⁻⁸", "10⁵", "0.5")
    assert (duration(0.44), duration(59.6), duration(3725)) == ("0.4 s", "1 min 0 s", "1 h 2 min")
    assert (size(None), size(512), size(2_500_000)) == ("–", "512 bytes", "2.5 MB")
