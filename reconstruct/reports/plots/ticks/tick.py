"""A named place of an axis, and all of them together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tick:
    """A place and its name."""

    value: float
    label: str


@dataclass(frozen=True)
class Ticks:
    """Places in ascending order, and what every label is multiplied by or added to."""

    ticks: tuple[Tick, ...] = ()
    note: str = ""

    def thinned(self, most: int) -> Ticks:
        """At most so many of them, evenly chosen, the first one included."""
        return Ticks(self.ticks[:: stride(len(self.ticks), most)], self.note)


def stride(count: int, most: int) -> int:
    """How many to go on each time, so that at least two and at most `most` of `count` are met."""
    return -(-(count - 1) // max(most - 1, 1)) if count > most else 1
