"""Linear algebra: the rank of a product, and when a system is solvable.

Rank of a product: A maps col(B) onto col(AB) with kernel null(A) ∩ col(B); rank-nullity gives
rank(AB) = rank(B) − dim(null(A) ∩ col(B)). Solvability: A x = b has a solution iff b is in col(A)
iff adding the column b leaves the rank as it was. Both hold over every field, so small fields can
be searched exhaustively while the general argument is run step by step over the rationals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


def all_matrices(prime: int, rows: int, columns: int) -> Iterator[modular.Residues]:
    """Every rows × columns matrix over the field of `prime` elements."""
    for entries in product(range(prime), repeat=rows * columns):
        yield np.array(entries, dtype=np.int64).reshape(rows, columns)


def _field_rank(A: modular.Residues, prime: int) -> int:
    """Rank over a small field, by the plain definition: log of the number of combinations."""
    combinations = {
        tuple(np.array(c) @ A % prime) for c in product(range(prime), repeat=A.shape[0])
    }
    return next(r for r in range(A.shape[0] + 1) if prime**r == len(combinations))


@dataclass(frozen=True)
class ProductRank:
    """The rule under test: from A and B (over the rationals) to rank(AB)."""

    overlap: Callable[[Matrix, Matrix], int]


def kernel_in_column_space(A: Matrix, B: Matrix) -> int:
    """dim(null(A) ∩ col(B)) = dim null + dim col − dim(null + col)."""
    N, C = exact.null_space(A), exact.column_space(B)
    return int(N.shape[1] + C.shape[1] - exact.rank(np.column_stack([N, C])))


@by(Method.RATIONAL)
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
    return Finding(f"{count} pairs to 4x4", "kernel and images built for each pair")


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
    claim="rank(AB) = rank(B) − dim(null(A) ∩ col(B)); so rank(AB) = rank(B) iff A is "
    "one-to-one on the column space of B.",
    hypotheses=("null(A) ∩ col(B) = {0}, for equality of the ranks",),
    paper="standard fact, used in the proofs of Theorems 1 and 2",
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
    return Finding(f"fields of 2 and 3, to {effort.choose('2x3', '3x3')}", f"all {count} systems")


@by(Method.RATIONAL)
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
    return Finding(f"{count} systems 5x3", "planted and orthogonal right-hand sides")


SOLVABLE = Statement(
    name="solvable-iff-rank",
    claim="A x = b has a solution if and only if rank(A) = rank([A | b]).",
    hypotheses=("augmented rank equal to rank",),
    paper="standard fact, used in the proof of Theorem 1",
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

STATEMENTS: tuple[Statement[Any], ...] = (
    RANK_OF_PRODUCT,
    SOLVABLE,
)
