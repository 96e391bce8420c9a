"""The picture in the README: what a run does to the shipped digits network.

    python -m benchmarks.picture

draws docs/images/digits.svg from benchmarks/results/runs.json and from the shipped test images.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reconstruct.constructions import Wide, draw
from reconstruct.demo import digits
from reconstruct.pipeline import reconstruct
from reconstruct.reports.plotting import (
    FIRST,
    FOURTH,
    SECOND,
    Draw,
    legend_above,
    logarithmic,
    named_rows,
    plain_svg,
    positive,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "runs.json"
PICTURE = ROOT / "docs" / "images" / "digits.svg"
SHOWN, PIXELS = 8, 8
HEAD = "What a frozen random network reads: before → after its γ and β are set"
GREY = "#9aa5a9"
ACCURACIES = (
    ("accuracy_target", "target g", FIRST),
    ("accuracy_frozen", "frozen, untouched", GREY),
    ("accuracy", "frozen, γ and β set", SECOND),
)
ERRORS = (
    ("measured", "max", "o", FIRST),
    ("predicted", "predicted", "x", SECOND),
    ("certified", "bound", "<", FOURTH),
)
ARITHMETICS = ("real", "float64", "float32")


def picture(row: dict[str, Any]) -> str:
    """Digits with what is read before and after, and the errors of the run."""

    def both(figure: Figure) -> None:
        above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(1, 1.6)).ravel()
        above.suptitle(HEAD)
        _images(above)
        left, right = below.subfigures(1, 2, squeeze=False, width_ratios=(1, 1.2)).ravel()
        _accuracy(left, row)
        _errors(right, row)

    return sheet(both, (8.6, 4.2))


def sheet(draw: Draw, size: tuple[float, float]) -> str:
    """A file of its own: white paper, and words drawn as paths, since no page brings a font."""
    return plain_svg(
        draw, size, "constrained", **{"figure.facecolor": "white", "svg.fonttype": "path"}
    )


def _images(figure: Any) -> None:
    shipped = digits()
    frozen = draw(shipped.target, Wide(ratio=1.5), seed=0)
    result = reconstruct(shipped.target, frozen, domain=shipped.domain)
    first = [int(np.flatnonzero(shipped.labels == digit)[0]) for digit in range(1, SHOWN + 1)]
    images = shipped.images[first]
    before, after = (f(images).argmax(axis=1) for f in (frozen.network, result.network))
    for axes, image, wrong, right in zip(
        figure.subplots(1, SHOWN), images, before, after, strict=True
    ):
        axes.imshow(image.reshape(PIXELS, PIXELS), cmap="gray_r")
        axes.set(xticks=(), yticks=(), xlabel=f"{wrong} → {right}")
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)


def _accuracy(figure: Any, row: dict[str, Any]) -> None:
    axes = figure.subplots()
    for i, (key, _, colour) in enumerate(ACCURACIES):
        bars = axes.barh(-i, 100 * row[key], height=0.6, color=colour)
        axes.bar_label(bars, [f"{100 * row[key]:.1f} %"], padding=3)
    named_rows(axes, [name for _, name, _ in ACCURACIES])
    axes.set(xlabel="digits recognised, %", xlim=(0, 130), xticks=(0, 50, 100))


def _errors(figure: Any, row: dict[str, Any]) -> None:
    axes = figure.subplots()
    for label, kind, marker, colour in ERRORS:
        keys = ["certified_bound" if kind == "bound" else "", f"float64_{kind}", f"float32_{kind}"]
        values = positive(row[key] if key else None for key in keys)
        axes.plot(values, -np.arange(len(keys)), marker, color=colour, label=label)
    axes.set_xlabel("|f − g| on all of [0, 1]⁶⁴")
    logarithmic(axes, "x")
    named_rows(axes, ARITHMETICS)
    legend_above(figure, axes)


def drawn() -> str:
    """The picture of the shipped results."""
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))
    wide = [row for row in rows if row["construction"] == "wide" and row["ratio"] == 1.5]
    return picture(wide[0])


def main() -> None:
    PICTURE.write_text(drawn(), encoding="utf-8")


if __name__ == "__main__":
    main()
