"""How sparse may the frozen weights be? Full rank of K against the density p.

Each entry of M1 (n × d) and M2 (d × n), n = ⌈c·d²⌉, is kept with probability p. Both ranks are
exact in each trial: the structural rank (a maximum matching of the support of K) bounds the rank of
any weights on this pattern from above; the rank modulo a prime bounds that of these weights from
below. Where they agree, the rank is known. That the pattern alone decides the rank of almost all
weights is proved (the statement sparse-pattern-rank of proofs_check); that it decides the rank of
the weights that were drawn is checked in each trial, exactly.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from math import log, sqrt
from typing import Any

import numpy as np

from reconstruct.constructions.sites import hidden_width
from reconstruct.khatri_rao import prove_full_rank, structural_obstruction
from reconstruct.networks.draw import Sampler
from reconstruct.numbers.arrays import dense
from reconstruct.reports.plotting import SERIES
from reconstruct.studies import study
from reconstruct.studies.study import Panel, Point, Row, Rows, mean, select, values_of


def trial(point: Point, seed: int) -> Row:
    d, c, p = point["d"], point["ratio"], point["p"]
    n = hidden_width(c, d * d)
    sampler = Sampler(seed, density=p)
    M1, M2 = (dense(sampler.matrix(0, i, *size)) for i, size in enumerate(((n, d), (d, n))))
    obstruction = structural_obstruction(M1, M2)
    structural = d * d if obstruction is None else obstruction.rank
    modular = prove_full_rank(M1, M2).rank if structural else 0
    row = {
        "full": modular == d * d,
        "structural_rank": structural,
        "modular_rank": modular,
        "needed": d * d,
        "disagree": modular != structural,
    }
    return {**row, "M1": M1, "M2": M2} if row["disagree"] else row


def threshold(rows: Rows) -> float | None:
    """The density at which half of the trials have full rank, between grid values by a line."""
    shares = [(p, mean(select(rows, p=p), "full")) for p in values_of(rows, "p")]
    for (low, below), (high, above) in pairwise(shares):
        if below < 0.5 <= above:
            return float(low + (high - low) * (0.5 - below) / (above - below))
    return None


def predicted(d: int, c: float) -> float:
    """No zero column where the system is square, no zero row where there is width to spare."""
    return min(1.0, 2 * log(d) / d if c < 1.05 else sqrt(2 * log(d) / c) / d)


@cache
def proved(d: int, c: float) -> tuple[float, float] | None:
    """Between these densities half of the draws begin to have full rank (c > 1), as is proved.

    proofs_check: sparse-threshold
    """
    from proofs_check.statements.theorem_3_sparse.threshold import band

    return band(d, hidden_width(c, d * d)) if c >= 1.05 and d > 1 else None


def _shown(density: float) -> str:
    """Two digits that differ where large layers are compared."""
    return f"{density:.2f}" if density >= 0.1 else f"{density:.3f}"


def findings(rows: Rows) -> list[study.Finding]:
    parts = []
    for c in values_of(rows, "ratio"):
        for d in values_of(rows, "d"):
            found = threshold(select(rows, ratio=c, d=d))
            if found is not None:
                limits = proved(d, c)
                ends = " and ".join(map(_shown, limits or ()))
                known = f"proved: between {ends}, " if limits else ""
                parts.append(
                    f"d = {d}, ratio {c:g}: {_shown(found)} ({known}expected "
                    f"{_shown(predicted(d, c))}, the paper's order {_shown(sqrt(log(d) / d))})"
                )
    worse = sum(bool(row["disagree"]) for row in rows)
    return [
        study.Finding(
            f"Half of the draws have full rank at these densities: "
            f"{'; '.join(parts) or 'none of the grid'}.",
            "a larger d whose threshold leaves the curve 2·log d/d of the square case; with spare "
            "width the curve √(2·log d/c)/d is a theorem (sparse-threshold)",
        ),
        study.Finding(
            f"The pattern of zeros decided the rank in {len(rows) - worse} of {len(rows)} trials, "
            f"as it does for almost all weights (proved: sparse-pattern-rank).",
            "a file in the folder kept/: weights whose rank is below that of their pattern",
            study.Evidence.EXACT,
        ),
    ]


def panels(rows: Rows) -> list[Panel]:
    """For each ratio the share of full rank against the density, and where it is expected."""
    return [
        Panel(
            "p",
            "full",
            "d",
            "d = {}".format,
            only={"ratio": c},
            axes={"title": f"ratio {c:g}", "xlabel": "density p", "ylabel": "share of full rank"},
            lines=_thresholds,
        )
        for c in values_of(rows, "ratio")
    ]


def _thresholds(axes: Any, rows: Rows) -> None:
    for i, d in enumerate(values_of(rows, "d")):
        colour, c = SERIES[i % len(SERIES)], rows[0]["ratio"]
        axes.axvline(predicted(d, c), color=colour, linestyle=":", linewidth=1)
        if limits := proved(d, c):
            axes.axvspan(*limits, color=colour, alpha=0.08, linewidth=0)


SPARSITY = study.Study(
    name="sparsity",
    question="How sparse may the frozen weights be?",
    parameters=(
        study.Parameter("d", "rows and columns of the map", (6, 9, 12), 1, 64),
        study.Parameter("ratio", "hidden neurons per equation", (1.0, 1.5), 0.01, 100),
        study.Parameter(
            "p",
            "the probability that a weight is kept",
            tuple(float(p) for p in np.round([*np.arange(0.1, 0.7, 0.05), 0.7, 0.8, 0.9, 1.0], 2)),
            1e-6,
            1.0,
        ),
    ),
    seeds=12,
    trial=trial,
    findings=findings,
    panels=panels,
    about=(
        "The structural rank of K bounds the rank of any weights on its pattern from above, the "
        "rank modulo a prime that of these weights from below; where the two agree the rank is "
        "known. Dotted: densities at which a zero column (square) or a zero row (spare width) "
        "becomes unlikely. Shaded: where half of the draws begin to have full rank, as is proved "
        "for spare width."
    ),
)
