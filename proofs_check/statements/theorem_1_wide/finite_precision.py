"""Frozen weights of finite precision: full rank without a density.

Let the entries of M1 and M2 be independent, none of its values more likely than ρ, and M = m·k,
r = n − M + 1. If rank K < M, the column space has a basis of at most M − 1 columns; fill it up to a
set B of M − 1 columns: the other r columns lie in the span of B. For a fixed B choose a matrix
Y ≠ 0, a function of the columns in B, with <Y, u vᵀ> = uᵀ Y v = 0 for all of them. A column
outside of B is independent of Y, and lies in the span only if uᵀ Y v = 0. Some row of Y is not
zero, and with all other entries of v given at most one value of one entry makes its product with v
vanish: P(Yv = 0) ≤ ρ. Where Yv ≠ 0 the same holds for u, so with x = P(Yv = 0) ≤ ρ
P(uᵀYv = 0) ≤ x + (1 − x)ρ ≤ 2ρ − ρ². The r columns are independent of each other, and there are
C(n, r) choices of B:

    P(rank K < m·k)  ≤  C(n, r) · (2ρ − ρ²)^r.

For 8-bit weights ρ = 1/256; for Gaussian float32 weights ρ < 2^-24 (spacing 2^-23 x, x φ(x) < 1/4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import comb
from typing import Any

import numpy as np

from proofs_check import modular
from proofs_check.core import (
    Counterexample,
    Effort,
    Finding,
    Method,
    Negative,
    Statement,
    by,
)


@dataclass(frozen=True)
class Discrete:
    """P(a column falls into a hyperplane), the number of choices, and the spare columns."""

    column: Callable[[Fraction], Fraction] = lambda rho: 2 * rho - rho**2
    choices: Callable[[int, int], int] = comb
    spare: Callable[[int, int], int] = lambda n, rows: n - rows + 1

    def bound(self, m: int, k: int, n: int, rho: Fraction) -> Fraction:
        r = self.spare(n, m * k)
        return self.choices(n, r) * self.column(rho) ** r


@by(Method.STEP)
def every_hyperplane(claim: Discrete, effort: Effort) -> Finding:
    """All Y ≠ 0 with entries −1, 0, 1, all u and v of three values: uᵀYv = 0 as rarely as said."""
    for m, k in ((1, 1), (1, 2), (2, 2), *effort.choose((), ((2, 3),))):
        us, vs = (np.array(list(product((-1, 0, 1), repeat=size))) for size in (m, k))
        for entries in product((-1, 0, 1), repeat=m * k):
            if any(entries):
                zeros = int((us @ np.array(entries).reshape(m, k) @ vs.T == 0).sum())
                share = Fraction(zeros, len(us) * len(vs))
                if share > claim.column(Fraction(1, 3)):
                    raise Counterexample(
                        f"Y={entries} ({m}x{k}), values −1, 0, 1: uᵀYv = 0 with probability {share}"
                    )
    return Finding("Y to 2x2, three values", "P(uᵀYv = 0) ≤ 2ρ − ρ², attained by one entry")


@by(Method.EXHAUSTIVE)
def every_draw(claim: Discrete, effort: Effort) -> Finding:
    """The exact probability of a loss of rank, all weights of two or three values."""
    cases = [(1, 1, n, v) for n in (1, 2, 3) for v in (2, 3)]
    cases += [(1, 2, 2, 2), (1, 2, 2, 3), (1, 2, 3, 3), (1, 2, 5, 2), (1, 3, 4, 2), (2, 1, 4, 2)]
    for m, k, n, values in [*cases, *effort.choose((), ((2, 2, 5, 2),))]:
        draws = np.array(list(product(range(values), repeat=(m + k) * n)))
        u, v = np.split(draws.reshape(-1, n, m + k), [m], axis=2)
        K = (u[..., :, None] * v[..., None, :]).reshape(len(draws), n, m * k)
        lost = Fraction(int((modular.ranks(K) < m * k).sum()), len(draws))
        bound = claim.bound(m, k, n, Fraction(1, values))
        if lost > bound:
            raise Counterexample(
                f"m={m}, k={k}, n={n}, weights 0 … {values - 1}: rank lost with probability "
                f"{lost}, the bound says {bound}"
            )
    return Finding(
        f"{len(cases)} sizes, m·k ≤ 3, n ≤ 5, 2 or 3 values", "exact probability ≤ bound"
    )


PRECISION = Statement(
    name="finite-precision",
    claim="If no value of a frozen weight is more likely than ρ, then P(rank K < m·k) ≤ "
    "C(n, n−mk+1)·(2ρ − ρ²)^(n−mk+1): weights of 8 bits or float32 numbers need no density.",
    hypotheses=("weights independent", "n ≥ m·k; the bound is small only where n exceeds it"),
    paper="not in the paper, whose weights have a density; drawn float32 numbers never do",
    depends_on=("vec-identity",),
    subject=Discrete(),
    checks=(every_draw, every_hyperplane),
    negatives=(
        Negative("only u counted: a column is lost with ρ", Discrete(column=lambda rho: rho)),
        Negative("the choice of the columns forgotten", Discrete(choices=lambda n, r: 1)),
        Negative("one spare column more", Discrete(spare=lambda n, rows: n - rows + 2)),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (PRECISION,)
