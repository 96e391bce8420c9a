"""A marker at every point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from reconstruct.reports.markup import Markup
from reconstruct.reports.plots.axis import Ruler
from reconstruct.reports.plots.marks.mark import (
    NARROW,
    Mark,
    Points,
    Values,
    filled,
    stroked,
    vector,
)
from reconstruct.reports.plots.paths import marker, markers

CROSS = 1.5  # weight of the lines of a cross


@dataclass(frozen=True, eq=False)
class Dots(Mark):
    """`marker` is one of o x < v s."""

    sign: ClassVar[float] = NARROW
    x: Values
    y: Values
    colour: str
    label: str = ""
    marker: str = "o"
    radius: float = 4.0

    def extent(self) -> Points:
        return vector(self.x), vector(self.y)

    def drawn(self, x: Ruler, y: Ruler) -> Markup:
        across, up = vector(self.x), vector(self.y)
        shown = x.holds(across) & y.holds(up)
        signs = markers(self.marker, x.at(across[shown]), y.at(up[shown]), self.radius)
        return shapes(self.marker, signs, self.colour)

    def key(self, x: float, y: float) -> Markup:
        sign = marker(self.marker, x + NARROW / 2, y, self.radius)
        return shapes(self.marker, sign, self.colour)

    def ink(self, x: Ruler, y: Ruler) -> Points:
        return x.at(vector(self.x)), y.at(vector(self.y))


def shapes(kind: str, path: str, colour: str) -> Markup:
    """Markers in ink: a cross is made of lines, the others are filled."""
    return stroked(path, colour, CROSS) if kind == "x" else filled(path, colour)
