"""The pictures of docs/training.md: accuracy by parameters, small γ by depth, loss along a line.

    python -m benchmarks.training_picture

draws docs/images/training.svg from benchmarks/results/training.json and training_existence.json,
and docs/images/cifar.svg, CIFAR-10 beside the digits, from cifar.json and training.json.
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
CIFAR = ROOT / "docs" / "images" / "cifar.svg"
TUNED = {"output": "output layer", "random": "random weights", "norms": "γ and β", "all": "all"}
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


def cifar(rows: list[Row], digits: list[Row]) -> str:
    """What is tuned at depth 14, and norms by depth: CIFAR-10 after few epochs, digits after 40."""

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        for label, colour, found, moved in (
            ("CIFAR-10", FIRST, rows, -0.2),
            ("digits", SECOND, digits, 0.2),
        ):
            means = [_percent(chosen(found, depth=14, width=16, tune=tune)) for tune in TUNED]
            left.bar(np.arange(len(TUNED)) + moved, means, 0.38, color=colour, label=label)
            norms = chosen(found, **NORMS, width=16)
            depths = sorted({row["depth"] for row in norms})
            accuracies = [_percent(chosen(norms, depth=depth)) for depth in depths]
            right.plot(depths, accuracies, "o-", color=colour, label=label)
        left.set_xticks(np.arange(len(TUNED)), list(TUNED.values()))
        left.set(xlabel="what is tuned, ResNet-14", ylabel="recognised, %")
        right.set(xlabel="depth, γ and β tuned", ylabel="recognised, %")
        for axes in (left, right):
            axes.set_ylim(0, 100)
            axes.axhline(10.0, color=FOURTH, linewidth=0.8)  # chance
            axes.legend()

    return sheet(draw, (9.0, 3.0))


def _percent(rows: list[Row]) -> float:
    gammas = [row for row in rows if row["gamma"] == "uniform"]
    return 100 * float(np.mean([row["accuracy"] for row in gammas]))


def _range(
    axes: Axes, x: Sequence[float], groups: Sequence[Sequence[float]], colour: str, label: str
) -> None:
    """Means, and a band from the least to the largest."""
    least, most = [min(group) for group in groups], [max(group) for group in groups]
    axes.fill_between(x, least, most, color=colour, alpha=0.2, linewidth=0)
    axes.plot(x, [float(np.mean(group)) for group in groups], "o-", color=colour, label=label)


def main() -> None:
    trainings, lines, images = (
        json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("training", "training_existence", "cifar")
    )
    PICTURE.write_text(picture(trainings, lines), encoding="utf-8")
    CIFAR.write_text(cifar(images, trainings), encoding="utf-8")


if __name__ == "__main__":
    main()
