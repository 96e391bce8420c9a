"""How sparse the frozen weights may be: the choice of p, for maps of any shape and all layers.

By column replacement and the matching bound, P(singular) ≤ 2/(M(M−1)), M = m·k, once −ln P(column
empty) ≥ 6 ln M. A column is empty with probability x + y − x y ≤ 2 e^(−p·min(m,k)), x = (1−p)^m,
y = (1−p)^k, so p ≥ (6 ln(m·k) + ln 2)/min(m,k) is enough. For m = k = d that is p·d ≥ 12 ln d +
ln 2, and the paper's p = √(ln d / d) satisfies it for every d ≥ 1100; so does p of order ln d / d.
Less than (2 − ε) ln d / d is too little: then some column is empty. A network of several maps fails
where one of them does: P(some K singular) ≤ Σ 2/(M_i(M_i−1)), whatever the layers have in common.

What lies below that d is numerical here, and labelled so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
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
    Statement,
    by,
)
from proofs_check.distributions import (
    sample_nonsingular,
)


@dataclass(frozen=True)
class Choice:
    """p as a function of d (in sympy, so that it can be differentiated), and where it begins; the p
    that is enough for an m × k map; and how the failures of several maps add up."""

    p: Callable[[Any], Any] = lambda d: sympy.sqrt(sympy.log(d) / d)
    start: int = 1100
    enough: Callable[[int, int], float] = lambda m, k: (6 * log(m * k) + log(2)) / min(m, k)
    any_layer: Callable[[Sequence[Fraction]], Any] = sum

    def at(self, d: int) -> float:
        """p(d) as a number."""
        return min(float(self.p(sympy.Integer(d))), 1.0)


def log_empty(m: int, k: int, p: float) -> float:
    """ln P(a column of K's pattern is empty) = ln(x + y − x y), x = (1−p)^m, y = (1−p)^k."""
    few, many = sorted((m, k))
    ratio, y = exp((many - few) * log1p(-p)), exp(many * log1p(-p))
    return log(1 + ratio - y) + few * log1p(-p)


@by(Method.STEP)
def rectangular_maps_and_their_union(claim: Choice, effort: Effort) -> Finding:
    """−ln P(column empty) ≥ 6 ln(m·k) at the p that is enough, for wide, tall and huge maps; and
    P(some of several events) ≤ Σ P, with equality where they exclude each other."""
    sizes = (50, 300, 1000, 10**4, 10**6)
    for m, k in product(sizes, repeat=2):
        p = claim.enough(m, k)
        if p < 1 and -log_empty(m, k, p) < 6 * log(m * k):
            raise Counterexample(
                f"m={m}, k={k}, p={p:.3e}: a column is empty with probability "
                f"e^{log_empty(m, k, p):.2f}, more than (m·k)^−6 = e^{-6 * log(m * k):.2f}"
            )
    for parts in ((1, 1), (1, 2, 3), (2, 2, 2, 2)):
        chances = [Fraction(part, 20) for part in parts]  # events that exclude each other
        if claim.any_layer(chances) < sum(parts) * Fraction(1, 20):
            raise Counterexample(f"chances {chances}: some layer fails with chance {sum(parts)}/20")
    return Finding(f"m, k from {sizes[0]} to {sizes[-1]:.0e}", "columns empty as rarely as needed")


@by(Method.STEP)
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
    empty, allowed = -np.expm1(M * log1p(-exp(log_empty(d, d, p)))), 2 / (M * (M - 1))
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
    rate = -log_empty(d, d, p) / M
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
    claim="With p ≥ (6 ln(m·k) + ln 2)/min(m,k) a sparse K of an m × k map is generically singular "
    "with probability at most 2/(M(M−1)), M = m·k, and some K of a network with at most the sum of "
    "these; p = √(ln d / d) is enough for m = k = d ≥ 1100.",
    hypotheses=("p at least of order ln d / d", "d ≥ 1100 for the constant given", "n ≥ m·k"),
    paper="Theorem 3, p = Θ(√(log d / d)); the explicit constant and the smaller p are ours",
    depends_on=("sparse-pattern-rank", "column-replacement", "random-matching"),
    subject=Choice(),
    checks=(
        from_some_d_on,
        rectangular_maps_and_their_union,
        chain_at_moderate_d,
        sampled_singular_fraction,
    ),
    negatives=(
        Negative("p = 1/d: below the threshold", Choice(p=lambda d: 1 / d)),
        Negative(
            "p = 1.5 ln d / d: just below",
            Choice(p=lambda d: sympy.Rational(3, 2) * sympy.log(d) / d),
        ),
        Negative(
            "the larger of m and k in place of the smaller",
            Choice(enough=lambda m, k: (6 * log(m * k) + log(2)) / max(m, k)),
        ),
        Negative("the worst layer in place of all", Choice(any_layer=max)),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (CHOICE,)
