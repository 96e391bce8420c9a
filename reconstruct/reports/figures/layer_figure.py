"""The error at each cut between layers, and the shifts that cost the digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reconstruct.reports.figures.canvas import drawn, powers_of_ten
from reconstruct.reports.figures.palette import FAINT, FIRST, FOURTH, SECOND, THIRD
from reconstruct.reports.markup import Markup

KINDS = (
    ("certified", "certified", "v", FOURTH),
    ("float32", "f in float32", "s", SECOND),
    ("target_float32", "g in float32", "x", FAINT),
    ("float64", "f in float64", "o", FIRST),
)


def layer_figure(rows: Sequence[Mapping[str, Any]]) -> Markup | None:
    """Errors above, largest shifts below, both on logarithmic scales, one place per cut."""
    if len(rows) < 2 or not any((row[key] or 0) > 0 for row in rows for key, *_ in KINDS):
        return None
    places = range(1, len(rows) + 1)

    def draw(figure: Any) -> None:
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(2.4, 1))
        for key, label, marker, colour in KINDS:
            points = [(i, row[key]) for i, row in zip(places, rows, strict=True)]
            shown = [(i, y) for i, y in points if y is not None and y > 0]
            if shown:
                top.plot(*zip(*shown, strict=True), marker=marker, color=colour, label=label)
        top.set_yscale("log")
        top.set_ylabel("error")
        powers_of_ten(top.yaxis)
        shifts = [(i, row["shift"]) for i, row in zip(places, rows, strict=True) if row["shift"]]
        if shifts:
            bottom.bar(*zip(*shifts, strict=True), color=THIRD, width=0.6)
            bottom.set_yscale("log")
            powers_of_ten(bottom.yaxis)
        bottom.set_ylabel("shift")
        bottom.set_xlabel("layer")
        bottom.set_xlim(0.4, len(rows) + 0.6)
        bottom.locator_params(axis="x", integer=True)
        figure.legend(loc="outside upper center", ncols=4, handletextpad=0.3, columnspacing=1.0)
        figure.align_ylabels()

    title = f"Errors and largest shifts at {len(rows)} cuts; the table below has them all"
    return drawn("layer-errors", title, draw, height=3.6)
