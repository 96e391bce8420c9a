"""A panel in its place, and how much room the words around it take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from reconstruct.reports.plots.axis import Ruler
from reconstruct.reports.plots.panel import Panel
from reconstruct.reports.plots.ticks import Ticks
from reconstruct.reports.plots.words import LINE, width

TICK = 3.5  # length of a tick
SPACE = 3.0  # between a tick and its label, and between labels and the axis's name
NONE = Ticks()

Ends: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class PlacedPanel:
    """A panel with its rulers and the words around it.

    `slot` is all of its column, from the name of the upright axis to the end of the last label.
    """

    panel: Panel
    x: Ruler
    y: Ruler
    x_ticks: Ticks = NONE
    y_ticks: Ticks = NONE
    x_name: tuple[str, ...] = ()
    y_name: tuple[str, ...] = ()
    slot: Ends = (0.0, 0.0)

    @property
    def words(self) -> tuple[object, ...]:
        """All that needs room."""
        return self.x_ticks, self.y_ticks, self.x_name, self.y_name

    def before(self, font: float) -> float:
        """Room to the left of the panel."""
        labels = max((width(t.label, font) for t in self.y_ticks.ticks), default=0.0)
        named = self.panel.y.shown and self.y.axis.named and labels
        ticks = TICK + SPACE + labels if named else 1.0
        name = LINE * font * len(self.y_name) + SPACE if self.y_name else 0.0
        return max(ticks + name, -self.beyond(font)[0])

    def after(self, font: float) -> float:
        """Room to the right, for half of the last label."""
        return max(1.0, self.beyond(font)[1])

    def beyond(self, font: float) -> tuple[float, float]:
        """How far the labels below reach from the panel's left end and past its right one."""
        if not (self.x.axis.named and self.panel.x.shown and self.x_ticks.ticks):
            return 0.0, 0.0
        places = self.x.at(np.array([t.value for t in self.x_ticks.ticks]))
        halves = np.array([width(t.label, font) / 2 for t in self.x_ticks.ticks])
        left, right = min(self.x.start, self.x.end), max(self.x.start, self.x.end)
        return float((places - halves).min() - left), float((places + halves).max() - right)

    def above(self, font: float) -> float:
        """Room for a title, for what all labels are multiplied by, and for half a label."""
        title = LINE * font if self.panel.title else 0.0
        note = LINE * font if self.y_ticks.note else 0.0
        return title + max(note, font / 2 if self.panel.y.shown else SPACE)

    def below(self, font: float) -> float:
        """Room for labels and for the axis's name."""
        labels = TICK + LINE * font if self.x.axis.named and self.panel.x.shown else 1.0
        return labels + (LINE * font * len(self.x_name) + SPACE if self.x_name else 0.0)
