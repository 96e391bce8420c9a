"""f − g over the domain: histogram, worst points, a slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reconstruct.reports.figures.difference_figures import (
    all_zero,
    float32_figure,
    histogram_figure,
    slice_figure,
)
from reconstruct.reports.figures.plane_figure import plane_figure
from reconstruct.reports.markup import Child, Markup, element, figure, table
from reconstruct.reports.numbers import number, pretty
from reconstruct.reports.run_files import RunFiles

MOST_POINTS = 10
MOST_COORDINATES = 8


def section(run: RunFiles) -> Markup:
    found = run.report.get("difference") or {}
    error = run.report["error"]
    histogram = histogram_figure(found.get("histogram"))
    line = slice_figure(run.measurements.get("slice"))
    worst = found.get("worst") or ()
    output = (run.measurements.get("slice") or {}).get("output")
    rounded = float32_figure(run.measurements.get("histogram"))
    plane = plane_figure(run.measurements.get("plane"))
    pictures = [
        figure(histogram, f"{error['samples']:,} inputs drawn from the domain.")
        if histogram
        else None,
        figure(rounded, "The same in float32, beside what rounding does to g by itself.")
        if rounded
        else None,
        figure(
            line,
            f"Output {output} along the line from edge to edge through the middle of the domain "
            f"and the worst point found.",
        )
        if line
        else None,
    ]
    return element(
        "section",
        element("h2", "The difference over the domain"),
        element(
            "p",
            "All of this is numerical: it shows where the networks differ most among the inputs "
            "that were looked at.",
        ),
        _same(found.get("histogram"), error["samples"]),
        element("div", *pictures, class_="pair") if any(pictures) else None,
        figure(plane, "The two inputs across the box, one output: g, and where f differs from it.")
        if plane
        else None,
        _worst(worst) if worst else None,
        id="difference",
    )


def _same(histogram: Mapping[str, Any] | None, samples: int) -> Markup | None:
    """In place of a histogram of zeros; what is no number was not counted."""
    if not histogram or not all_zero(histogram):
        return None
    count = sum(histogram["counts"])
    inputs = "the one sampled input" if count == 1 else f"each of the {count:,} sampled inputs"
    if count < samples:
        inputs = f"{count:,} of {samples:,} sampled inputs"
    return element("p", f"At {inputs}, f − g is 0 in float64.")


def _worst(points: Sequence[Mapping[str, Any]]) -> Markup:
    rows: list[tuple[Child, ...]] = [
        (str(i), pretty(number(row["difference"])), element("code", _point(row["point"])))
        for i, row in enumerate(points[:MOST_POINTS], start=1)
    ]
    return table("Inputs with the largest difference found", ("", "|f − g|", "input"), rows)


def _point(values: Sequence[float]) -> str:
    shown = ", ".join(f"{v:.6g}" for v in values[:MOST_COORDINATES])
    more = len(values) - MOST_COORDINATES
    return f"({shown}{f', … {more} more' if more > 0 else ''})"
