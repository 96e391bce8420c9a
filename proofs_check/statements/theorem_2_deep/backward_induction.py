"""The deep and narrow construction: the backward induction.

With active ReLUs, h_i = s_i∘(M_i h_{i−1} + A_i x^(i)) + t_i, so

    B_i h_i = B_{i−1} h_{i−1} + B_i diag(s_i) A_i x^(i) + B_i t_i,     B_{i−1} = B_i diag(s_i) M_i

and out = Σ_i W^(i) x^(i) + constant when B_i diag(s_i) A_i = W^(i), solved from the last block to
the first. B_{i−1} is again generic: if s_i has no zero, B_i diag(s_i) has rank m, and then
M ↦ B_i diag(s_i) M is onto all m × n matrices, so a non-zero polynomial in B_{i−1} is one in M_i.
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
from proofs_check.statements.theorem_1_wide.layers import inside, relu
from proofs_check.symbols import identical, unknowns


@dataclass(frozen=True)
class Deep:
    """The recursion under test, and the blocks of W it is run on."""

    back: Callable[[Matrix, Matrix, Matrix], Matrix] = lambda B, s, M: (B * s) @ M
    inject: Callable[[Matrix, Matrix], Matrix] = lambda A, x: A @ x
    blocks: Callable[[list[Matrix]], list[Matrix]] = lambda blocks: blocks


@dataclass(frozen=True)
class DeepNetwork:
    """Frozen A_i, M_i, M_out and the parameters found for them."""

    A: list[Matrix]
    M: list[Matrix]
    out: Matrix
    s: list[Matrix]


@by(Method.STEP)
def one_step_back(claim: Deep, effort: Effort) -> Finding:
    """B(s∘(M h + A x) + t) = B' h + (B diag(s) A) x + B t in symbols; M ↦ (B diag(s)) M is onto."""
    for m, n, k in product((1, 2), (1, 2, 3), (1, 2)):
        B, M, A = unknowns("B", m, n), unknowns("M", n, n), unknowns("A", n, k)
        s, h, x, t = unknowns("s", n), unknowns("h", n), unknowns("x", k), unknowns("t", n)
        left = B @ (s * (M @ h + claim.inject(A, x)) + t)
        right = claim.back(B, s, M) @ h + (B * s) @ A @ x + B @ t
        identical("one step of the deep network", left, right)
    rng = np.random.default_rng(73)
    for m, n in ((1, 3), (2, 4), (3, 6)):
        B, wanted = exact.integers(rng, m, n), exact.integers(rng, m, n)
        C = B * (abs(exact.integers(rng, n)) + 1)
        for column in range(n):
            if exact.rank(C) != m or exact.solve(C, wanted[:, column]) is None:
                raise Counterexample(f"M ↦ C M misses {exact.show(wanted)} for C={exact.show(C)}")
    return Finding("induction", "one step in symbols; B_{i−1} takes every value")


@by(Method.RATIONAL)
def deep_network_is_exact(claim: Deep, effort: Effort) -> Finding:
    """Exact solve from the last block back, then the ReLU network itself against W x on D."""
    rng = np.random.default_rng(74)
    cases = [(4, 2, 2), (3, 2, 1), (5, 2, 2), (3, 3, 3), *effort.choose((), ((6, 2, 2), (6, 3, 2)))]
    for d, m, k in cases:
        W = claim_target(claim, rng, d, m, k)
        network = _solve_backwards(claim, rng, W, m, k)
        lo = [exact.matrix([[-1] * w.shape[1]])[0] for w in W]
        hi = [exact.matrix([[1] * w.shape[1]])[0] for w in W]
        _compare(claim, network, W, lo, hi)
    return Finding(
        f"{len(cases)} cases d ≤ {effort.choose(5, 6)}, blocks 1 to 3", "equal by == on D"
    )


def claim_target(claim: Deep, rng: np.random.Generator, d: int, m: int, k: int) -> list[Matrix]:
    """W (m × d) cut into blocks of k columns, the last one possibly smaller."""
    W = exact.integers(rng, m, d)
    return claim.blocks([W[:, i : i + k] for i in range(0, d, k)])


def _solve_backwards(
    claim: Deep, rng: np.random.Generator, W: list[Matrix], m: int, k: int
) -> DeepNetwork:
    """s_D, …, s_1 from B_i diag(s_i) A_i = W^(i), exactly."""
    n = m * k
    A = [exact.integers(rng, n, w.shape[1]) for w in W]
    M = [exact.integers(rng, n, n) for _ in W]
    out = B = exact.integers(rng, m, n)
    solutions: list[Matrix] = []
    for i in reversed(range(len(W))):
        s = exact.solve(khatri_rao(B, A[i].T), W[i].reshape(-1))
        if s is None:
            raise Counterexample(
                f"block {i + 1} of {len(W)}: no s with B diag(s) A = {exact.show(W[i])} for "
                f"B={exact.show(B)}"
            )
        s = _without_zeros(s, khatri_rao(B, A[i].T))
        solutions.insert(0, s)
        B = claim.back(B, s, M[i])
    return DeepNetwork(A, M, out, solutions)


def _without_zeros(s: Matrix, K: Matrix) -> Matrix:
    """Spare width (a smaller last block) leaves a null space: use it to avoid zero entries."""
    N = exact.null_space(K)
    for scale in range(1, 50):
        moved = s + N @ np.array([scale + i for i in range(N.shape[1])], dtype=object)
        if N.shape[1] and (moved != 0).all():
            return np.asarray(moved)
    return s


def _compare(
    claim: Deep, network: DeepNetwork, W: list[Matrix], lo: list[Matrix], hi: list[Matrix]
) -> None:
    """Evaluate with shifts chosen on the way, cancel the constant at the end, compare by ==."""
    whole_lo, whole_hi = np.concatenate(lo), np.concatenate(hi)
    points = inside(whole_lo, whole_hi)
    cuts = np.cumsum([w.shape[1] for w in W])[:-1]
    states, constant = [0 * network.s[0] for _ in points], 0 * network.s[0]
    for i, (A, M, s) in enumerate(zip(network.A, network.M, network.s, strict=True)):
        carried = i > 0
        values = [
            s * ((M @ h if carried else 0) + claim.inject(A, np.split(x, cuts)[i]))
            for h, x in zip(states, points, strict=True)
        ]
        t = -np.array(values).min(axis=0)
        constant = s * (M @ constant if carried else 0) + t
        states = [relu(v + t) for v in values]
    whole = np.column_stack(W)
    for h, x in zip(states, points, strict=True):
        found, wanted = network.out @ h - network.out @ constant, whole @ x
        if (found != wanted).any():
            raise Counterexample(
                f"W={exact.show(whole)}, x={exact.show(x)}: the deep network gives "
                f"{exact.show(found)}, the target {exact.show(wanted)}"
            )


def _last_block_zero(blocks: list[Matrix]) -> list[Matrix]:
    return [*blocks[:-1], 0 * blocks[-1]]


DEEP = Statement(
    name="deep-backward-induction",
    claim="The blocks B_i diag(s_i) A_i = W^(i), B_{i−1} = B_i diag(s_i) M_i, solved from the "
    "last to the first, make the narrow network equal W x on D (n ≥ m·k).",
    hypotheses=("no s_i (i > 1) has a zero, so no block of W is zero at width m·k", "D is bounded"),
    paper="Theorem 2",
    depends_on=(
        "khatri-rao-full-rank",
        "nonzero-entries",
        "rank-of-a-product",
        "active-relu-is-identity",
    ),
    subject=Deep(),
    checks=(deep_network_is_exact, one_step_back),
    negatives=(
        Negative("last block zero, no spare width: s_D = 0", Deep(blocks=_last_block_zero)),
        Negative("diag(s_i) missing from the recursion", Deep(back=lambda B, s, M: B @ M)),
        Negative("M_i transposed in the recursion", Deep(back=lambda B, s, M: (B * s) @ M.T)),
        Negative("skip connection missing", Deep(inject=lambda A, x: 0 * (A @ x))),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (DEEP,)
