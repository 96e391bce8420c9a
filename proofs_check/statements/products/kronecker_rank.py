"""Rank of a Kronecker product.

A = P D_r Q and B = P' D_s Q' with invertible P, Q (normal forms), so by the mixed product A ⊗ B =
(P ⊗ P')(D_r ⊗ D_s)(Q ⊗ Q'), and P ⊗ P' has the inverse P⁻¹ ⊗ P'⁻¹: only D_r ⊗ D_s matters. It is
a 0/1 matrix with r·s ones, one for each pair, no two of them in a row or a column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
from proofs_check.statements.products.definitions import Products


@dataclass(frozen=True)
class RankRule:
    """A product of two matrices, and the rank it should have."""

    product: Callable[[Matrix, Matrix], Matrix] = Products().kronecker
    rank: Callable[[int, int], int] = lambda r, s: r * s


def _normal_form(m: int, n: int, r: int) -> Matrix:
    """The m × n matrix with r leading ones on its diagonal."""
    D = exact.matrix([[0] * n] * m).reshape(m, n)
    for i in range(r):
        D[i, i] = D[i, i] + 1
    return D


@by(Method.STEP)
def rank_by_normal_forms(rule: RankRule, effort: Effort) -> Finding:
    """A = P D_r Q and B = P' D_s Q' with invertible P, Q, so A⊗B = (P⊗P')(D_r⊗D_s)(Q⊗Q').

    P⊗P' has the inverse P⁻¹⊗P'⁻¹ (mixed product), so only D_r⊗D_s matters; it is a 0/1 matrix with
    r·s ones, one for each pair, no two in a row or column.
    """
    top = effort.choose(3, 5)
    for m, n in product(range(1, top + 1), repeat=2):
        for r, s in product(range(min(m, n) + 1), range(min(n, 2) + 1)):
            D = rule.product(_normal_form(m, n, r), _normal_form(n, 2, s))
            ones = [index for index in np.ndindex(*D.shape) if D[index] != 0]
            rows, columns = {x for x, _ in ones}, {y for _, y in ones}
            expected = rule.rank(r, s)
            if not len(ones) == len(rows) == len(columns) == expected:
                raise Counterexample(
                    f"D_{r} ({m}x{n}) with D_{s} ({n}x2): {len(ones)} ones in {len(rows)} rows and "
                    f"{len(columns)} columns, but the rule says rank {expected}"
                )
    return Finding(f"normal forms ≤ {top}", "D_r ⊗ D_s has r·s ones, none sharing a line")


@by(Method.RATIONAL)
def rank_on_planted_ranks(rule: RankRule, effort: Effort) -> Finding:
    """A = (m × r)(r × n) for every pair of ranks, ranks over the rationals."""
    rng = np.random.default_rng(3)
    top = effort.choose(3, 4)
    for r, s in product(range(top + 1), range(3)):
        A = exact.integers(rng, top, r) @ exact.integers(rng, r, top) + _normal_form(top, top, 0)
        B = exact.integers(rng, 2, s) @ exact.integers(rng, s, top) + _normal_form(2, top, 0)
        expected, found = rule.rank(exact.rank(A), exact.rank(B)), exact.rank(rule.product(A, B))
        if found != expected:
            raise Counterexample(
                f"A={exact.show(A)} of rank {exact.rank(A)}, B={exact.show(B)} of rank "
                f"{exact.rank(B)}: the product has rank {found}, the rule says {expected}"
            )
    return Finding(f"A {top}x{top}, B 2x{top}, all ranks", "rank(A⊗B) = rank A · rank B")


KRONECKER_RANK = Statement(
    name="kronecker-rank",
    claim="rank(A ⊗ B) = rank(A) · rank(B).",
    hypotheses=(),
    paper="standard rule, used for the Khatri-Rao rank",
    depends_on=("mixed-product", "rank-of-a-product"),
    subject=RankRule(),
    checks=(rank_on_planted_ranks, rank_by_normal_forms),
    negatives=(
        Negative(
            "Khatri-Rao in place of Kronecker",
            RankRule(product=lambda A, B: Products().khatri_rao(A, B[:, : A.shape[1]])),
        ),
        Negative("ranks added instead of multiplied", RankRule(rank=lambda r, s: r + s)),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (KRONECKER_RANK,)
