"""Whole figures: valid, the same every time, every word inside of them and none on another."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconstruct.reports.plots import (
    FIRST,
    SECOND,
    Axis,
    Bars,
    Curve,
    Dots,
    Figure,
    Legend,
    Linear,
    Logarithmic,
    Palette,
    Panel,
    Rule,
    SignedLogarithmic,
    Stairs,
    Tick,
)
from reconstruct.reports.plots import words as plot_words
from reconstruct.reports.plots.words import lines, shortened, width
from tests.reports.plots.reading import SVG, numbers, parsed, paths, view_box, words

EVIL = "<script>alert(1)</script>&\"'\u202e\x00"
SCALES = [
    Linear(),
    Linear(whole=True),
    Logarithmic(),
    Logarithmic(base=2),
    *(SignedLogarithmic(near) for near in (5e-324, 1.0, 1e300)),
]
VALUES = st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=5)
NAMES = st.text(max_size=40) | st.sampled_from(
    [EVIL, "W" * 80, "two words " * 12, "шляпа", "帽子" * 20]
)


@st.composite
def axes(draw: st.DrawFn) -> Axis:
    low, high = (draw(st.none() | st.just(0.0) | st.floats()) for _ in range(2))
    return Axis(draw(NAMES), draw(st.sampled_from(SCALES)), low, high)


@st.composite
def panels(draw: st.DrawFn) -> Panel:
    x, y = draw(VALUES), draw(VALUES)
    size = min(len(x), len(y))
    marks = (
        Curve(x[:size], y[:size], FIRST, draw(NAMES)),
        Dots(x[:size], y[:size], SECOND, draw(NAMES), marker="x"),
        Rule(draw(st.floats()), FIRST, draw(st.just("") | NAMES)),
    )
    title = draw(st.just("") | NAMES)
    return Panel(marks, draw(axes()), draw(axes()), title, draw(st.booleans()))


@st.composite
def figures(draw: st.DrawFn) -> Figure:
    rows, columns = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    grid = tuple(tuple(draw(panels()) for _ in range(columns)) for _ in range(rows))
    return Figure(
        "name", draw(NAMES), grid, height=130.0 * rows + 90.0, width=140.0 * columns + 160
    )


@settings(max_examples=60)
@given(figures())
def test_any_figure_is_valid_and_its_words_have_room(figure: Figure) -> None:
    text = figure.svg().text
    assert text == replace(figure).svg().text
    root = parsed(text)
    assert not re.search(
        r'="[^"]*(nan|inf)[^"]*"', re.sub(r"<text.*?</text>|<title.*?</title>", "", text)
    )
    left, top, right, bottom = view_box(root)
    found = words(root)
    for one in found:
        assert one.left >= left - 0.01 and one.right <= right + 0.01, one
        assert one.top >= top - 0.01 and one.bottom <= bottom + 0.01, one
    touching = [(a.text, b.text) for a, b in itertools.combinations(found, 2) if a.touches(b)]
    assert touching == []


def simple(**options: object) -> Figure:
    line = Curve([0.0, 1.0, 2.0], [10.0, 30.0, 20.0], FIRST, "curve")
    return Figure("one", "A curve", ((Panel((line,), Axis("x"), Axis("y")),),), **options)  # type: ignore[arg-type]


def test_the_drawing_says_what_it_is() -> None:
    root = parsed(simple().svg().text)
    assert root.attrib["role"] == "img" and root.attrib["aria-labelledby"] == "one-title"
    assert (root[0].tag, root[0].attrib["id"], root[0].text) == (
        f"{SVG}title",
        "one-title",
        "A curve",
    )
    assert view_box(root) == [0.0, 0.0, 374.4, 216.0]


def test_colours_are_the_page_s_or_the_given_ones() -> None:
    text = simple().svg().text
    assert {"currentColor", "var(--faint)", "var(--grid)", FIRST} == set(
        re.findall(r'(?:fill|stroke)="([^"]+)"', text)
    ) - {"none"}
    printed = simple(palette=Palette("#111", "#222", "#333")).svg().text
    assert {"#111", "#222", "#333", FIRST} == set(
        re.findall(r'(?:fill|stroke)="([^"]+)"', printed)
    ) - {"none"}


def test_hostile_words_are_text() -> None:
    marks = (Curve([0, 1], [0, 1], FIRST, EVIL), Stairs([0, 1], [1], SECOND, EVIL + "2"))
    ticks = (Tick(0.0, EVIL), Tick(1.0, "b"))
    panel = Panel(marks, Axis(EVIL), Axis(EVIL, ticks=ticks), EVIL)
    text = Figure("evil", EVIL, ((panel, panel),), width=900.0, height=500.0).svg().text
    assert "<script" not in text and "\u202e" not in text and "\x00" not in text
    said = [node.text or "" for node in parsed(text).iter() if node.tag.endswith(("text", "title"))]
    assert sum("<script>alert(1)</script>" in words for words in said) >= 7


def test_a_line_is_drawn_between_the_ticks_that_name_its_values() -> None:
    """By the labels alone: whoever reads the plot reads the values that went in."""
    root = parsed(simple().svg().text)
    path = numbers(paths(root, FIRST)[0])
    found = {w.text: w for w in words(root)}
    across = {t: (found[t].left + found[t].right) / 2 for t in ("0", "2.0")}
    unit = (across["2.0"] - across["0"]) / 2
    assert path[0::2] == pytest.approx([across["0"] + v * unit for v in (0, 1, 2)], abs=0.02)
    up = {t: (found[t].top + found[t].bottom) / 2 for t in ("10", "30")}
    rise = (up["30"] - up["10"]) / 2
    height = [path[1] + (v - 1) * rise for v in (1, 3, 2)]
    assert path[1::2] == pytest.approx(height, abs=0.02)
    assert path[1] == pytest.approx(up["10"], abs=1.5)


def test_a_legend_stays_inside_only_where_nothing_is_drawn() -> None:
    free = Curve(np.linspace(0, 1, 50), np.linspace(0, 1, 50), FIRST, "rising")
    full = Curve(np.linspace(0, 1, 4000), np.sin(np.arange(4000)), FIRST, "everywhere")
    for line, inside in ((free, True), (full, False)):
        root = parsed(Figure("one", "", ((Panel((line,)),),)).svg().text)
        (legend,) = [w for w in words(root) if w.text == line.label]
        path = numbers(paths(root, FIRST)[0])
        assert (legend.bottom > min(path[1::2])) is inside
        if inside:
            on = [
                legend.left - 22 < x < legend.right and legend.top < y < legend.bottom
                for x, y in zip(path[::2], path[1::2], strict=True)
            ]
            assert not any(on)


def test_a_legend_wraps_and_names_each_label_once() -> None:
    marks = tuple(Dots([i], [i], FIRST, f"a rather long name {i % 9}") for i in range(18))
    root = parsed(Figure("one", "", ((Panel(marks),),), legend=Legend.ABOVE).svg().text)
    named = [w for w in words(root) if w.text.startswith("a rather")]
    assert len(named) == 9 and len({w.top for w in named}) > 2


def test_panels_share_their_ranges() -> None:
    small, large = Curve([0, 1], [0, 1], FIRST), Curve([0, 5], [0, 100], SECOND)
    rows = ((Panel((small,)), Panel((large,))), (Panel((large,)), Panel((small,))))
    shared = Figure("four", "", rows, height=300.0, share_x=True, share_y=True)
    root = parsed(shared.svg().text)
    labels = [w.text for w in words(root)]
    assert labels.count("4") + labels.count("5") >= 2  # below both columns, and nowhere else
    assert labels.count("100") == 2  # left of both rows, and nowhere else
    assert "0.5" not in labels


def test_what_goes_beyond_a_given_end_is_cut_off() -> None:
    panel = Panel((Curve([0, 1], [0, 50], FIRST),), y=Axis(high=10.0))
    text = Figure("cut", "", ((panel, panel),)).svg().text
    assert 'id="cut-clip0"' in text and 'clip-path="url(#cut-clip1)"' in text
    assert "clip" not in simple().svg().text


def test_empty_panels_and_empty_places_are_drawn() -> None:
    nothing = Panel((Curve([], [], FIRST), Bars([], [], FIRST), Dots([math.nan], [1.0], FIRST)))
    root = parsed(Figure("empty", "", ((nothing, None), (None, nothing)), height=300.0).svg().text)
    assert len(words(root)) >= 8


def test_a_hundred_thousand_points_are_a_small_drawing() -> None:
    x = np.linspace(0, 1, 100_000)
    text = Figure("long", "", ((Panel((Curve(x, np.sin(5000 * x), FIRST),)),),)).svg().text
    assert len(text) < 50_000


def test_words_are_cut_and_broken_to_their_room() -> None:
    assert shortened("a name that is much too long", 60.0, 10.0).endswith("…")
    assert width(shortened("a name that is much too long", 60.0, 10.0), 10.0) <= 60.0
    assert lines("one two three", 45.0, 10.0) == ["one two", "three"]
    assert lines("given\nlines", 400.0, 10.0) == ["given", "lines"]
    assert lines("a\nb\nc", 400.0, 10.0) == ["a", "b c"]
    assert lines("", 400.0, 10.0) == []


@given(st.text(max_size=30), st.floats(15, 300))
def test_cut_words_fit(text: str, room: float) -> None:
    assert width(shortened(text, room, 10.0), 10.0) <= room
    assert all(width(line, 10.0) <= room for line in lines(text, room, 10.0))


@pytest.mark.parametrize(
    "text", ["N" * 10_000, "a b " * 5_000, "e\u0301" * 5_000, "\u202e" * 2_000]
)
def test_long_words_are_looked_at_a_few_times_only(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    share = plot_words._share
    monkeypatch.setattr(plot_words, "_share", lambda c: seen.append(c) or share(c))
    assert shortened(text, 60.0, 10.0).endswith("…") and lines(text, 60.0, 10.0)[-1].endswith("…")
    assert len(seen) < 100 * len(text)
