"""The difference f − g: how often it has which size, and along a line through the domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from reconstruct.numbers.arrays import Array
from reconstruct.reports.markup import Markup
from reconstruct.reports.plots import (
    FIRST,
    SECOND,
    THIRD,
    Axis,
    Curve,
    Figure,
    Legend,
    Linear,
    Logarithmic,
    Panel,
    Stairs,
)

LOW = 187.0  # height of the histograms
TALL = 259.0
THIN = 1.0


def histogram_figure(histogram: Mapping[str, Any] | None) -> Markup | None:
    """How many sampled inputs have a largest |f − g| of each size; `edges` are log-spaced.

    None where no difference is known, or none but 0.
    """
    if not histogram or not sum(histogram["counts"]) or all_zero(histogram):
        return None
    edges, counts = (
        np.asarray(histogram["edges"], dtype=np.float64),
        np.asarray(histogram["counts"]),
    )
    x = _sizes("largest |f − g| over the outputs, evaluated in float64", edges)
    panel = Panel((Stairs(edges, counts, FIRST),), x, _counts())
    filled = np.flatnonzero(counts)
    low, high = edges[filled[0]], edges[filled[-1] + 1]
    title = f"Histogram of |f − g| at {counts.sum()} sampled inputs: from {low:.2g} to {high:.2g}"
    return Figure("histogram", title, ((panel,),), height=LOW).svg()


def all_zero(histogram: Mapping[str, Any]) -> bool:
    """Whether every difference that was found is 0: a search then counts them from 0 to 1."""
    return list(histogram["edges"]) == [0, 1] and sum(histogram["counts"]) > 0


def float32_figure(histogram: Mapping[str, Any] | None) -> Markup | None:
    """How often f in float32 is how far from g, and g in float32 from itself."""
    if not histogram:
        return None
    edges = np.asarray(histogram["edges"], dtype=np.float64)
    marks = (
        Stairs(edges, histogram["network"], SECOND, "f in float32"),
        Stairs(edges, histogram["target"], THIRD, "g in float32", fill=False),
    )
    x = _sizes("largest difference to g over the outputs, in float32", edges)
    filled = np.flatnonzero(histogram["network"])
    span = f" from {edges[filled[0]]:.2g} to {edges[filled[-1] + 1]:.2g}" if len(filled) else ""
    title = f"Histogram of |f − g| in float32 at {histogram['samples']} sampled inputs:{span}"
    panel = Panel(marks, x, _counts())
    return Figure("histogram32", title, ((panel,),), height=LOW, legend=Legend.ABOVE).svg()


def _sizes(label: str, edges: Array) -> Axis:
    """From edge to edge, logarithmic if none of them is 0."""
    scale = Logarithmic() if edges[0] > 0 else Linear()
    return Axis(label, scale, low=float(edges[0]), high=float(edges[-1]))


def _counts() -> Axis:
    return Axis("sampled inputs", Linear(whole=True), low=0.0)


def slice_figure(line: Mapping[str, Any] | None) -> Markup | None:
    """g along the line, and below it f − g in both precisions."""
    if not line:
        return None
    position = np.asarray(line["position"])
    rows = (
        Curve(position, line["target"], THIRD),
        Curve(position, line["float64"], FIRST, weight=THIN),
        Curve(position, line["float32"], SECOND, weight=THIN),
    )
    names = ("g", "f − g\nfloat64", "f − g\nfloat32")
    where = Axis("position on the line (0: middle of the domain, ±1: its edge)")
    panels = tuple(
        (Panel((mark,), where if mark is rows[-1] else Axis(), Axis(name)),)
        for mark, name in zip(rows, names, strict=True)
    )
    double, single = (float(np.max(np.abs(line[kind]))) for kind in ("float64", "float32"))
    title = (
        f"Output {line['output']} along a line through the domain: g itself, and f − g, which "
        f"reaches {double:.2g} in float64 and {single:.2g} in float32"
    )
    return Figure("slice", title, panels, height=TALL, share_x=True).svg()
