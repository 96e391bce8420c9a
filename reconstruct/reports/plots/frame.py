"""What surrounds the marks: grid, axes, ticks, labels and names."""

from __future__ import annotations

from reconstruct.reports.markup import Markup, element, together
from reconstruct.reports.plots.axis import Ruler
from reconstruct.reports.plots.colours import Palette
from reconstruct.reports.plots.paths import coordinate
from reconstruct.reports.plots.placed_panel import SPACE, TICK, PlacedPanel
from reconstruct.reports.plots.ticks import Ticks
from reconstruct.reports.plots.words import LINE, shortened, width

FOOT = 0.35  # from the middle of a line of text to its foot, in units of the font's size
GRID, AXIS = 0.7, 0.8  # weights


def frame(placed: PlacedPanel, palette: Palette, font: float) -> Markup:
    """The panel without its marks."""
    return together(
        (
            _lines(_grid(placed), palette.grid, GRID) if placed.panel.grid else None,
            _lines(_axes(placed), palette.faint, AXIS),
            _labels_below(placed, font),
            _labels_left(placed, font),
            _names(placed, font),
        )
    )


def foreground(placed: PlacedPanel, clip: str) -> Markup:
    """The marks, cut off at the panel's edges if one of them goes beyond."""
    marks = together(mark.drawn(placed.x, placed.y) for mark in placed.panel.marks)
    if not _leaves(placed):
        return marks
    x, y = placed.x, placed.y
    box = element(
        "rect",
        x=coordinate(x.start),
        y=coordinate(y.end),
        width=coordinate(x.length),
        height=coordinate(y.length),
    )
    path = element("clipPath", box, id=clip)
    return together((path, element("g", marks, clip_path=f"url(#{clip})")))


def _leaves(placed: PlacedPanel) -> bool:
    for ruler, values in (
        (placed.x, placed.panel.values(False)),
        (placed.y, placed.panel.values(True)),
    ):
        known = values[ruler.axis.scale.usable(values)]
        if not ruler.holds(known).all():
            return True
    return False


def _lines(path: str, colour: str, weight: float) -> Markup | None:
    if not path:
        return None
    return element("path", d=path, fill="none", stroke=colour, stroke_width=weight)


def _places(ruler: Ruler, ticks: Ticks) -> list[str]:
    return [coordinate(ruler.place(tick.value)) for tick in ticks.ticks]


def _grid(placed: PlacedPanel) -> str:
    x, y = placed.x, placed.y
    left, right, bottom, top = map(coordinate, (x.start, x.end, y.start, y.end))
    upright = [f"M{a} {bottom}V{top}" for a in _places(x, placed.x_ticks) if x.axis.shown]
    flat = [f"M{left} {b}H{right}" for b in _places(y, placed.y_ticks) if y.axis.shown]
    return "".join(upright + flat)


def _axes(placed: PlacedPanel) -> str:
    x, y = placed.x, placed.y
    left, right, bottom, top = map(coordinate, (x.start, x.end, y.start, y.end))
    path = ""
    if x.axis.shown:
        path += f"M{left} {bottom}H{right}"
        path += "".join(f"M{a} {bottom}v{TICK}" for a in _places(x, placed.x_ticks))
    if y.axis.shown:
        path += f"M{left} {bottom}V{top}"
        path += "".join(f"M{left} {b}h-{TICK}" for b in _places(y, placed.y_ticks))
    return path


def _labels_below(placed: PlacedPanel, font: float) -> Markup | None:
    ruler = placed.x
    if not (ruler.axis.named and ruler.axis.shown):
        return None
    foot = coordinate(placed.y.start + TICK + font)
    words = [
        element("text", tick.label, x=coordinate(ruler.place(tick.value)), y=foot)
        for tick in placed.x_ticks.ticks
    ]
    return element("g", *words, text_anchor="middle")


def _labels_left(placed: PlacedPanel, font: float) -> Markup | None:
    ruler = placed.y
    if not (ruler.axis.named and ruler.axis.shown):
        return None
    end = coordinate(placed.x.start - TICK - SPACE)
    words = [
        element("text", tick.label, x=end, y=coordinate(ruler.place(tick.value) + FOOT * font))
        for tick in placed.y_ticks.ticks
    ]
    return element("g", *words, text_anchor="end")


def _names(placed: PlacedPanel, font: float) -> Markup:
    """The names of both axes, the title, and what all labels on the left are multiplied by."""
    x, y, (left, right) = placed.x, placed.y, placed.slot
    foot = y.start + placed.below(font) - LINE * font * len(placed.x_name) + 0.8 * font
    parts = [
        _centred(line, (x.start + x.end) / 2, foot + i * LINE * font, (left, right), font)
        for i, line in enumerate(placed.x_name)
    ]
    parts += [_upright(line, left, placed, i, font) for i, line in enumerate(placed.y_name)]
    note = placed.y_ticks.note
    if note and y.axis.shown:
        place = {"x": coordinate(x.start), "y": coordinate(y.end - SPACE)}
        parts.append(element("text", note, **place))
    if placed.panel.title:
        head = y.end - (LINE * font if note else font / 2) - SPACE / 2
        title = shortened(placed.panel.title, right - left, font)
        parts.append(_centred(title, (x.start + x.end) / 2, head, (left, right), font))
    return together(parts)


def _centred(
    words: str, middle: float, foot: float, room: tuple[float, float], font: float
) -> Markup:
    """Words around `middle`, or as near to it as they have room."""
    half = width(words, font) / 2
    middle = max(min(middle, room[1] - half), room[0] + half)
    place = {"x": coordinate(middle), "y": coordinate(foot)}
    return element("text", words, text_anchor="middle", **place)


def _upright(words: str, left: float, placed: PlacedPanel, line: int, font: float) -> Markup:
    """A line of the upright axis's name, read from below."""
    foot = coordinate(left + (0.85 + line * LINE) * font)
    middle = (placed.y.start + placed.y.end) / 2
    turned = f"translate({foot} {coordinate(middle)})rotate(-90)"
    return element("text", words, text_anchor="middle", transform=turned)
