"""The picture in the README: what a run does to the shipped digits network.

    python -m benchmarks.picture

draws docs/images/digits.svg from benchmarks/results/runs.json and from the shipped test images.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.constructions import Wide, draw
from reconstruct.demo import Digits, digits
from reconstruct.pipeline import reconstruct
from reconstruct.reports.markup import Markup, element
from reconstruct.reports.plots import (
    Axis,
    Dots,
    Figure,
    Legend,
    Logarithmic,
    Mark,
    Note,
    Palette,
    Panel,
    Picture,
    Span,
    Tick,
    svg,
)
from reconstruct.reports.plots.colour_map import greys

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "runs.json"
PICTURE = ROOT / "docs" / "images" / "digits.svg"
SHOWN, PIXELS = 8, 8
HEAD = "What a frozen random network reads: before → after its γ and β are set"
WIDTH, HALF = 620.0, 276.0
ABOVE, IMAGES, GAP, BELOW = 22.0, 92.0, 12.0, 150.0  # heights from above
BLUE, ORANGE, PURPLE, GREY, INK = "#1c6fa8", "#b8541a", "#8a3d8c", "#9aa5a9", "#1d2327"
PRINT = Palette(ink=INK, faint="#5d6970", grid="#e6e9e6")  # a file alone has no style to ask
FONT = "system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, sans-serif"
ACCURACIES = (
    ("accuracy_target", "target g", BLUE),
    ("accuracy_frozen", "frozen, untouched", GREY),
    ("accuracy", "frozen, γ and β set", ORANGE),
)
ERRORS = (
    ("measured", "max", "o", BLUE),
    ("predicted", "predicted", "x", ORANGE),
    ("certified", "bound", "<", PURPLE),
)
ARITHMETICS = ("real", "float64", "float32")


def picture(row: dict[str, Any]) -> str:
    """Digits with what is read before and after, and the errors of the run."""
    top = ABOVE + IMAGES + GAP
    parts = (
        element("text", HEAD, x=WIDTH / 2, y=15, fill=INK, font_size=11, text_anchor="middle"),
        at(0.0, ABOVE, _images(digits())),
        at(0.0, top, _accuracy(row)),
        at(HALF, top, _errors(row)),
    )
    title = (
        "Digits that a frozen random network reads wrongly before its γ and β are set and rightly "
        "after, how many of all it recognises, and how far it is from the target"
    )
    return sheet("digits", title, WIDTH, top + BELOW, *parts)


def sheet(name: str, title: str, width: float, height: float, *parts: Markup) -> str:
    """A file of its own: white paper, and a font."""
    paper = element("rect", width="100%", height="100%", fill="#fff")
    return svg(name, title, width, height, paper, *parts, font_family=FONT).text + "\n"


def at(x: float, y: float, figure: Figure) -> Markup:
    """The figure, moved."""
    return element("g", figure.drawn(), transform=f"translate({x:g} {y:g})")


def _images(shipped: Digits) -> Figure:
    frozen = draw(shipped.target, Wide(ratio=1.5), seed=0)
    result = reconstruct(shipped.target, frozen, domain=shipped.domain)
    first = [int(np.flatnonzero(shipped.labels == digit)[0]) for digit in range(1, SHOWN + 1)]
    images = shipped.images[first]
    before, after = (f(images).argmax(axis=1) for f in (frozen.network, result.network))
    panels = tuple(
        _image(image.reshape(PIXELS, PIXELS)[::-1], f"{wrong} → {right}")
        for image, wrong, right in zip(images, before, after, strict=True)
    )
    return Figure("images", "", (panels,), WIDTH, IMAGES, font=11.0, palette=PRINT)


def _image(shares: Any, read: str) -> Panel:
    ends = (0.0, float(PIXELS))
    x, y = (Axis(name, low=0.0, high=ends[1], shown=False) for name in (read, ""))
    return Panel((Picture(shares, ends, ends, greys),), x, y, square=True, grid=False)


def _accuracy(row: dict[str, Any]) -> Figure:
    marks: list[Mark] = []
    for i, (key, _, colour) in enumerate(ACCURACIES):
        share = 100 * row[key]
        marks += [Span(0.0, share, -i, colour, weight=20.0)]
        marks += [Note(share, -i, f"{share:.1f} %", INK)]
    names = tuple(Tick(-i, name) for i, (_, name, _) in reversed(list(enumerate(ACCURACIES))))
    x = Axis("digits recognised, %", low=0.0, high=130.0, ticks=_plain(0, 50, 100))
    y = Axis(ticks=names, low=-2.6, high=0.6)
    panel = Panel(tuple(marks), x, y, grid=False)
    return Figure("accuracy", "", ((panel,),), HALF, BELOW, palette=PRINT)


def _plain(*values: float) -> tuple[Tick, ...]:
    return tuple(Tick(value, f"{value:g}") for value in values)


def _errors(row: dict[str, Any]) -> Figure:
    marks = tuple(_dots(row, *kind) for kind in ERRORS)
    names = tuple(Tick(-i, name) for i, name in reversed(list(enumerate(ARITHMETICS))))
    y = Axis(ticks=names, low=-2.5, high=0.5)
    panel = Panel(marks, Axis("|f − g| on all of [0, 1]⁶⁴", Logarithmic()), y)
    rows = ((panel,),)
    return Figure("errors", "", rows, WIDTH - HALF, BELOW, legend=Legend.ABOVE, palette=PRINT)


def _dots(row: dict[str, Any], label: str, kind: str, marker: str, colour: str) -> Dots:
    keys = ["certified_bound" if kind == "bound" else "", f"float64_{kind}", f"float32_{kind}"]
    known = [(row[key], -i) for i, key in enumerate(keys) if key and row[key]]
    return Dots([x for x, _ in known], [y for _, y in known], colour, label, marker)


def drawn() -> str:
    """The picture of the shipped results."""
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))
    wide = [row for row in rows if row["construction"] == "wide" and row["ratio"] == 1.5]
    return picture(wide[0])


def main() -> None:
    PICTURE.write_text(drawn(), encoding="utf-8")


if __name__ == "__main__":
    main()
