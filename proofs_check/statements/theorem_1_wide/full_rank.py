"""Full rank of the Khatri-Rao product for every size.

det(M2 ⊙ M1ᵀ) at width n = m·k is a polynomial in the weights. It is not the zero
polynomial, because for the witness M1[j] = e_b, M2[:,j] = e_a with j = a·k + b column j is the unit
vector e_(a·k+b): K is the identity. So it vanishes on a set of measure zero only: weights with a
density give full rank with probability 1, at every m, k, and for wider n (any m·k columns will do).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from proofs_check import exact, modular
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
from proofs_check.modular import Residues
from proofs_check.statements.products.definitions import khatri_rao

Pair = tuple[Matrix, Matrix]


def integer_khatri_rao(A: Residues, B: Residues) -> Residues:
    """A ⊙ B in int64, for large sizes; agreement with the index law is part of the check."""
    rows = A.shape[0] * B.shape[0]
    return np.asarray((A[:, None, :] * B[None, :, :]).reshape(rows, A.shape[1]), dtype=np.int64)


def unit_witness(m: int, k: int, n: int) -> Pair:
    """M1 with rows e_b and M2 with columns e_a, neuron j = a·k + b; spare neurons are zero."""
    M1, M2 = np.zeros((n, k), dtype=np.int64), np.zeros((m, n), dtype=np.int64)
    for j in range(min(n, m * k)):
        M1[j, j % k] = 1
        M2[j // k, j] = 1
    return M1, M2


def dense_draw(rng: np.random.Generator, m: int, k: int, n: int) -> Pair:
    """Residues modulo the prime, standing for weights with a density; short ones if K is small."""
    bound = 100 if m * k <= 16 else modular.PRIME
    return rng.integers(1, bound, (n, k)), rng.integers(1, bound, (m, n))


def signs(rng: np.random.Generator, m: int, k: int, n: int) -> Pair:
    """Weights ±1: no density."""
    return 2 * rng.integers(0, 2, (n, k)) - 1, 2 * rng.integers(0, 2, (m, n)) - 1


def equal_rows(rng: np.random.Generator, m: int, k: int, n: int) -> Pair:
    """M2 with its first two rows equal (needs m ≥ 2): rows (0,b) and (1,b) of K agree."""
    M1, M2 = dense_draw(rng, m, k, n)
    M2[min(1, m - 1)] = M2[0]
    return M1, M2


def repeated_neuron(rng: np.random.Generator, m: int, k: int, n: int) -> Pair:
    """The first two neurons the same, in M1 and in M2."""
    M1, M2 = dense_draw(rng, m, k, n)
    M1[min(1, n - 1)], M2[:, min(1, n - 1)] = M1[0], M2[:, 0]
    return M1, M2


def tied(rng: np.random.Generator, m: int, k: int, n: int) -> Pair:
    """M2 = M1ᵀ where the shapes allow it: columns v ⊗ v span symmetric matrices only."""
    M1, M2 = dense_draw(rng, m, k, n)
    M2[: min(m, k)] = M1.T[: min(m, k)]
    return M1, M2


@dataclass(frozen=True)
class Ensemble:
    """What the full-rank claim speaks about."""

    width: Callable[[int, int], int] = lambda m, k: m * k
    draw: Callable[[np.random.Generator, int, int, int], Pair] = dense_draw
    witness: Callable[[int, int, int], Pair] = unit_witness
    product: Callable[[Residues, Residues], Residues] = integer_khatri_rao


@by(Method.STEP)
def witness_is_a_permutation(ensemble: Ensemble, effort: Effort) -> Finding:
    """At the witness every row and column of K holds exactly one 1: det K = ±1."""
    top = effort.choose(8, 16)
    for m, k in [(2, 2), *product(range(1, top + 1), repeat=2)]:
        M1, M2 = ensemble.witness(m, k, ensemble.width(m, k))
        K = ensemble.product(M2, M1.T)
        once = (
            K.shape == (m * k, m * k) and (K.sum(axis=0) == 1).all() and (K.sum(axis=1) == 1).all()
        )
        if not once or not np.isin(K, (0, 1)).all():
            raise Counterexample(
                f"m={m}, k={k}: K is {K.shape[0]}x{K.shape[1]} of rank "
                f"{exact.rank(K)}, not a permutation; it needs rank {m * k}"
            )
        if m * k <= 16:
            exact.same(f"K at the witness, m={m}, k={k}", K, khatri_rao(M2, M1.T))
    return Finding(f"witness run for m, k ≤ {top}", "K is a permutation, det K = ±1")


@by(Method.MODULAR)
def full_rank_at_random_points(ensemble: Ensemble, effort: Effort) -> Finding:
    """Rank of K at drawn weights modulo a prime; a loss is then decided over the rationals.

    Full rank at one point proves the determinant is not the zero polynomial: no error. A loss at a
    small size is confirmed exactly on the very integers drawn, and that draw is the counterexample.
    """
    rng = np.random.default_rng(41)
    squares = effort.choose((8, 16, 24, 32), (8, 16, 24, 32, 48, 64))
    shapes = [(m, k, n) for m, k in product((2, 3, 1, 4), repeat=2) for n in (0, 0, 0, 3)]
    shapes += [(3, 11, 0), (10, 4, 7), *((d, d, 0) for d in squares)]
    for m, k, spare in shapes:
        M1, M2 = ensemble.draw(rng, m, k, ensemble.width(m, k) + spare)
        K = ensemble.product(M2, M1.T)
        if modular.rank(K) < m * k:
            _confirm_loss(m, k, M1, M2, K)
    return Finding(
        f"m, k ≤ 4; square d ≤ {squares[-1]} (K {squares[-1] ** 2})",
        f"full rank modulo {modular.PRIME} at random points: generic full rank, no error",
    )


def _confirm_loss(m: int, k: int, M1: Matrix, M2: Matrix, K: Matrix) -> None:
    """Rank loss modulo a prime proves nothing: decide it over the rationals, then report it."""
    if K.size > 2000:
        raise ArithmeticError(f"rank lost modulo {modular.PRIME} at m={m}, k={k}: undecided")
    rank = exact.rank(K)
    if rank == m * k:
        raise ArithmeticError(f"unlucky prime {modular.PRIME} at m={m}, k={k}: undecided")
    raise Counterexample(
        f"m={m}, k={k}, n={K.shape[1]}: rank K = {rank} < {m * k} with M1={exact.show(M1)}, "
        f"M2={exact.show(M2)}"
    )


FULL_RANK = Statement(
    name="khatri-rao-full-rank",
    claim="M2 ⊙ M1ᵀ has full row rank m·k with probability 1 when M1 (n × k) and M2 (m × n) are "
    "drawn from a density and n ≥ m·k.",
    hypotheses=("weights independent, with a density", "width n ≥ m·k", "M1 and M2 not tied"),
    paper="the full-rank lemma behind Theorem 1",
    depends_on=("vec-identity", "polynomial-zero-set"),
    subject=Ensemble(),
    checks=(witness_is_a_permutation, full_rank_at_random_points),
    negatives=(
        Negative("one column too few: n = m·k − 1", Ensemble(width=lambda m, k: m * k - 1)),
        Negative("weights ±1: no density", Ensemble(draw=signs)),
        Negative("two equal rows in M2", Ensemble(draw=equal_rows)),
        Negative("a repeated neuron", Ensemble(draw=repeated_neuron)),
        Negative("tied weights: M2 = M1ᵀ", Ensemble(draw=tied)),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (FULL_RANK,)
