"""Colours that the page's style decides, so that one figure reads in light and in dark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Palette:
    """What text, axes and the grid are drawn with."""

    ink: str
    faint: str
    grid: str


PAGE = Palette("currentColor", "var(--faint)", "var(--grid)")
FAINT = PAGE.faint
FIRST, SECOND, THIRD, FOURTH = (f"var(--{name})" for name in ("first", "second", "third", "fourth"))
SERIES = (FIRST, SECOND, THIRD, FOURTH)
