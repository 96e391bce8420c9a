"""Low rank: a map of rank r as two maps in a row.

W = U V of rank r becomes V, then U; the ReLU between them is kept active by a shift t of the r
values, and U's own constant takes U t back: width max(r·k, m·r) in place of m·k.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from proofs_check import exact
from proofs_check.core import (
    Counterexample,
    Effort,
    Finding,
    Method,
    Negative,
    Statement,
    by,
)
from proofs_check.exact import Matrix
from proofs_check.statements.theorem_1_wide.layers import TwoLayers, inside, relu, tuned
from proofs_check.symbols import identical, unknowns


@dataclass(frozen=True)
class LowRank:
    """W = U V with r = rank(W), each factor rebuilt as a map of its own."""

    rank: Callable[[int], int] = lambda r: r
    uncancel: Callable[[Matrix, Matrix, Matrix], Matrix] = lambda b, U, t: b - U @ t
    two: TwoLayers = field(default_factory=TwoLayers)


def factor(W: Matrix, r: int) -> tuple[Matrix, Matrix]:
    """U (m × r), V (r × k): pivot columns and the reduced rows of W; r below the rank truncates."""
    R, pivots = exact.reduce(W)
    return W[:, list(pivots)[:r]], R[:r]


@by(Method.RATIONAL)
def factored_network_is_exact(claim: LowRank, effort: Effort) -> Finding:
    """Four frozen layers, three ReLUs, exact weights: equal to W h + b on corners and inside."""
    rng = np.random.default_rng(61)
    shapes = [(3, 3, 1), (3, 4, 2), (2, 3, 1), *effort.choose((), ((4, 4, 2), (5, 5, 2)))]
    for m, k, r in shapes:
        W = exact.integers(rng, m, r) @ exact.integers(rng, r, k)
        b = exact.integers(rng, m)
        lo, hi = exact.matrix([[-1] * k])[0], exact.matrix([[2] * k])[0]
        U, V = factor(W, claim.rank(r))
        t = claim.two.activity.shift(V, exact.matrix([[1]] * len(V))[:, 0], lo, hi)
        top = t + np.array(
            [sum(max(x * a, x * c) for x, a, c in zip(v, lo, hi, strict=True)) for v in V]
        )
        first = tuned(claim.two, rng, V, t, lo, hi)
        second = tuned(claim.two, rng, U, claim.uncancel(b, U, t), 0 * t, top)
        for h in inside(lo, hi):
            found, wanted = second(relu(first(h))), W @ h + b
            if (found != wanted).any():
                raise Counterexample(
                    f"W={exact.show(W)} of rank {r}, r={len(V)}, h={exact.show(h)}: the factors "
                    f"give {exact.show(found)}, the target {exact.show(wanted)}"
                )
    return Finding(f"{len(shapes)} shapes, rank ≤ 2", "equal by == on D, width max(r·k, m·r)")


@by(Method.STEP)
def shift_between_factors(claim: LowRank, effort: Effort) -> Finding:
    """U (V h + t) + (b − U t) = (U V) h + b, with V h + t ≥ 0 on D: the ReLU between is active."""
    for m, k, r in product((1, 2), (1, 2), (1, 2)):
        U, V = unknowns("u", m, r), unknowns("v", r, k)
        h, t, b = unknowns("h", k), unknowns("t", r), unknowns("b", m)
        left = U @ (V @ h + t) + claim.uncancel(b, U, t)
        identical("factored - W h - b", left, (U @ V) @ h + b)
    rng = np.random.default_rng(62)
    for r in range(1, effort.choose(4, 6)):
        W = exact.integers(rng, 5, r) @ exact.integers(rng, r, 6)
        U, V = factor(W, claim.rank(exact.rank(W)))
        exact.same(f"U V of W={exact.show(W)}, r={len(V)}", U @ V, W)
    return Finding("symbols ≤ 2, ranks ≤ 3", "U V = W and the shift cancels")


LOW_RANK = Statement(
    name="low-rank-factors",
    claim="A map of rank r is rebuilt as two maps in a row, V (r × k) then U (m × r), of width "
    "max(r·k, m·r).",
    hypotheses=("W = U V exactly", "the value between them shifted to be positive"),
    paper="remark to Theorem 1",
    depends_on=("two-frozen-layers", "rank-of-a-product"),
    subject=LowRank(),
    checks=(factored_network_is_exact, shift_between_factors),
    negatives=(
        Negative("rank one too small", LowRank(rank=lambda r: r - 1)),
        Negative("shift between the factors not taken back", LowRank(uncancel=lambda b, U, t: b)),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (LOW_RANK,)
