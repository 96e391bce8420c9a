"""How well conditioned is the Khatri-Rao system? Singular values against Marchenko and Pastur.

For d² equations and n = c·d² unknowns the law for matrices with independent entries puts the
singular values of K, scaled by √n times the typical entry, between 1 − 1/√c and 1 + 1/√c, whatever
the distribution. The entries of K are products of 2nd independent numbers, so the law is not a
theorem here; how well it fits is measured.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reconstruct.constructions.sites import hidden_width
from reconstruct.khatri_rao import ConjugateGradient, KhatriRao, expected_iterations, solve
from reconstruct.networks.draw import Sampler, Weights
from reconstruct.numbers.arrays import dense
from reconstruct.reports.plotting import FAINT
from reconstruct.studies import study
from reconstruct.studies.study import Panel, Point, Row, Rows, values_of


def trial(point: Point, seed: int) -> Row:
    d, c, kind = point["d"], point["ratio"], point["weights"]
    n = hidden_width(c, d * d)
    weights = Weights.GAUSSIAN if kind == "sparse" else Weights(kind)
    sampler = Sampler(seed, weights, 0.5 if kind == "sparse" else None)
    M1, M2 = (dense(sampler.matrix(0, i, *size)) for i, size in enumerate(((n, d), (d, n))))
    K = KhatriRao(M1, M2).dense()
    scale = np.sqrt(n) * np.sqrt(np.mean(K**2))  # √n times the typical entry
    values = np.sort(np.linalg.svd(K / scale, compute_uv=False)) if scale > 0 else None
    W = np.random.default_rng(seed).normal(size=(d, d)) / np.sqrt(d)
    found = solve(M1, M2, W, ConjugateGradient())
    direct = solve(M1, M2, W)
    single = (M2.astype(np.float32) * direct.s.astype(np.float32)) @ M1.astype(np.float32)
    return {
        "smallest": None if values is None else float(values[0]),
        "largest": None if values is None else float(values[-1]),
        "iterations": found.iterations if found.solved else None,
        "expected_iterations": expected_iterations(d * d, n) if n > d * d else None,
        "residual": direct.residual if direct.solved else None,
        "float32": float(np.linalg.norm(single - W) / np.linalg.norm(W)),
        "solved": direct.solved,
    }


def edges(c: float) -> tuple[float, float]:
    """The law's least and largest scaled singular value."""
    return 1 - 1 / np.sqrt(c), 1 + 1 / np.sqrt(c)


def findings(rows: Rows) -> list[study.Finding]:
    spare = [r for r in rows if r["ratio"] > 1 and r["smallest"] is not None]
    away = [abs(r["smallest"] - edges(r["ratio"])[0]) for r in spare]
    counted = [r for r in spare if r["iterations"] and r["expected_iterations"]]
    pace = [r["iterations"] / r["expected_iterations"] for r in counted]
    square = [r for r in rows if r["ratio"] <= 1]
    said = [
        study.Finding(
            f"With width to spare the smallest singular value is within {max(away, default=0):.2f} "
            f"of the law's edge in {len(spare)} trials, and conjugate gradients take "
            f"{min(pace, default=0):.2f} to {max(pace, default=0):.2f} times the iterations that "
            f"it predicts.",
            "a distribution of independent entries whose edge stays away as d grows",
        )
    ]
    if square:
        lost = sum(not r["solved"] for r in square)
        said.append(
            study.Finding(
                f"Of {len(square)} square systems {lost} were not solved; their smallest singular "
                f"value is {min((r['smallest'] or 0.0) for r in square):.0e} at worst.",
                "nothing: it is a count of these trials",
            )
        )
    return said


def panels(rows: Rows) -> list[Panel]:
    """The ends of the spectrum beside the law's, and the iterations."""
    spectrum = {"title": "Least and largest singular value (scaled)", "xlabel": "ratio c"}
    steps = {"title": "Iterations of conjugate gradients", "xlabel": "ratio c", "ylim": (0, None)}
    return [
        Panel("ratio", ("largest", "smallest"), "weights", axes=spectrum, lines=_law),
        Panel("ratio", "iterations", "weights", axes=steps),
    ]


def _law(axes: Any, rows: Rows) -> None:
    ratios = values_of(rows, "ratio")
    fine = np.linspace(ratios[0], ratios[-1], 100)
    axes.plot(fine, [edges(c) for c in fine], ":", color=FAINT, linewidth=1.2)


CONDITIONING = study.Study(
    name="conditioning",
    question="How well conditioned are the systems?",
    parameters=(
        study.Parameter("d", "rows and columns of the map", (12,), 2, 64),
        study.Parameter(
            "ratio", "hidden neurons per equation", (1.0, 1.2, 1.5, 2.0, 3.0), 1.0, 100
        ),
        study.Parameter(
            "weights",
            "the distribution of the frozen weights",
            ("gaussian", "uniform", "rademacher", "sparse"),
        ),
    ),
    trial=trial,
    findings=findings,
    panels=panels,
    about=(
        "Dotted: the edges 1 ∓ 1/√c of Marchenko and Pastur's law, which is proved for independent "
        "entries; those of a Khatri-Rao product are not."
    ),
)
