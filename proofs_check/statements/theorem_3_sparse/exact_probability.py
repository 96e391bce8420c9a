"""The exact probability that a random pattern of K is non-singular, for small sizes.

All patterns are enumerated, those with the same future merged (see `patterns`); a Monte Carlo
estimate with another matching algorithm stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import sqrt
from typing import Any

import numpy as np

from proofs_check import patterns
from proofs_check.core import (
    Counterexample,
    Effort,
    Finding,
    Method,
    Negative,
    Scope,
    Statement,
    by,
)
from proofs_check.distributions import (
    Weights,
    entries_as_if_independent,
    nonsingular_probability,
    outer_columns,
    sample_nonsingular,
)


@dataclass(frozen=True)
class Model:
    """The distribution of one column of K's pattern."""

    column: Callable[[int, int, Fraction], Weights] = outer_columns


@by(Method.EXHAUSTIVE)
def two_enumerations(model: Model, effort: Effort) -> Finding:
    """d = 2: all 2^16 patterns one by one against the merged enumeration, exactly."""
    p = Fraction(1, 2)
    total = Fraction(0)
    weights = list(outer_columns(2, 2, p).items())
    for choice in product(weights, repeat=4):
        if patterns.structural_rank([c for c, _ in choice], 4) == 4:
            total += choice[0][1] * choice[1][1] * choice[2][1] * choice[3][1]
    merged = nonsingular_probability([model.column(2, 2, p)] * 4, 4)
    if total != merged:
        raise Counterexample(f"d=2, p=1/2: one by one {total}, by the model {merged}")
    third = nonsingular_probability([model.column(2, 3, p)] * 6, 6)
    return Finding("m x k x n = 2x2x4, 2x3x6", f"p = 1/2: exactly {total}; 2x3: {float(third):.4f}")


@by(Method.NUMERICAL)
def against_monte_carlo(model: Model, effort: Effort) -> Finding:
    """Sampled patterns and scipy's matching; five standard deviations allowed (error 6e-7 each)."""
    rng = np.random.default_rng(91)
    draws, lines = effort.choose(1500, 10000), []
    for (m, k), p in product(((2, 2), (2, 3)), (Fraction(1, 2), Fraction(4, 5))):
        rows = m * k
        probability = float(nonsingular_probability([model.column(m, k, p)] * rows, rows))
        hits = sum(sample_nonsingular(rng, m, k, float(p)) for _ in range(draws))
        slack = 5 * sqrt(probability * (1 - probability) / draws) + 1 / draws
        lines.append(f"{m}x{k} p={p}: {probability:.4f}/{hits / draws:.4f}")
        if abs(hits / draws - probability) > slack:
            raise Counterexample(
                f"m={m}, k={k}, p={p}: model {probability:.4f}, sampled {hits / draws:.4f}, "
                f"more than {slack:.4f} apart"
            )
    return Finding(
        f"2x2x4 and 2x3x6, {draws} draws each", "exact/sampled " + ", ".join(lines), 4 * 6e-7
    )


EXACT = Statement(
    name="sparse-exact-probability",
    claim="The probability that a random pattern of K is non-singular, for the sizes listed, "
    "exactly, with the sampled one beside it.",
    hypotheses=("entries kept independently with probability p",),
    scope=Scope.THESE_SIZES,
    paper="not in the paper, which bounds it",
    depends_on=("sparse-pattern-rank",),
    subject=Model(),
    checks=(two_enumerations, against_monte_carlo),
    negatives=(
        Negative("entries of K taken as independent Bern(p²)", Model(entries_as_if_independent)),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (EXACT,)
