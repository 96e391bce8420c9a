"""How large should the blocks of grouped layers be? Time, condition, float32 and weights against b.

A map of d × d is rebuilt by (d/b)² systems of b² equations. b = 1 is a table of weights: each unit
carries one entry of the target, and the frozen weights add nothing but a factor. b = d is the dense
layer of Theorem 1. In between the theorem is the same, with 2·b·c·d² weights.
"""

from __future__ import annotations

import numpy as np

from reconstruct.constructions.sites import hidden_width
from reconstruct.khatri_rao.blocks import solve_blocks
from reconstruct.numbers.arrays import Array
from reconstruct.studies.study import (
    Evidence,
    Finding,
    Outcome,
    Panel,
    Parameter,
    Point,
    Rows,
    Study,
)

POINTS = 50  # inputs from [-1, 1]^d at which float32 is compared


def trial(point: Point, seed: int) -> Outcome:
    d, b, c = point["d"], min(point["block"], point["d"]), point["ratio"]
    count, width = d // b, hidden_width(c, b * b)
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((count * count, width, b), dtype=np.float32)
    B = rng.standard_normal((count * count, b, width), dtype=np.float32)
    W = rng.standard_normal((count * b, count * b)) / np.sqrt(d)
    blocks = W.reshape(count, b, count, b).transpose(0, 2, 1, 3).reshape(-1, b, b)
    found, s = solve_blocks(A, B, blocks)
    x = rng.uniform(-1, 1, (count * b, POINTS)).astype(np.float32)
    own = _worst(W.astype(np.float32) @ x, W, x)
    return Outcome(
        {
            "seconds": found.seconds,
            "condition": found.condition if found.solved else None,
            "float32": _worst(_evaluated(A, B, s, x, count), W, x) / own if found.solved else None,
            "weights": 2 * A.size,
            "residual": found.residual if found.solved else None,
            "solved": found.solved,
        }
    )


def _evaluated(A: Array, B: Array, s: Array, x: Array, count: int) -> Array:
    """N2(M2 relu(N1(M1 x))) in float32, shifted by the least that [-1, 1]^d needs."""
    t = np.abs(s[:, :, None] * A.astype(np.float64)).sum(axis=2)
    scale, shift = s.astype(np.float32), t.astype(np.float32)
    seen = np.tile(x.reshape(count, -1, x.shape[1]), (count, 1, 1))
    hidden = np.maximum(scale[:, :, None] * (A @ seen) + shift[:, :, None], 0)
    made = (B @ hidden).reshape(count, count, B.shape[1], -1).sum(axis=1)
    back = (B.astype(np.float64) @ shift[:, :, None]).reshape(count, count, -1).sum(axis=1)
    return np.asarray((made - back.astype(np.float32)[:, :, None]).reshape(-1, x.shape[1]))


def _worst(y: Array, W: Array, x: Array) -> float:
    return float(np.max(np.abs(y - W @ x.astype(np.float64))))


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
            Evidence.MEASURED,
            "another order of the blocks on another machine, or for other distributions",
        ),
        Finding(
            f"The worst system of all has condition {tail['condition']:.0e}, with b = "
            f"{tail['block']} and ratio {tail['ratio']}: the worst of many small systems is worse "
            f"than one large one, and spare width mends it.",
            Evidence.MEASURED,
            "a block size whose worst system stays as good as its typical one",
        ),
        Finding(
            "Weights are 2·b·c·d², and every system has full rank with probability one: fewer than "
            "the Õ(d²·√d) of Theorem 3, whose zeros lie anywhere and whose rank is full with high "
            "probability. Independent zeros at their sharp threshold leave 2·d²·√(2c·ln d), fewer "
            "than blocks of b > √(2·ln d/c), but one system of d² equations. The zeros are chosen, "
            "not drawn: that is what is given up. b = 1 is a table of d² weights, which needs no "
            "theorem; b = d is the dense layer of Theorem 1, 2·c·d³.",
            Evidence.PROVED,
            "nothing: see the statement block-systems",
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
    seeds=3,
    trial=trial,
    findings=findings,
    panels=panels,
    columns=("seconds", "condition", "float32", "weights", "residual"),
    about=(
        "float32 is the error of the two layers with the shifts that the box needs, over that of "
        "the map itself, at the same inputs. Sizes that b does not divide are cut off here."
    ),
)
