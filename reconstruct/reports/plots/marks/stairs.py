"""A histogram: counts between edges, filled or as an outline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.reports.markup import Markup
from reconstruct.reports.plots.axis import Ruler
from reconstruct.reports.plots.marks.mark import (
    NOTHING,
    WEIGHT,
    Mark,
    Points,
    Values,
    along,
    dash_key,
    filled,
    stroked,
    swatch,
    vector,
)
from reconstruct.reports.plots.paths import coordinate


@dataclass(frozen=True, eq=False)
class Stairs(Mark):
    """One edge more than counts, in ascending order."""

    edges: Values
    counts: Values
    colour: str
    label: str = ""
    fill: bool = True

    def extent(self) -> Points:
        return vector(self.edges), np.append(vector(self.counts), 0.0)

    def drawn(self, x: Ruler, y: Ruler) -> Markup:
        across, up = self._corners(x, y)
        if not len(across):
            return NOTHING
        steps = "".join(
            f"V{coordinate(b)}H{coordinate(a)}"
            for a, b in zip(across[1:], up, strict=True)  # up, and on to the next edge
        )
        path = f"M{coordinate(across[0])} {coordinate(y.base)}{steps}V{coordinate(y.base)}"
        if self.fill:
            return filled(f"{path}z", self.colour)
        return stroked(path, self.colour)

    def _corners(self, x: Ruler, y: Ruler) -> Points:
        """Edges across and counts up; a count that has no place is one of 0."""
        across, up = x.at(vector(self.edges)), y.at(vector(self.counts))
        across = np.where(np.isfinite(across), across, x.start)
        return across, np.where(np.isfinite(up), up, y.base)

    def key(self, x: float, y: float) -> Markup:
        return swatch(x, y, self.colour) if self.fill else dash_key(x, y, self.colour, WEIGHT, "")

    def ink(self, x: Ruler, y: Ruler) -> Points:
        across, up = self._corners(x, y)
        return along(np.repeat(across, 2)[1:-1], np.repeat(up, 2))
