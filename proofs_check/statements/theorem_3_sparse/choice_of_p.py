"""How sparse the frozen weights may be: the choice of p, m = k = d.

By column replacement and the matching bound, P(singular) ≤ 2/(M(M−1)), M = d², once −ln P(column
empty) ≥ 6 ln M. A column is empty with probability 2x − x² ≤ 2 e^(−p·d), x = (1−p)^d, so p·d ≥ 12
ln d + ln 2 is enough. The paper's p = √(ln d / d) satisfies that for every d ≥ 1100; so does p of
order ln d / d. Less than (2 − ε) ln d / d is too little: then some column is empty.

What lies below that d is numerical here, and labelled so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, exp, log, log1p
from typing import Any

import numpy as np
import scipy.sparse
import scipy.special
import sympy

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
    sample_nonsingular,
)


@dataclass(frozen=True)
class Choice:
    """p as a function of d (in sympy, so that it can be differentiated), and where it begins."""

    p: Callable[[Any], Any] = lambda d: sympy.sqrt(sympy.log(d) / d)
    start: int = 1100

    def at(self, d: int) -> float:
        """p(d) as a number."""
        return min(float(self.p(sympy.Integer(d))), 1.0)


def log_empty(d: int, p: float) -> float:
    """ln P(a column of K's pattern is empty) = ln(1 − (1 − (1−p)^d)²)."""
    x = exp(d * log1p(-p))
    return log(2 - x) + d * log1p(-p)


@by(Method.GENERAL)
def from_some_d_on(claim: Choice, effort: Effort) -> Finding:
    """p·d ≥ 12 ln d + ln 2 at the start, and p·d/ln d rises from there: so for every d above.

    (12 + ln 2/ln d falls.) With L = ln d the logarithm of the ratio is differentiated in symbols,
    and its sign taken for L = 1 + y, y > 0: for p = √(ln d/d) it is y/(2(1 + y)). Where p is too
    small the failure itself is shown: P(some column is empty) above the claimed 2/(M(M−1)).
    """
    d, p = claim.start, claim.at(claim.start)
    if p * d < 12 * log(d) + log(2):
        _show_failure(d, p)
    y = sympy.Symbol("y", positive=True)
    L = sympy.Symbol("L", positive=True)
    ratio = claim.p(sympy.exp(L)) * sympy.exp(L) / L
    slope = sympy.simplify(sympy.diff(sympy.expand_log(sympy.log(ratio), force=True), L))
    if sympy.factor(slope.subs(L, 1 + y)).is_positive is not True:
        raise ArithmeticError(f"p·d/ln d is not seen to rise: slope {slope} at L = ln d")
    return Finding(f"every d ≥ {d}", "p·d ≥ 12 ln d + ln 2, so P(singular) ≤ 2/(d²(d²−1))")


def _show_failure(d: int, p: float) -> None:
    """A lower bound on P(singular) that the claim cannot survive, or an admission."""
    M = d * d
    empty, allowed = -np.expm1(M * log1p(-exp(log_empty(d, p)))), 2 / (M * (M - 1))
    if empty > allowed:
        raise Counterexample(
            f"d={d}, p={p:.2e}: some column of K is empty with probability {empty:.3g}, above the "
            f"claimed {allowed:.1e}"
        )
    raise ArithmeticError(f"d={d}: p·d = {p * d:.1f} is below 12 ln d + ln 2, undecided")


@by(Method.NUMERICAL)
def chain_at_moderate_d(claim: Choice, effort: Effort) -> Finding:
    """Asymptotic part: the sum of step 2 with the q of step 1, evaluated in floating point."""
    values = [
        (d, _chain_bound(d, claim.at(d))) for d in effort.choose((20, 40, 80), (20, 40, 80, 160))
    ]
    for (d, first), (_, second) in pairwise(values):
        if second > first:
            raise Counterexample(f"the bound rises after d={d}: {first:.2e} to {second:.2e}")
    text = ", ".join(f"d={d}: {value:.1e}" for d, value in values)
    return Finding(f"d = {values[0][0]} … {values[-1][0]}", f"P(singular) ≤ {text}", None)


def _chain_bound(d: int, p: float) -> float:
    """2 Σ_t C(M,t) C(M,t−1) exp(−λ t (M−t+1)) with λ M = −ln P(column empty)."""
    M = d * d
    rate = -log_empty(d, p) / M
    t = np.arange(1, ceil(M / 2) + 1, dtype=float)
    gamma = scipy.special.gammaln
    choose = gamma(M + 1) - gamma(t + 1) - gamma(M - t + 1)
    fewer = gamma(M + 1) - gamma(t) - gamma(M - t + 2)
    return float(2 * np.exp(choose + fewer - rate * t * (M - t + 1)).sum())


@by(Method.NUMERICAL)
def sampled_singular_fraction(claim: Choice, effort: Effort) -> Finding:
    """Below the d that the proof needs: how often a random pattern is singular."""
    rng = np.random.default_rng(92)
    draws, parts = effort.choose(40, 400), []
    for d in (4, 6, 8, *effort.choose((), (12, 16))):
        p = claim.at(d)
        singular = sum(not sample_nonsingular(rng, d, d, p) for _ in range(draws))
        parts.append(f"d={d}: {singular}/{draws}")
    return Finding(
        f"d = 4 … {effort.choose(8, 16)}, p as chosen", "singular " + ", ".join(parts), None
    )


CHOICE = Statement(
    name="sparse-choice-of-p",
    claim="With p = √(ln d / d) a sparse K (d² × d²) is generically singular with probability "
    "at most 2/(d²(d²−1)) for every d ≥ 1100; any p ≥ (12 ln d + ln 2)/d is enough.",
    hypotheses=("p at least of order ln d / d", "d ≥ 1100 for the constant given"),
    scope=Scope.EVERY_SIZE,
    paper="Theorem 3, p = Θ(√(log d / d)); the explicit constant and the smaller p are ours",
    depends_on=("sparse-pattern-rank", "column-replacement", "random-matching"),
    subject=Choice(),
    checks=(from_some_d_on, chain_at_moderate_d, sampled_singular_fraction),
    negatives=(
        Negative("p = 1/d: below the threshold", Choice(p=lambda d: 1 / d)),
        Negative(
            "p = 1.5 ln d / d: just below",
            Choice(p=lambda d: sympy.Rational(3, 2) * sympy.log(d) / d),
        ),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (CHOICE,)
