"""How large should the blocks of grouped layers be? Time, condition, float32 and weights against b.

A map of d × d is rebuilt by (d/b)² systems of b² equations. b = 1 is a table of weights: each unit
carries one entry of the target, and the frozen weights add nothing but a factor. b = d is the dense
layer of Theorem 1. In between the theorem is the same, with 2·b·c·d² weights.
"""

from __future__ import annotations

import numpy as np

from reconstruct.constructions import Grouped
from reconstruct.constructions import draw as draw_frozen
from reconstruct.networks import Box, Network
from reconstruct.pipeline import reconstruct
from reconstruct.studies.study import Evidence, Finding, Panel, Parameter, Point, Row, Rows, Study

POINTS = 50  # inputs from [-1, 1]^d at which float32 is compared


def trial(point: Point, seed: int) -> Row:
    d, rng = point["d"] // point["block"] * point["block"], np.random.default_rng(seed)
    target = Network.mlp([rng.normal(size=(d, d)) / np.sqrt(d)], [None])
    frozen = draw_frozen(target, Grouped(point["block"], point["ratio"]), seed=seed)
    result = reconstruct(target, frozen, domain=Box(-1, 1))
    (row,) = result.layers
    x = rng.uniform(-1, 1, (POINTS, d)).astype(np.float32)
    wanted = target(x.astype(np.float64))
    errors = [np.abs(net(x, np.float32) - wanted).max() for net in (result.network, target)]
    return {
        "seconds": row.seconds,
        "condition": row.condition if row.solved else None,
        "float32": float(errors[0] / errors[1]) if row.solved else None,
        "weights": frozen.network.weights,
        "residual": row.residual if row.solved else None,
        "solved": row.solved,
    }


def findings(rows: Rows) -> list[Finding]:
    kept = [r for r in rows if r["solved"]]
    blocks = [r for r in kept if r["block"] > 1] or kept  # b = 1 is a table of weights
    best = min(blocks, key=lambda r: r["float32"])
    fast = min(blocks, key=lambda r: r["seconds"])
    tail = max(kept, key=lambda r: r["condition"])
    return [
        Finding(
            f"{len(kept)} of {len(rows)} maps were solved. float32 is nearest to the map's own "
            f"error, {best['float32']:.1f} times it, with b = {best['block']} and ratio "
            f"{best['ratio']}; b = {fast['block']} is fastest, {fast['seconds']:.2g} s.",
            "another order of the blocks on another machine, or for other distributions",
        ),
        Finding(
            f"The worst system of all has condition {tail['condition']:.0e}, with b = "
            f"{tail['block']} and ratio {tail['ratio']}: the worst of many small systems is worse "
            f"than one large one, and spare width mends it.",
            "a block size whose worst system stays as good as its typical one",
        ),
        Finding(
            "Weights are 2·b·c·d², and every system has full rank with probability one: fewer than "
            "the Õ(d²·√d) of Theorem 3, whose zeros lie anywhere and whose rank is full with high "
            "probability. Independent zeros at their sharp threshold leave 2·d²·√(2c·ln d), fewer "
            "than blocks of b > √(2·ln d/c), but one system of d² equations. The zeros are chosen, "
            "not drawn: that is what is given up. b = 1 is a table of d² weights, which needs no "
            "theorem; b = d is the dense layer of Theorem 1, 2·c·d³.",
            "nothing: see the statement block-systems",
            Evidence.PROVED,
        ),
    ]


def panels(rows: Rows) -> list[Panel]:
    """Seconds, the worst condition and float32 against b."""
    titles = {"seconds": "Seconds", "condition": "Worst condition", "float32": "float32 / own"}
    return [
        Panel("block", y, "ratio", "c = {}".format, "xy", axes={"title": title})
        for y, title in titles.items()
    ]


BLOCKS = Study(
    name="blocks",
    question="How large should the blocks of grouped layers be?",
    parameters=(
        Parameter("d", "rows and columns of the map", (64,), 4, 1024),
        Parameter(
            "block", "inputs and outputs of a block, a divisor of d", (1, 2, 4, 8, 16), 1, 64
        ),
        Parameter("ratio", "hidden neurons per equation", (1.0, 1.2, 1.5, 2.0), 1.0, 100),
    ),
    trial=trial,
    findings=findings,
    panels=panels,
    about=(
        "float32 is the error of the two layers with the shifts that the box needs, over that of "
        "the map itself, at the same inputs. Sizes that b does not divide are cut off here."
    ),
)
