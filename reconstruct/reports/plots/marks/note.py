"""Words behind a point, such as the number that a bar stands for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.reports.markup import Markup, element
from reconstruct.reports.plots.axis import Ruler
from reconstruct.reports.plots.marks.mark import NOTHING, Mark, Points
from reconstruct.reports.plots.paths import coordinate

AWAY = 4.0  # from the point
MIDDLE = 3.5  # from the middle of a line of text to its foot


@dataclass(frozen=True)
class Note(Mark):
    """The words start a little to the right of the point (x, y)."""

    x: float
    y: float
    words: str
    colour: str = "currentColor"
    label: str = ""

    def extent(self) -> Points:
        return np.array([self.x]), np.array([self.y])

    def drawn(self, x: Ruler, y: Ruler) -> Markup:
        across, up = x.place(self.x), y.place(self.y)
        if not np.isfinite([across, up]).all():
            return NOTHING
        place = {"x": coordinate(across + AWAY), "y": coordinate(up + MIDDLE)}
        return element("text", self.words, fill=self.colour, **place)

    def ink(self, x: Ruler, y: Ruler) -> Points:
        return x.at(np.array([self.x])), y.at(np.array([self.y]))
