"""The pictures of docs/training.md: accuracy by parameters, small γ by depth, loss along a line.

    python -m benchmarks.training_picture

draws docs/images/training.svg from benchmarks/results/training.json and training_existence.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.picture import BLUE, ORANGE, PURPLE, ROOT, STYLE
from benchmarks.training_tables import Row, chosen

PICTURE = ROOT / "docs" / "images" / "training.svg"
RESULTS = ROOT / "benchmarks" / "results"
NORMS = {"tune": "norms", "gamma": "uniform"}


def picture(trainings: list[Row], lines: list[Row], goal: Path) -> None:
    """Three panels beside each other."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "training", "font.size": 9}):
        figure = Figure(figsize=(9.4, 3.0), layout="constrained")
        FigureCanvasSVG(figure)
        panels: Any = figure.subplots(1, 3)
        _accuracy(panels[0], trainings)
        _small(panels[1], trainings)
        _line(panels[2], lines)
        goal.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(goal, format="svg", metadata={"Date": None})


def _accuracy(axes: Any, rows: list[Row]) -> None:
    for label, colour, fixed, key in (
        ("deeper (8 … 50)", BLUE, {"width": 16}, "depth"),
        ("wider (4 … 32)", ORANGE, {"depth": 14}, "width"),
    ):
        kept = chosen(rows, **NORMS, **fixed)
        sizes = sorted({row[key] for row in kept})
        groups = [[row for row in kept if row[key] == size] for size in sizes]
        tuned = [group[0]["tuned"] for group in groups]
        _range(axes, tuned, [[100 * row["accuracy"] for row in g] for g in groups], colour, label)
    axes.set_xscale("log")
    axes.set_xticks([300, 1000, 3000], ["300", "1,000", "3,000"])
    axes.minorticks_off()
    axes.set_xlabel("γ and β trained")
    axes.set_ylabel("digits recognised, %")
    axes.legend(frameon=False, fontsize=8, loc="lower right")


def _small(axes: Any, rows: list[Row]) -> None:
    kept = chosen(rows, **NORMS, width=16)
    sizes = sorted({row["depth"] for row in kept})
    groups = [[100 * row["small_share"] for row in kept if row["depth"] == s] for s in sizes]
    _range(axes, sizes, groups, BLUE, "norms trained")
    axes.set_xlabel("depth")
    axes.set_ylabel("γ with |γ| < 0.01, %")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)


def _line(axes: Any, rows: list[Row]) -> None:
    for choice, colour in (("trained from random", ORANGE), ("fine-tuned", PURPLE)):
        kept = [row for row in rows if row["ratio"] == 1.5 and row["choice"] == choice]
        for row in kept:
            shares = np.linspace(0, 1, len(row["line_from_computed"]))
            label = f"to {choice}" if row is kept[0] else None
            axes.plot(shares, row["line_from_computed"], color=colour, label=label, linewidth=1.2)
    axes.set_yscale("log")
    axes.set_xlabel("way from the constructed γ, β")
    axes.set_ylabel("training loss")
    axes.legend(frameon=False, fontsize=8, loc="center")


def _range(axes: Any, x: list[float], groups: list[list[float]], colour: str, label: str) -> None:
    axes.plot(x, [np.mean(g) for g in groups], "o-", color=colour, markersize=4, label=label)
    axes.fill_between(
        x, [min(g) for g in groups], [max(g) for g in groups], color=colour, alpha=0.15, linewidth=0
    )


def main() -> None:
    trainings, lines = (
        json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("training", "training_existence")
    )
    picture(trainings, lines, PICTURE)


if __name__ == "__main__":
    main()
