"""How the systems were solved: singular values against the Marchenko-Pastur law, residuals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.reports.figures.canvas import drawn, powers_of_ten
from reconstruct.reports.figures.palette import FAINT, SERIES
from reconstruct.reports.markup import Markup

Vector = NDArray[np.float64]
MOST_CURVES = 12
Row = Mapping[str, Any]


def spectrum_figure(spectra: Sequence[Row]) -> Markup | None:
    """The singular values of the small systems, smallest first, over what the law expects."""
    shown = [row for row in spectra if row["values"]]
    if not shown:
        return None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for row, colour in zip(shown, SERIES, strict=False):
            values = np.asarray(row["values"])
            share = (np.arange(len(values)) + 0.5) / len(values)
            ratio = row["width"] / (row["rows"] * row["cols"])
            label = f"{row['rows']}×{row['cols']}, width {row['width']}"
            axes.plot(share, values, color=colour, label=label)
            axes.plot(share, law(ratio, share), color=colour, linestyle=(0, (2, 2)), linewidth=1.2)
        axes.plot([], [], color=FAINT, linestyle=(0, (2, 2)), label="Marchenko-Pastur law")
        axes.set_xlabel("share of the singular values below")
        axes.set_ylabel("singular value (scaled)")
        axes.set_ylim(bottom=0)
        axes.legend(loc="upper left")

    values = [value for row in shown for value in row["values"]]
    title = (
        f"Singular values of {len(shown)} Khatri-Rao matrices, from {min(values):.3g} to "
        f"{max(values):.3g}, beside the Marchenko-Pastur law"
    )
    return drawn("spectrum", title, draw)


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

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for i, row in enumerate(shown[:MOST_CURVES]):
            history = [value if _usable(value) else math.nan for value in row["history"]]
            style = "-" if i < len(SERIES) else ("--" if i < 2 * len(SERIES) else ":")
            label = f"map {row['index']}"
            steps = range(1, len(history) + 1)
            colour = SERIES[i % len(SERIES)]
            axes.semilogy(steps, history, color=colour, linestyle=style, label=label)
        powers_of_ten(axes.yaxis)
        axes.set_xlabel("iteration")
        axes.locator_params(axis="x", integer=True, nbins=7)
        axes.set_ylabel("relative residual")
        axes.legend(loc="upper right", ncols=2 if len(shown) > 4 else 1)

    most = max(len(row["history"]) for row in shown)
    title = f"Relative residual against iteration for {len(shown)} systems, at most {most} steps"
    return drawn("residuals", title, draw)


def _usable(value: float | None) -> bool:
    return value is not None and value > 0
