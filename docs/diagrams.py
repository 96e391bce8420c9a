"""`python -m docs.diagrams`: the two drawings of theory.md, as SVG that any browser shows.

The numbers are those of the worked example on that page; a test compares both.
"""

from __future__ import annotations

from pathlib import Path

IMAGES = Path(__file__).parent / "images"
REACH = 1.5  # the second hidden neuron lies in [−REACH, REACH] on the box
INK, FROZEN, OURS, CUT = "#1c2230", "#e3e6ec", "#cfdcff", "#b3261e"


def construction() -> str:
    """One layer of g, and below it the two frozen layers that become it."""
    target = [
        (40, 60, "x", "white", ""),
        (325, 110, "W x + b", "white", "the target's map"),
        (660, 50, "σ", "white", ""),
    ]
    frozen = [
        (40, 60, "x", "white", ""),
        (130, 80, "M1", FROZEN, "frozen"),
        (240, 80, "N1", OURS, "scale s, shift t"),
        (350, 60, "σ", "white", "active on D"),
        (440, 80, "M2", FROZEN, "frozen"),
        (550, 80, "N2", OURS, "takes M2 t back, adds b"),
        (660, 50, "σ", "white", ""),
    ]
    parts = [_text(12, 56, "g", "start", 20), *_row(target, 30)]
    parts += [_text(12, 196, "f", "start", 20), *_row(frozen, 170)]
    parts.append(_brace(130, 630, 152, "on D the same as W x + b, because M2 diag(s) M1 = W"))
    return _svg(730, 250, parts)


def shift() -> str:
    """The second hidden neuron across the box, without its shift and with it."""
    zero, unit, wide, over = 170, 40, 230, 330
    low, high = zero + REACH * unit, zero - REACH * unit
    half = 50 + wide / 2
    parts = [*_axes(50, zero, "without a shift"), *_axes(50 + over, zero, "shifted by t = 1.5")]
    parts += [
        _path(f"M50 {low:g} L{half:g} {zero}", CUT, dash=True),
        _path(f"M50 {zero} L{half:g} {zero} L{50 + wide} {high:g}", INK),
        _text(180, 222, "cut off by the ReLU", "start", 13, CUT),
        _path(f"M{50 + over} {zero} L{50 + over + wide} {2 * high - zero:g}", INK),
        _text(165 + over, 222, "a straight line on all of D", "middle", 13),
    ]
    return _svg(640, 250, parts)


def _row(boxes: list[tuple[int, int, str, str, str]], y: int) -> list[str]:
    """Boxes from left to right, with arrows between them and a word below each."""
    parts = []
    for i, (x, width, label, fill, below) in enumerate(boxes):
        if i:
            parts.append(_line(boxes[i - 1][0] + boxes[i - 1][1], y + 20, x - 3, y + 20, head=True))
        parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="40" rx="5" fill="{fill}" '
            f'stroke="{INK}"/>'
        )
        parts.append(_text(x + width / 2, y + 26, label, "middle", 17))
        parts.append(_text(x + width / 2, y + 58, below, "middle", 12))
    return parts


def _brace(x0: int, x1: int, y: int, words: str) -> str:
    path = _path(f"M{x0} {y + 10} v-10 H{x1} v10", INK)
    return path + _text((x0 + x1) / 2, y - 8, words, "middle", 13)


def _axes(x: int, zero: int, title: str) -> list[str]:
    """Values upward, along the diagonal of the box that has the least one at its left end."""
    return [
        _text(x + 115, 24, title, "middle", 15),
        _line(x - 15, zero, x + 245, zero),
        _line(x, 40, x, 238),
        _text(x + 6, zero + 18, "x = (1, −1)", "start", 12),
        _text(x + 245, zero + 18, "x = (−1, 1)", "end", 12),
    ]


def _text(x: float, y: float, words: str, anchor: str, size: int, ink: str = INK) -> str:
    place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}"'
    return f'<text {place} fill="{ink}">{words}</text>' if words else ""


def _line(
    x0: float, y0: float, x1: float, y1: float, *, head: bool = False, dash: bool = False
) -> str:
    end = ' marker-end="url(#head)"' if head else ""
    dots = ' stroke-dasharray="5 5"' if dash else ""
    return f'<line x1="{x0}" y1="{y0}" x2="{x1}" y2="{y1}" stroke="{INK}"{end}{dots}/>'


def _path(steps: str, ink: str, *, dash: bool = False) -> str:
    dots = ' stroke-dasharray="6 5"' if dash else ""
    return f'<path d="{steps}" fill="none" stroke="{ink}" stroke-width="2"{dots}/>'


def _svg(width: int, height: int, parts: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" font-family="Helvetica, Arial, sans-serif">'
    )
    arrow = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        f'markerHeight="8" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{INK}"/></marker></defs>'
    )
    ground = f'<rect width="{width}" height="{height}" rx="8" fill="white"/>'
    return "\n".join([head, arrow, ground, *(part for part in parts if part), "</svg>", ""])


DRAWINGS = {"construction.svg": construction, "shift.svg": shift}


def main() -> None:
    for name, draw in DRAWINGS.items():
        (IMAGES / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
