"""No zero entries in the solution, with probability 1.

For fixed W ≠ 0, say W[a,b] ≠ 0, Cramer gives s_j = det K_j / det K, K_j being K with column j
replaced by vec(W). det K_j is not the zero polynomial: take the unit witness with neuron j placed
at (a,b); then det K_j = ± W[a,b]. So every s_j ≠ 0 outside a set of measure zero.
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
from proofs_check.statements.products.definitions import khatri_rao
from proofs_check.statements.theorem_1_wide.full_rank import unit_witness
from proofs_check.statements.theorem_2_deep.cramer import leibniz
from proofs_check.symbols import unknowns

Draw = Callable[[np.random.Generator, int, int], tuple[Matrix, Matrix]]


def generic_weights(rng: np.random.Generator, m: int, k: int) -> tuple[Matrix, Matrix]:
    """M1 (m·k × k), M2 (m × m·k), integers large enough to stand for generic values."""
    return exact.integers(rng, m * k, k, bound=999), exact.integers(rng, m, m * k, bound=999)


def witness_weights(rng: np.random.Generator, m: int, k: int) -> tuple[Matrix, Matrix]:
    """The unit witness as weights: not generic."""
    M1, M2 = unit_witness(m, k, m * k)
    return exact.matrix(M1), exact.matrix(M2)


def single_entry(rng: np.random.Generator, m: int, k: int) -> Matrix:
    """W with one non-zero entry: the hardest W ≠ 0."""
    W = exact.matrix([[0] * k] * m)
    W[int(rng.integers(m)), int(rng.integers(k))] += 1
    return W


@dataclass(frozen=True)
class Entries:
    """The weights and the target whose solution should have no zero entry."""

    weights: Draw = generic_weights
    target: Callable[[np.random.Generator, int, int], Matrix] = single_entry


@by(Method.STEP)
def cramer_witness(claim: Entries, effort: Effort) -> Finding:
    """det K_j = ± W[a,b] at the witness whose neuron j stands at (a,b), W in symbols."""
    rng = np.random.default_rng(71)
    top = effort.choose(3, 4)
    for m, k in product(range(1, top + 1), repeat=2):
        if m * k > 6:
            continue
        target = claim.target(rng, m, k)
        support = [(a, b) for a, b in np.ndindex(m, k) if target[a, b] != 0]
        if not support:
            raise Counterexample(f"m={m}, k={k}: W = 0, so K s = 0 and s = 0: every entry is zero")
        a, b = support[0]
        W = unknowns("w", m, k)
        for j in range(m * k):
            order = np.arange(m * k)
            order[[j, a * k + b]] = order[[a * k + b, j]]
            M1, M2 = unit_witness(m, k, m * k)
            K = khatri_rao(M2[:, order], M1[order].T).astype(object)
            K[:, j] = W.reshape(-1)
            value = leibniz(K)
            if value not in (W[a, b], -W[a, b]):
                raise Counterexample(f"m={m}, k={k}, j={j}: det K_j = {value}, not ±W[{a},{b}]")
    return Finding("witness run for m·k ≤ 6", "det K_j = ± W[a,b] is not zero")


@by(Method.RATIONAL)
def solutions_without_zeros(claim: Entries, effort: Effort) -> Finding:
    """Exact solutions for drawn weights: no zero among their entries."""
    rng = np.random.default_rng(72)
    shapes = [(2, 2), (2, 3), (3, 1), (1, 4), *effort.choose((), ((3, 3), (4, 3)))]
    for (m, k), _ in product(shapes, range(3)):
        M1, M2 = claim.weights(rng, m, k)
        W = claim.target(rng, m, k)
        s = exact.solve(khatri_rao(M2, M1.T), W.reshape(-1))
        if s is None or (s == 0).any():
            raise Counterexample(
                f"W={exact.show(W)}, M1={exact.show(M1)}, M2={exact.show(M2)}: s="
                f"{'none' if s is None else exact.show(s)}"
            )
    return Finding(
        f"{3 * len(shapes)} systems, m·k ≤ {effort.choose(6, 12)}", "no zero entry, exactly"
    )


NONZERO = Statement(
    name="nonzero-entries",
    claim="For W ≠ 0 and random weights with a density, every entry of the solution of K s = "
    "vec(W) is non-zero with probability 1 (n = m·k).",
    hypotheses=("W ≠ 0", "weights with a density"),
    paper="the non-zero lemma behind Theorem 2",
    depends_on=("cramer-cofactors", "khatri-rao-full-rank", "polynomial-zero-set"),
    subject=Entries(),
    checks=(cramer_witness, solutions_without_zeros),
    negatives=(
        Negative("W = 0", Entries(target=lambda rng, m, k: exact.matrix([[0] * k] * m))),
        Negative("weights not generic: the unit witness itself", Entries(weights=witness_weights)),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (NONZERO,)
