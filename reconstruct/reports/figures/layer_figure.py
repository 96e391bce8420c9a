"""The error at each cut between layers, and the shifts that cost the digits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from reconstruct.reports.markup import Markup
from reconstruct.reports.plots import (
    FAINT,
    FIRST,
    FOURTH,
    SECOND,
    THIRD,
    Axis,
    Bars,
    Curve,
    Figure,
    Legend,
    Linear,
    Logarithmic,
    Panel,
)

HEIGHT = 259.0
KINDS = (
    ("certified", "certified", "v", FOURTH),
    ("float32", "f in float32", "s", SECOND),
    ("target_float32", "g in float32", "x", FAINT),
    ("float64", "f in float64", "o", FIRST),
)
Row = Mapping[str, Any]


def layer_figure(rows: Sequence[Row]) -> Markup | None:
    """Errors above, largest shifts below, both on logarithmic scales, one place per cut."""
    if len(rows) < 2 or not any((row[key] or 0) > 0 for row in rows for key, *_ in KINDS):
        return None
    errors = [_line(rows, *kind) for kind in KINDS]
    places, shifts = _known(rows, "shift")
    x = Axis("layer", Linear(whole=True), low=0.4, high=len(rows) + 0.6)
    y = Axis("shift", Logarithmic(), low=_below(shifts)) if shifts else Axis("shift")
    top = Panel(
        tuple(line for line in errors if len(line.x)),
        replace(x, label=""),
        Axis("error", Logarithmic()),
    )
    bottom = Panel((Bars(places, shifts, THIRD),), x, y)
    title = f"Errors and largest shifts at {len(rows)} cuts; the table below has them all"
    return Figure(
        "layer-errors",
        title,
        ((top,), (bottom,)),
        height=HEIGHT,
        legend=Legend.ABOVE,
        share_x=True,
        heights=(2.4, 1.0),
    ).svg()


def _known(rows: Sequence[Row], key: str) -> tuple[list[int], list[float]]:
    """Places and values of those that are known and have a logarithm."""
    shown = [(i, row[key]) for i, row in enumerate(rows, start=1) if (row[key] or 0) > 0]
    return [i for i, _ in shown], [value for _, value in shown]


def _below(shifts: Sequence[float]) -> float:
    """The power of ten below all of them, so that the least one is a bar too."""
    return float(10.0 ** (math.ceil(math.log10(min(shifts))) - 1))


def _line(rows: Sequence[Row], key: str, label: str, marker: str, colour: str) -> Curve:
    places, values = _known(rows, key)
    return Curve(places, values, colour, label, marker=marker)
