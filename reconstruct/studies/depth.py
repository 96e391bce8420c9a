"""Deep and narrow (Theorem 2): what do thin layers cost in digits?

A d × d map whose inputs enter in blocks of K through skip connections, one layer per block. The
theorem is exact for every K; in float64 the condition of what is carried decides, and width to
spare is what keeps it small.
"""

from __future__ import annotations

import numpy as np

from reconstruct.constructions import Deep
from reconstruct.constructions import draw as draw_frozen
from reconstruct.khatri_rao import Status
from reconstruct.networks import Box, Network
from reconstruct.pipeline import reconstruct
from reconstruct.studies import study
from reconstruct.studies.study import Panel, Point, Row, Rows, select, values_of


def trial(point: Point, seed: int) -> Row:
    d, rng = point["d"], np.random.default_rng(seed)
    target = Network.mlp([rng.normal(size=(d, d)) / np.sqrt(d)], [rng.normal(size=d)])
    frozen = draw_frozen(target, Deep(min(point["block"], d), point["ratio"]), seed=seed)
    result = reconstruct(target, frozen, domain=Box(-1, 1))
    x = rng.uniform(-1, 1, size=(300, d))
    wanted = target(x)
    error = np.abs(result.network(x) - wanted).max() / np.abs(wanted).max()
    condition = max(float(row.condition or 1.0) for row in result.layers)
    return {
        "error": float(error) if np.isfinite(error) else None,
        "condition": condition if np.isfinite(condition) else None,
        "solved": result.status is Status.SOLVED,
        "depth": len(result.layers),
    }


def worst(rows: Rows, name: str) -> float:
    """The largest value of a column; infinite where one is missing."""
    return max((float("inf") if row[name] is None else row[name] for row in rows), default=0.0)


def findings(rows: Rows) -> list[study.Finding]:
    said = []
    for ratio in values_of(rows, "ratio"):
        own = select(rows, ratio=ratio)
        thin = min(values_of(own, "block"))
        deepest = select(own, block=thin, d=max(values_of(own, "d")))
        said.append(f"{worst(deepest, 'error'):.0e} at ratio {ratio:g}")
    block, d = min(values_of(rows, "block")), max(values_of(rows, "d"))
    wrong = [r for r in rows if r["solved"] and not (r["error"] is not None and r["error"] < 1e-5)]
    return [
        study.Finding(
            f"With {block} input per layer and d = {d} the largest relative error is "
            f"{', '.join(said)}: width to spare buys the digits that depth costs.",
            "a draw with spare width whose error grows like that of square systems",
        ),
        study.Finding(
            f"Of {len(rows)} results {sum(bool(r['solved']) for r in rows)} were called solved, "
            f"{len(wrong)} of them wrongly (an error above 1e-5).",
            "one result that is called solved and is not",
        ),
    ]


def panels(rows: Rows) -> list[Panel]:
    """The largest error against the inputs per layer, for the largest maps."""
    d = max(values_of(rows, "d"))
    axes = {"xlabel": f"inputs per layer, d = {d}", "ylabel": "largest relative error"}
    return [Panel("block", "error", "ratio", "ratio {:g}".format, "xy", {"d": d}, worst, axes)]


DEPTH = study.Study(
    name="depth",
    question="What do deep and narrow networks cost in digits?",
    parameters=(
        study.Parameter("d", "rows and columns of the map", (8, 16), 1, 256),
        study.Parameter("block", "inputs that enter per layer", (1, 2, 4, 8), 1, 256),
        study.Parameter("ratio", "hidden neurons per equation of a block", (1.0, 1.5, 2.0), 1, 100),
    ),
    seeds=2,
    trial=trial,
    findings=findings,
    panels=panels,
)
