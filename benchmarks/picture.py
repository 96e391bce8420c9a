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

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "runs.json"
PICTURE = ROOT / "docs" / "images" / "digits.svg"
SHOWN = 8
BLUE, ORANGE, PURPLE, INK = "#1c6fa8", "#b8541a", "#8a3d8c", "#1d2327"
STYLE = {
    "svg.hashsalt": "digits",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#5d6970",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
}


def picture(row: dict[str, Any], goal: Path) -> None:
    """Digits with what is read before and after, and the errors of the run."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    shipped = digits()
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.6, 3.9), layout="constrained")
        FigureCanvasSVG(figure)
        parts: Any = figure.subfigures(2, 1, height_ratios=[1.0, 1.1])
        top, bottom = parts
        _images(top, shipped)
        left, right = bottom.subplots(1, 2, width_ratios=[1, 1.25])
        _accuracy(left, row)
        _errors(right, row)
        goal.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(goal, format="svg", metadata={"Date": None})


def _images(figure: Any, shipped: Digits) -> None:
    frozen = draw(shipped.target, Wide(ratio=1.5), seed=0)
    result = reconstruct(shipped.target, frozen, domain=shipped.domain)
    first = [int(np.flatnonzero(shipped.labels == digit)[0]) for digit in range(1, SHOWN + 1)]
    images = shipped.images[first]
    before, after = (f(images).argmax(axis=1) for f in (frozen.network, result.network))
    figure.suptitle(
        "What a frozen random network reads: before → after its γ and β are set", fontsize=10
    )
    for axes, image, wrong, right in zip(
        figure.subplots(1, SHOWN), images, before, after, strict=True
    ):
        axes.imshow(image.reshape(8, 8), cmap="gray_r", interpolation="nearest")
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel(f"{wrong} → {right}", fontsize=11)


def _accuracy(axes: Any, row: dict[str, Any]) -> None:
    names = ["target g", "frozen, untouched", "frozen, γ and β set"]
    values = [100 * row[key] for key in ("accuracy_target", "accuracy_frozen", "accuracy")]
    bars = axes.barh(names, values, color=[BLUE, "#9aa5a9", ORANGE])
    axes.bar_label(bars, [f"{value:.1f} %" for value in values], padding=3)
    axes.invert_yaxis()
    axes.set_xlim(0, 125)
    axes.set_xticks([0, 50, 100])
    axes.set_xlabel("digits recognised, %")


def _errors(axes: Any, row: dict[str, Any]) -> None:
    kinds: list[tuple[str, str, str, str]] = [("real", "", "", "certified_bound")]
    kinds += [(t, f"{t}_max", f"{t}_predicted", f"{t}_bound") for t in ("float64", "float32")]
    for y, (_, *keys) in enumerate(kinds):
        for key, marker, colour in zip(keys, "ox<", (BLUE, ORANGE, PURPLE), strict=True):
            if key and row[key]:
                axes.plot(row[key], y, marker, color=colour, markersize=8)
    for label, marker, colour in (
        ("measured", "o", BLUE),
        ("predicted", "x", ORANGE),
        ("certified", "<", PURPLE),
    ):
        axes.plot([], [], marker, color=colour, label=label)
    axes.set_xscale("log")
    axes.set_yticks(range(3), [kind[0] for kind in kinds])
    axes.set_ylim(2.5, -0.5)
    axes.set_xlabel("|f − g| on all of [0, 1]⁶⁴")
    axes.grid(axis="x", color="#e6e9e6")
    axes.legend(
        frameon=False,
        ncols=3,
        loc="lower center",
        bbox_to_anchor=(0.45, 0.98),
        fontsize=9,
        handletextpad=0.1,
        columnspacing=1.0,
    )


def main() -> None:
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))
    wide = [row for row in rows if row["construction"] == "wide" and row["ratio"] == 1.5]
    picture(wide[0], PICTURE)


if __name__ == "__main__":
    main()
