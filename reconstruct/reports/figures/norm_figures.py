"""γ and β of every norm layer: where the middle half lies, and how far they reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.reports.figures.canvas import drawn
from reconstruct.reports.figures.palette import FIRST, SECOND
from reconstruct.reports.markup import Markup

Vector = NDArray[np.float64]
MOST_LAYERS = 40
LONGEST_NAME = 16
ROW = 0.24  # inches for each layer


def norm_figure(gammas: Mapping[str, Vector], betas: Mapping[str, Vector]) -> Markup | None:
    """A row for each layer, gammas on the left and betas on the right."""
    names = [name for name in gammas if len(gammas[name]) and len(betas.get(name, ()))]
    names = names[:MOST_LAYERS]
    if not names:
        return None

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        for axes, values, colour, label in (
            (left, gammas, FIRST, "γ (scale)"),
            (right, betas, SECOND, "β (shift)"),
        ):
            for i, name in enumerate(names):
                _row(axes, -i, values[name], colour)
            _signed_scale(axes, [values[name] for name in names])
            axes.set_xlabel(label)
        left.set_yticks([-i for i in range(len(names))], [_short(name) for name in names])
        left.set_ylim(-len(names) + 0.4, 0.6)

    return drawn("norms", _spoken(names, gammas, betas), draw, height=1.1 + ROW * len(names))


def _row(axes: Any, y: float, values: Vector, colour: str) -> None:
    """From least to largest a thin line, the middle half thick, the median a dot."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return
    least, low, middle, high, largest = np.quantile(finite, (0, 0.25, 0.5, 0.75, 1))
    axes.plot([least, largest], [y, y], color=colour, linewidth=1.0)
    axes.plot([low, high], [y, y], color=colour, linewidth=5.0, solid_capstyle="butt")
    axes.plot([middle], [y], "o", color=colour, markersize=3.5)


def _signed_scale(axes: Any, values: list[Vector]) -> None:
    """Logarithmic on both sides of 0 where layers differ much, else plain."""
    sizes = [float(np.max(np.abs(v), initial=0.0)) for v in values]
    positive = [size for size in sizes if 0 < size < np.inf]
    if positive and max(positive) > 30 * min(positive):
        axes.set_xscale("symlog", linthresh=min(positive))
        ends = [10.0 ** np.floor(np.log10(s)) for s in (max(positive),)]
        axes.set_xticks([-ends[0], 0.0, ends[0]])
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(lambda v, _: f"{v:,.0f}" if abs(v) >= 1 else f"{v:g}")
    else:
        axes.locator_params(axis="x", nbins=4)


def near_zero(gamma: Vector, share: float = 1e-3) -> float:
    """The share of the gammas below `share` times their root mean square, zeros included."""
    size = float(np.sqrt(np.mean(gamma**2))) if len(gamma) else 0.0
    return float(np.mean(np.abs(gamma) <= share * size)) if len(gamma) else 0.0


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else "…" + name[1 - LONGEST_NAME :]


def _spoken(names: list[str], gammas: Mapping[str, Vector], betas: Mapping[str, Vector]) -> str:
    scales, shifts = (np.concatenate([v[name] for name in names]) for v in (gammas, betas))
    return (
        f"{len(scales)} gammas between {scales.min():.2g} and {scales.max():.2g} and "
        f"{len(shifts)} betas between {shifts.min():.2g} and {shifts.max():.2g}, in {len(names)} "
        f"norm layers; the table below has them by layer"
    )
