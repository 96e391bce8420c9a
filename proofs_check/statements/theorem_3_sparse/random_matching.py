"""Perfect matchings of independent Bern(q) entries, with an explicit bound.

An M × M 0/1 matrix without a perfect matching has t rows (or t columns) with only t − 1 neighbours,
t ≤ ⌈M/2⌉: a smallest violator of Hall's condition. So

    P(no perfect matching) ≤ 2 Σ_t C(M,t) C(M,t−1) (1 − q)^(t(M−t+1)) ≤ 2/(M(M − 1))

as soon as −M ln(1 − q) ≥ 6 ln M: M − t + 1 ≥ M/2, so term t is at most M^(2t−1) M^(−3t).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from math import ceil, comb
from typing import Any

import sympy

from proofs_check import patterns
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
    independent_columns,
    nonsingular_probability,
)
from proofs_check.symbols import identical


def hall_terms(M: int, q: Fraction) -> Fraction:
    """2 Σ_{t ≤ ⌈M/2⌉} C(M,t) C(M,t−1) (1−q)^(t(M−t+1))."""
    terms = (comb(M, t) * comb(M, t - 1) * (1 - q) ** (t * (M - t + 1)) for t in _small(M))
    return 2 * sum(terms, Fraction(0))


def _small(M: int) -> range:
    return range(1, ceil(M / 2) + 1)


@dataclass(frozen=True)
class Hall:
    """The bound, and whether violators are sought among columns as well as rows."""

    bound: Callable[[int, Fraction], Fraction] = hall_terms
    sides: tuple[str, ...] = ("rows", "columns")


@by(Method.EXHAUSTIVE)
def bound_against_exact(claim: Hall, effort: Effort) -> Finding:
    """The exact probability of no perfect matching, M ≤ 4 (thorough: 5), is below the bound."""
    top = effort.choose(4, 5)
    tenths = [Fraction(i, 10) for i in range(1, 10)]
    for M, q in product(range(1, top + 1), [*tenths, Fraction(999, 1000)]):
        failing = 1 - nonsingular_probability([independent_columns(M, q)] * M, M)
        if failing > claim.bound(M, q):
            raise Counterexample(
                f"M={M}, q={q}: no perfect matching with probability {float(failing):.4f}, the "
                f"bound says {float(claim.bound(M, q)):.4f}"
            )
    return Finding(
        f"M ≤ {top}, q = .1 … .9 and .999 (nearly attained)",
        "exact probability ≤ bound, in rationals",
    )


@by(Method.STEP)
def smallest_violator(claim: Hall, effort: Effort) -> Finding:
    """A of one side, fewest elements, |N(A)| < |A|: then |N(A)| = |A| − 1, and its complement's
    counterpart, of M − |A| + 1 elements, violates on the other side: so |A| ≤ ⌈M/2⌉.

    Run on every matrix to 3 × 3 without a perfect matching. Then the crude sum, in symbols.
    """
    for M in range(1, 4):
        for columns in product(range(1 << M), repeat=M):
            if patterns.structural_rank(columns, M) == M:
                continue
            rows = [sum((c >> r & 1) << j for j, c in enumerate(columns)) for r in range(M)]
            sides = {"rows": rows, "columns": list(columns)}
            if not any(_violates(sides[side], M) for side in claim.sides):
                raise Counterexample(
                    f"X={patterns.show(columns, M)} has no perfect matching, but no violator of at "
                    f"most {ceil(M / 2)} {' or '.join(claim.sides)}"
                )
    m, t = sympy.symbols("M t", positive=True)
    identical(
        "exponent of M in term t", sympy.powsimp(m ** (2 * t - 1) * m ** (-3 * t)), m ** (-t - 1)
    )
    identical("geometric sum", sympy.simplify(1 / m**2 / (1 - 1 / m) - 1 / (m * (m - 1))), 0)
    for M in range(2, effort.choose(30, 80)):
        q = 1 - Fraction(int(1e6 * M ** (-6 / M)), 10**6)  # rounded so that −M ln(1−q) ≥ 6 ln M
        if claim.bound(M, q) > Fraction(2, M * (M - 1)):
            raise Counterexample(f"M={M}: bound {float(claim.bound(M, q)):.3e} above 2/(M(M−1))")
    return Finding("violators run for M ≤ 3", "Hall's condition, then a geometric sum")


def _violates(neighbours: list[int], M: int) -> bool:
    """Some t ≤ ⌈M/2⌉ vertices with exactly t − 1 neighbours."""
    for t in _small(M):
        for chosen in combinations(neighbours, t):
            union = 0
            for mask in chosen:
                union |= mask
            if union.bit_count() == t - 1:
                return True
    return False


HALL = Statement(
    name="random-matching",
    claim="An M × M matrix of independent Bern(q) entries has no perfect matching with "
    "probability at most 2 Σ_t C(M,t) C(M,t−1) (1−q)^(t(M−t+1)), t ≤ ⌈M/2⌉; at most "
    "2/(M(M−1)) if −M ln(1−q) ≥ 6 ln M.",
    hypotheses=("entries independent", "violators counted among rows and columns"),
    paper="last step of Theorem 3; the constants are ours",
    depends_on=("boolean-determinant",),
    subject=Hall(),
    checks=(bound_against_exact, smallest_violator),
    negatives=(
        Negative("violators among rows only", Hall(sides=("rows",))),
        Negative(
            "half the bound: columns forgotten", Hall(bound=lambda M, q: hall_terms(M, q) / 2)
        ),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (HALL,)
