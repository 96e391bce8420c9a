"""How sparse the frozen weights may be: each entry is kept with probability p.

The chain of the paper's Theorem 3, with constants of our own. K has M = m·k rows and columns; column
j is u ⊗ v with u, v of independent Bern(p) entries, and columns are independent.

1. Column replacement. Expand the Boolean determinant along column j: given the others it is 1 iff the
   column meets a set S of rows. For every S

       P(u ⊗ v misses S) ≤ P(it misses all rows)^(|S|/M) =: (1 − q)^|S|,

   with equality for S = all rows, so a column of independent Bern(q) entries meets S no more often;
   replacing the columns one by one only lowers the probability that K's pattern is non-singular.
   Proof. Given v, row a of S is missed with probability φ_a = 1 or 1 − p as v misses S_a or not. By
   Hölder E Π φ_a ≤ Π (E φ_a^m)^(1/m), and E φ_a^m = F(|S_a|) with F(x) = α + (1 − α)(1 − p)^x,
   α = (1 − p)^m. F(x) is a sum of exponentials, so log-convex, and F(0) = 1: F(x) ≤ F(k)^(x/k).
2. Matching. An M × M matrix of independent Bern(q) entries without a perfect matching has t rows (or
   columns) with only t − 1 neighbours, t ≤ ⌈M/2⌉ (a smallest violator of Hall's condition), so

       P(no perfect matching) ≤ 2 Σ_t C(M,t) C(M,t−1) (1 − q)^(t(M−t+1)) ≤ 2/(M(M − 1))

   as soon as −M ln(1 − q) ≥ 6 ln M: term t is at most M^(2t−1) M^(−3t).
3. Choice of p, m = k = d. −M ln(1 − q) = −ln P(column empty) ≥ p·d − ln 2, so p·d ≥ 12 ln d + ln 2 is
   enough. The paper's p = √(ln d / d) satisfies it for every d ≥ 1100; p of order ln d / d does too,
   and less than (2 − ε) ln d / d is too little: then some column is empty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from math import ceil, comb, exp, log, log1p, prod, sqrt
from typing import Any

import numpy as np
import scipy.sparse
import scipy.special
import sympy

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
from proofs_check.symbols import identical

Weights = dict[int, Fraction]
PROBABILITIES = tuple(Fraction(x, 10) for x in (1, 3, 5, 8))


def outer_columns(m: int, k: int, p: Fraction) -> Weights:
    """Distribution of the column u ⊗ v, as row mask: probability."""
    weights: Weights = defaultdict(Fraction)
    for u, v in product(range(1 << m), range(1 << k)):
        ones = u.bit_count() + v.bit_count()
        weights[patterns.outer(u, v, m, k)] += p**ones * (1 - p) ** (m + k - ones)
    return dict(weights)


def independent_columns(rows: int, q: Fraction) -> Weights:
    """Distribution of a column of independent Bern(q) entries."""
    return {c: q ** c.bit_count() * (1 - q) ** (rows - c.bit_count()) for c in range(1 << rows)}


def entries_as_if_independent(m: int, k: int, p: Fraction) -> Weights:
    """The dependence inside a column ignored: independent Bern(p²) entries."""
    return independent_columns(m * k, p * p)


def nonsingular_probability(columns: list[Weights], rows: int) -> Fraction:
    """Exact probability of a perfect matching: all patterns, those with the same future merged."""
    states: Weights = {patterns.EMPTY: Fraction(1)}
    for weights in columns:
        after: Weights = defaultdict(Fraction)
        for state, probability in states.items():
            for column, weight in weights.items():
                after[patterns.add(state, column, rows)] += probability * weight
        states = after
    return sum((w for s, w in states.items() if patterns.rank(s, rows) == rows), Fraction(0))


# --- exact probability against Monte Carlo ------------------------------------------------------


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
        hits = sum(_sample(rng, m, k, float(p)) for _ in range(draws))
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


def _sample(rng: np.random.Generator, m: int, k: int, p: float) -> bool:
    U, V = rng.random((m * k, m)) < p, rng.random((m * k, k)) < p
    support = (U[:, :, None] & V[:, None, :]).reshape(m * k, m * k)
    return bool(scipy.sparse.csgraph.structural_rank(scipy.sparse.csr_matrix(support)) == m * k)


EXACT = Statement(
    name="sparse-exact-probability",
    claim="The probability that a random pattern of K is non-singular, for the sizes listed, exactly, "
    "with the sampled one beside it.",
    hypotheses=("entries kept independently with probability p",),
    scope=Scope.THESE_SIZES,
    paper="not in the paper, which bounds it",
    relied_on=("reconstruct/khatri_rao/sparse.py", "reconstruct/networks/draw.py"),
    depends_on=("sparse-pattern-rank",),
    subject=Model(),
    checks=(two_enumerations, against_monte_carlo),
    negatives=(
        Negative("entries of K taken as independent Bern(p²)", Model(entries_as_if_independent)),
    ),
)

# --- column replacement -------------------------------------------------------------------------


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
        for r, (before, after) in enumerate(zip(chain, chain[1:], strict=False)):
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


@by(Method.GENERAL)
def hoelder_and_log_convexity(claim: Replacement, effort: Effort) -> Finding:
    """F(x) F(x+2) − F(x+1)² = α(1−α)β^x(1−β)² ≥ 0 in symbols; Hölder's step on all S of small sizes."""
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
    return Finding("every m, k, p; steps run for m·k ≤ 6", "Hölder over rows, then log-convexity")


REPLACEMENT = Statement(
    name="column-replacement",
    claim="For every row set S, P(u ⊗ v misses S) ≤ (1 − q)^|S| with (1 − q)^M = P(u ⊗ v = 0); so "
    "replacing columns of K's pattern by Bern(q) columns only lowers P(non-singular).",
    hypotheses=("u, v independent Bern(p)", "columns independent", "q no larger than stated"),
    scope=Scope.EVERY_SIZE,
    paper="column replacement with Bern(q) in the proof of Theorem 3; this q is ours",
    relied_on=("reconstruct/khatri_rao/sparse.py",),
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

# --- perfect matchings of independent entries ---------------------------------------------------


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
    for M, tenths in product(range(1, top + 1), range(1, 10)):
        q = Fraction(tenths, 10)
        failing = 1 - nonsingular_probability([independent_columns(M, q)] * M, M)
        if failing > claim.bound(M, q):
            raise Counterexample(
                f"M={M}, q={q}: no perfect matching with probability {float(failing):.4f}, the bound "
                f"says {float(claim.bound(M, q)):.4f}"
            )
    return Finding(f"M ≤ {top}, q = .1 … .9", "exact probability ≤ bound, in rationals")


@by(Method.GENERAL)
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
    return Finding("every M; violators run for M ≤ 3", "Hall's condition, then a geometric sum")


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
    claim="An M × M matrix of independent Bern(q) entries has no perfect matching with probability at "
    "most 2 Σ_t C(M,t) C(M,t−1) (1−q)^(t(M−t+1)), t ≤ ⌈M/2⌉; at most 2/(M(M−1)) if "
    "−M ln(1−q) ≥ 6 ln M.",
    hypotheses=("entries independent", "violators counted among rows and columns"),
    scope=Scope.EVERY_SIZE,
    paper="last step of Theorem 3; the constants are ours",
    relied_on=("reconstruct/khatri_rao/sparse.py",),
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

# --- the choice of p ----------------------------------------------------------------------------


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
    and its sign taken for L = 1 + y, y > 0: for p = √(ln d/d) it is y/(2(1 + y)). Where p is smaller
    the failure itself is shown: P(some column is empty) above the claimed 2/(M(M−1)).
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
    for (d, first), (_, second) in zip(values, values[1:], strict=False):
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
        singular = sum(not _sample(rng, d, d, p) for _ in range(draws))
        parts.append(f"d={d}: {singular}/{draws}")
    return Finding(
        f"d = 4 … {effort.choose(8, 16)}, p as chosen", "singular " + ", ".join(parts), None
    )


CHOICE = Statement(
    name="sparse-choice-of-p",
    claim="With p = √(ln d / d) a sparse K (d² × d²) is generically singular with probability at most "
    "2/(d²(d²−1)) for every d ≥ 1100; any p ≥ (12 ln d + ln 2)/d is enough.",
    hypotheses=("p at least of order ln d / d", "d ≥ 1100 for the constant given"),
    scope=Scope.EVERY_SIZE,
    paper="Theorem 3, p = Θ(√(log d / d)); the explicit constant and the smaller p are ours",
    relied_on=("reconstruct/networks/draw.py", "reconstruct/khatri_rao/sparse.py"),
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

STATEMENTS: tuple[Statement[Any], ...] = (EXACT, REPLACEMENT, HALL, CHOICE)
