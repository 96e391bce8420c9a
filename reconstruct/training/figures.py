"""The figures of a training report: curves, and γ layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reconstruct.reports.figures.canvas import drawn, powers_of_ten
from reconstruct.reports.figures.palette import FIRST, SECOND, SERIES
from reconstruct.reports.markup import Markup

MOST_PANELS = 24
COLUMNS = 4
PANEL_HEIGHT = 0.95


def curves_figure(runs: Sequence[Mapping[str, Any]]) -> Markup | None:
    """Loss and accuracy by epoch; one line per seed, training dashed."""

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for i, run in enumerate(runs):
            history, colour = run["history"], SERIES[i % len(SERIES)]
            epochs = np.arange(1, len(history["loss"]) + 1)
            left.plot(epochs, history["loss"], color=colour)
            right.plot(epochs, 100 * np.array(history["test_accuracy"]), color=colour)
            shares = 100 * np.array(history["train_accuracy"])
            right.plot(epochs, shares, color=colour, linestyle="--", linewidth=0.9)
        left.set_yscale("log")
        powers_of_ten(left.yaxis)
        left.set_xlabel("epoch")
        left.set_ylabel("loss while training")
        right.set_xlabel("epoch")
        right.set_ylabel("recognised, %")

    final = ", ".join(f"{100 * run['accuracy']:.1f} %" for run in runs)
    return drawn("curves", f"Loss and accuracy by epoch; accuracy at the end: {final}", draw)


def gamma_figure(layers: Sequence[Mapping[str, Any]]) -> Markup | None:
    """A histogram of γ for each norm layer (evenly chosen ones where there are many)."""
    chosen = [layers[i] for i in _chosen(len(layers))]
    if not chosen:
        return None
    rows = -(-len(chosen) // COLUMNS)

    def draw(figure: Any) -> None:
        axes = np.atleast_1d(figure.subplots(rows, COLUMNS, squeeze=False)).ravel()
        for place in axes[len(chosen) :]:
            place.set_axis_off()
        for place, layer in zip(axes, chosen, strict=False):
            edges, counts = layer["histogram"]["edges"], layer["histogram"]["counts"]
            place.stairs(counts, edges, fill=True, color=FIRST)
            place.axvline(0.0, color=SECOND, linewidth=0.8)
            place.set_title(layer["name"], fontsize=7)
            place.tick_params(labelsize=6)
            place.set_yticks([])
            place.grid(False)

    total = sum(layer["channels"] for layer in layers)
    title = f"Histograms of γ in {len(chosen)} of {len(layers)} norm layers, {total} γ in all"
    return drawn("gamma", title, draw, height=0.35 + PANEL_HEIGHT * rows)


def _chosen(count: int) -> list[int]:
    if count <= MOST_PANELS:
        return list(range(count))
    return sorted({round(i * (count - 1) / (MOST_PANELS - 1)) for i in range(MOST_PANELS)})
