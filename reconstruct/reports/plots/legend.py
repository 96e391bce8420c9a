"""The names of marks: above the panels in rows, or in a corner where nothing is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reconstruct.reports.markup import Markup, element
from reconstruct.reports.plots.axis import Ruler
from reconstruct.reports.plots.marks.mark import KEY, Mark
from reconstruct.reports.plots.panel import Panel
from reconstruct.reports.plots.paths import coordinate
from reconstruct.reports.plots.words import shortened, width

LINE = 1.4  # from one line to the next, in units of the font's size
AWAY = 4.0  # from a sign to its name
APART = 12.0  # from one name to the next sign
CLEAR = 5.0  # around a legend inside of a panel
MOST_LINES = 5


@dataclass(frozen=True)
class Block:
    """Signs with their names, each with its place inside of the block."""

    names: tuple[tuple[Mark, str, float, float], ...]
    width: float
    height: float
    font: float

    def drawn(self, x: float, y: float) -> Markup:
        """The block with its upper left corner at (x, y)."""
        parts = []
        for mark, label, across, down in self.names:
            left, middle = x + across, y + down + LINE * self.font / 2
            place = {
                "x": coordinate(left + mark.sign + AWAY),
                "y": coordinate(middle + 0.35 * self.font),
            }
            parts += [mark.key(left, middle), element("text", label, **place)]
        return element("g", *parts, font_size=coordinate(self.font))


def entries(rows: Sequence[Sequence[Panel | None]]) -> tuple[Mark, ...]:
    """The marks that have a name, each name once."""
    marks = [mark for row in rows for panel in row if panel for mark in panel.marks if mark.label]
    return tuple({mark.label: mark for mark in reversed(marks)}[label] for label in _order(marks))


def _order(marks: Sequence[Mark]) -> list[str]:
    return list(dict.fromkeys(mark.label for mark in marks))


def beside(marks: Sequence[Mark], room: float, font: float) -> Block:
    """Names one after the other, in as many rows as they need, every row in the middle."""
    rows: list[list[tuple[Mark, str, float]]] = [[]]
    for mark in marks:
        label = shortened(mark.label, room - mark.sign - AWAY, font)
        size = mark.sign + AWAY + width(label, font)
        if rows[-1] and sum(s + APART for *_, s in rows[-1]) + size > room:
            rows.append([])
        rows[-1].append((mark, label, size))
    lengths = [sum(size for *_, size in row) + APART * (len(row) - 1) for row in rows]
    widest, names = max(lengths), []
    for i, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        here = (widest - length) / 2
        for mark, label, size in row:
            names.append((mark, label, here, i * LINE * font))
            here += size + APART
    return Block(tuple(names), widest, LINE * font * len(rows), font)


def column(marks: Sequence[Mark], room: float, font: float) -> Block:
    """Names below each other, in two columns if there are many."""
    columns = 1 if len(marks) <= MOST_LINES else 2
    tall = -(-len(marks) // columns)
    most = room / columns - KEY - AWAY - APART
    labels = [shortened(mark.label, most, font) for mark in marks]
    step = KEY + AWAY + APART + max(width(label, font) for label in labels)
    names = tuple(
        (mark, label, (i // tall) * step, (i % tall) * LINE * font)
        for i, (mark, label) in enumerate(zip(marks, labels, strict=True))
    )
    return Block(names, columns * step - APART, LINE * font * tall, font)


def free_corner(
    block: Block, marks: Sequence[Mark], x: Ruler, y: Ruler
) -> tuple[float, float] | None:
    """The upper left corner of a place for the block where no mark is; None if there is none."""
    ink = [mark.ink(x, y) for mark in marks]
    across = np.concatenate([points[0] for points in ink])
    down = np.concatenate([points[1] for points in ink])
    left, right = x.start + CLEAR, x.end - CLEAR - block.width
    top, bottom = y.end + 1.0, y.start - CLEAR - block.height
    if right < left or bottom < top:
        return None
    for a in (right, left, (left + right) / 2):
        for b in (top, bottom, (top + bottom) / 2):
            inside = (across > a - CLEAR) & (across < a + block.width + CLEAR)
            inside &= (down > b - CLEAR) & (down < b + block.height + CLEAR)
            if not inside.any():
                return a, b
    return None
