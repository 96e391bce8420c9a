"""Below m·k: how narrow may the hidden layers be where the data live?

Two ways to choose the scales of a network that is too narrow: least squares for W itself (every
input counts alike; the residual of a random draw is about √(1 − c)), and least squares on data,
layer after layer on the values that the frozen network itself has. The shipped digits network is
fitted on one half of its images and scored on the other.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from reconstruct.constructions import Fitted
from reconstruct.constructions import draw as draw_frozen
from reconstruct.demo import digits, share_recognised
from reconstruct.pipeline import reconstruct
from reconstruct.reports.figures.palette import FIRST, SECOND
from reconstruct.studies.study import (
    Evidence,
    Finding,
    Outcome,
    Parameter,
    Point,
    Rows,
    Study,
    mean,
    select,
    values_of,
)


def trial(point: Point, seed: int) -> Outcome:
    shipped = digits()
    half = len(shipped.images) // 2
    images, labels = shipped.images[half:], shipped.labels[half:]
    construction = Fitted(point["ratio"], plain=point["fit"] == "weights")
    frozen = draw_frozen(shipped.target, construction, seed=seed)
    data = shipped.images[:half]
    result = reconstruct(shipped.target, frozen, domain=shipped.domain, data=data)
    scale = float(np.abs(shipped.target(images)).max())
    return Outcome(
        {
            "accuracy": share_recognised(result.network, images, labels),
            "target": share_recognised(shipped.target, images, labels),
            "residual": float(np.mean([row.residual for row in result.layers])),
            "error": float(np.abs(result.network(images) - shipped.target(images)).max()) / scale,
        }
    )


def findings(rows: Rows) -> list[Finding]:
    said = []
    for ratio in values_of(rows, "ratio"):
        own = [f"{100 * mean(g, 'accuracy'):.0f} %" for g in _both(rows, ratio)]
        said.append(f"{own[1]} instead of {own[0]} at {ratio:g}")
    target = 100 * mean(rows, "target")
    residuals = [
        f"{mean(_both(rows, r)[0], 'residual'):.2f} at {r:g} (√(1 − c) = {sqrt(max(0, 1 - r)):.2f})"
        for r in values_of(rows, "ratio")
    ]
    return [
        Finding(
            f"Fitted on data, narrow networks recognise {', '.join(said)} times m·k neurons (the "
            f"target: {target:.0f} %).",
            Evidence.MEASURED,
            "a network with data on which the fit is no better than that of the weights",
        ),
        Finding(
            f"Without data, what is left of W is {', '.join(residuals)}.",
            Evidence.MEASURED,
            "a random draw whose relative residual leaves √(1 − c)",
        ),
    ]


def _both(rows: Rows, ratio: float) -> list[Any]:
    return [select(rows, ratio=ratio, fit=fit) for fit in ("weights", "data")]


def draw(figure: Any, rows: Rows) -> None:
    place = figure.subplots()
    for fit, colour in (("weights", FIRST), ("data", SECOND)):
        own = select(rows, fit=fit)
        ratios = values_of(own, "ratio")
        shares = [100 * mean(select(own, ratio=r), "accuracy") for r in ratios]
        place.plot(ratios, shares, color=colour, marker="o", markersize=4, label=f"fit to {fit}")
    place.axhline(100 * mean(rows, "target"), linestyle=":", linewidth=0.9, label="target")
    place.set_xlabel("hidden neurons / (m·k)")
    place.set_ylabel("recognised, %")
    place.set_ylim(0, 100)
    place.legend()


WIDTH = Study(
    name="width",
    question="How narrow may the hidden layers be?",
    parameters=(
        Parameter("ratio", "hidden neurons per equation", (0.25, 0.5, 0.75, 0.9), 0.001, 10),
        Parameter("fit", "what is fitted: the weights, or the data", ("weights", "data")),
    ),
    seeds=3,
    trial=trial,
    findings=findings,
    draw=draw,
    columns=("accuracy", "error", "residual"),
    about=(
        "The shipped digits network in frozen layers that are too narrow for the theorem; fitted "
        "on one half of the images, scored on the other: an approximation, never a reconstruction."
    ),
)
