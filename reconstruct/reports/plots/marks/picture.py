"""A map of values as colours, embedded as a PNG."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reconstruct.numbers.arrays import Array
from reconstruct.reports.markup import Markup, element
from reconstruct.reports.pixels import png
from reconstruct.reports.plots.axis import Ruler
from reconstruct.reports.plots.colour_map import colours
from reconstruct.reports.plots.marks.mark import NOTHING, Mark, Points
from reconstruct.reports.plots.paths import coordinate


@dataclass(frozen=True, eq=False)
class Picture(Mark):
    """Shares from 0 to 1 in rows, the lowest first, over `x` and `y`, each from end to end.

    What is not a number is shown as 0.
    """

    shares: Array
    x: tuple[float, float]
    y: tuple[float, float]
    tones: Callable[[Array], Array] = colours
    colour: str = "none"
    label: str = ""

    def extent(self) -> Points:
        return np.array(self.x), np.array(self.y)

    def drawn(self, x: Ruler, y: Ruler) -> Markup:
        left, right = sorted(x.at(np.array(self.x)).tolist())
        top, bottom = sorted(y.at(np.array(self.y)).tolist())
        if not self.shares.size or not np.isfinite([left, right, top, bottom]).all():
            return NOTHING
        return element(
            "image",
            href="data:image/png;base64," + base64.b64encode(self._file()).decode(),
            x=coordinate(left),
            y=coordinate(top),
            width=coordinate(right - left),
            height=coordinate(bottom - top),
            preserveAspectRatio="none",
            style="image-rendering:pixelated",
        )

    def _file(self) -> bytes:
        """Rows of a PNG run from the top."""
        return png(np.moveaxis(self.tones(np.nan_to_num(self.shares[::-1])), -1, 0))

    def ink(self, x: Ruler, y: Ruler) -> Points:
        return x.at(np.array(self.x)), y.at(np.array(self.y))
