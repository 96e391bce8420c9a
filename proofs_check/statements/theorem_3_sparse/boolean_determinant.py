"""The Boolean determinant ∨_σ ∧_j X[σ(j), j] of a 0/1 matrix: 1 iff there is a perfect matching.

Grouping the permutations by the row i = σ(j) that meets column j gives the expansion along it:
bdet X = ∨_i (X[i,j] ∧ bdet of X without row i and column j).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import numpy as np

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
from proofs_check.modular import Residues


def boolean_determinant(X: Residues) -> int:
    """∨ over permutations of ∧ of entries."""
    n = len(X)
    return int(any(all(X[s[j], j] for j in range(n)) for s in permutations(range(n))))


def real_determinant_nonzero(X: Residues) -> int:
    """1 iff the ordinary determinant of the 0/1 matrix is not zero."""
    return int(round(abs(float(np.linalg.det(X)))) != 0) if len(X) else 1


def parity(X: Residues) -> int:
    """Exclusive or in place of or: the determinant over the field of two elements."""
    n = len(X)
    return sum(all(X[s[j], j] for j in range(n)) for s in permutations(range(n))) % 2


@dataclass(frozen=True)
class Boolean:
    """The determinant under test."""

    determinant: Callable[[Residues], int] = boolean_determinant


@by(Method.EXHAUSTIVE)
def against_matching_and_expansion(claim: Boolean, effort: Effort) -> Finding:
    """Every Boolean matrix to 3 × 3, and a sample of 4 × 4: matching and every expansion."""
    rng = np.random.default_rng(83)
    whole = [
        np.array(bits).reshape(n, n) for n in (1, 2, 3) for bits in product((0, 1), repeat=n * n)
    ]
    sample = [(rng.random((4, 4)) < 0.45).astype(int) for _ in range(effort.choose(150, 3000))]
    for X in whole + sample:
        n, value = len(X), claim.determinant(X)
        columns = [patterns.mask(X[:, j]) for j in range(n)]
        if value != (patterns.structural_rank(columns, n) == n):
            raise Counterexample(
                f"X={patterns.show(columns, n)}: determinant {value}, perfect matching: {not value}"
            )
        for j in range(n):
            expanded = any(X[i, j] and claim.determinant(_without(X, i, j)) for i in range(n))
            if value != expanded:
                raise Counterexample(f"X={patterns.show(columns, n)}: expansion along {j} differs")
    return Finding("all to 3x3; sample of 4x4", f"all {len(whole)} matrices, every column")


def _without(X: Residues, i: int, j: int) -> Residues:
    return np.delete(np.delete(X, i, axis=0), j, axis=1)


@by(Method.STEP)
def permutations_split(claim: Boolean, effort: Effort) -> Finding:
    """Permutations of n with σ(j) = i are those of the other rows and columns: n · (n−1)! = n!."""
    for n in range(1, effort.choose(6, 8)):
        for j in range(n):
            smaller = {
                (*(r + (r >= i) for r in s[:j]), i, *(r + (r >= i) for r in s[j:]))
                for i in range(n)
                for s in permutations(range(n - 1))
            }
            if smaller != set(permutations(range(n))):
                raise Counterexample(f"n={n}, column {j}: the split misses a permutation")
    rng = np.random.default_rng(84)
    for n in range(1, effort.choose(7, 8)):
        P = np.eye(n, dtype=np.int64)[rng.permutation(n)]  # one permutation, one way to match
        for lost in range(n + 1):
            X = P.copy()
            X[:lost] = 0
            if claim.determinant(X) != (lost == 0):
                raise Counterexample(f"{X.tolist()}: determinant {claim.determinant(X)}")
            j = int(rng.integers(n))
            expanded = any(X[i, j] and claim.determinant(_without(X, i, j)) for i in range(n))
            if claim.determinant(X) != expanded:
                raise Counterexample(f"{X.tolist()}: expansion along {j} differs")
    return Finding(
        f"split to n = {effort.choose(5, 7)}, expanded to n = {effort.choose(6, 7)}",
        "grouping σ by σ(j) is a bijection",
    )


BOOLEAN = Statement(
    name="boolean-determinant",
    claim="The Boolean determinant is 1 iff there is a perfect matching, and expands along any "
    "column: bdet X = ∨_i X[i,j] ∧ bdet(X without row i, column j).",
    hypotheses=("or, not exclusive or, between permutations",),
    paper="Boolean determinant in the proof of Theorem 3",
    depends_on=(),
    subject=Boolean(),
    checks=(against_matching_and_expansion, permutations_split),
    negatives=(
        Negative("exclusive or in place of or", Boolean(determinant=parity)),
        Negative(
            "the ordinary determinant of the 0/1 matrix",
            Boolean(determinant=real_determinant_nonzero),
        ),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (BOOLEAN,)
