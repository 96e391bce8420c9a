"""Cramer's rule: the solution of a linear system is a ratio of polynomials in its entries.

adj(B)[i,j] = (−1)^(i+j) det(B without row j, column i). Row i of adj(B) times column j of B is the
determinant of B with column i replaced by column j: det(B) for i = j, and 0 otherwise, because two
equal columns make the terms cancel in pairs. So adj(B) B = det(B) I.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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


@by(Method.RATIONAL)
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
    return Finding(f"run to {top}", "cofactor expansion, equal columns cancel")


CRAMER = Statement(
    name="cramer-cofactors",
    claim="B⁻¹ = adj(B)/det(B); the solution of B x = w is x_j = det(B with column j replaced "
    "by w)/det(B), a ratio of polynomials.",
    hypotheses=("det(B) ≠ 0",),
    paper="standard fact, used for the non-zero entries in Theorem 2",
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

STATEMENTS: tuple[Statement[Any], ...] = (CRAMER,)
