"""The exact probability that a random pattern of K is non-singular, at the smallest size.

For m = k = 2 and n = 4 there are 2^16 patterns of M1 and M2. Those with i ones have probability
p^i (1 − p)^(16−i) each, so the probability is a polynomial in p, and counting the non-singular
patterns by their number of ones is the proof, for every p. The sampled curves of the sparsity study
start from this value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

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
    PROBABILITIES,
    Weights,
    entries_as_if_independent,
    nonsingular_probability,
    outer_columns,
)


@dataclass(frozen=True)
class Model:
    """How many non-singular patterns have 8, 9, … 16 ones, and the distribution of a column."""

    counts: tuple[int, ...] = (24, 192, 624, 1056, 924, 432, 112, 16, 1)
    column: Callable[[int, int, Fraction], Weights] = outer_columns

    def probability(self, p: Fraction) -> Fraction:
        terms = (c * p**i * (1 - p) ** (16 - i) for i, c in enumerate(self.counts, 8))
        return sum(terms, Fraction(0))


@by(Method.WHOLE)
def every_pattern_counted(model: Model, effort: Effort) -> Finding:
    """All 2^16 patterns one by one: matched or not, and by how many ones."""
    units = [
        (patterns.outer(u, v, 2, 2), u.bit_count() + v.bit_count())
        for u, v in product(range(4), repeat=2)
    ]
    found = [0] * 17
    for chosen in product(units, repeat=4):
        if patterns.structural_rank([column for column, _ in chosen], 4) == 4:
            found[sum(ones for _, ones in chosen)] += 1
    if tuple(found) != (0,) * 8 + model.counts:
        raise Counterexample(f"non-singular patterns by their number of ones: {found}")
    return Finding(
        "m x k x n = 2x2x4, every p", f"all 65536 patterns, {sum(found)} of them matched"
    )


@by(Method.EXHAUSTIVE)
def by_merged_states(model: Model, effort: Effort) -> Finding:
    """The polynomial against the enumeration that other statements use, in rationals."""
    for p in PROBABILITIES:
        merged = nonsingular_probability([model.column(2, 2, p)] * 4, 4)
        if merged != model.probability(p):
            raise Counterexample(f"p={p}: {merged} by columns, {model.probability(p)} by counts")
    return Finding("p = .1 .3 .5 .8", f"at p = 1/2 both say {model.probability(Fraction(1, 2))}")


EXACT = Statement(
    name="sparse-exact-probability",
    claim="For m = k = 2, n = 4 the pattern of K is non-singular with probability "
    "Σ_i a_i p^i (1 − p)^(16−i), a_8 … a_16 = 24, 192, 624, 1056, 924, 432, 112, 16, 1.",
    hypotheses=("entries of M1 and M2 kept independently with probability p",),
    paper="not in the paper, which bounds it",
    depends_on=("sparse-pattern-rank",),
    subject=Model(),
    checks=(by_merged_states, every_pattern_counted),
    negatives=(
        Negative(
            "entries of K taken as independent Bern(p²)", Model(column=entries_as_if_independent)
        ),
        Negative(
            "one pattern of nine ones too many",
            Model(counts=(24, 193, 624, 1056, 924, 432, 112, 16, 1)),
        ),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (EXACT,)
