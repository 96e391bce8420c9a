"""How errors pass what an attention adds: a product of two values, and Softmax over a row.

Products. (A + δ)(B + ε) − A B = δ B + A ε + δ ε: with its signs, and at most
|δ| |B| + |A| |ε| + |δ| |ε|.

Softmax. Let p_i = w_i/Σ_j w_j, w_j = e^(z_j), and z move along δ, m = Σ_j p_j δ_j and
v = Σ_j p_j (δ_j − m)² its mean and variance. Then w_j' = δ_j w_j, hence

    p_i' = p_i (δ_i − m),    m' = Σ_j p_j (δ_j − m) δ_j = v,    p_i'' = p_i ((δ_i − m)² − v).

δ_i − m = (1 − p_i)(δ_i − the mean of the others), so |p_i'| ≤ 2 p_i (1 − p_i) max|δ| ≤ max|δ|/2 all
along the way, and so p moves by no more than that. |p_i''| ≤ 4 max|δ|², for (δ_i − m)² is at most
that and v at most max|δ|²: by Taylor's formula p_i' leaves out at most half of it, 2 max|δ|².
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import sympy

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
from proofs_check.symbols import identical, unknowns

# --- products -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Factors:
    """What errors of the factors make of a product, and how much at most."""

    moved: Callable[..., Matrix] = lambda A, d, B, e: d @ B + A @ e + d @ e
    most: Callable[..., Matrix] = lambda A, d, B, e: d @ B + A @ e + d @ e  # of sizes


@by(Method.STEP)
def products_in_symbols(claim: Factors, effort: Effort) -> Finding:
    """(A + δ)(B + ε) − A B, entry by entry, the order of the factors kept."""
    for m, k, n in ((1, 1, 1), (2, 2, 2), *effort.choose(((2, 3, 1),), ((2, 3, 2), (3, 2, 3)))):
        A, d, B, e = (
            unknowns(name, *shape)
            for name, shape in (("a", (m, k)), ("d", (m, k)), ("b", (k, n)), ("e", (k, n)))
        )
        left = (A + d) @ (B + e) - A @ B
        identical(f"the product's error, {m}×{k}×{n}", left, claim.moved(A, d, B, e))
    return Finding("up to 2 × 3 by 3 × 1", "δ B + A ε + δ ε")


@by(Method.RATIONAL)
def products_within_their_bound(claim: Factors, effort: Effort) -> Finding:
    """Factors and errors of all signs, attained where signs agree."""
    rng, count = np.random.default_rng(81), effort.choose(60, 400)
    for trial in range(count):
        A, B = exact.integers(rng, 2, 3), exact.integers(rng, 3, 2)
        d, e = exact.integers(rng, 2, 3, bound=2), exact.integers(rng, 3, 2, bound=2)
        if trial % 3 == 0:
            A, B, d, e = (abs(part) for part in (A, B, d, e))
        moved = abs((A + d) @ (B + e) - A @ B)
        if (moved > claim.most(*(abs(part) for part in (A, d, B, e)))).any():
            raise Counterexample(
                f"A={exact.show(A)}, δ={exact.show(d)}, B={exact.show(B)}, ε={exact.show(e)}: "
                f"A B moves by {exact.show(moved)}"
            )
    return Finding(f"{count} products of 2 × 3 by 3 × 2", "|δ||B| + |A||ε| + |δ||ε|")


PRODUCTS = Statement(
    name="product-errors",
    claim="A product of two values moves by δ B + A ε + δ ε where its factors move by δ and ε: by "
    "|δ||B| + |A||ε| + |δ||ε| at most.",
    hypotheses=("δ and ε are the errors of both factors at the same input",),
    paper="not in the paper; attention stands in f where it stands in g",
    depends_on=(),
    subject=Factors(),
    checks=(products_in_symbols, products_within_their_bound),
    negatives=(
        Negative("without δ ε", Factors(moved=lambda A, d, B, e: d @ B + A @ e)),
        Negative("one factor is exact", Factors(most=lambda A, d, B, e: d @ B)),
        Negative("no bound for δ ε", Factors(most=lambda A, d, B, e: d @ B + A @ e)),
    ),
)

# --- Softmax --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rows:
    """Both derivatives of Softmax along δ, and how large p's move and its second one are."""

    first: Callable[..., Any] = lambda p, d, m, v: p * (d - m)
    second: Callable[..., Any] = lambda p, d, m, v: p * ((d - m) ** 2 - v)
    most: Fraction = Fraction(1, 2)  # times max|δ|
    bend: Fraction = Fraction(4)  # times max|δ|²


@by(Method.STEP)
def derivatives_in_symbols(claim: Rows, effort: Effort) -> Finding:
    """p_i(z + t δ), differentiated by t once and twice at 0, for weights w_j > 0 of any size."""
    (t,) = sympy.symbols("t,")
    for n in range(1, effort.choose(4, 5)):
        w, d = unknowns("w", n), unknowns("d", n)
        powers = [a * sympy.exp(t * b) for a, b in zip(w, d, strict=True)]
        total = sum(w)
        p = [a / total for a in w]
        m = sum(a * b for a, b in zip(p, d, strict=True))
        v = sum(a * (b - m) ** 2 for a, b in zip(p, d, strict=True))
        path = powers[0] / sum(powers)
        for order, rule in ((1, claim.first), (2, claim.second)):
            left = sympy.diff(path, t, order).subs(t, 0) * total**3
            identical(
                f"derivative {order} of p_1, {n} units",
                sympy.expand(sympy.cancel(left)),
                sympy.expand(sympy.cancel(rule(p[0], d[0], m, v) * total**3)),
            )
    return Finding("rows of 1 to 3 units", "p (δ − m) and p ((δ − m)² − v)")


@by(Method.RATIONAL)
def derivatives_within_their_bounds(claim: Rows, effort: Effort) -> Finding:
    """Rational p on the simplex, next to its corners and edges too, and δ of all signs."""
    rng, count = np.random.default_rng(82), effort.choose(300, 3000)
    for trial in range(count):
        n = 2 + trial % 3
        weights = abs(exact.integers(rng, n)) * 10**6 + 1
        if trial % 5 == 0:
            weights[1:] = weights[0] * Fraction(1, n - 1)  # p_1 = 1/2
        p, d = weights / weights.sum(), exact.integers(rng, n) / Fraction(9)
        if trial % 2 == 0:
            d = np.array([Fraction(1)] + [Fraction(-1)] * (n - 1), dtype=object)
        m = p @ d
        v, top = p @ (d - m) ** 2, max(abs(d))
        slope, bend = p * (d - m), p * ((d - m) ** 2 - v)
        if max(abs(slope)) > claim.most * top or max(abs(bend)) > claim.bend * top**2:
            raise Counterexample(
                f"p={exact.show(p)}, δ={exact.show(d)}: p' = {exact.show(slope)}, "
                f"p'' = {exact.show(bend)}"
            )
    return Finding(f"{count} rows of 2 to 4 units", "|p'| ≤ max|δ|/2, |p''| ≤ 4 max|δ|²")


@by(Method.RATIONAL)
def moves_within_their_bound(claim: Rows, effort: Effort) -> Finding:
    """e^δ = r^±1 for rational r > 1: |δ| = log r > 2 (r − 1)/(r + 1), attained by two units."""
    rng = np.random.default_rng(83)
    for r, n in product((Fraction(11, 10), Fraction(2), Fraction(50)), (2, 3, 4)):
        even = np.array([Fraction(1)] + [r / (n - 1)] * (n - 1), dtype=object)
        for w in (even, abs(exact.integers(rng, n)) + 1, abs(exact.integers(rng, n)) + 1):
            for signs in product((1, -1), repeat=n):
                other = np.array([a * r**s for a, s in zip(w, signs, strict=True)], dtype=object)
                moved = max(abs(other / other.sum() - w / w.sum()))
                if moved > claim.most * 2 * (r - 1) / (r + 1):
                    raise Counterexample(
                        f"e^z={exact.show(w)}, e^|δ|={r}, signs {signs}: p moves by {moved}"
                    )
    return Finding("rows of 2 to 4 units, max|δ| from 0.1 to 4", "p moves by max|δ|/2 at most")


SOFTMAX = Statement(
    name="softmax-errors",
    claim="Where the values of a row move by δ, Softmax moves by p_i (δ_i − Σ_j p_j δ_j), up to "
    "2 max|δ|², and by max|δ|/2 at most.",
    hypotheses=("δ moves all values of the row at once",),
    paper="not in the paper; attention stands in f where it stands in g",
    depends_on=(),
    subject=Rows(),
    checks=(derivatives_in_symbols, derivatives_within_their_bounds, moves_within_their_bound),
    negatives=(
        Negative("the mean of δ left out", Rows(first=lambda p, d, m, v: p * d)),
        Negative("the variance left out", Rows(second=lambda p, d, m, v: p * (d - m) ** 2)),
        Negative("max|δ|/4, as for Sigmoid", Rows(most=Fraction(1, 4))),
        Negative("max|δ|²/9 for what is left out", Rows(bend=Fraction(2, 9))),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (PRODUCTS, SOFTMAX)
