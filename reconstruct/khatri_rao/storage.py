"""Dense, sparse or drawn: the few questions that the rest of the package asks of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from reconstruct.numbers.drawn import Drawn, Transposed, is_drawn
from reconstruct.numbers.in_order import in_order

Vector: TypeAlias = NDArray[np.floating[Any]]
Matrix: TypeAlias = NDArray[np.floating[Any]]
Stored: TypeAlias = Any  # Matrix, scipy.sparse array, Drawn or its transpose
Powers: TypeAlias = "int | NDArray[np.intc]"  # of two: one for all rows, or one for each

Made = TypeVar("Made")

CHUNK = 4096  # rows looked at together
FEW = 1 << 21  # stored entries that are looked at sooner than threads would have started

_sparse: Any = scipy.sparse


def is_sparse(matrix: Any) -> bool:
    """True for any scipy.sparse matrix or array."""
    return bool(_sparse.issparse(matrix))


def as_csr(matrix: Any) -> Any:
    """The matrix as a csr_array."""
    return _sparse.csr_array(to_dense(matrix) if is_drawn(matrix) else matrix)


def entries(matrix: Stored) -> Matrix:
    """The stored entries, in any shape."""
    return np.asarray(matrix.data if is_sparse(matrix) else matrix)


def to_dense(matrix: Stored) -> Matrix:
    """The matrix as an ndarray; no copy if it is one."""
    if isinstance(matrix, Transposed):
        return to_dense(matrix.T).T
    if isinstance(matrix, Drawn):
        return matrix[:]
    return np.asarray(matrix.toarray() if is_sparse(matrix) else matrix)


def units(matrix: Stored, held: slice, *, sparse: bool) -> Stored:
    """Rows `held` of a matrix with one row per hidden unit, as the operator keeps them."""
    whole = held == slice(0, matrix.shape[0])
    if sparse:
        rows = as_csr(matrix)
        return rows if whole else rows[held]
    if isinstance(matrix, Drawn):
        return matrix if whole else matrix.part(held)
    if isinstance(matrix, Transposed):  # square, cut the other way
        matrix = to_dense(matrix)
    return np.ascontiguousarray(np.asarray(matrix)[held])


def chunks(matrix: Stored) -> Iterator[Stored]:
    """The rows in pieces; sparse ones and small ones whole."""
    if is_sparse(matrix):
        yield matrix
        return
    for start in range(0, matrix.shape[0], CHUNK):
        yield matrix[start : start + CHUNK]


def of_chunks(function: Callable[[Stored], Made], matrix: Stored) -> Iterator[Made]:
    """`function` of each of the pieces in turn, on all processors: they may have to be drawn."""
    if is_sparse(matrix) or (isinstance(matrix, np.ndarray) and matrix.size <= FEW):
        return map(function, chunks(matrix))
    starts = range(0, matrix.shape[0], CHUNK)
    return in_order(lambda start: function(matrix[start : start + CHUNK]), starts)


def largest(matrix: Stored) -> float:
    """`max |entry|`; NaN or inf if there is one, 0 for an empty matrix."""
    sizes = list(of_chunks(_top, matrix))
    return float(np.max(sizes, initial=0.0))


def _top(part: Stored) -> float:
    values = entries(part)
    return float(np.maximum(np.max(values, initial=0.0), -np.min(values, initial=0.0)))


def scaled(matrix: Stored, power: Powers) -> Stored:
    """`2^power · matrix`; no copy if the power is 0."""
    if not np.any(power):
        return matrix
    if is_sparse(matrix):
        out = matrix.copy()
        out.data = np.ldexp(out.data, _by_entry(power, out))
        return out
    if isinstance(matrix, Drawn):
        return matrix.mapped(_Power(power))
    return np.ldexp(matrix, _by_row(power))


def _by_entry(power: Powers, rows: Any) -> Powers:
    """The powers for the stored entries of a csr_array."""
    return power if isinstance(power, int) else np.repeat(power, np.diff(rows.indptr))


def _by_row(power: Powers) -> Powers:
    return power if isinstance(power, int) else power[:, None]


@dataclass(frozen=True, eq=False)
class _Power:
    """`tile ↦ 2^power · tile`; the tile's first row has the number `first`, which is negative where
    the tile begins before the rows that there are powers for."""

    power: Powers

    def __call__(self, tile: NDArray[Any], first: int) -> NDArray[Any]:
        if isinstance(self.power, int):
            return np.asarray(np.ldexp(tile, self.power))
        own = np.zeros(len(tile), np.intc)
        start, stop = max(first, 0), min(first + len(tile), len(self.power))
        own[start - first : stop - first] = self.power[start:stop]
        return np.asarray(np.ldexp(tile, own[:, None]))
