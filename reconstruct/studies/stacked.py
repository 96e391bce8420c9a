"""Depth without skip connections: how many neurons does M_L D_L … D_1 M_0 = W need?

Scaling between neighbouring diagonals changes nothing, so Σ n_i ≥ d² + L − 1 is necessary for all W
(a count of parameters: proved). Whether it nearly suffices is measured: Gauss-Newton from a few
random starts either reaches W to rounding or it does not, and failing is no proof of impossibility.
"""

from __future__ import annotations

import numpy as np

from reconstruct.constructions.sites import hidden_width
from reconstruct.constructions.stacked import Product, fit, least_widths, shared_out
from reconstruct.networks.draw import Sampler
from reconstruct.numbers.arrays import dense
from reconstruct.progress import silent
from reconstruct.studies import study
from reconstruct.studies.study import Panel, Point, Row, Rows, mean, select, values_of


def trial(point: Point, seed: int) -> Row:
    d, layers = point["d"], point["layers"]
    needed = d * d + layers - 1
    total = max(hidden_width(point["ratio"], needed), sum(least_widths(d, d, layers)))
    widths = shared_out(total, least_widths(d, d, layers))
    sizes = [d, *widths, d]
    sampler = Sampler(seed)
    factors = [dense(sampler.matrix(0, i, sizes[i + 1], sizes[i])) for i in range(layers + 1)]
    W = np.random.default_rng(seed).normal(size=(d, d)) / np.sqrt(d)
    found = fit(Product(tuple(factors)), W, silent)
    return {
        "solved": found.converged,
        "widths": total,
        "needed": needed,
        "residual": found.residual,
        "condition": found.condition,
        "steps": len(found.history) - 1,
        "starts": found.starts,
    }


def least_ratio(rows: Rows) -> float | None:
    """The least ratio of the grid from which on every trial was solved."""
    found = None
    for ratio in reversed(values_of(rows, "ratio")):
        if mean(select(rows, ratio=ratio), "solved") < 1:
            break
        found = float(ratio)
    return found


def findings(rows: Rows) -> list[study.Finding]:
    said: list[str] = []
    lost: list[str] = []
    for d in values_of(rows, "d"):
        for layers in values_of(rows, "layers"):
            ratio = least_ratio(select(rows, d=d, layers=layers))
            (lost if ratio is None else said).append(
                f"L = {layers}" if ratio is None else f"{ratio:g} (L = {layers})"
            )
    sizes = ", ".join(f"{d}×{d}" for d in values_of(rows, "d"))
    failed = f"; not in every trial at any ratio of the grid: {', '.join(lost)}" if lost else ""
    return [
        study.Finding(
            f"For {sizes} maps every trial is solved as soon as Σ widths is d² + L − 1 times "
            f"{', '.join(said) or '(none)'}{failed}.",
            "a draw at these ratios that no start of Gauss-Newton solves",
        ),
        *_growth(rows),
        study.Finding(
            "Fewer than d² + L − 1 neurons in all cannot give every W: of Σ n_i scales, L − 1 are "
            "spent on moving factors between neighbours.",
            "nothing: it is a count of dimensions",
            study.Evidence.PROVED,
        ),
    ]


def _growth(rows: Rows) -> list[study.Finding]:
    """How the condition grows with L, at the largest ratio."""
    ratio = max(values_of(rows, "ratio"))
    solved = [r for r in select(rows, ratio=ratio, solved=True) if r["condition"] is not None]
    layers = values_of(solved, "layers")
    if len(layers) < 2:
        return []
    said = [f"{mean(select(solved, layers=n), 'condition'):.0f} (L = {n})" for n in layers]
    return [
        study.Finding(
            f"At ratio {ratio:g} the Jacobian's condition is {', '.join(said)}: it grows with "
            f"depth, and that is what breaks deep stacks.",
            "deeper stacks whose condition does not grow",
        )
    ]


def panels(rows: Rows) -> list[Panel]:
    """The share of trials that were solved, and the condition where they were."""
    across = {"xlabel": "Σ widths / (d² + L − 1)"}
    solved = {"title": "Trials solved", "ylabel": "share", **across}
    condition = {"title": "Condition of the Jacobian, where solved", **across}
    return [
        Panel("ratio", "solved", "layers", "L = {}".format, axes=solved),
        Panel("ratio", "condition", "layers", log="y", only={"solved": True}, axes=condition),
    ]


STACKED = study.Study(
    name="stacked",
    question="How deep may a stack without skip connections be?",
    parameters=(
        study.Parameter("d", "rows and columns of the map", (8,), 1, 64),
        study.Parameter("layers", "hidden layers", (1, 2, 3, 4, 6, 8), 1, 64),
        study.Parameter(
            "ratio", "neurons in all, over d² + L − 1", (1.0, 1.05, 1.1, 1.2, 1.3, 1.5), 0.1, 100
        ),
    ),
    trial=trial,
    findings=findings,
    panels=panels,
    about=(
        "A d × d map as a product of frozen random factors with diagonals between them, the "
        "diagonals found by damped Gauss-Newton from up to four random starts."
    ),
)
