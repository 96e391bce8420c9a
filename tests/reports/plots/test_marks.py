"""Marks land where a computation by hand says, and values without a place leave no trace."""

from __future__ import annotations

import base64
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconstruct.reports.plots import (
    DASHED,
    Axis,
    Bars,
    Curve,
    Dots,
    Logarithmic,
    Mark,
    Note,
    Picture,
    Ribbon,
    Rule,
    Span,
    Stairs,
)
from reconstruct.reports.plots.axis import Ruler
from reconstruct.reports.plots.colour_map import colours, greys
from reconstruct.reports.plots.paths import COLUMN, MARKERS, coordinate, thinned
from tests.reports.plots.reading import decoded, numbers, parsed

X = Ruler(Axis(), 0.0, 10.0, 20.0, 120.0)  # x is 20 + 10·v
Y = Ruler(Axis(), 0.0, 4.0, 100.0, 0.0)  # y is 100 − 25·v
LOG = Ruler(Axis(scale=Logarithmic()), 1.0, 100.0, 100.0, 0.0)  # y is 100 − 50·log10 v
EVERY = st.floats(allow_nan=True, allow_infinity=True)
ROUNDING = 0.0051


def data(mark: Mark, y: Ruler = Y) -> str:
    return re.findall(r' d="([^"]*)"', mark.drawn(X, y).text)[0]


def test_a_line_goes_through_its_points() -> None:
    assert data(Curve([0, 1, 10], [0, 4, 2], "c")) == "M20 100L30 0L120 50"
    assert data(Curve([0, 5], [1, 10], "c"), LOG) == "M20 100L70 50"


def test_what_is_not_a_number_breaks_a_line_and_a_lone_point_is_a_dot() -> None:
    y = [0, 4, math.nan, 2, math.inf, 1, 1]
    assert data(Curve(range(7), y, "c")) == "M20 100L30 0M50 50h0M70 75L80 75"
    assert data(Curve([0, 1, 2], [1, 0, 10], "c"), LOG) == "M20 100h0M40 50h0"
    assert Curve([math.nan], [1.0], "c").drawn(X, Y).text == ""
    assert Curve([], [], "c").drawn(X, Y).text == ""


def test_a_line_has_its_dash_its_weight_and_its_markers() -> None:
    text = Curve([0], [0], "c", dash=DASHED, weight=2.5, marker="s", radius=2.0).drawn(X, Y).text
    assert 'stroke-dasharray="4 3"' in text and 'stroke-width="2.5"' in text
    assert text.count("<path") == 2 and "M18.3 98.3L21.7 98.3L21.7 101.7L18.3 101.7z" in text


@pytest.mark.parametrize("marker", MARKERS)
def test_dots_are_centred_and_those_outside_are_left_out(marker: str) -> None:
    found = data(Dots([5.0, 11.0, math.nan], [2.0, 2.0, 1.0], "c", marker=marker, radius=3.0))
    if marker == "o":
        assert found == "M67 50a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z"
        return
    places = np.array(numbers(found)).reshape(-1, 2)
    assert (places.min(axis=0) + places.max(axis=0)) / 2 == pytest.approx([70, 50], abs=ROUNDING)
    assert np.ptp(places, axis=0).max() <= 6.0


def test_stairs_rise_at_their_edges_from_zero() -> None:
    assert data(Stairs([0, 2, 4], [1, 4], "c")) == "M20 100V75H40V0H60V100z"
    assert data(Stairs([0, 2, 4], [1, math.nan], "c", fill=False)) == "M20 100V75H40V100H60V100"
    assert data(Stairs([0, 2], [10], "c"), LOG) == "M20 100V50H40V100z"
    assert Stairs([], [], "c").drawn(X, Y).text == ""


def test_bars_stand_on_zero_also_downwards() -> None:
    both = Ruler(Axis(), -2.0, 2.0, 100.0, 0.0)
    found = data(Bars([1, 3, 5], [2, -1, math.nan], "c", width=1.0), both)
    assert found == "M25 50V0H35V50zM45 50V75H55V50z"
    below = Ruler(Axis(), -4.0, -2.0, 100.0, 0.0)  # 0 is beyond its upper end
    assert data(Bars([1], [-3], "c", width=1.0), below) == "M25 0V50H35V0z"


def test_rules_cross_the_panel() -> None:
    assert data(Rule(5.0, "c")) == "M70 100V0"
    assert data(Rule(1.0, "c", upright=False)) == "M20 75H120"
    for at in (math.nan, math.inf, 11.0):
        assert Rule(at, "c").drawn(X, Y).text == ""


def test_spans_are_as_thick_as_asked_and_never_invisible() -> None:
    assert data(Span(1, 3, 2, "c", weight=5.0)) == "M30 47.5H50v5H30z"
    assert data(Span(1, 1, 2, "c")) == "M29.75 49.5H30.25v1H29.75z"
    assert Span(math.nan, 1, 2, "c").drawn(X, Y).text == ""


def test_a_band_goes_there_and_back() -> None:
    found = data(Ribbon([0, 1, 2], [0, math.nan, 1], [4, 4, 2], "c"))
    assert found == "M20 0L40 50L40 75L20 100z"
    assert Ribbon([], [], [], "c").drawn(X, Y).text == ""


def test_a_note_stands_behind_its_point_and_is_escaped() -> None:
    node = parsed(Note(5.0, 2.0, "<b>", "c").drawn(X, Y).text)
    assert (node.text, float(node.attrib["x"]) > 70) == ("<b>", True)
    assert Note(math.nan, 2.0, "gone").drawn(X, Y).text == ""


def test_a_picture_has_its_first_row_at_the_bottom() -> None:
    shares = np.array([[0.0, 0.5], [1.0, math.nan]])
    node = parsed(Picture(shares, (0.0, 10.0), (0.0, 2.0), greys).drawn(X, Y).text)
    box = [float(node.attrib[key]) for key in ("x", "y", "width", "height")]
    assert box == [20.0, 50.0, 100.0, 50.0]
    read = decoded(base64.b64decode(node.attrib["href"].partition(",")[2]))
    assert read[..., 0].tolist() == [[0, 255], [255, 128]]
    assert Picture(np.zeros((0, 0)), (0, 1), (0, 1)).drawn(X, Y).text == ""


@given(st.lists(st.tuples(EVERY, EVERY), max_size=8))
def test_no_mark_writes_what_is_no_number(points: list[tuple[float, float]]) -> None:
    x, y = [p[0] for p in points], [p[1] for p in points]
    marks: list[Mark] = [
        Curve(x, y, "c", marker="o"),
        Dots(x, y, "c", marker="x"),
        Bars(x, y, "c"),
        Ribbon(x, y, y, "c"),
        Stairs(sorted(v for v in x if v == v), y[: max(0, sum(v == v for v in x) - 1)], "c"),
        *(Rule(v, "c") for v in x),
        *(Span(a, b, 1.0, "c") for a, b in points),
        *(Note(a, b, "word") for a, b in points),
    ]
    text = "".join(mark.drawn(X, ruler).text for mark in marks for ruler in (Y, LOG))
    parsed(f"<g>{text}</g>")
    assert not re.search(r"nan|inf|\de[-+]?\d", text)


@given(st.integers(0, 2**32 - 1), st.integers(5_000, 20_000))
def test_a_long_curve_keeps_what_a_screen_shows(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = np.sort(rng.uniform(0, 100, count)), rng.normal(size=count) * 50
    kept = thinned(x, y)
    assert len(kept) <= 4 * (100 / COLUMN + 1) and kept[0] == 0 and kept[-1] == count - 1
    for column in range(0, int(100 / COLUMN), 17):
        inside = np.flatnonzero(np.floor(x / COLUMN) == column)
        if len(inside):
            own = y[np.intersect1d(kept, inside)]
            assert own.min() == y[inside].min() and own.max() == y[inside].max()


def test_curves_that_turn_back_are_kept_as_they_are() -> None:
    angle = np.linspace(0, 20, 9000)
    assert len(thinned(np.cos(angle), np.sin(angle))) == 9000


@given(st.floats(-1e4, 1e4))
def test_coordinates_are_short_and_right(value: float) -> None:
    text = coordinate(value)
    assert abs(float(text) - value) <= ROUNDING and not re.search(r"\.\d*0$|^-0$|\.$", text)


def test_colours_get_lighter_all_the_way_and_stay_apart() -> None:
    shown = colours(np.linspace(0, 1, 64)).astype(float) / 255
    light = np.where(shown <= 0.04045, shown / 12.92, ((shown + 0.055) / 1.055) ** 2.4)
    assert (np.diff(light @ [0.2126, 0.7152, 0.0722]) > 0).all()
    assert np.array_equal(colours(np.array([-3.0, 7.0])), colours(np.array([0.0, 1.0])))
