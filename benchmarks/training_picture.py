"""The pictures of docs/training.md: accuracy by parameters, small γ by depth, loss along a line.

    python -m benchmarks.training_picture

draws docs/images/training.svg from benchmarks/results/training.json and training_existence.json.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.picture import ROOT, sheet
from benchmarks.training_tables import Row, chosen
from reconstruct.reports.plotting import FIRST, FOURTH, SECOND, logarithmic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURE = ROOT / "docs" / "images" / "training.svg"
RESULTS = ROOT / "benchmarks" / "results"
NORMS = {"tune": "norms", "gamma": "uniform"}


def picture(trainings: list[Row], lines: list[Row]) -> str:
    """Three panels beside each other, each with its own legend."""

    def draw(figure: Figure) -> None:
        left, middle, right = figure.subplots(1, 3)
        _accuracy(left, trainings)
        _small(middle, trainings)
        _line(right, lines)

    return sheet(draw, (10.0, 3.2))


def _accuracy(axes: Axes, rows: list[Row]) -> None:
    for label, colour, fixed, key in (
        ("deeper (8 … 50)", FIRST, {"width": 16}, "depth"),
        ("wider (4 … 32)", SECOND, {"depth": 14}, "width"),
    ):
        kept = chosen(rows, **NORMS, **fixed)
        sizes = sorted({row[key] for row in kept})
        groups = [[row for row in kept if row[key] == size] for size in sizes]
        tuned = [group[0]["tuned"] for group in groups]
        _range(axes, tuned, [[100 * row["accuracy"] for row in g] for g in groups], colour, label)
    logarithmic(axes, "x")
    axes.set(xlabel="γ and β trained", ylabel="digits recognised, %")
    axes.legend()


def _small(axes: Axes, rows: list[Row]) -> None:
    kept = chosen(rows, **NORMS, width=16)
    sizes = sorted({row["depth"] for row in kept})
    groups = [[100 * row["small_share"] for row in kept if row["depth"] == s] for s in sizes]
    _range(axes, sizes, groups, FIRST, "norms trained")
    axes.set(xlabel="depth", ylabel="γ with |γ| < 0.01, %")
    axes.set_ylim(bottom=0)


def _line(axes: Axes, rows: list[Row]) -> None:
    for choice, colour in (("trained from random", SECOND), ("fine-tuned", FOURTH)):
        own = [r for r in rows if r["ratio"] == 1.5 and r["choice"] == choice]
        for i, row in enumerate(own):
            losses = row["line_from_computed"]
            label = None if i else f"to {choice}"
            axes.plot(np.linspace(0, 1, len(losses)), losses, color=colour, label=label)
    logarithmic(axes)
    axes.set(xlabel="way from the constructed γ, β", ylabel="training loss")
    axes.legend()


def _range(
    axes: Axes, x: Sequence[float], groups: Sequence[Sequence[float]], colour: str, label: str
) -> None:
    """Means, and a band from the least to the largest."""
    least, most = [min(group) for group in groups], [max(group) for group in groups]
    axes.fill_between(x, least, most, color=colour, alpha=0.2, linewidth=0)
    axes.plot(x, [float(np.mean(group)) for group in groups], "o-", color=colour, label=label)


def drawn() -> str:
    """The picture of the shipped results."""
    trainings, lines = (
        json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("training", "training_existence")
    )
    return picture(trainings, lines)


def main() -> None:
    PICTURE.write_text(drawn(), encoding="utf-8")


if __name__ == "__main__":
    main()
