"""The area between two curves, in a light tone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.numbers.arrays import Vector
from reconstruct.reports.markup import Markup
from reconstruct.reports.plots.axis import Ruler
from reconstruct.reports.plots.marks.mark import (
    NOTHING,
    Mark,
    Points,
    Values,
    along,
    filled,
    swatch,
    vector,
)
from reconstruct.reports.plots.paths import through

TONE = 0.15


@dataclass(frozen=True, eq=False)
class Ribbon(Mark):
    """From `low` to `high` at each x."""

    x: Values
    low: Values
    high: Values
    colour: str
    label: str = ""

    def extent(self) -> Points:
        x = vector(self.x)
        return np.concatenate([x, x]), np.concatenate([vector(self.low), vector(self.high)])

    def drawn(self, x: Ruler, y: Ruler) -> Markup:
        across, below, above = self._edges(x, y)
        if not len(across):
            return NOTHING
        there, back = through(across, above), through(across[::-1], below[::-1])
        return filled(f"{there}L{back[1:]}z", self.colour, TONE)

    def _edges(self, x: Ruler, y: Ruler) -> tuple[Vector, Vector, Vector]:
        across, below, above = x.at(vector(self.x)), y.at(vector(self.low)), y.at(vector(self.high))
        known = np.isfinite(across) & np.isfinite(below) & np.isfinite(above)
        return across[known], below[known], above[known]

    def key(self, x: float, y: float) -> Markup:
        return swatch(x, y, self.colour, TONE)

    def ink(self, x: Ruler, y: Ruler) -> Points:
        across, below, above = self._edges(x, y)
        first, second = along(across, below), along(across, above)
        return np.append(first[0], second[0]), np.append(first[1], second[1])
