"""Extended precision where a deep chain needs it: products, dots and the real value of a norm.

`numpy.longdouble` has 64 bits of mantissa on x86 and more elsewhere; where it is no wider than
float64 everything here still works, with float64's rounding. Plain sums, no BLAS: it is used where
the last digits matter and the matrices are small, or for one matrix-vector product per layer.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions.construction import Vector
from reconstruct.networks import Matrix, Norm, dense

Extended: TypeAlias = NDArray[np.longdouble]
Wide: TypeAlias = NDArray[Any]  # float64 or longdouble

PRODUCT_LIMIT = 1 << 28  # multiplications, about a second, up to which a product is extended
ROWS = 256  # rows converted to extended precision at once


def extended(values: Any) -> Extended:
    """The same numbers in extended precision."""
    return np.asarray(values, dtype=np.longdouble)


def dot(matrix: Matrix, vector: Extended) -> Extended:
    """`matrix @ vector` in extended precision, a few rows at a time."""
    rows = matrix.shape[0]
    parts = [extended(dense(matrix[i : i + ROWS])) @ vector for i in range(0, rows, ROWS)]
    return np.concatenate(parts)


def product(left: Wide, right: Matrix) -> Wide:
    """`left @ right`, extended when the product is small enough and float64 otherwise."""
    if left.shape[0] * right.shape[0] * right.shape[1] > PRODUCT_LIMIT:
        return np.asarray(left, np.float64) @ dense(right)
    return np.asarray(extended(left) @ extended(dense(right)))


def real_effective(norm: Norm) -> tuple[Extended, Extended]:
    """`(s, t)` of `N(z) = s∘z + t` as the stored gamma, beta and statistics really give it."""
    deviation = np.sqrt(extended(norm.var) + extended(norm.eps))
    s = extended(norm.gamma) / deviation
    return s, extended(norm.beta) - s * extended(norm.mean)


def real_scale(norm: Norm, s: Vector) -> Extended:
    """The scale that the norm really has once gamma is rounded for the scale s."""
    return real_effective(norm.with_effective(s, np.zeros_like(s)))[0]
