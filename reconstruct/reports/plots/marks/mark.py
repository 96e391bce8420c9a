"""What every mark can say of itself, and the two ways to put ink on a path."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeAlias

import numpy as np

from reconstruct.numbers.arrays import Array, Vector
from reconstruct.reports.markup import Markup, element
from reconstruct.reports.plots.axis import Ruler
from reconstruct.reports.plots.paths import coordinate

Values: TypeAlias = "Sequence[float] | Array"
Points: TypeAlias = tuple[Vector, Vector]

WEIGHT = 1.6  # of a line
DASHED, DOTTED = "4 3", "2 2"
KEY, NARROW = 18.0, 9.0  # widths of signs in a legend
NOTHING = Markup("")


class Mark(ABC):
    """A mark with its colour, and its name in the legend if it has one."""

    colour: str
    label: str
    sign: ClassVar[float] = KEY  # the width of its sign in the legend

    @abstractmethod
    def extent(self) -> Points:
        """Values that the axes must show."""

    @abstractmethod
    def drawn(self, x: Ruler, y: Ruler) -> Markup:
        """The mark on the drawing."""

    @abstractmethod
    def ink(self, x: Ruler, y: Ruler) -> Points:
        """Places on the drawing that a legend should not cover."""

    def key(self, x: float, y: float) -> Markup:
        """The sign in the legend, from x on and around the height y."""
        return swatch(x, y, self.colour)


def vector(values: Values) -> Vector:
    return np.asarray(values, dtype=np.float64).ravel()


def stroked(path: str, colour: str, weight: float = WEIGHT, dash: str = "") -> Markup:
    """A line along the path; where it is only a point, the round end shows it."""
    if not path:
        return NOTHING
    return element(
        "path",
        d=path,
        fill="none",
        stroke=colour,
        stroke_width=coordinate(weight),
        stroke_dasharray=dash or None,
        stroke_linecap=None if dash else "round",
    )


def filled(path: str, colour: str, opacity: float = 1.0) -> Markup:
    """The inside of the path."""
    if not path:
        return NOTHING
    return element("path", d=path, fill=colour, fill_opacity=None if opacity == 1.0 else opacity)


def swatch(x: float, y: float, colour: str, opacity: float = 1.0) -> Markup:
    """The legend's sign of a filled mark."""
    return filled(f"M{coordinate(x)} {coordinate(y - 3.5)}h{KEY:g}v7h-{KEY:g}z", colour, opacity)


def dash_key(x: float, y: float, colour: str, weight: float, dash: str) -> Markup:
    """The legend's sign of a line."""
    return stroked(f"M{coordinate(x)} {coordinate(y)}h{KEY:g}", colour, weight, dash)


def along(x: Vector, y: Vector, step: float = 3.0) -> Points:
    """Points every few units along the lines between the given ones."""
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if len(x) < 2:
        return x, y
    way = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
    count = int(min(max(way[-1] / step, 2), 5000))
    places = np.linspace(0.0, way[-1], count)
    return np.interp(places, way, x), np.interp(places, way, y)
