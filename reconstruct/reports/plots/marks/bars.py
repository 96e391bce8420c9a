"""Bars that stand on 0, or on the end of an axis that has no 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.reports.markup import Markup
from reconstruct.reports.plots.axis import Ruler
from reconstruct.reports.plots.marks.mark import Mark, Points, Values, filled, vector
from reconstruct.reports.plots.paths import coordinate


@dataclass(frozen=True, eq=False)
class Bars(Mark):
    """Heights at places; `width` is measured along the x axis."""

    x: Values
    heights: Values
    colour: str
    label: str = ""
    width: float = 0.6

    def extent(self) -> Points:
        x, half = vector(self.x), self.width / 2
        return np.concatenate([x - half, x + half]), np.append(vector(self.heights), 0.0)

    def drawn(self, x: Ruler, y: Ruler) -> Markup:
        places, half = vector(self.x), self.width / 2
        left, right, top = x.at(places - half), x.at(places + half), y.at(vector(self.heights))
        known = np.isfinite(left) & np.isfinite(right) & np.isfinite(top)
        base = coordinate(y.base)
        return filled(
            "".join(
                f"M{coordinate(a)} {base}V{coordinate(c)}H{coordinate(b)}V{base}z"
                for a, b, c in zip(left[known], right[known], top[known], strict=True)
            ),
            self.colour,
        )

    def ink(self, x: Ruler, y: Ruler) -> Points:
        shares = np.linspace(0.0, 1.0, 20)
        across, top = x.at(vector(self.x)), y.at(vector(self.heights))
        up = y.base + np.outer(top - y.base, shares)
        return np.repeat(across, len(shares)), up.ravel()
