"""γ and β of the norm layers, as histograms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.reports.figures.canvas import drawn
from reconstruct.reports.figures.palette import FIRST, SECOND
from reconstruct.reports.markup import Markup

Vector = NDArray[np.float64]
BINS = 60


def norm_figure(gammas: Mapping[str, Vector], betas: Mapping[str, Vector]) -> Markup | None:
    """All the gammas beside all the betas; counts are on a logarithmic scale."""
    scales, shifts = _all(gammas.values()), _all(betas.values())
    if not len(scales) or not len(shifts):
        return None

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        _histogram(left, scales, FIRST, "γ (scale)")
        _histogram(right, shifts, SECOND, "β (shift)")
        left.set_ylabel("parameters")
        left.set_ylim(bottom=0.7)

    title = (
        f"Histograms of {len(scales)} gammas between {scales.min():.2g} and {scales.max():.2g} "
        f"and {len(shifts)} betas between {shifts.min():.2g} and {shifts.max():.2g}"
    )
    return drawn("norms", title, draw)


def near_zero(gamma: Vector, share: float = 1e-3) -> float:
    """The share of the gammas below `share` times their root mean square, zeros included."""
    size = float(np.sqrt(np.mean(gamma**2))) if len(gamma) else 0.0
    return float(np.mean(np.abs(gamma) <= share * size)) if len(gamma) else 0.0


def _histogram(axes: Any, values: Vector, colour: str, label: str) -> None:
    axes.hist(values, bins=_edges(values), color=colour)
    axes.set_yscale("log", nonpositive="clip")
    axes.set_xlabel(label)
    axes.locator_params(axis="x", nbins=4)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _edges(values: Vector) -> Vector:
    lo, hi = float(values.min()), float(values.max())
    if hi - lo <= 1e-12 * max(abs(lo), abs(hi), 1e-300):
        lo, hi = lo - 0.5, hi + 0.5
    return np.linspace(lo, hi, BINS + 1)


def _all(arrays: Any) -> Vector:
    kept: Sequence[Vector] = [np.ravel(a) for a in arrays]
    values = np.concatenate(kept) if kept else np.empty(0)
    return np.asarray(values[np.isfinite(values)])
