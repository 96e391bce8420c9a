"""A figure: panels in rows, with a legend, as one SVG drawing.

    Figure("loss", "The loss falls", ((Panel((Curve(x, y, FIRST, "training"),)),),)).svg()

The same figure always gives the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from reconstruct.reports.markup import Markup, element, together
from reconstruct.reports.plots.colours import PAGE, Palette
from reconstruct.reports.plots.frame import foreground, frame
from reconstruct.reports.plots.layout import laid_out
from reconstruct.reports.plots.legend import beside, column, entries, free_corner
from reconstruct.reports.plots.panel import Panel
from reconstruct.reports.plots.paths import coordinate
from reconstruct.reports.plots.placed_panel import PlacedPanel

WIDTH, HEIGHT, FONT = 374.4, 216.0, 10.0  # the page scales the drawing, so this sizes its text
SMALLER = 0.9  # size of a legend's words
ABOVE = 2.0  # free above a legend


class Legend(Enum):
    """Where the names of marks stand; inside only if they cover no mark there."""

    ABOVE = "above"
    INSIDE = "inside"


@dataclass(frozen=True)
class Figure:
    """`name` keeps ids apart from other figures'; `title` is what a screen reader says.

    Panels of a row, or of a column, can share their range; `heights` and `widths` are ratios.
    """

    name: str
    title: str
    rows: tuple[tuple[Panel | None, ...], ...]
    width: float = WIDTH
    height: float = HEIGHT
    font: float = FONT
    legend: Legend = Legend.INSIDE
    share_x: bool = False
    share_y: bool = False
    heights: tuple[float, ...] = ()
    widths: tuple[float, ...] = ()
    palette: Palette = PAGE

    def svg(self) -> Markup:
        """The drawing for a page."""
        return svg(self.name, self.title, self.width, self.height, self.drawn())

    def drawn(self) -> Markup:
        """What is inside of the drawing."""
        placed, legend = self._arranged()
        parts = [self._panel(i, one) for i, one in enumerate(placed)]
        size = coordinate(self.font)
        return element("g", *parts, legend, font_size=size, fill=self.palette.ink)

    def _arranged(self) -> tuple[list[PlacedPanel], Markup | None]:
        """The panels in their places and the legend, inside if there is room, else above them."""
        names, font = entries(self.rows), SMALLER * self.font
        placed = laid_out(self, 0.0)
        if not names:
            return placed, None
        if self.legend is Legend.INSIDE and len(placed) == 1:
            block = column(names, placed[0].x.length, font)
            corner = free_corner(block, placed[0].panel.marks, placed[0].x, placed[0].y)
            if corner is not None:
                return placed, block.drawn(*corner)
        block = beside(names, self.width - self.font, font)
        above = block.drawn((self.width - block.width) / 2, ABOVE)
        return laid_out(self, ABOVE + block.height), above

    def _panel(self, number: int, placed: PlacedPanel) -> Markup:
        marks = foreground(placed, f"{self.name}-clip{number}")
        return together((frame(placed, self.palette, self.font), marks))


def svg(
    name: str, title: str, width: float, height: float, *parts: Markup, **attributes: str
) -> Markup:
    """The `<svg>` element around drawn figures."""
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {coordinate(width)} {coordinate(height)}",
        role="img",
        aria_labelledby=f"{name}-title",
        **attributes,
    )
