"""Sparse systems: refuse what the pattern forbids, then iterate on a sparse `K`.

With weights kept with probability p, `K` has a fraction p² of its entries. `K Kᵀ` is nearly dense
all the same (p⁴ n is of order one), so it is never formed: conjugate gradients run on `K` with its
equations scaled to unit length (Jacobi preconditioning).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reconstruct.khatri_rao.conjugate_gradient import (
    ConjugateGradient,
    expected_iterations,
    refined_cg,
    solve_cg,
)
from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.outcome import Outcome
from reconstruct.khatri_rao.solution import ACCEPTED_DEFICIENT, relative_residual
from reconstruct.khatri_rao.status import Status
from reconstruct.khatri_rao.storage import Matrix, Vector, to_dense
from reconstruct.khatri_rao.structure import StructuralObstruction, transposed_matrix
from reconstruct.progress import Progress

Array = NDArray[np.float64]

PAYS_BELOW = 1 / 32  # density of K: a sparse product runs at about this fraction of GEMM speed
MOST_ENTRIES = 1 << 26  # of K: 12 bytes each
SMALL_VIOLATOR = 512  # equations up to which consistency is decided by a dense least squares
CHUNK = 1 << 16  # entries of K that are scaled at once
PATIENCE = 10  # uneven equations slow the iteration down, and its steps are cheap


def entries_of_product(operator: KhatriRao) -> int:
    """`nnz(K) = Σ_l nnz(M2[:, l]) · nnz(M1[l, :])` of a sparse operator."""
    return int(np.diff(operator.M1.indptr).astype(np.int64) @ np.diff(operator.M2T.indptr))


def sparse_pays(operator: KhatriRao) -> bool:
    """Whether a sparse `K` beats dense tiles in time, and fits."""
    entries = entries_of_product(operator)
    return entries <= min(MOST_ENTRIES, PAYS_BELOW * operator.rows * operator.width)


def _row_norms(operator: KhatriRao) -> Array:
    """Lengths of the rows of K: `‖K[(i, j), :]‖² = ((M2 ∘ M2) (M1 ∘ M1))_ij`."""
    M1, M2T = operator.M1.astype(np.float64), operator.M2T.astype(np.float64)
    squares = M2T.multiply(M2T).T @ M1.multiply(M1)
    return np.asarray(np.sqrt(to_dense(squares)).ravel())


class ScaledSparse:
    """`D K` with `K` sparse and `D` diagonal such that the equations have unit length."""

    def __init__(self, operator: KhatriRao) -> None:
        self.shape = operator.shape
        self.transposed = transposed_matrix(operator.M1, operator.M2T, np.float64)
        norms = _row_norms(operator)
        self.scale = 1 / np.where(norms > 0, norms, 1.0)
        where, values = self.transposed.indices, self.transposed.data
        for start in range(0, len(values), CHUNK):  # in place, without a copy of K
            part = slice(start, start + CHUNK)
            values[part] *= self.scale[where[part]]
        self.spread = float(norms.max() / norms.min()) if norms.min() > 0 else 1.0

    def apply(self, s: Vector, dtype: DTypeLike = np.float64) -> Matrix:
        """`D K s`."""
        return np.asarray(self.transposed.T @ s).reshape(self.shape)

    def adjoint(self, Y: Matrix, dtype: DTypeLike = np.float64) -> Vector:
        """`Kᵀ D Y`."""
        return np.asarray(self.transposed @ Y.ravel())

    def precondition(self, Y: Matrix) -> Matrix:
        """`D Y`."""
        return np.asarray(Y * self.scale.reshape(self.shape))


def solve_sparse_cg(
    operator: KhatriRao,
    W: Array,
    settings: ConjugateGradient,
    progress: Progress | None = None,
) -> Outcome:
    """Conjugate gradients on a sparse `K`, in float64; on dense tiles where that is faster."""
    if not sparse_pays(operator):
        dense = KhatriRao(
            to_dense(operator.M1), to_dense(operator.M2T).T, workers=operator.workers.count
        )
        return solve_cg(dense, W, settings, progress)
    scaled = ScaledSparse(operator)
    limit = settings.max_iterations
    if limit is None:
        limit = int(PATIENCE * expected_iterations(operator.rows, operator.width)) + 100
    inner = replace(settings, max_iterations=limit, inner_dtype=np.float64)
    return refined_cg(
        operator,
        scaled,
        scaled.precondition,
        W,
        inner,
        progress,
        spread=scaled.spread,
        name="sparse-cg",
    )


def refusal(operator: KhatriRao, W: Array, obstruction: StructuralObstruction) -> Outcome | None:
    """RANK_DEFICIENT at once, if `W` does not fit on the equations of the violator; else None.

    A special W (one with zeros in the right places) may still be in the range of K: that is
    decided on the violator alone when it is small, and left to the solver when it is not.
    """
    if len(obstruction.equations) > SMALL_VIOLATOR:
        return None
    i, j = np.array(obstruction.equations).T
    units = np.array(obstruction.units, dtype=int)
    left, right = to_dense(operator.M2T[units]), to_dense(operator.M1[units])
    K = (left[:, i] * right[:, j]).T.astype(np.float64)
    w = W[i, j]
    s = np.linalg.lstsq(K, w)[0] if units.size else np.zeros(0)
    if np.linalg.norm(K @ s - w) <= ACCEPTED_DEFICIENT * np.linalg.norm(W):
        return None
    zero = np.zeros(operator.width)
    status = Status.TOO_NARROW if operator.width < operator.rows else Status.RANK_DEFICIENT
    residual = relative_residual(operator, zero, W)[1]
    return Outcome(zero, status, "pattern", residual, obstruction.rank, None, ())
