"""Sparse systems: conjugate gradients on a sparse `K` with equations of unit length.

With weights kept with probability p, `K` has a fraction p² of its entries. `K Kᵀ` is nearly dense
all the same (p⁴ n is of order one), so it is never formed: conjugate gradients run on `K` with its
equations scaled to unit length (Jacobi preconditioning).

Rests on proofs_check: sparse-pattern-rank, sparse-choice-of-p.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reconstruct.khatri_rao.matrices import Matrix, as_csr, to_dense
from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.solution import Solution
from reconstruct.khatri_rao.solvers.refinement import Rounds, expected_iterations, refined
from reconstruct.khatri_rao.solvers.solver import Cost
from reconstruct.khatri_rao.structure import MOST_ENTRIES, transposed_matrix
from reconstruct.progress import Progress

Array: TypeAlias = NDArray[np.float64]

PAYS_BELOW = 1 / 32  # density of K: a sparse product runs at about this fraction of GEMM speed
CHUNK = 1 << 16  # entries of K that are scaled at once
PATIENCE = 10  # uneven equations slow the iteration down, and its steps are cheap
UNEVEN = 2  # equations of uneven length take about twice the iterations of dense ones


@dataclass(frozen=True)
class SparseConjugateGradient:
    """Conjugate gradients on a sparse `K`, in float64; settings as in `ConjugateGradient`."""

    tolerance: float = 1e-15
    max_iterations: int | None = None
    refinements: int = 12

    rational: ClassVar[bool] = False

    def solve(self, operator: KhatriRao, W: Array, progress: Progress | None = None) -> Solution:
        """Iterate on a sparse K, whatever the storage of M1 and M2."""
        if not operator.sparse:
            operator = KhatriRao(as_csr(operator.M1), as_csr(operator.M2T).T)
        dtype = np.dtype(np.float64)
        rounds = Rounds(self.tolerance, self.max_iterations, self.refinements, dtype, PATIENCE)
        return refined(operator, ScaledSparse(operator), W, rounds, "sparse-cg", progress)

    def cost(self, m: int, k: int, n: int, density: float = 1.0) -> Cost:
        """`K` itself at 12 bytes an entry."""
        entries = density**2 * m * k * n
        iterations = expected_iterations(m * k, n)
        work = UNEVEN * iterations * 4 * entries / PAYS_BELOW
        return Cost(self, 12 * entries + 48 * n, work)


def sparse_fits(density: float) -> bool:
    """Whether weights of this density make a sparse `K` that beats dense tiles in time."""
    return density**2 < PAYS_BELOW


def sparse_pays(operator: KhatriRao) -> bool:
    """Whether a sparse `K` beats dense tiles in time, and fits."""
    return operator.entries() <= min(MOST_ENTRIES, PAYS_BELOW * operator.rows * operator.width)


def _row_norms(operator: KhatriRao) -> Array:
    """Lengths of the rows of K: `‖K[(i, j), :]‖² = ((M2 ∘ M2) (M1 ∘ M1))_ij`."""
    M1, M2T = operator.M1.astype(np.float64), operator.M2T.astype(np.float64)
    squares = M2T.multiply(M2T).T @ M1.multiply(M1)
    return np.asarray(np.sqrt(to_dense(squares)).ravel())


class ScaledSparse:
    """`D K` with `K` sparse and `D` diagonal such that the equations have unit length."""

    def __init__(self, operator: KhatriRao) -> None:
        self.shape = operator.map_shape
        self.transposed = transposed_matrix(operator.M1, operator.M2T, np.float64)
        norms = _row_norms(operator)
        self.scale = 1 / np.where(norms > 0, norms, 1.0)
        where, values = self.transposed.indices, self.transposed.data
        for start in range(0, len(values), CHUNK):  # in place, without a copy of K
            part = slice(start, start + CHUNK)
            values[part] *= self.scale[where[part]]
        self.spread = float(norms.max() / norms.min()) if norms.min() > 0 else 1.0

    def normal(self, Y: Matrix, dtype: DTypeLike = np.float64) -> tuple[float, Matrix]:
        """`‖Kᵀ D Y‖²` and `D K Kᵀ D Y`."""
        z = np.asarray(self.transposed @ Y.ravel())
        return float(z @ z), np.asarray(self.transposed.T @ z).reshape(self.shape)

    def precondition(self, Y: Matrix) -> Matrix:
        """`D Y`."""
        return np.asarray(Y * self.scale.reshape(self.shape))

    restore = precondition  # D is its own transpose
