"""Linear algebra: rank of a product, when a system is solvable, Cramer's rule.

Rank of a product: A maps col(B) onto col(AB) with kernel null(A) ∩ col(B); rank-nullity gives
rank(AB) = rank(B) − dim(null(A) ∩ col(B)). Solvability: A x = b has a solution iff b is in col(A)
iff adding the column b leaves the rank as it was. Both hold over every field, so small fields can be
searched exhaustively while the general argument is run step by step over the rationals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import sympy

from proofs_check import exact, modular
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
from proofs_check.exact import Matrix
from proofs_check.symbols import identical, unknowns


def all_matrices(prime: int, rows: int, columns: int) -> Iterator[modular.Residues]:
    """Every rows × columns matrix over the field of `prime` elements."""
    for entries in product(range(prime), repeat=rows * columns):
        yield np.array(entries, dtype=np.int64).reshape(rows, columns)


def _field_rank(A: modular.Residues, prime: int) -> int:
    """Rank over a small field, by the plain definition: log of the number of combinations."""
    combinations = {
        tuple(np.array(c) @ A % prime) for c in product(range(prime), repeat=A.shape[0])
    }
    size = len(combinations)
    found = 0
    while size > 1:
        size, found = size // prime, found + 1
    return found


# --- rank of a product --------------------------------------------------------------------------


@dataclass(frozen=True)
class ProductRank:
    """The rule under test: from A and B (over the rationals) to rank(AB)."""

    overlap: Callable[[Matrix, Matrix], int]


def kernel_in_column_space(A: Matrix, B: Matrix) -> int:
    """dim(null(A) ∩ col(B)) = dim null + dim col − dim(null + col)."""
    N, C = exact.null_space(A), exact.column_space(B)
    return N.shape[1] + C.shape[1] - exact.rank(np.column_stack([N, C]))


@by(Method.GENERAL)
def adapted_basis(rule: ProductRank, effort: Effort) -> Finding:
    """Rank-nullity for A on col(B), each step constructed.

    Take a basis C of col(B); the kernel of A on it is {C y : A C y = 0}. A complement of that
    kernel has independent images, and those images span col(AB).
    """
    count = effort.choose(30, 200)
    for A, B in _pairs(21, count):
        C = exact.column_space(B)
        kernel = exact.null_space(A @ C)
        pivots = list(exact.reduce(A @ C)[1])
        images = (A @ C)[:, pivots]
        if C.shape[1] != kernel.shape[1] + len(pivots) or exact.rank(images) != len(pivots):
            raise Counterexample(f"rank-nullity fails on A={exact.show(A)}, B={exact.show(B)}")
        if exact.rank(np.column_stack([images, A @ B])) != exact.rank(A @ B):
            raise Counterexample(f"the images miss col(AB): A={exact.show(A)}, B={exact.show(B)}")
        if rule.overlap(A, B) != kernel.shape[1]:
            raise Counterexample(
                f"A={exact.show(A)}, B={exact.show(B)}: null(A) ∩ col(B) has dimension "
                f"{kernel.shape[1]}, the rule says {rule.overlap(A, B)}"
            )
    return Finding(f"every size; {count} pairs to 4x4", "kernel and images built for each pair")


@by(Method.RATIONAL)
def rank_formula(rule: ProductRank, effort: Effort) -> Finding:
    """rank(AB) = rank(B) − overlap ≤ min(rank A, rank B); equality with rank(B) iff overlap 0."""
    count = effort.choose(40, 300)
    for A, B in _pairs(22, count):
        left, right = exact.rank(A @ B), exact.rank(B) - rule.overlap(A, B)
        if left != right or left > min(exact.rank(A), exact.rank(B)):
            raise Counterexample(
                f"A={exact.show(A)}, B={exact.show(B)}: rank(AB) = {left}, the rule gives {right}"
            )
    return Finding(f"{count} pairs of planted ranks", "rank(AB) = rank B − dim(null A ∩ col B)")


def _pairs(seed: int, count: int) -> Iterator[tuple[Matrix, Matrix]]:
    """Random pairs of low rank, so that null(A) and col(B) often meet; first a nilpotent one."""
    nilpotent = exact.matrix([[0, 1], [0, 0]])
    yield nilpotent, nilpotent
    rng = np.random.default_rng(seed)
    for _ in range(count):
        r, s = rng.integers(1, 4, 2)
        A = exact.integers(rng, 4, int(r), bound=2) @ exact.integers(rng, int(r), 4, bound=2)
        B = exact.integers(rng, 4, int(s), bound=2) @ exact.integers(rng, int(s), 3, bound=2)
        yield A, B


RANK_OF_PRODUCT = Statement(
    name="rank-of-a-product",
    claim="rank(AB) = rank(B) − dim(null(A) ∩ col(B)); so rank(AB) = rank(B) iff A is one-to-one "
    "on the column space of B.",
    hypotheses=("null(A) ∩ col(B) = {0}, for equality of the ranks",),
    scope=Scope.EVERY_SIZE,
    paper="standard fact, used in the proofs of Theorems 1 and 2",
    relied_on=("reconstruct/constructions/deep.py", "reconstruct/constructions/factored.py"),
    depends_on=(),
    subject=ProductRank(kernel_in_column_space),
    checks=(rank_formula, adapted_basis),
    negatives=(
        Negative(
            "the null-space condition dropped: rank(AB) = rank(B)", ProductRank(lambda A, B: 0)
        ),
        Negative(
            "the whole null space of A subtracted",
            ProductRank(lambda A, B: exact.null_space(A).shape[1]),
        ),
    ),
)

# --- solvability --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Solvability:
    """When A x = b is claimed to be solvable, from rank(A) and rank([A | b])."""

    solvable: Callable[[int, int], bool]


@by(Method.EXHAUSTIVE)
def every_small_system(rule: Solvability, effort: Effort) -> Finding:
    """All systems over small fields: does some x solve it, tried one by one?"""
    shapes = [(2, 2, 2), (2, 2, 3), (2, 3, 2), (3, 2, 2), *effort.choose((), ((2, 3, 3),))]
    count = 0
    for prime, rows, columns in shapes:
        vectors = [np.array(v) for v in product(range(prime), repeat=columns)]
        for A in all_matrices(prime, rows, columns):
            images = {tuple(A @ x % prime) for x in vectors}
            rank = _field_rank(A, prime)
            for b in product(range(prime), repeat=rows):
                augmented = _field_rank(np.column_stack([A, b]), prime)
                count += 1
                if rule.solvable(rank, augmented) != (b in images):
                    raise Counterexample(
                        f"over the field of {prime}: A={exact.show(A)}, b={exact.show(list(b))}: "
                        f"rank A = {rank}, rank [A|b] = {augmented}, solvable: {b in images}"
                    )
    return Finding("fields of 2 and 3, 2x2 to 2x3", f"all {count} systems")


@by(Method.GENERAL)
def column_space_argument(rule: Solvability, effort: Effort) -> Finding:
    """A solution is a combination of columns equal to b: then [A|b] has the same column space.

    Both directions are run: a planted solution leaves the rank; a b outside col(A), made by adding
    a left null vector (orthogonal to col(A)), raises it and has no solution.
    """
    rng = np.random.default_rng(23)
    count = effort.choose(25, 150)
    for _ in range(count):
        A = exact.integers(rng, 5, 2) @ exact.integers(rng, 2, 3)
        planted = A @ exact.integers(rng, 3)
        outside = planted + exact.null_space(A.T)[:, 0]
        for b in (planted, outside):
            rank, augmented = exact.rank(A), exact.rank(np.column_stack([A, b]))
            x = exact.solve(A, b)
            if rule.solvable(rank, augmented) != (x is not None):
                raise Counterexample(
                    f"A={exact.show(A)}, b={exact.show(b)}: rank A = {rank}, rank [A|b] = "
                    f"{augmented}, solvable: {x is not None}"
                )
            if x is not None:
                exact.same("A x against b", A @ x, b)
        if exact.solve(A, planted) is None or exact.solve(A, outside) is not None:
            raise Counterexample(f"planted or outside b misjudged: A={exact.show(A)}")
    return Finding(f"every size; {count} systems 5x3", "planted and orthogonal right-hand sides")


SOLVABLE = Statement(
    name="solvable-iff-rank",
    claim="A x = b has a solution if and only if rank(A) = rank([A | b]).",
    hypotheses=("augmented rank equal to rank",),
    scope=Scope.EVERY_SIZE,
    paper="standard fact, used in the proof of Theorem 1",
    relied_on=("reconstruct/khatri_rao/exact.py", "reconstruct/khatri_rao/direct.py"),
    depends_on=(),
    subject=Solvability(lambda rank, augmented: rank == augmented),
    checks=(every_small_system, column_space_argument),
    negatives=(
        Negative(
            "augmented rank may be larger: every system solvable",
            Solvability(lambda rank, augmented: True),
        ),
        Negative(
            "full rank two demanded for solvability",
            Solvability(lambda rank, augmented: rank == augmented == 2),
        ),
    ),
)

# --- Cramer -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cofactors:
    """The adjugate under test."""

    adjugate: Callable[[Matrix], Matrix]


def minor_determinant(B: Matrix, row: int, column: int) -> Any:
    """det of B without a row and a column."""
    rest = np.delete(np.delete(B, row, axis=0), column, axis=1)
    return leibniz(rest)


def leibniz(B: Matrix) -> Any:
    """det B as a polynomial in its entries, by expansion along the first row."""
    if len(B) == 0:
        return sympy.Integer(1)
    return sum((-1) ** j * B[0, j] * minor_determinant(B, 0, j) for j in range(len(B)))


def adjugate(B: Matrix) -> Matrix:
    """Transposed cofactors: adj(B)[i,j] = (−1)^(i+j) det(B without row j, column i)."""
    out = np.empty(B.shape, dtype=object)
    for i, j in np.ndindex(*B.shape):
        out[i, j] = (-1) ** (i + j) * minor_determinant(B, j, i)
    return out


@by(Method.SYMBOLIC)
def adjugate_inverts(rule: Cofactors, effort: Effort) -> Finding:
    """adj(B) B = det(B) I, and x_j det(B) = det(B with column j replaced by B x)."""
    top = effort.choose(3, 4)
    for size in range(1, top + 1):
        B, x = unknowns("B", size, size), unknowns("x", size)
        identical(
            f"adj(B) B - det(B) I at {size}",
            rule.adjugate(B) @ B,
            leibniz(B) * np.eye(size, dtype=int),
        )
        for j in range(size):
            replaced = B.copy()
            replaced[:, j] = B @ x
            identical(f"x_{j} det(B)", leibniz(replaced), x[j] * leibniz(B))
    return Finding(f"sizes 1 … {top}", "adj(B) B = det(B) I in independent symbols")


@by(Method.GENERAL)
def alternating_argument(rule: Cofactors, effort: Effort) -> Finding:
    """Row i of adj(B) times column j of B is det of B with column i replaced by column j.

    It is det(B) for i = j; for i ≠ j two columns are equal and the terms of the determinant cancel
    in pairs by a transposition. Run at sizes to 6: the expansion, and the cancellation.
    """
    rng = np.random.default_rng(24)
    top = effort.choose(5, 6)
    for size in range(1, top + 1):
        B = exact.integers(rng, size, size)
        adj = rule.adjugate(B)
        for i, j in np.ndindex(size, size):
            replaced = B.copy()
            replaced[:, i] = B[:, j]
            value = exact.determinant(replaced)
            exact.same(f"adj(B)[{i},:] B[:,{j}], B={exact.show(B)}", adj[i] @ B[:, j], value)
            if i != j and value != 0:
                raise Counterexample(
                    f"two equal columns, determinant {value}: {exact.show(replaced)}"
                )
    return Finding(f"every size; run to {top}", "cofactor expansion, equal columns cancel")


CRAMER = Statement(
    name="cramer-cofactors",
    claim="B⁻¹ = adj(B)/det(B); the solution of B x = w is x_j = det(B with column j replaced by "
    "w)/det(B), a ratio of polynomials.",
    hypotheses=("det(B) ≠ 0",),
    scope=Scope.EVERY_SIZE,
    paper="standard fact, used for the non-zero entries in Theorem 2",
    relied_on=("reconstruct/constructions/deep.py",),
    depends_on=(),
    subject=Cofactors(adjugate),
    checks=(adjugate_inverts, alternating_argument),
    negatives=(
        Negative("cofactors not transposed", Cofactors(lambda B: adjugate(B).T)),
        Negative(
            "signs forgotten",
            Cofactors(
                lambda B: np.array(
                    [[minor_determinant(B, j, i) for j in range(len(B))] for i in range(len(B))],
                    dtype=object,
                )
            ),
        ),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (RANK_OF_PRODUCT, SOLVABLE, CRAMER)
