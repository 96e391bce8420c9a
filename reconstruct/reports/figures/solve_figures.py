"""How the systems were solved: singular values against the Marchenko-Pastur law, residuals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.reports.markup import Markup
from reconstruct.reports.plots import (
    DASHED,
    DOTTED,
    FAINT,
    SERIES,
    Axis,
    Curve,
    Figure,
    Linear,
    Logarithmic,
    Mark,
    Panel,
)

Vector = NDArray[np.float64]
MOST_CURVES = 12
DASHES = ("", DASHED, DOTTED)
THIN = 1.2
Row = Mapping[str, Any]


def spectrum_figure(spectra: Sequence[Row]) -> Markup | None:
    """The singular values of the small systems, smallest first, over what the law expects."""
    shown = [row for row in spectra if row["values"]]
    if not shown:
        return None

    marks: list[Mark] = []
    for row, colour in zip(shown, SERIES, strict=False):
        count = len(row["values"])
        share = (np.arange(count) + 0.5) / count
        ratio = row["width"] / (row["rows"] * row["cols"])
        label = f"{row['rows']}×{row['cols']}, width {row['width']}"
        marks.append(Curve(share, row["values"], colour, label))
        marks.append(Curve(share, law(ratio, share), colour, dash=DOTTED, weight=THIN))
    marks.append(Curve([], [], FAINT, "Marchenko-Pastur law", dash=DOTTED, weight=THIN))
    x = Axis("share of the singular values below")
    panel = Panel(tuple(marks), x, Axis("singular value (scaled)", low=0.0))
    values = [value for row in shown for value in row["values"]]
    title = (
        f"Singular values of {len(shown)} Khatri-Rao matrices, from {min(values):.3g} to "
        f"{max(values):.3g}, beside the Marchenko-Pastur law"
    )
    return Figure("spectrum", title, ((panel,),)).svg()


def law(ratio: float, share: Vector) -> Vector:
    """Quantiles of the Marchenko-Pastur law for a wide random matrix with `ratio` = n/(mk).

    Squared singular values lie in [a, b] = (1 ∓ 1/√c)² with density √((b−x)(x−a)) / x.
    """
    y = 1.0 / max(ratio, 1.0)
    a, b = (1 - math.sqrt(y)) ** 2, (1 + math.sqrt(y)) ** 2
    angle = np.linspace(0.0, math.pi, 4001)
    x = (a + b) / 2 - (b - a) / 2 * np.cos(angle)
    weight = np.sin(angle) ** 2 / np.maximum(x, 1e-300)
    total = np.concatenate([[0.0], np.cumsum((weight[1:] + weight[:-1]) / 2)])
    return np.sqrt(np.interp(share, total / total[-1], x))


def residual_figure(layers: Sequence[Row]) -> Markup | None:
    """The relative residual after each iteration, one curve per system."""
    shown = [row for row in layers if sum(_usable(v) for v in row.get("history") or ()) > 1]
    if not shown:
        return None

    marks = tuple(_history(i, row) for i, row in enumerate(shown[:MOST_CURVES]))
    x = Axis("iteration", Linear(whole=True))
    panel = Panel(marks, x, Axis("relative residual", Logarithmic()))
    most = max(len(row["history"]) for row in shown)
    title = f"Relative residual against iteration for {len(shown)} systems, at most {most} steps"
    return Figure("residuals", title, ((panel,),)).svg()


def _history(number: int, row: Row) -> Curve:
    """One curve; colours come again with other dashes."""
    history = [value if _usable(value) else math.nan for value in row["history"]]
    dash = DASHES[number // len(SERIES) % len(DASHES)]
    colour = SERIES[number % len(SERIES)]
    return Curve(range(1, len(history) + 1), history, colour, f"map {row['index']}", dash)


def _usable(value: float | None) -> bool:
    return value is not None and value > 0
