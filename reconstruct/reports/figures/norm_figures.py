"""γ and β of every norm layer: where the middle half lies, and how far they reach."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from reconstruct.reports.markup import Markup
from reconstruct.reports.names import elided
from reconstruct.reports.plots import (
    FIRST,
    SECOND,
    Axis,
    Dots,
    Figure,
    Linear,
    Mark,
    Panel,
    SignedLogarithmic,
    Span,
    Tick,
)
from reconstruct.reports.plots.scales import Scale

Vector = NDArray[np.float64]
MOST_LAYERS = 40
LONGEST_NAME = 16
ABOUT, ROW = 60.0, 17.3  # height of what surrounds the rows, and of each of them
THICK, DOT = 5.0, 2.2
MUCH = 30  # times the least size: then a plain scale would hide it


def norm_figure(gammas: Mapping[str, Vector], betas: Mapping[str, Vector]) -> Markup | None:
    """A row for each layer, gammas on the left and betas on the right."""
    names = [name for name in gammas if len(gammas[name]) and len(betas.get(name, ()))]
    names = names[:MOST_LAYERS]
    if not names:
        return None

    names_left = tuple(
        Tick(-i, elided(name, LONGEST_NAME)) for i, name in reversed(list(enumerate(names)))
    )
    y = Axis(ticks=names_left, low=0.4 - len(names), high=0.6)
    panels = tuple(
        Panel(_rows(names, values, colour), Axis(label, _scale([values[n] for n in names])), y)
        for values, colour, label in (
            (gammas, FIRST, "γ (scale)"),
            (betas, SECOND, "β (shift)"),
        )
    )
    height = ABOUT + ROW * len(names)
    title = _spoken(names, gammas, betas)
    return Figure("norms", title, (panels,), height=height, share_y=True).svg()


def _rows(names: list[str], values: Mapping[str, Vector], colour: str) -> tuple[Mark, ...]:
    return tuple(m for i, name in enumerate(names) for m in _row(-i, values[name], colour))


def _row(y: float, values: Vector, colour: str) -> tuple[Mark, ...]:
    """From least to largest a thin line, the middle half thick, the median a dot."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return ()
    unit = 0.25 if np.abs(finite).max() > 1e300 else 1.0  # differences must not overflow
    quarters = np.quantile(finite * unit, (0, 0.25, 0.5, 0.75, 1)) / unit
    least, low, middle, high, largest = quarters.tolist()
    return (
        Span(least, largest, y, colour),
        Span(low, high, y, colour, weight=THICK),
        Dots([middle], [y], colour, radius=DOT),
    )


def _scale(values: list[Vector]) -> Scale:
    """Logarithmic on both sides of 0 where layers differ much, else plain."""
    sizes = [float(np.max(np.abs(v), initial=0.0)) for v in values]
    positive = [size for size in sizes if 0 < size < np.inf]
    if positive and max(positive) > MUCH * min(positive):
        return SignedLogarithmic(near=min(positive))
    return Linear()


def near_zero(gamma: Vector, share: float = 1e-3) -> float:
    """The share of the gammas below `share` times their root mean square, zeros included."""
    sizes = np.abs(gamma)
    largest = np.max(sizes, initial=0.0)
    if not largest:
        return float(len(gamma) > 0)
    sizes = sizes / largest  # squares must neither overflow nor vanish
    return float(np.mean(sizes <= share * np.sqrt(np.mean(sizes**2))))


def _spoken(names: list[str], gammas: Mapping[str, Vector], betas: Mapping[str, Vector]) -> str:
    scales, shifts = (np.concatenate([v[name] for name in names]) for v in (gammas, betas))
    return (
        f"{len(scales)} gammas between {scales.min():.2g} and {scales.max():.2g} and "
        f"{len(shifts)} betas between {shifts.min():.2g} and {shifts.max():.2g}, in {len(names)} "
        f"norm layers; the table below has them by layer"
    )
