"""A panel: marks between two axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.numbers.arrays import Vector
from reconstruct.reports.plots.axis import Axis
from reconstruct.reports.plots.marks import Mark

AXIS = Axis()


@dataclass(frozen=True)
class Panel:
    """`square` keeps height and width alike; `grid` False leaves out the light lines."""

    marks: tuple[Mark, ...]
    x: Axis = AXIS
    y: Axis = AXIS
    title: str = ""
    grid: bool = True
    square: bool = False

    def values(self, upright: bool) -> Vector:
        """All that the x axis, or the upright one, must show."""
        return np.concatenate([np.array([]), *(mark.extent()[upright] for mark in self.marks)])
