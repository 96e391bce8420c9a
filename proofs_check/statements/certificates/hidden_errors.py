"""Errors of many hidden units through few rows: by their length, at the price of a small matrix.

Hidden units with errors ν, |ν_l| ≤ n_l, reach a cut as B ν, and what looks at the cut with the
coefficients c as c B ν. By the inequality of Cauchy and Schwarz, with weights √n_l,

    |c B ν| ≤ Σ_l |(c B)_l| n_l = Σ_l (√n_l) (√n_l |(c B)_l|) ≤ √(Σ_l n_l) √(c G cᵀ),

G = B diag(n) Bᵀ. The square of the difference of both sides, for two units and by Lagrange's
identity for any number of them, is a sum of squares:

    (Σ n_l)(Σ n_l z_l²) − (Σ n_l z_l)² = Σ_{k<l} n_k n_l (z_k − z_l)².

For absolute values inside, |G|_ij ≤ √(G_ii G_jj), which is how far rounding can take it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
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
from proofs_check.symbols import identical


def squared(c: Matrix, B: Matrix, n: Matrix) -> Fraction:
    """(Σ n_l) · c G cᵀ, G = B diag(n) Bᵀ: a rational number, no root is taken."""
    G = (B * n) @ B.T
    return Fraction(sum(n) * (c @ G @ c))


@dataclass(frozen=True)
class LengthRule:
    """The square of the bound, and which part of it rounding is measured against."""

    bound: Callable[[Matrix, Matrix, Matrix], Fraction] = squared
    diagonal: Callable[[Matrix], Matrix] = np.diagonal


@by(Method.RATIONAL)
def no_error_exceeds_its_length(rule: LengthRule, effort: Effort) -> Finding:
    """Random maps and coefficients: the worst signs of all errors, squared, within the bound."""
    rng = np.random.default_rng(81)
    count = effort.choose(60, 400)
    for case in range(count):
        rows, units = 1 + case % 3, 1 + case % 5
        B, c = exact.integers(rng, rows, units), exact.integers(rng, rows)
        n = abs(exact.integers(rng, units)) / (1 + case % 4)
        worst = sum(abs(c @ B) * n) ** 2
        if worst > rule.bound(c, B, n):
            raise Counterexample(
                f"B={exact.show(B)}, n={exact.show(n)}, c={exact.show(c)}: errors reach "
                f"√{worst}, the bound is √{rule.bound(c, B, n)}"
            )
    return Finding(f"{count} maps of up to 3 × 5", "true error² ≤ bound², in rationals")


@by(Method.RATIONAL)
def entries_are_below_their_diagonal(rule: LengthRule, effort: Effort) -> Finding:
    """(|B| diag(n) |B|ᵀ)_ij² ≤ G_ii G_jj, entry by entry."""
    rng = np.random.default_rng(82)
    count = effort.choose(60, 400)
    for case in range(count):
        B, n = exact.integers(rng, 3, 1 + case % 5), abs(exact.integers(rng, 1 + case % 5))
        inside, sizes = (abs(B) * n) @ abs(B).T, rule.diagonal((B * n) @ B.T)
        if (inside**2 > np.outer(sizes, sizes)).any():
            raise Counterexample(f"B={exact.show(B)}, n={exact.show(n)}: {exact.show(inside)}")
    return Finding(f"{count} maps of 3 rows", "|G|_ij² ≤ G_ii G_jj, in rationals")


@by(Method.STEP)
def lagrange(rule: LengthRule, effort: Effort) -> Finding:
    """Lagrange's identity in symbols: what the bound leaves over is a sum of squares."""
    units = effort.choose(4, 6)
    n = sympy.symbols(f"n0:{units}", nonnegative=True)
    z = sympy.symbols(f"z0:{units}", real=True)
    left = sum(n) * sum(a * b**2 for a, b in zip(n, z, strict=True))
    left -= sum(a * b for a, b in zip(n, z, strict=True)) ** 2
    right = sum(n[i] * n[j] * (z[i] - z[j]) ** 2 for i in range(units) for j in range(i + 1, units))
    identical("Lagrange's identity", left, right)
    return Finding("every number of units", f"the identity with {units} of them, in symbols")


HIDDEN = Statement(
    name="hidden-errors",
    claim="Errors |ν_l| ≤ n_l of hidden units move c B ν by at most √(Σ n_l · c G cᵀ), "
    "G = B diag(n) Bᵀ; and |B| diag(n) |B|ᵀ is at most √(G_ii G_jj), entry by entry.",
    hypotheses=("no n_l is negative",),
    paper="not in the paper, which computes without errors; the figures in floats need it",
    depends_on=(),
    subject=LengthRule(),
    checks=(no_error_exceeds_its_length, entries_are_below_their_diagonal, lagrange),
    negatives=(
        Negative(
            "one error for all units instead of their sum",
            LengthRule(bound=lambda c, B, n: Fraction(max(n) * (c @ ((B * n) @ B.T) @ c))),
        ),
        Negative(
            "G with the squares of the errors",
            LengthRule(bound=lambda c, B, n: Fraction(c @ ((B * n**2) @ B.T) @ c)),
        ),
        Negative("half of the diagonal", LengthRule(diagonal=lambda G: np.diagonal(G) / 2)),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (HIDDEN,)
