"""Whitening by the Gram factors of M1 and M2, for frozen weights that are correlated or uneven."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import scipy.linalg as la
from numpy.typing import DTypeLike, NDArray

from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.storage import Matrix, Stored, Vector, chunks, of_chunks, to_dense

Array: TypeAlias = NDArray[np.float64]

NO_WEIGHT = 1e-14  # of the largest second moment: rounding, not weights
ROUGH = 1e-3  # the same in float32, with digits to spare


class Whitened:
    """`K` between two small matrices, `Y ↦ L2⁻¹ Y L1⁻ᵀ`, that undo correlations in M1 and M2.

    `K Kᵀ` is about `(M2 M2ᵀ) ⊗ (M1ᵀ M1) / n` for independent weights, so with
    `M1ᵀM1 = L1 L1ᵀ` and `M2 M2ᵀ = L2 L2ᵀ` the whitened system has the spectrum of one with
    independent entries of mean zero. A consistent system keeps its minimum-norm solution.
    `spread` is the condition of the two small matrices together.
    """

    def __init__(self, operator: KhatriRao) -> None:
        self.operator = operator
        self.left, spread2 = inverse_root(second_moment(operator, operator.M2T))
        self.right, spread1 = inverse_root(second_moment(operator, operator.M1))
        self.spread = math.sqrt(spread1 * spread2)
        self._sides = {np.dtype(kind): self._rounded(kind) for kind in (np.float32, np.float64)}

    def dot(self, a: Vector, b: Vector) -> float:
        """`⟨a, b⟩` over hidden units."""
        return self.operator.inner(a, b)

    def round_trip(self, Y: Matrix, dtype: DTypeLike = np.float64) -> tuple[Vector, Matrix]:
        """`z = Kᵀ (L2⁻ᵀ Y L1⁻¹)` and `L2⁻¹ (K z) L1⁻ᵀ`."""
        left, right = self._sides[np.dtype(dtype)]
        z, image = self.operator.round_trip(left.T @ np.asarray(Y, dtype=dtype) @ right, dtype)
        return z, self.precondition(image)

    def precondition(self, Y: Matrix) -> Matrix:
        """`L2⁻¹ Y L1⁻ᵀ`."""
        left, right = self._sides[Y.dtype]
        return np.asarray(left @ Y @ right.T)

    def _rounded(self, dtype: DTypeLike) -> tuple[Matrix, Matrix]:
        return self.left.astype(dtype), self.right.astype(dtype)


def rough_spread(operator: KhatriRao) -> float:
    """`Whitened(operator).spread` to a few digits; inf where they are too few to tell.

    Second moments are taken in the precision of the weights, at half of what float64 costs.
    """
    product = 1.0
    for rows in (operator.M2T, operator.M1):
        values = la.eigvalsh(_rough_moment(operator, rows))
        product *= values[-1] / values[0] if values[0] > ROUGH * values[-1] else math.inf
    return math.sqrt(product)


def _rough_moment(operator: KhatriRao, rows: Stored) -> Array:
    """The second moment in the precision of the rows, on the engine's threads if it has them."""
    engine, across = operator.engine, rows.shape[1]

    def work(share: slice) -> Array:
        parts = (_roughly_squared(part) for part in chunks(rows[share]))
        return np.asarray(sum(parts, np.zeros((across, across))))

    if isinstance(rows, np.ndarray):
        found = engine.map(work, engine.shares(len(rows), 2.0 * rows.size * across))
    else:
        found = list(of_chunks(_roughly_squared, rows))
    return np.asarray(engine.add(sum(found, np.zeros((across, across)))) / operator.width)


def _roughly_squared(rows: Stored) -> Array:
    """`Σ_l row_l row_lᵀ` in the precision of the rows."""
    tile = to_dense(rows)
    return (tile.T @ tile).astype(np.float64)


def second_moment(operator: KhatriRao, rows: Stored) -> Array:
    """`(1/n) Σ_l row_l row_lᵀ` over the hidden units of all holders.

    In chunks of any storage and in their order, so that drawn weights have the bits of stored ones.
    """
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for part in of_chunks(_squared, rows):
        total += part
    return np.asarray(operator.engine.add(total) / operator.width)


def _squared(rows: Stored) -> Array:
    """`Σ_l row_l row_lᵀ`."""
    tile = to_dense(rows).astype(np.float64)
    return np.asarray(tile.T @ tile)


def inverse_root(moment: Array) -> tuple[Array, float]:
    """`L⁻¹` with `L Lᵀ` the given second moment, and its condition number.

    Directions without weight (a zero column, two equal ones) are out of reach of K and dropped.
    """
    values, vectors = la.eigh(moment)
    kept = values > max(values[-1], 0.0) * NO_WEIGHT
    values, vectors = values[kept], vectors[:, kept]
    if not values.size:
        return np.zeros((1, len(moment))), 1.0
    return np.asarray((vectors / np.sqrt(values)).T), float(values[-1] / values[0])
