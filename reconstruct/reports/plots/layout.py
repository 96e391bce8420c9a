"""Where everything of a figure goes: margins follow from the words that stand in them.

How many ticks an axis has depends on its length, its length on the margins, and those on the ticks:
so a layout is made a few times, each time with the words of the one before, until they stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from reconstruct.reports.plots.axis import Axis, Ruler
from reconstruct.reports.plots.panel import Panel
from reconstruct.reports.plots.placed_panel import SPACE, Ends, PlacedPanel
from reconstruct.reports.plots.words import LINE, lines, shortened, width

if TYPE_CHECKING:
    from reconstruct.reports.plots.figure import Figure

EDGE = 3.0  # free at each side of the drawing
COLUMN_GAP, ROW_GAP = 10.0, 3.0
LEAST = 12.0  # a panel is never shorter
WIDEST = 0.4  # of the drawing's width, for the labels of an upright axis
ROUNDS = 5

Place: TypeAlias = tuple[int, int]
Places: TypeAlias = dict[Place, PlacedPanel]


def laid_out(figure: Figure, top: float) -> list[PlacedPanel]:
    """All panels of the figure in their places, below what takes `top` units."""
    placed = _unplaced(figure)
    for _ in range(ROUNDS):
        before = placed
        placed = _stretched(figure, placed, top)
        placed = {key: _worded(figure, one) for key, one in placed.items()}
        if all(placed[key].words == before[key].words for key in placed):
            break
    return list(_stretched(figure, placed, top).values())


def _unplaced(figure: Figure) -> Places:
    """Every panel with the ranges of its axes, alone or together with its neighbours."""
    panels = {
        (i, j): panel
        for i, row in enumerate(figure.rows)
        for j, panel in enumerate(row)
        if panel is not None
    }
    lowest = {j: max(i for i, other in panels if other == j) for _, j in panels}
    found = {}
    for (i, j), panel in panels.items():
        column = [p for (_, b), p in panels.items() if b == j] if figure.share_x else [panel]
        row = [p for (a, _), p in panels.items() if a == i] if figure.share_y else [panel]
        x = _ruler(panel.x, column, False, figure.share_x and i < lowest[j])
        y = _ruler(panel.y, row, True, figure.share_y and j > 0)
        found[i, j] = PlacedPanel(panel, x, y)
    return found


def _ruler(axis: Axis, panels: list[Panel], upright: bool, inner: bool) -> Ruler:
    values = np.concatenate([panel.values(upright) for panel in panels])
    axis = replace(axis, named=False) if inner else axis
    return Ruler(axis, *axis.span(values))


def _stretched(figure: Figure, placed: Places, top: float) -> Places:
    """The panels with rulers that fill what their words leave."""
    font, across, down = figure.font, range(len(figure.rows[0])), range(len(figure.rows))
    before, after = (
        _most(placed, across, 1, lambda one: one.before(font)),
        _most(placed, across, 1, lambda one: one.after(font)),
    )
    above, below = (
        _most(placed, down, 0, lambda one: one.above(font)),
        _most(placed, down, 0, lambda one: one.below(font)),
    )
    widths = _shares(figure.widths, figure.width - sum(before) - sum(after), COLUMN_GAP, across)
    heights = _shares(figure.heights, figure.height - top - sum(above) - sum(below), ROW_GAP, down)
    lefts = _starts(EDGE, before, widths, after, COLUMN_GAP)
    tops = _starts(EDGE + top, above, heights, below, ROW_GAP)
    return {
        (i, j): _boxed(
            one,
            (lefts[j], lefts[j] + widths[j]),
            (tops[i] + heights[i], tops[i]),
            (lefts[j] - before[j], lefts[j] + widths[j] + after[j]),
        )
        for (i, j), one in placed.items()
    }


def _most(
    placed: Places, places: range, index: int, room: Callable[[PlacedPanel], float]
) -> list[float]:
    """For each row or column the room that its neediest panel takes."""
    needs = {place: [1.0] for place in places}
    for key, one in placed.items():
        needs[key[index]].append(room(one))
    return [max(needs[place]) for place in places]


def _shares(ratios: tuple[float, ...], room: float, gap: float, places: range) -> list[float]:
    """The room without edges and gaps, in these ratios."""
    ratios = ratios or (1.0,) * len(places)
    free = room - 2 * EDGE - gap * (len(places) - 1)
    return [max(free * ratio / sum(ratios), LEAST) for ratio in ratios]


def _starts(
    edge: float, before: list[float], sizes: list[float], after: list[float], gap: float
) -> list[float]:
    starts, here = [], edge
    for room, size, behind in zip(before, sizes, after, strict=True):
        starts.append(here + room)
        here += room + size + behind + gap
    return starts


def _boxed(one: PlacedPanel, x: Ends, y: Ends, slot: Ends) -> PlacedPanel:
    """The panel between these ends."""
    if one.panel.square:
        side = min(x[1] - x[0], y[0] - y[1])
        middle = (x[0] + x[1]) / 2
        x, y = (middle - side / 2, middle + side / 2), (y[1] + side, y[1])
    across, up = replace(one.x, start=x[0], end=x[1]), replace(one.y, start=y[0], end=y[1])
    return replace(one, x=across, y=up, slot=slot)


def _worded(figure: Figure, one: PlacedPanel) -> PlacedPanel:
    """The panel with the words that have room around it."""
    font, (left, right) = figure.font, one.slot
    widest = WIDEST * figure.width
    x_ticks = one.x.ticks(lambda label: width(label, font) + SPACE)
    y_ticks = one.y.ticks(lambda label: LINE * font - 5.0)  # lines of text may come close
    cut = tuple(replace(t, label=shortened(t.label, widest, font)) for t in y_ticks.ticks)
    note = f"({x_ticks.note})" if one.panel.x.label else x_ticks.note
    unit = f"{one.panel.x.label} {note}" if x_ticks.note else one.panel.x.label
    return replace(
        one,
        x_ticks=x_ticks,
        y_ticks=replace(y_ticks, ticks=cut),
        x_name=tuple(lines(unit.strip(), right - left, font)),
        y_name=tuple(lines(one.panel.y.label, one.y.length, font)),
    )
