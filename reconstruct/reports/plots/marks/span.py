"""A flat bar from one value to another, as thick as asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.reports.markup import Markup
from reconstruct.reports.plots.axis import Ruler
from reconstruct.reports.plots.marks.mark import NOTHING, Mark, Points, along, filled
from reconstruct.reports.plots.paths import coordinate

LEAST = 0.5  # length of what has none, so that it is seen


@dataclass(frozen=True)
class Span(Mark):
    """From `low` to `high` on the x axis, at the height `at`; `weight` is in drawing units."""

    low: float
    high: float
    at: float
    colour: str
    label: str = ""
    weight: float = 1.0

    def extent(self) -> Points:
        return np.array([self.low, self.high]), np.array([self.at])

    def drawn(self, x: Ruler, y: Ruler) -> Markup:
        start, end, middle = x.place(self.low), x.place(self.high), y.place(self.at)
        if not np.isfinite([start, end, middle]).all():
            return NOTHING
        if abs(end - start) < LEAST:
            start, end = (start + end - LEAST) / 2, (start + end + LEAST) / 2
        corner = f"M{coordinate(start)} {coordinate(middle - self.weight / 2)}"
        high = coordinate(self.weight)
        return filled(f"{corner}H{coordinate(end)}v{high}H{coordinate(start)}z", self.colour)

    def ink(self, x: Ruler, y: Ruler) -> Points:
        ends = x.at(np.array([self.low, self.high]))
        return along(ends, np.full(2, y.place(self.at)))
