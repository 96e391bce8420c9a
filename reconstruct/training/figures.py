"""The figures of a training report: curves, and γ layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reconstruct.reports.markup import Markup
from reconstruct.reports.plots import (
    DASHED,
    FIRST,
    SECOND,
    SERIES,
    Axis,
    Curve,
    Figure,
    Linear,
    Logarithmic,
    Panel,
    Rule,
    Stairs,
)

MOST_PANELS = 24
COLUMNS = 4
PANEL_HEIGHT, SMALL = 68.0, 7.0  # of a histogram, and of its text


def curves_figure(runs: Sequence[Mapping[str, Any]]) -> Markup:
    """Loss and accuracy by epoch; one line per seed, training dashed."""
    losses, shares = [], []
    for i, run in enumerate(runs):
        history, colour = run["history"], SERIES[i % len(SERIES)]
        epochs = np.arange(1, len(history["loss"]) + 1)
        losses.append(Curve(epochs, history["loss"], colour))
        shares.append(Curve(epochs, 100 * np.array(history["test_accuracy"]), colour))
        training = 100 * np.array(history["train_accuracy"])
        shares.append(Curve(epochs, training, colour, dash=DASHED, weight=1.0))
    x = Axis("epoch", Linear(whole=True))
    panels = (
        Panel(tuple(losses), x, Axis("loss while training", Logarithmic())),
        Panel(tuple(shares), x, Axis("recognised, %")),
    )
    final = ", ".join(f"{100 * run['accuracy']:.1f} %" for run in runs)
    title = f"Loss and accuracy by epoch; accuracy at the end: {final}"
    return Figure("curves", title, (panels,)).svg()


def gamma_figure(layers: Sequence[Mapping[str, Any]]) -> Markup | None:
    """A histogram of γ for each norm layer (evenly chosen ones where there are many)."""
    chosen = [layers[i] for i in _chosen(len(layers))]
    if not chosen:
        return None
    panels = [_histogram(layer) for layer in chosen]
    panels += [None] * (-len(panels) % COLUMNS)
    rows = tuple(tuple(panels[i : i + COLUMNS]) for i in range(0, len(panels), COLUMNS))
    total = sum(layer["channels"] for layer in layers)
    title = f"Histograms of γ in {len(chosen)} of {len(layers)} norm layers, {total} γ in all"
    return Figure("gamma", title, rows, height=PANEL_HEIGHT * len(rows), font=SMALL).svg()


def _histogram(layer: Mapping[str, Any]) -> Panel | None:
    edges, counts = layer["histogram"]["edges"], layer["histogram"]["counts"]
    marks = (Stairs(edges, counts, FIRST), Rule(0.0, SECOND, dash="", weight=0.8))
    return Panel(marks, Axis(), Axis(low=0.0, ticks=(), named=False), layer["name"], grid=False)


def _chosen(count: int) -> list[int]:
    if count <= MOST_PANELS:
        return list(range(count))
    return sorted({round(i * (count - 1) / (MOST_PANELS - 1)) for i in range(MOST_PANELS)})
