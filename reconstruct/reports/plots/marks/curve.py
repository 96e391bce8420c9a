"""A curve through points, with or without a marker at each; a value without a place breaks it."""

from __future__ import annotations

from dataclasses import dataclass

from reconstruct.reports.markup import Markup, together
from reconstruct.reports.plots.axis import Ruler
from reconstruct.reports.plots.marks.dots import shapes
from reconstruct.reports.plots.marks.mark import (
    KEY,
    WEIGHT,
    Mark,
    Points,
    Values,
    along,
    dash_key,
    stroked,
    vector,
)
from reconstruct.reports.plots.paths import marker, markers, through


@dataclass(frozen=True, eq=False)
class Curve(Mark):
    """`marker` is one of o x < v s, or nothing; `dash` is an SVG pattern."""

    x: Values
    y: Values
    colour: str
    label: str = ""
    dash: str = ""
    weight: float = WEIGHT
    marker: str = ""
    radius: float = 3.0

    def extent(self) -> Points:
        return vector(self.x), vector(self.y)

    def drawn(self, x: Ruler, y: Ruler) -> Markup:
        across, up = x.at(vector(self.x)), y.at(vector(self.y))
        line = stroked(through(across, up), self.colour, self.weight, self.dash)
        if not self.marker:
            return line
        signs = markers(self.marker, across, up, self.radius)
        return together((line, shapes(self.marker, signs, self.colour)))

    def key(self, x: float, y: float) -> Markup:
        line = dash_key(x, y, self.colour, self.weight, self.dash)
        if not self.marker:
            return line
        sign = marker(self.marker, x + KEY / 2, y, self.radius)
        return together((line, shapes(self.marker, sign, self.colour)))

    def ink(self, x: Ruler, y: Ruler) -> Points:
        return along(x.at(vector(self.x)), y.at(vector(self.y)))
