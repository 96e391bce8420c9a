"""The numbers behind the figures."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from reconstruct.reports import plotting
from reconstruct.reports.page import render
from reconstruct.reports.reading import RunFiles
from reconstruct.reports.sections import error_figure, near_zero, residual_figure


def test_prediction_is_of_the_right_size(report: dict[str, Any]) -> None:
    for kind in ("float64", "float32"):
        measured = report["error"][f"{kind}_max"]
        assert measured / 30 < report["measurements"]["predicted"][kind] < 30 * measured


def test_near_zero_share() -> None:
    assert near_zero(np.array([1.0, 1.0, 1e-5, 0.0])) == 0.5
    assert near_zero(np.array([])) == 0.0
    assert near_zero(np.zeros(3)) == 1.0


@pytest.mark.parametrize("unit", [5e-324, 1e-310, 1e-160, 1e160, 1.7e308])
def test_near_zero_share_of_any_size(unit: float) -> None:
    assert near_zero(np.array([unit, -unit, unit, 0.0])) == 0.25


def test_figures_take_their_colours_from_the_page(report: dict[str, Any]) -> None:
    drawing = residual_figure([{"index": 0, "history": [1.0, 1e-3, 1e-9]}])
    assert drawing is not None
    assert "var(--ink)" in drawing.text and "var(--first)" in drawing.text
    colours = re.findall(r"(?:fill|stroke): ([^;\"]*)", drawing.text)
    assert set(colours) <= {"none"} | {f"var({name})" for name in plotting.VARIABLES.values()}
    assert "<metadata" not in drawing.text and "<style" not in drawing.text


def test_a_figure_is_always_the_same_whatever_the_user_has_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import matplotlib

    monkeypatch.undo()  # figures that are remembered would be the same in any case
    monkeypatch.delenv("RECONSTRUCT_FIGURES")

    def draw(figure: Any) -> None:
        figure.subplots().plot([1, 2, 3], [1e-8, 1e-3, 1e3], label="$x$ <b>")
        plotting.logarithmic(figure.axes[0])
        figure.axes[0].legend()

    once = plotting.drawing("a", "title", draw)
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9, "text.usetex": True}):
        assert plotting.drawing("a", "title", draw) == once
    assert once is not None
    assert ">10⁻⁶</text>" in once.text and "$x$ &lt;b&gt;" in once.text
    other = plotting.drawing("b", "title", draw)
    assert other is not None
    ids = [set(re.findall(r'id="([^"]*)"', one.text)) for one in (once, other)]
    assert ids[0].isdisjoint(ids[1])


def test_without_matplotlib_there_is_no_drawing_and_the_page_says_so(
    report: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plotting, "find_spec", lambda name: None)
    page = render(RunFiles(report))
    assert "<svg" not in page and page.count("pip install &#x27;reconstruct[plot]&#x27;") == 1
    assert page.count("<table") >= 4


@pytest.mark.parametrize("value", [0.0, 5e-324, 1.7e308])
def test_errors_of_any_size_are_drawn(value: float) -> None:
    rows = [
        {"label": "a", "measured": value, "predicted": value, "bound": value},
        {"label": "b", "measured": None, "predicted": 1e-5, "bound": None},
    ]
    drawing = error_figure(rows, value)
    assert drawing is not None and not re.search(r"\b(nan|inf)\b", drawing.text)
