"""The pictures of docs/training.md: accuracy by parameters, small γ by depth, loss along a line.

    python -m benchmarks.training_picture

draws docs/images/training.svg from benchmarks/results/training.json and training_existence.json.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from benchmarks.picture import BLUE, ORANGE, PRINT, PURPLE, ROOT, at, sheet
from benchmarks.training_tables import Row, chosen
from reconstruct.reports.plots import Axis, Curve, Figure, Logarithmic, Mark, Panel, Ribbon, Tick

PICTURE = ROOT / "docs" / "images" / "training.svg"
RESULTS = ROOT / "benchmarks" / "results"
NORMS = {"tune": "norms", "gamma": "uniform"}
WIDTH, HEIGHT, FONT = 226.0, 216.0, 9.0


def picture(trainings: list[Row], lines: list[Row]) -> str:
    """Three panels beside each other, each with its own legend."""
    panels = (_accuracy(trainings), _small(trainings), _line(lines))
    parts = []
    for i, panel in enumerate(panels):
        figure = Figure(f"part{i}", "", ((panel,),), WIDTH, HEIGHT, FONT, palette=PRINT)
        parts.append(at(i * WIDTH, 0.0, figure))
    title = (
        "Accuracy by the number of γ and β trained, the share of small γ by depth, and the loss "
        "on the way from constructed to trained γ and β"
    )
    return sheet("training", title, len(panels) * WIDTH, HEIGHT, *parts)


def _accuracy(rows: list[Row]) -> Panel:
    marks: list[Mark] = []
    for label, colour, fixed, key in (
        ("deeper (8 … 50)", BLUE, {"width": 16}, "depth"),
        ("wider (4 … 32)", ORANGE, {"depth": 14}, "width"),
    ):
        kept = chosen(rows, **NORMS, **fixed)
        sizes = sorted({row[key] for row in kept})
        groups = [[row for row in kept if row[key] == size] for size in sizes]
        tuned = [group[0]["tuned"] for group in groups]
        marks += _range(
            tuned, [[100 * row["accuracy"] for row in g] for g in groups], colour, label
        )
    ticks = (Tick(300, "300"), Tick(1000, "1,000"), Tick(3000, "3,000"))
    x = Axis("γ and β trained", Logarithmic(), ticks=ticks)
    return Panel(tuple(marks), x, Axis("digits recognised, %"))


def _small(rows: list[Row]) -> Panel:
    kept = chosen(rows, **NORMS, width=16)
    sizes = sorted({row["depth"] for row in kept})
    groups = [[100 * row["small_share"] for row in kept if row["depth"] == s] for s in sizes]
    marks = _range(sizes, groups, BLUE, "norms trained")
    return Panel(tuple(marks), Axis("depth"), Axis("γ with |γ| < 0.01, %", low=0.0))


def _line(rows: list[Row]) -> Panel:
    marks = []
    for choice, colour in (("trained from random", ORANGE), ("fine-tuned", PURPLE)):
        for row in rows:
            if row["ratio"] == 1.5 and row["choice"] == choice:
                losses = row["line_from_computed"]
                shares = np.linspace(0, 1, len(losses))
                marks.append(Curve(shares, losses, colour, f"to {choice}", weight=1.2))
    x = Axis("way from the constructed γ, β")
    return Panel(tuple(marks), x, Axis("training loss", Logarithmic()))


def _range(
    x: Sequence[float], groups: Sequence[Sequence[float]], colour: str, label: str
) -> list[Mark]:
    """Means, and a band from the least to the largest."""
    means = [float(np.mean(group)) for group in groups]
    return [
        Ribbon(x, [min(g) for g in groups], [max(g) for g in groups], colour),
        Curve(x, means, colour, label, marker="o", radius=2.2),
    ]


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
