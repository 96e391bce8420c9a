"""Colours that the page's style decides, so that one figure reads in light and in dark.

Figures are drawn with the stand-in colours below; `themed` puts the style's variables in their
place. The stand-ins differ from each other and from anything that matplotlib draws by itself.
"""

from __future__ import annotations

INK = "#010203"
FAINT = "#040506"
GRID = "#070809"
FIRST = "#0a0b0c"
SECOND = "#0d0e0f"
THIRD = "#101112"
FOURTH = "#131415"
SERIES = (FIRST, SECOND, THIRD, FOURTH)

VARIABLES = {
    INK: "currentColor",
    FAINT: "var(--faint)",
    GRID: "var(--grid)",
    FIRST: "var(--first)",
    SECOND: "var(--second)",
    THIRD: "var(--third)",
    FOURTH: "var(--fourth)",
}


def themed(svg: str) -> str:
    """The drawing with the page's own colours."""
    for stand_in, variable in VARIABLES.items():
        svg = svg.replace(stand_in, variable)
    return svg
