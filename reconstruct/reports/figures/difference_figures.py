"""The difference f − g: how often it has which size, and along a line through the domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from reconstruct.reports.figures.canvas import drawn, powers_of_ten
from reconstruct.reports.figures.palette import FIRST, SECOND, THIRD
from reconstruct.reports.markup import Markup


def histogram_figure(histogram: Mapping[str, Any] | None) -> Markup | None:
    """How many sampled inputs have a largest |f − g| of each size; `edges` are log-spaced."""
    if not histogram or not sum(histogram["counts"]):
        return None
    edges, counts = np.asarray(histogram["edges"]), np.asarray(histogram["counts"])

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.stairs(counts, edges, fill=True, color=FIRST)
        if edges[0] > 0:
            axes.set_xscale("log")
            axes.set_xlim(edges[0], edges[-1])
            powers_of_ten(axes.xaxis)
        axes.set_xlabel("largest |f − g| over the outputs, evaluated in float64")
        axes.set_ylabel("sampled inputs")

    filled = np.flatnonzero(counts)
    low, high = edges[filled[0]], edges[filled[-1] + 1]
    title = f"Histogram of |f − g| at {counts.sum()} sampled inputs: from {low:.2g} to {high:.2g}"
    return drawn("histogram", title, draw, height=2.6)


def float32_figure(histogram: Mapping[str, Any] | None) -> Markup | None:
    """How often f in float32 is how far from g, and g in float32 from itself."""
    if not histogram:
        return None
    edges = np.asarray(histogram["edges"])

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.stairs(histogram["network"], edges, fill=True, color=SECOND, label="f in float32")
        axes.stairs(histogram["target"], edges, color=THIRD, linewidth=1.6, label="g in float32")
        axes.set_xscale("log")
        axes.set_xlim(edges[0], edges[-1])
        powers_of_ten(axes.xaxis)
        axes.set_xlabel("largest difference to g over the outputs, in float32")
        axes.set_ylabel("sampled inputs")
        figure.legend(loc="outside upper center", ncols=2)

    filled = np.flatnonzero(histogram["network"])
    span = f" from {edges[filled[0]]:.2g} to {edges[filled[-1] + 1]:.2g}" if len(filled) else ""
    title = f"Histogram of |f − g| in float32 at {histogram['samples']} sampled inputs:{span}"
    return drawn("histogram32", title, draw, height=2.6)


def slice_figure(line: Mapping[str, Any] | None) -> Markup | None:
    """g along the line, and below it f − g in both precisions."""
    if not line:
        return None
    position = np.asarray(line["position"])

    def draw(figure: Any) -> None:
        top, middle, bottom = figure.subplots(3, 1, sharex=True)
        top.plot(position, line["target"], color=THIRD)
        top.set_ylabel("g")
        middle.plot(position, line["float64"], color=FIRST, linewidth=1.0)
        middle.set_ylabel("f − g\nfloat64")
        bottom.plot(position, line["float32"], color=SECOND, linewidth=1.0)
        bottom.set_ylabel("f − g\nfloat32")
        bottom.set_xlabel("position on the line (0: middle of the domain, ±1: its edge)")
        for axes in (top, middle, bottom):
            axes.locator_params(axis="y", nbins=3)
        figure.align_ylabels()

    double, single = (float(np.max(np.abs(line[kind]))) for kind in ("float64", "float32"))
    title = (
        f"Output {line['output']} along a line through the domain: g itself, and f − g, which "
        f"reaches {double:.2g} in float64 and {single:.2g} in float32"
    )
    return drawn("slice", title, draw, height=3.6)
