"""How many hidden units a map ahead of LayerNorm needs: (m − 1)(k + 1), and one more for m = 2.

The equations U M2 diag(s) P [M1 | c] = U [W | b], U a basis of what the second norm sees, have
columns (U M2)_l ⊗ (P [M1 | c])_l. Full rank for almost all weights follows from one instance.

m ≥ 3: for each of the k + 1 columns b of [M1 | c] a class of m − 1 units, rows c_l e_b with c_l ≠ 0
that sum to zero (P leaves them alone), and (U M2)_l the unit vectors: K is the identity up to
factors, class by class. m = 2: rows e_1 … e_{k+1} and −(1 … 1), (U M2)_l = 1: rank k + 1; with
k + 1 units alone P leaves rank k. Without frozen biases the column c is absent, and so is b.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

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
from proofs_check.statements.live_statistics.exact_layers import centred
from proofs_check.statements.products.definitions import khatri_rao

Weights = tuple[Matrix, Matrix]


def drawn(rng: np.random.Generator, m: int, k: int, n: int) -> Weights:
    """[M1 | c] and M2, generic."""
    return exact.integers(rng, n, k + 1, bound=99), exact.integers(rng, m, n, bound=99)


def equal_biases(rng: np.random.Generator, m: int, k: int, n: int) -> Weights:
    inner, M2 = drawn(rng, m, k, n)
    inner[:, -1] = 7
    return inner, M2


@dataclass(frozen=True)
class Count:
    """The width, the equations that it meets, and the weights."""

    width: Callable[[int, int], int] = lambda m, k: (m - 1) * (k + 1) + (m == 2)
    equations: Callable[[int, int], int] = lambda m, k: (m - 1) * (k + 1)
    draw: Callable[..., Weights] = drawn


def system(inner: Matrix, M2: Matrix) -> Matrix:
    """K of U M2 and P [M1 | c]; of U the rows (P M2)_i, i < m, are as good a basis as any."""
    return khatri_rao(centred(M2.T).T[:-1], centred(inner.T))


def witness(m: int, k: int) -> Weights:
    """The instance above: rows that sum to zero, and M2 with (P M2)_i the unit vectors, i < m."""
    if m == 2:
        inner = np.concatenate([np.eye(k + 1, dtype=int), -np.ones((1, k + 1), dtype=int)])
        return exact.matrix(inner), exact.matrix([[1] * (k + 2), [-1] * (k + 2)])
    factors = [1] * (m - 2) + [2 - m]
    inner = np.kron(np.eye(k + 1, dtype=int), np.array(factors)[:, None])
    unit = np.concatenate([np.eye(m - 1, dtype=int), -np.ones((1, m - 1), dtype=int)])
    return exact.matrix(inner), exact.matrix(np.tile(unit, (1, k + 1)))


@by(Method.STEP)
def the_witness_has_full_rank(claim: Count, effort: Effort) -> Finding:
    """Its weights meet all the equations with as many units as claimed, and so do drawn ones."""
    rng, top = np.random.default_rng(73), effort.choose(4, 6)
    for m, k in product(range(2, top + 1), range(1, top)):
        n, rows = claim.width(m, k), claim.equations(m, k)
        for what, (inner, M2) in (("draw", claim.draw(rng, m, k, n)), ("witness", witness(m, k))):
            rank = exact.rank(system(inner, M2))
            if rank != rows or len(inner) != n:
                raise Counterexample(
                    f"m={m}, k={k}, n={n}, {what} of {len(inner)} units: rank {rank} of {rows}, "
                    f"[M1 | c]={exact.show(inner)}, M2={exact.show(M2)}"
                )
    return Finding(f"m ≤ {top}, k < {top}", "full rank, at the witness and at random integers")


@by(Method.RATIONAL)
def no_unit_is_spare(claim: Count, effort: Effort) -> Finding:
    """One unit fewer leaves rank below (m − 1)(k + 1), whatever the weights: a null vector."""
    rng = np.random.default_rng(74)
    for m, k in product((2, 3), (1, 2, 3)):
        inner, M2 = claim.draw(rng, m, k, claim.width(m, k) - 1)
        if exact.rank(system(inner, M2)) == claim.equations(m, k):
            raise Counterexample(f"m={m}, k={k}: {len(inner)} units are enough, too")
    return Finding("m ≤ 3, k ≤ 3", "one unit fewer misses some [W | b]")


COUNT = Statement(
    name="live-width",
    claim="U M2 diag(s) P [M1 | c] = U [W | b] are (m − 1)(k + 1) equations, of full rank with "
    "probability 1 from as many hidden units on, one more for m = 2.",
    hypotheses=("weights and biases of a continuous distribution",),
    paper="not in the paper; the width of Theorem 1 for live statistics",
    depends_on=("khatri-rao-full-rank", "live-layers-exact"),
    subject=Count(),
    checks=(the_witness_has_full_rank, no_unit_is_spare),
    negatives=(
        Negative("one unit too few", Count(width=lambda m, k: (m - 1) * (k + 1) - (m > 2))),
        Negative("no unit more for m = 2", Count(width=lambda m, k: (m - 1) * (k + 1))),
        Negative("equal frozen biases: one column is lost", Count(draw=equal_biases)),
        Negative("means not counted out: m·(k + 1)", Count(equations=lambda m, k: m * (k + 1))),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (COUNT,)
