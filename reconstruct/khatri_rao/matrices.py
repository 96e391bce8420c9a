"""M1, M2 and W as they come: checked at the boundary, dense or sparse, scaled by powers of two."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reconstruct.errors import InputError

Vector: TypeAlias = NDArray[np.floating[Any]]
Matrix: TypeAlias = NDArray[np.floating[Any]]
Stored: TypeAlias = Any  # Matrix or scipy.sparse array

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def checked_system(
    M1: Any, M2: Any, W: Any, *, rational: bool = False
) -> tuple[Stored, Stored, NDArray[Any]]:
    """The three arrays as floats, or InputError that names the argument and both shapes.

    With `rational`, a W of Fractions is left as it is.
    """
    first, second = checked_pair(M1, M2)
    right = np.asarray(W)
    if not (rational and right.dtype == object):
        right = np.asarray(_floating("W", W), dtype=np.float64)
    check_shapes(first.shape, second.shape, right.shape)
    return first, second, right


def checked_pair(M1: Any, M2: Any) -> tuple[Stored, Stored]:
    """M1 (`n × k`) and M2 (`m × n`) as float arrays that fit together."""
    first, second = _floating("M1", M1), _floating("M2", M2)
    check_shapes(first.shape, second.shape)
    return first, second


def check_shapes(
    M1: tuple[int, ...], M2: tuple[int, ...], W: tuple[int, ...] | None = None
) -> None:
    """Whether M1 (`n × k`), M2 (`m × n`) and W (`m × k`) fit together."""
    if M1[0] != M2[1]:
        raise InputError(
            f"M1 must have as many rows as M2 has columns (the hidden width n), but M1 has shape "
            f"{M1} and M2 has shape {M2}; M1 is n × k and M2 is m × n"
        )
    needed = (M2[0], M1[1])
    if W is not None and needed != W:
        raise InputError(
            f"W must have shape (m, k) = {needed} to match M2 of shape {M2} and M1 of shape {M1}, "
            f"but has shape {W}; transpose it or check the order of the arguments"
        )


def _floating(name: str, value: Any) -> Any:
    array = sparse.csr_array(value) if sparse.issparse(value) else np.asarray(value)
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(
            f"{name} must be a matrix with at least one row and one column, but has shape "
            f"{array.shape}; reshape it to two dimensions"
        )
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"{name} must hold real numbers, but has dtype {array.dtype}; convert it to float64"
        )
    if array.dtype not in FLOATS:
        array = array.astype(np.float64)
    values = entries(array)
    bad = int(values.size - np.count_nonzero(np.isfinite(values)))
    if bad:
        raise InputError(
            f"{name} of shape {array.shape} must be finite, but {bad} of its entries are NaN or "
            "infinite; repair the weights it came from"
        )
    return array


def entries(matrix: Stored) -> Matrix:
    """The stored entries, in any shape."""
    return np.asarray(matrix.data if sparse.issparse(matrix) else matrix)


def largest(matrix: Stored) -> float:
    """`max |entry|`, 0 for an empty matrix."""
    values = entries(matrix)
    return float(np.maximum(np.max(values, initial=0.0), -np.min(values, initial=0.0)))


def scaled(matrix: Stored, power: int) -> Stored:
    """`2^power · matrix`; no copy if the power is 0."""
    if power == 0:
        return matrix
    if sparse.issparse(matrix):
        out = matrix.copy()
        out.data = np.ldexp(out.data, power)
        return out
    return np.ldexp(matrix, power)
