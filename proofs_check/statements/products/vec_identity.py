"""The system that the wide construction solves, its adjoint, and its Gram matrix.

With M1 (n × k), M2 (m × n), s (n) and vec row-major, let K = M2 ⊙ M1ᵀ (m·k × n):

    vec(M2 diag(s) M1) = K s                        the vec identity
    Kᵀ vec(Y) = diag(M2ᵀ Y M1ᵀ)                     the adjoint
    KᵀK = (M1 M1ᵀ) ∘ (M2ᵀ M2)                       Khatri-Rao and Hadamard

Entry (a,b) of M2 diag(s) M1 is Σ_j M2[a,j] s_j M1[j,b]; row a·k + b of K s is the same sum. The
other two are double sums over pairs (a,b) whose summands agree (adjoint) or factorise (Gram).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from proofs_check import exact, symbols
from proofs_check.core import Effort, Finding, Formal, Method, Negative, Statement, by
from proofs_check.exact import Matrix
from proofs_check.statements.products.definitions import Products, khatri_rao
from proofs_check.symbols import entry, identical, unknowns, within


def row_major(W: Matrix) -> Matrix:
    """vec: the rows of W one after the other."""
    return W.reshape(-1)


def column_major(W: Matrix) -> Matrix:
    """The other vec: the columns of W one after the other."""
    return W.T.reshape(-1)


@dataclass(frozen=True)
class System:
    """The operator, its matrix and its adjoint, as the claims state them."""

    vec: Callable[[Matrix], Matrix] = row_major
    laws: Products = field(default_factory=Products)
    forward: Callable[[Matrix, Matrix, Matrix], Matrix] = lambda M1, M2, s: M2 @ (s[:, None] * M1)
    matrix: Callable[[Matrix, Matrix], Matrix] = lambda M1, M2: khatri_rao(M2, M1.T)
    adjoint: Callable[[Matrix, Matrix, Matrix], Matrix] = lambda M1, M2, Y: np.array(
        [column @ Y @ row for column, row in zip(M2.T, M1, strict=True)], dtype=object
    )
    gram: Callable[[Matrix, Matrix], Matrix] = lambda M1, M2: (M1 @ M1.T) * (M2.T @ M2)


def _symbolic_row(laws: Products) -> tuple[Any, Any]:
    """The pair that row a·k + b stands for, with symbolic a, b, k."""
    b, k = symbols.b, symbols.k
    first, second = laws.pair(laws.row(symbols.a, b, k), k)
    return within(first, b, k), within(second, b, k)


def _small_symbols(effort: Effort) -> list[tuple[Matrix, Matrix, Matrix, Matrix]]:
    """Generic M1, M2, s, Y at every size up to 2 (thorough: 3), the square ones first."""
    top = effort.choose(2, 3)
    return [
        (unknowns("p", n, k), unknowns("q", m, n), unknowns("s", n), unknowns("y", m, k))
        for m, k, n in product(range(top, 0, -1), repeat=3)
    ]


def _integer_draws(seed: int, effort: Effort) -> list[tuple[Matrix, Matrix, Matrix, Matrix]]:
    """Random integer M1, M2, s, Y with unequal sizes, so that a swapped index shows."""
    rng = np.random.default_rng(seed)
    sizes = [(4, 4, 16), (2, 3, 4), (3, 2, 6), (1, 5, 5), (5, 1, 7)]
    sizes += effort.choose([], [(6, 5, 30), (8, 8, 64)])
    return [
        (
            exact.integers(rng, n, k),
            exact.integers(rng, m, n),
            exact.integers(rng, n),
            exact.integers(rng, m, k),
        )
        for m, k, n in sizes
    ]


def _symbol_sizes(effort: Effort) -> str:
    return f"symbols ≤ {effort.choose(2, 3)}"


def _integer_sizes(effort: Effort) -> str:
    return effort.choose("5 shapes, m, k ≤ 5, n ≤ 16", "7 shapes, m, k ≤ 8, n ≤ 64")


@by(Method.STEP)
def same_sum_in_every_row(system: System, effort: Effort) -> Finding:
    """Row a·k + b of K s and entry (a,b) of M2 diag(s) M1 are sums of the same terms."""
    M1, M2, s, j = entry("M1"), entry("M2"), entry("s"), symbols.j
    first, second = _symbolic_row(system.laws)
    identical(
        "summand j of row a·k+b",
        M2[first, j] * M1[j, second] * s[j],
        M2[symbols.a, j] * s[j] * M1[j, symbols.b],
    )
    for P, Q, v, _ in _small_symbols(effort):
        K = system.matrix(P, Q)
        identical("vec(M2 diag(s) M1) - K s", system.vec(system.forward(P, Q, v)), K @ v)
    return Finding(_symbol_sizes(effort), "row a·k+b and entry (a,b) have the same summands")


@by(Method.RATIONAL)
def vec_on_integers(system: System, effort: Effort) -> Finding:
    """The identity on random integers at unequal sizes."""
    for M1, M2, s, _ in _integer_draws(11, effort):
        left, right = system.vec(system.forward(M1, M2, s)), system.matrix(M1, M2) @ s
        exact.same(f"M1={exact.show(M1)}, M2={exact.show(M2)}, s={exact.show(s)}", left, right)
    return Finding(_integer_sizes(effort), "equal on random integers")


VEC_IDENTITY = Statement(
    name="vec-identity",
    claim="vec(M2 diag(s) M1) = (M2 ⊙ M1ᵀ) s, with vec row by row.",
    hypotheses=("vec stacks rows, matching the row index a·k + b",),
    paper="the step of Theorem 1 that turns a layer into a linear system",
    depends_on=("row-major-index", "kronecker-khatri-rao"),
    subject=System(),
    checks=(same_sum_in_every_row, vec_on_integers),
    negatives=(
        Negative("vec by columns", System(vec=column_major)),
        Negative(
            "factors in the wrong order: M1ᵀ ⊙ M2",
            System(matrix=lambda M1, M2: khatri_rao(M1.T, M2)),
        ),
        Negative("diag(s) forgotten", System(forward=lambda M1, M2, s: M2 @ M1)),
    ),
    formal=Formal("vec_identity", "vec_identity", System()),
)


@by(Method.STEP)
def same_double_sum(system: System, effort: Effort) -> Finding:
    """<K s, vec Y> and <s, diag(M2ᵀ Y M1ᵀ)> are sums over j, a, b of the same terms."""
    M1, M2, Y, s = entry("M1"), entry("M2"), entry("Y"), entry("s")
    a, b, j = symbols.a, symbols.b, symbols.j
    first, second = _symbolic_row(system.laws)
    identical(
        "summand (j, a, b)",
        M2[first, j] * M1[j, second] * s[j] * Y[a, b],
        s[j] * (M2[a, j] * Y[a, b] * M1[j, b]),
    )
    for P, Q, v, y in _small_symbols(effort):
        left = system.vec(system.forward(P, Q, v)) @ system.vec(y)
        identical("<K s, Y> - <s, K* Y>", left, v @ system.adjoint(P, Q, y))
        identical("Kᵀ vec Y", system.matrix(P, Q).T @ system.vec(y), system.adjoint(P, Q, y))
    return Finding(_symbol_sizes(effort), "<K s, Y> = <s, diag(M2ᵀ Y M1ᵀ)>, term by term")


@by(Method.RATIONAL)
def dot_test(system: System, effort: Effort) -> Finding:
    """The dot-test <K s, Y> = <s, K* Y> on random integers."""
    for M1, M2, s, Y in _integer_draws(12, effort):
        left = system.vec(system.forward(M1, M2, s)) @ system.vec(Y)
        right = s @ system.adjoint(M1, M2, Y)
        exact.same(f"<Ks,Y> at M1={exact.show(M1)}, M2={exact.show(M2)}", left, right)
    return Finding(_integer_sizes(effort), "the dot-test, by ==")


ADJOINT = Statement(
    name="adjoint",
    claim="The adjoint of s ↦ M2 diag(s) M1 is Y ↦ diag(M2ᵀ Y M1ᵀ).",
    hypotheses=("the inner product of matrices is Σ X[a,b] Y[a,b]",),
    paper="not in the paper; the iterative solver needs it",
    depends_on=("vec-identity",),
    subject=System(),
    checks=(same_double_sum, dot_test),
    negatives=(
        Negative(
            "Y transposed: diag(M2ᵀ Yᵀ M1ᵀ)",
            System(adjoint=lambda M1, M2, Y: System().adjoint(M1, M2, Y.T)),
        ),
        Negative(
            "row sums in place of the diagonal",
            System(adjoint=lambda M1, M2, Y: (M2.T @ Y @ M1.T).sum(axis=1)),
        ),
    ),
    formal=Formal("vec_identity", "adjoint", System()),
)


@by(Method.STEP)
def gram_factorises(system: System, effort: Effort) -> Finding:
    """(KᵀK)[i,j] = Σ_a Σ_b (M2[a,i] M2[a,j])·(M1[i,b] M1[j,b]): the two sums separate."""
    M1, M2, a, b, i, j = entry("M1"), entry("M2"), symbols.a, symbols.b, symbols.i, symbols.j
    first, second = _symbolic_row(system.laws)
    column_i = M2[first, i] * M1[i, second]
    column_j = M2[first, j] * M1[j, second]
    identical(
        "summand (a,b) of entry (i,j)",
        column_i * column_j,
        (M2[a, i] * M2[a, j]) * (M1[i, b] * M1[j, b]),
    )
    for P, Q, _, _ in _small_symbols(effort):
        K = system.matrix(P, Q)
        identical("KᵀK - (M1 M1ᵀ)∘(M2ᵀ M2)", K.T @ K, system.gram(P, Q))
    return Finding(_symbol_sizes(effort), "each entry of KᵀK factorises into two inner products")


@by(Method.RATIONAL)
def gram_on_integers(system: System, effort: Effort) -> Finding:
    """The Gram identity on random integers at unequal sizes."""
    for M1, M2, _, _ in _integer_draws(13, effort):
        K = system.matrix(M1, M2)
        exact.same(f"KᵀK at M1={exact.show(M1)}, M2={exact.show(M2)}", K.T @ K, system.gram(M1, M2))
    return Finding(_integer_sizes(effort), "equal on random integers")


GRAM = Statement(
    name="gram-hadamard",
    claim="KᵀK = (M1 M1ᵀ) ∘ (M2ᵀ M2) for K = M2 ⊙ M1ᵀ.",
    hypotheses=(),
    paper="standard rule joining the Khatri-Rao and the Hadamard product",
    depends_on=("row-major-index", "kronecker-khatri-rao"),
    subject=System(),
    checks=(gram_factorises, gram_on_integers),
    negatives=(
        Negative(
            "ordinary product in place of the Hadamard product",
            System(gram=lambda M1, M2: (M1 @ M1.T) @ (M2.T @ M2)),
        ),
        Negative(
            "a factor missing: only M1 M1ᵀ",
            System(gram=lambda M1, M2: M1 @ M1.T),
        ),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (VEC_IDENTITY, ADJOINT, GRAM)
