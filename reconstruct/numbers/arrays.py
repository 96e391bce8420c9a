"""Arrays as the package keeps them: read-only, in the precision in which they came."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

Array: TypeAlias = NDArray[Any]
Vector: TypeAlias = NDArray[np.float64]
Range: TypeAlias = tuple[Array, Array]  # lower and upper bounds, entry by entry
Matrix: TypeAlias = Any  # NDArray or scipy.sparse.csr_array: both know .shape, .dtype, @ and .T


def frozen_array(values: ArrayLike, dtype: Any = np.float64) -> Array:
    """A read-only array of `dtype`; the caller's array is left as it is, and shared where it is
    read-only already, with all that it is a part of, be it the bytes of a file."""
    if isinstance(values, np.ndarray) and values.dtype == dtype and _settled(values):
        return values
    array = np.array(values, dtype=dtype)
    array.setflags(write=False)
    return array


def _settled(array: Array) -> bool:
    """Whether neither the array nor what it is a part of can be written to."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and not owner.flags.writeable:
        owner = owner.base
    return owner is None or isinstance(owner, bytes | memoryview)


def everywhere(value: float, shape: tuple[int, ...]) -> Vector:
    """One number in every place, which takes no memory; read-only."""
    return np.broadcast_to(frozen_array(value), shape)


def as_matrix(weight: Any) -> Matrix:
    """A read-only float32 or float64 matrix, dense or CSR, from whatever came.

    Entries that a sparse matrix holds twice are added once and for all: added later, they would
    be rounded in one place and not in another.
    """
    if sparse.issparse(weight):
        kept = sparse.csr_array(weight)
        if not kept.has_canonical_format:
            kept = kept.copy()
            kept.sum_duplicates()
        return kept if kept.dtype in (np.float32, np.float64) else kept.astype(np.float64)
    array = np.asarray(weight)
    return frozen_array(array, array.dtype if array.dtype == np.float32 else np.float64)


def dense(matrix: Matrix) -> NDArray[np.float64]:
    """The matrix as a dense float64 array: for small ones, or a tile of a large one."""
    if sparse.issparse(matrix):
        return np.asarray(matrix.toarray(), dtype=np.float64)
    return np.asarray(matrix, dtype=np.float64)


def to_dense(matrix: Matrix) -> Array:
    """The matrix as an array in its own precision; no copy if it is one."""
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix)


def nonzeros(matrix: Matrix) -> int:
    """How many entries of the matrix are not zero."""
    return int(matrix.count_nonzero() if sparse.issparse(matrix) else np.count_nonzero(matrix))
