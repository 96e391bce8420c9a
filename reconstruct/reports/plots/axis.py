"""An axis as it is asked for, and a ruler: the axis in its place on the drawing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reconstruct.numbers.arrays import Array, Vector
from reconstruct.reports.plots.scales import Linear, Scale
from reconstruct.reports.plots.ticks import Tick, Ticks
from reconstruct.reports.plots.ticks.tick import stride

MOST = 7  # ticks of an axis
GAP = 7.0  # between two labels
EVEN = Linear()
FAR = 50.0  # lengths of the axis: what lies further out is drawn there, and is out of sight anyway


@dataclass(frozen=True)
class Axis:
    """A scale with its label; ends and ticks that are not given follow from the data.

    The range is what lies between both ends, whichever of them is the larger one.
    `named` False leaves out the ticks' labels, `shown` False all of the axis.
    """

    label: str = ""
    scale: Scale = EVEN
    low: float | None = None
    high: float | None = None
    ticks: tuple[Tick, ...] | None = None
    named: bool = True
    shown: bool = True

    def span(self, values: Array) -> tuple[float, float]:
        """The range that shows these values, given ends as they are; never empty."""
        ends = (self._given(self.low, -np.inf), self._given(self.high, np.inf))
        least, most = sorted(ends)
        known = np.concatenate([values, [end for end in ends if np.isfinite(end)]])
        known = np.clip(known[self.scale.usable(known)], least, most)
        if not len(known):
            known = np.array([0.5, 1.0])
        low, high = self.scale.widened(float(known.min()), float(known.max()))
        low, high = max(low, least), min(high, most)
        if np.isfinite(self.scale.share(np.array([low, high]), low, high)).all():
            return low, high
        return self.scale.widened(low, low)

    def _given(self, end: float | None, otherwise: float) -> float:
        return end if end is not None and self.scale.usable(np.array(end)) else otherwise


@dataclass(frozen=True)
class Ruler:
    """An axis whose range is known, from `start` to `end` on the drawing."""

    axis: Axis
    low: float
    high: float
    start: float = 0.0
    end: float = 1.0

    @property
    def length(self) -> float:
        return abs(self.end - self.start)

    def at(self, values: Array) -> Vector:
        """Where the values lie on the drawing; NaN for those that have no place."""
        share = self.axis.scale.share(np.asarray(values, dtype=np.float64), self.low, self.high)
        return self.start + (self.end - self.start) * np.clip(share, -FAR, FAR)

    def place(self, value: float) -> float:
        return float(self.at(np.array(value)))

    @property
    def base(self) -> float:
        """Where bars stand: at 0, or at the start of an axis that has no 0."""
        zero = self.place(0.0)
        least, most = sorted((self.start, self.end))
        return min(max(zero, least), most) if np.isfinite(zero) else self.start

    def holds(self, values: Array) -> Array:
        """Which values lie between the ends."""
        return (values >= self.low) & (values <= self.high)

    def ticks(self, extent: Callable[[str], float]) -> Ticks:
        """As many ticks as have room, where `extent` says how long a label is along the axis."""
        if self.axis.ticks is not None:
            given = [tick for tick in self.axis.ticks if self.low <= tick.value <= self.high]
            return self._sparse(Ticks(tuple(given)), extent)
        found = Ticks()
        for most in range(MOST, 1, -1):
            found = self.axis.scale.ticks(self.low, self.high, most)
            if self._free(found, extent):
                return found
        return self._sparse(found, extent)

    def _sparse(self, found: Ticks, extent: Callable[[str], float]) -> Ticks:
        """Every second, third … tick, until no label touches the next one."""
        for most in range(len(found.ticks), 1, -1):
            if stride(len(found.ticks), most) > 1 or most == len(found.ticks):
                thinned = found.thinned(most)
                if self._free(thinned, extent):
                    return thinned
        return Ticks(found.ticks[:1], found.note)

    def _free(self, found: Ticks, extent: Callable[[str], float]) -> bool:
        places = self.at(np.array([tick.value for tick in found.ticks]))
        halves = np.array([extent(tick.label) / 2 for tick in found.ticks])
        room = np.abs(np.diff(places)) - halves[1:] - halves[:-1]
        return bool((room >= GAP).all())
