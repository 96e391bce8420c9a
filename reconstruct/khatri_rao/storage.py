"""Dense or sparse: the few questions that the rest of the package asks of a matrix."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.floating[Any]]
Matrix: TypeAlias = NDArray[np.floating[Any]]
Frozen: TypeAlias = Any  # Matrix or scipy.sparse array: what M1 and M2 may be

_sparse: Any = scipy.sparse


def is_sparse(matrix: Any) -> bool:
    """True for any scipy.sparse matrix or array."""
    return bool(_sparse.issparse(matrix))


def as_csr(matrix: Any) -> Any:
    """The matrix as a csr_array."""
    return _sparse.csr_array(matrix)


def entries(matrix: Frozen) -> Matrix:
    """The stored entries, in any shape."""
    return np.asarray(matrix.data if is_sparse(matrix) else matrix)


def to_dense(matrix: Frozen) -> Matrix:
    """The matrix as an ndarray; no copy if it is one."""
    return np.asarray(matrix.toarray() if is_sparse(matrix) else matrix)


def exponent(matrix: Frozen) -> int:
    """The e with `2^(e−1) ≤ max |entry| < 2^e`; 0 for a matrix of zeros."""
    largest = float(np.max(np.abs(entries(matrix)), initial=0.0))
    return int(np.frexp(largest)[1])


def scaled(matrix: Frozen, power: int) -> Frozen:
    """`2^power · matrix`; no copy if the power is 0."""
    if power == 0:
        return matrix
    if is_sparse(matrix):
        out = matrix.copy()
        out.data = np.ldexp(out.data, power)
        return out
    return np.ldexp(matrix, power)
