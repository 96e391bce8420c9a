"""Column replacement: a column u ⊗ v meets any set of rows at least as often as Bern(q) entries do.

Expand the Boolean determinant along column j: given the other columns it is 1 iff the column
meets a set S of rows. With M = m·k, for every S

    P(u ⊗ v misses S) ≤ P(u ⊗ v = 0)^(|S|/M) =: (1 − q)^|S|,

with equality for S = all rows. So a column of independent Bern(q) entries meets S no more often,
and replacing the columns one by one only lowers the probability that K's pattern is non-singular.

Proof. Given v, row a of S is missed with probability φ_a = 1 or 1 − p, as v misses S_a or not. By
Hölder E Π φ_a ≤ Π (E φ_a^m)^(1/m), and E φ_a^m = F(|S_a|) with F(x) = α + (1 − α)(1 − p)^x and α
= (1 − p)^m. F is a sum of exponentials, so log-convex, and F(0) = 1: F(x) ≤ F(k)^(x/k). The
product over a is F(k)^(|S|/M), and F(k) = P(u ⊗ v = 0).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from math import prod
from typing import Any

import sympy

from proofs_check.core import (
    Counterexample,
    Effort,
    Finding,
    Method,
    Negative,
    Statement,
    by,
)
from proofs_check.distributions import (
    PROBABILITIES,
    independent_columns,
    nonsingular_probability,
    outer_columns,
)
from proofs_check.symbols import identical


@dataclass(frozen=True)
class Replacement:
    """P(column misses everything), whose M-th root is 1 − q; the bound compares M-th powers."""

    empty: Callable[[int, int, Fraction], Fraction] = lambda m, k, p: (
        1 - (1 - (1 - p) ** m) * (1 - (1 - p) ** k)
    )


@by(Method.EXHAUSTIVE)
def every_row_set(claim: Replacement, effort: Effort) -> Finding:
    """All S: P(miss S)^M ≤ P(miss all)^|S|, in rationals."""
    sizes = [(1, 3), (2, 2), (2, 3), (3, 3), *effort.choose((), ((2, 5), (3, 4)))]
    for (m, k), p in product(sizes, PROBABILITIES):
        rows, columns = m * k, outer_columns(m, k, p)
        for S in range(1, 1 << rows):
            miss = sum((w for c, w in columns.items() if not c & S), Fraction(0))
            if miss**rows > claim.empty(m, k, p) ** S.bit_count():
                raise Counterexample(
                    f"m={m}, k={k}, p={p}, S={S:0{rows}b}: u⊗v misses S with probability {miss}, "
                    f"more than (1 − q)^{S.bit_count()}"
                )
    return Finding(
        f"all S, m·k ≤ {effort.choose(9, 12)}, p = .1 .3 .5 .8", "miss(S)^M ≤ miss(all)^|S|"
    )


@by(Method.EXHAUSTIVE)
def one_column_after_another(claim: Replacement, effort: Effort) -> Finding:
    """d = 2: the probability falls with each column replaced by Bern(q), exactly."""
    for p in PROBABILITIES:
        q = 1 - _root_above(claim.empty(2, 2, p), 4)
        kept, drawn = outer_columns(2, 2, p), independent_columns(4, q)
        chain = [nonsingular_probability([drawn] * r + [kept] * (4 - r), 4) for r in range(5)]
        for r, (before, after) in enumerate(pairwise(chain)):
            if after > before:
                raise Counterexample(
                    f"p={p}, q={float(q):.4f}: replacing column {r} raises the probability from "
                    f"{float(before):.6f} to {float(after):.6f}"
                )
    return Finding("d = 2, p = .1 .3 .5 .8", "five hybrid matrices, never rising")


def _root_above(value: Fraction, degree: int) -> Fraction:
    """A rational at or just above value^(1/degree), so that q is not overstated."""
    root = Fraction(float(value) ** (1 / degree)).limit_denominator(10**6)
    while root**degree < value:
        root += Fraction(1, 10**6)
    return min(root, Fraction(1))


@by(Method.STEP)
def hoelder_and_log_convexity(claim: Replacement, effort: Effort) -> Finding:
    """F(x) F(x+2) − F(x+1)² = α(1−α)β^x(1−β)² ≥ 0 in symbols; Hölder's step on all small S."""
    alpha, beta, x = sympy.symbols("alpha beta x", positive=True)

    def F(y: Any) -> Any:
        return alpha + (1 - alpha) * beta**y

    gap = sympy.expand(sympy.expand(F(x) * F(x + 2) - F(x + 1) ** 2), power_exp=True)
    identical("log-convexity", gap, sympy.expand(alpha * (1 - alpha) * beta**x * (1 - beta) ** 2))
    identical("F(0)", F(0), 1)
    for (m, k), p in product(((2, 2), (2, 3), (3, 2)), PROBABILITIES):
        columns = outer_columns(m, k, p)
        full = [(1 - p) ** m + (1 - (1 - p) ** m) * (1 - p) ** y for y in range(k + 1)]
        if full[k] != claim.empty(m, k, p):
            raise Counterexample(
                f"m={m}, k={k}, p={p}: a column is empty with probability {full[k]}, not "
                f"{claim.empty(m, k, p)}"
            )
        for S in range(1 << m * k):
            miss = sum((w for c, w in columns.items() if not c & S), Fraction(0))
            rows = [(S >> a * k & (1 << k) - 1).bit_count() for a in range(m)]
            bound = prod(full[size] for size in rows)
            if miss**m > bound or any(full[y] ** k > full[k] ** y for y in rows):
                raise Counterexample(f"Hölder's step fails at m={m}, k={k}, p={p}, S={S:b}")
    return Finding("steps run for m·k ≤ 6", "Hölder over rows, then log-convexity")


REPLACEMENT = Statement(
    name="column-replacement",
    claim="For every row set S, P(u ⊗ v misses S) ≤ (1 − q)^|S| with (1 − q)^M = P(u ⊗ v = 0); "
    "so replacing columns of K's pattern by Bern(q) columns only lowers P(non-singular).",
    hypotheses=("u, v independent Bern(p)", "columns independent", "q no larger than stated"),
    paper="column replacement with Bern(q) in the proof of Theorem 3; this q is ours",
    depends_on=("boolean-determinant", "sparse-pattern-rank"),
    subject=Replacement(),
    checks=(every_row_set, one_column_after_another, hoelder_and_log_convexity),
    negatives=(
        Negative(
            "q = p², as if the entries were independent",
            Replacement(empty=lambda m, k, p: (1 - p * p) ** (m * k)),
        ),
        Negative("only u counted: a term missing", Replacement(empty=lambda m, k, p: (1 - p) ** m)),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (REPLACEMENT,)
