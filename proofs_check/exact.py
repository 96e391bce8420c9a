"""Exact linear algebra over the rationals, small and plain: object arrays of Fraction or int.

Independent of every solver in `reconstruct`, and of LAPACK: comparisons here are by `==`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from proofs_check.core import Counterexample

Matrix = npt.NDArray[Any]


def matrix(rows: Sequence[Sequence[Any]] | Matrix) -> Matrix:
    """An object array of Fractions."""
    array = np.array(rows, dtype=object)
    return _each(Fraction, array)


def integers(rng: np.random.Generator, *shape: int, bound: int = 9) -> Matrix:
    """Random integers in [-bound, bound] as Fractions: a stand-in for generic values."""
    return _each(Fraction, rng.integers(-bound, bound + 1, size=shape).astype(object))


def _each(convert: Any, array: Matrix) -> Matrix:
    out = np.empty(array.shape, dtype=object)
    for index in np.ndindex(*array.shape):
        out[index] = convert(array[index])
    return out


def reduce(A: Matrix) -> tuple[Matrix, tuple[int, ...]]:
    """Reduced row echelon form of A and the columns of its pivots."""
    R = _each(Fraction, np.array(A, dtype=object))
    pivots: list[int] = []
    for column in range(R.shape[1]):
        top = len(pivots)
        below = [i for i in range(top, R.shape[0]) if R[i, column] != 0]
        if not below:
            continue
        R[[top, below[0]]] = R[[below[0], top]]
        R[top] = R[top] / R[top, column]
        for i in range(R.shape[0]):
            if i != top and R[i, column] != 0:
                R[i] = R[i] - R[i, column] * R[top]
        pivots.append(column)
    return R, tuple(pivots)


def rank(A: Matrix) -> int:
    """Rank of A (rows × columns) over the rationals."""
    return len(reduce(A)[1])


def solve(A: Matrix, b: Matrix) -> Matrix | None:
    """Some x with A x = b (free entries 0), or None when no x exists."""
    R, pivots = reduce(np.column_stack([A, b]))
    if pivots and pivots[-1] == A.shape[1]:
        return None
    x = matrix([[0]] * A.shape[1])[:, 0]
    for i, column in enumerate(pivots):
        x[column] = R[i, -1]
    return x


def null_space(A: Matrix) -> Matrix:
    """Basis of {x : A x = 0}, one vector per column."""
    R, pivots = reduce(A)
    free = [j for j in range(A.shape[1]) if j not in pivots]
    basis = matrix([[0] * len(free)] * A.shape[1]).reshape(A.shape[1], len(free))
    for position, j in enumerate(free):
        basis[j, position] = Fraction(1)
        for i, column in enumerate(pivots):
            basis[column, position] = -R[i, j]
    return basis


def column_space(A: Matrix) -> Matrix:
    """The pivot columns of A: a basis of its column space."""
    return A[:, list(reduce(A)[1])]


def determinant(A: Matrix) -> Any:
    """det A by Gaussian elimination over the rationals."""
    work = _each(Fraction, np.array(A, dtype=object))
    value = Fraction(1)
    for j in range(len(work)):
        below = [i for i in range(j, len(work)) if work[i, j] != 0]
        if not below:
            return Fraction(0)
        if below[0] != j:
            work[[j, below[0]]] = work[[below[0], j]]
            value = -value
        value *= work[j, j]
        for i in range(j + 1, len(work)):
            if work[i, j] != 0:
                work[i] = work[i] - (work[i, j] / work[j, j]) * work[j]
    return value


def vertices(lo: Matrix, hi: Matrix) -> list[Matrix]:
    """All corners of the box lo ≤ x ≤ hi."""
    return [np.array(corner, dtype=object) for corner in product(*zip(lo, hi, strict=True))]


def same(what: str, left: Any, right: Any) -> None:
    """Raise a counterexample unless left == right, shapes first."""
    a, b = np.asarray(left, dtype=object), np.asarray(right, dtype=object)
    if a.shape != b.shape:
        raise Counterexample(f"{what}: shapes {a.shape} and {b.shape} differ")
    for index in np.ndindex(*a.shape):
        if a[index] != b[index]:
            where = f" at entry {index}" if index else ""
            raise Counterexample(f"{what}: {a[index]} is not {b[index]}{where}")


def show(A: Any) -> str:
    """A matrix in one line, for a counterexample: [1 2; 3 4]."""
    array = np.atleast_1d(np.asarray(A, dtype=object))
    rows = [array] if array.ndim == 1 else list(array)
    return "[" + "; ".join(" ".join(str(x) for x in row) for row in rows) + "]"
