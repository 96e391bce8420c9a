"""A straight line all across the panel, at one value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.reports.markup import Markup
from reconstruct.reports.plots.axis import Ruler
from reconstruct.reports.plots.marks.mark import DASHED, NOTHING, Mark, Points, dash_key, stroked
from reconstruct.reports.plots.paths import coordinate


@dataclass(frozen=True)
class Rule(Mark):
    """At `at` of the x axis if `upright`, else of the y axis."""

    at: float
    colour: str
    label: str = ""
    dash: str = DASHED
    weight: float = 1.2
    upright: bool = True

    def extent(self) -> Points:
        here, nothing = np.array([self.at]), np.array([])
        return (here, nothing) if self.upright else (nothing, here)

    def drawn(self, x: Ruler, y: Ruler) -> Markup:
        ruler, across = (x, y) if self.upright else (y, x)
        place = ruler.place(self.at)
        if not np.isfinite(place) or not ruler.holds(np.array(self.at)):
            return NOTHING
        here, start, end = map(coordinate, (place, across.start, across.end))
        path = f"M{here} {start}V{end}" if self.upright else f"M{start} {here}H{end}"
        return stroked(path, self.colour, self.weight, self.dash)

    def key(self, x: float, y: float) -> Markup:
        return dash_key(x, y, self.colour, self.weight, self.dash)

    def ink(self, x: Ruler, y: Ruler) -> Points:
        ruler, across = (x, y) if self.upright else (y, x)
        way = np.linspace(across.start, across.end, 60)
        here = np.full(60, ruler.place(self.at))
        return (here, way) if self.upright else (way, here)
