"""Scales: ends at 0 and 1, order kept, whatever the range; and axes around any data."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconstruct.reports.plots.axis import GAP, Axis, Ruler
from reconstruct.reports.plots.scales import Linear, Logarithmic, Scale, SignedLogarithmic
from reconstruct.reports.plots.ticks import Tick

SCALES = [
    Linear(),
    Logarithmic(),
    Logarithmic(base=2),
    *(SignedLogarithmic(near) for near in (5e-324, 1e-3, 1e300)),
]
EVERY = st.floats(allow_nan=True, allow_infinity=True)
DATA = st.lists(EVERY, max_size=6)
EXTREME = [0.0, -0.0, 5e-324, -5e-324, 1e-308, 1.0, 1e16, 1e300, -1e300, sys.float_info.max]


@pytest.mark.parametrize("scale", SCALES, ids=str)
@given(data=DATA, low=st.none() | EVERY, high=st.none() | EVERY)
@example([0.5], 1.0, 0.0)
@example([], 1e308, -1e308)
@example([1e-310, 2e-310], None, None)
@example([1e-310, 2e-310], 1e-310, 2e-310)
def test_any_data_has_a_range(
    scale: Scale, data: list[float], low: float | None, high: float | None
) -> None:
    axis = Axis("", scale, low, high)
    start, end = axis.span(np.array(data))
    assert math.isfinite(start) and math.isfinite(end) and start < end
    shares = scale.share(np.array([start, end]), start, end)
    assert shares == pytest.approx([0.0, 1.0])
    assert axis.scale.ticks(start, end, 5).ticks


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("one", EXTREME)
@pytest.mark.parametrize("other", EXTREME)
def test_extreme_values_lie_inside_of_their_own_range(
    scale: Scale, one: float, other: float
) -> None:
    values = np.array([one, other])
    start, end = Axis("", scale).span(values)
    shown = values[scale.usable(values)]
    shares = scale.share(shown, start, end)
    assert np.isfinite(shares).all() and ((shares >= 0) & (shares <= 1)).all()


@pytest.mark.parametrize("scale", SCALES, ids=str)
@given(values=st.lists(st.floats(1e-300, 1e300), min_size=2, max_size=9))
def test_order_is_kept_and_what_has_no_place_is_nan(scale: Scale, values: list[float]) -> None:
    start, end = Axis("", scale).span(np.array(values))
    shares = scale.share(np.array([*sorted(values), math.nan, math.inf]), start, end)
    assert (np.diff(shares[:-2]) >= 0).all() and np.isnan(shares[-2:]).all()


def test_shares_by_hand() -> None:
    at = np.array([1.0, 10.0, 100.0, 1e4, 0.0, -1.0])
    assert Logarithmic().share(at, 1.0, 1e4)[:4] == pytest.approx([0.0, 0.25, 0.5, 1.0])
    assert np.isnan(Logarithmic().share(at, 1.0, 1e4)[4:]).all()
    assert Linear().share(at, -1.0, 1.0)[[0, 4, 5]] == pytest.approx([1.0, 0.5, 0.0])
    signed = SignedLogarithmic(near=1.0).share(np.array([-9.0, 0.0, 9.0, 99.0]), -99.0, 99.0)
    assert signed == pytest.approx([0.25, 0.5, 0.75, 1.0])


def test_given_ends_stay_and_others_leave_a_margin() -> None:
    assert Axis(low=0.0).span(np.array([2.0, 4.0])) == pytest.approx((0.0, 4.2))
    assert Axis(low=0.0, high=9.0).span(np.array([2.0, 40.0])) == (0.0, 9.0)
    assert Axis(scale=Logarithmic(), low=0.0).span(np.array([1.0, 1.0]))[0] > 0
    assert Axis().span(np.array([3.0])) == pytest.approx((2.7, 3.3))


def test_ends_in_the_wrong_order_are_the_same_range() -> None:
    assert Axis(low=9.0, high=0.0).span(np.array([2.0, 40.0])) == (0.0, 9.0)
    assert Axis(scale=Logarithmic(), low=1e3, high=1.0).span(np.array([])) == (1.0, 1e3)


def test_values_far_below_near_are_zero_in_the_middle_of_their_range() -> None:
    scale = SignedLogarithmic(near=1e300)
    start, end = Axis(scale=scale).span(np.array([1e-310, 2e-310]))
    assert (start, end) == (-1e300, 1e300)
    assert scale.share(np.array([1e-310, 2e-310]), start, end) == pytest.approx([0.5, 0.5])


@given(st.floats(20, 400), st.integers(1, 30), st.integers(1, 60))
def test_labels_never_touch(length: float, count: int, long: int) -> None:
    given_ticks = tuple(Tick(i, "x" * long) for i in range(count))
    ruler = Ruler(Axis(ticks=given_ticks), -1.0, count, 0.0, length)
    found = ruler.ticks(lambda label: float(len(label))).ticks
    places = ruler.at(np.array([tick.value for tick in found]))
    assert len(found) >= 1 and (np.diff(places) >= long + GAP).all()


def test_bars_stand_on_zero_or_on_the_end() -> None:
    assert Ruler(Axis(), -1.0, 3.0, 100.0, 0.0).base == pytest.approx(75.0)
    assert Ruler(Axis(), 1.0, 3.0, 100.0, 0.0).base == 100.0
    assert Ruler(Axis(scale=Logarithmic()), 1.0, 3.0, 100.0, 0.0).base == 100.0


def test_bars_hang_from_the_end_of_an_axis_below_zero() -> None:
    assert Ruler(Axis(), -3.0, -1.0, 100.0, 0.0).base == 0.0
    assert Ruler(Axis(), -3.0, -1.0, 20.0, 120.0).base == 120.0
    assert Ruler(Axis(), 1.0, 3.0, 20.0, 120.0).base == 20.0
    assert Ruler(Axis(scale=SignedLogarithmic(1.0)), -3.0, -1.0, 100.0, 0.0).base == 0.0
