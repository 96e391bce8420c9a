"""Matrix-free conjugate gradients: float32 inner iterations, float64 refinement."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg as la
from numpy.typing import DTypeLike

from reconstruct.khatri_rao.matrices import Matrix, Stored, to_dense
from reconstruct.khatri_rao.operator import TILE_BYTES, KhatriRao
from reconstruct.khatri_rao.solution import Solution
from reconstruct.khatri_rao.solvers.refinement import (
    Array,
    Rounds,
    expected_iterations,
    refined,
)
from reconstruct.khatri_rao.solvers.solver import Cost
from reconstruct.khatri_rao.solvers.sparse import (
    SparseConjugateGradient,
    sparse_fits,
    sparse_pays,
)
from reconstruct.numbers.given import number, precision, whole
from reconstruct.numbers.parallel import cpu_count, one_blas_thread
from reconstruct.progress import Progress

WHITEN_ABOVE = 16.0  # spread of the second moments of M1 and M2 above which whitening pays
NO_WEIGHT = 1e-14  # of the largest second moment: rounding, not weights
CHUNK = 4096  # hidden units whose second moment is taken at once
EFFICIENCY = 0.6  # of float32 GEMM speed: measured, maps of 96 × 96 to 256 × 256
PATIENCE = 4  # times the iterations that the Marchenko-Pastur law expects


@dataclass(frozen=True)
class ConjugateGradient:
    """Settings of the matrix-free solver.

    `tolerance`: relative residual to aim at; ending at rounding level above it also counts as
    solved. `max_iterations`: over all rounds (None: four times what the Marchenko-Pastur law
    expects). `refinements`: most rounds. `inner_dtype`: precision of the inner iterations; when
    float32 stops helping, the remaining rounds are in float64.
    """

    tolerance: float = 1e-15
    max_iterations: int | None = None
    refinements: int = 12
    inner_dtype: DTypeLike = np.float32

    rational: ClassVar[bool] = False

    def __post_init__(self) -> None:
        number(self.tolerance, "the tolerance of a solve")
        whole(self.refinements, "refinements")
        if self.max_iterations is not None:
            whole(self.max_iterations, "max_iterations")
        precision(self.inner_dtype, "inner iterations are")

    def solve(self, operator: KhatriRao, W: Array, progress: Progress | None = None) -> Solution:
        """Iterate on dense tiles, or on a sparse K where that is faster."""
        if operator.sparse and sparse_pays(operator):
            return self._sparse().solve(operator, W, progress)
        if operator.sparse:
            operator = KhatriRao(to_dense(operator.M1), to_dense(operator.M2T).T)
        dtype = np.dtype(self.inner_dtype)
        rounds = Rounds(self.tolerance, self.max_iterations, self.refinements, dtype, PATIENCE)
        with one_blas_thread():  # BLAS's own threads would spin on while the tiles run in parallel
            operator.in_precision(dtype)
            return refined(operator, Whitened(operator), W, rounds, "cg", progress)

    def cost(self, m: int, k: int, n: int, density: float = 1.0) -> Cost:
        """The weights in float32 and a few vectors; iterations by the Marchenko-Pastur law."""
        if sparse_fits(density):
            sparse = self._sparse().cost(m, k, n, density)
            return Cost(self, sparse.memory, sparse.work)
        iterations = expected_iterations(m * k, n)
        tiles = 4 * cpu_count() * TILE_BYTES
        memory = 4 * n * (m + k) + tiles + 8 * (2 * n + 10 * m * k)
        return Cost(self, memory, iterations * 4 * n * m * k / (2 * EFFICIENCY))

    def _sparse(self) -> SparseConjugateGradient:
        return SparseConjugateGradient(self.tolerance, self.max_iterations, self.refinements)


class Whitened:
    """`K` between two small matrices, `Y ↦ L2⁻¹ Y L1⁻ᵀ`, that undo correlations in M1 and M2.

    `K Kᵀ` is about `(M2 M2ᵀ) ⊗ (M1ᵀ M1) / n` for independent weights, so with
    `M1ᵀM1 = L1 L1ᵀ` and `M2 M2ᵀ = L2 L2ᵀ` the whitened system has the spectrum of one with
    independent entries of mean zero. A consistent system keeps its minimum-norm solution.
    `spread` is the condition of the two small matrices together; where it is small, as it is for
    weights that were drawn, K is left as it is.
    """

    def __init__(self, operator: KhatriRao) -> None:
        self._operator = operator
        left, spread2 = _inverse_root(_second_moment(operator.M2T))
        right, spread1 = _inverse_root(_second_moment(operator.M1))
        self.spread = math.sqrt(spread1 * spread2)
        self._plain = self.spread <= WHITEN_ABOVE
        if self._plain:
            self.spread = 1.0
        self._sides: dict[Any, tuple[Matrix, Matrix]] = {
            np.dtype(kind): (left.astype(kind), right.astype(kind))
            for kind in (np.float32, np.float64)
        }

    def normal(self, Y: Matrix, dtype: DTypeLike = np.float64) -> tuple[float, Matrix]:
        """`‖Kᵀ Pᵀ Y‖²` and `P K Kᵀ Pᵀ Y`."""
        squares, image = self._operator.normal(self.restore(Y), dtype)
        return squares, self.precondition(image)

    def precondition(self, Y: Matrix) -> Matrix:
        """`P Y = L2⁻¹ Y L1⁻ᵀ`."""
        left, right = self._sides[Y.dtype]
        return Y if self._plain else np.asarray(left @ Y @ right.T)

    def restore(self, Y: Matrix) -> Matrix:
        """`Pᵀ Y = L2⁻ᵀ Y L1⁻¹`."""
        left, right = self._sides[Y.dtype]
        return Y if self._plain else np.asarray(left.T @ Y @ right)


def _second_moment(rows: Stored) -> Array:
    """`(1/n) Σ_l row_l row_lᵀ`."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for start in range(0, len(rows), CHUNK):
        part = rows[start : start + CHUNK].astype(np.float64)
        total += part.T @ part
    return np.asarray(total / len(rows))


def _inverse_root(moment: Array) -> tuple[Array, float]:
    """`L⁻¹` with `L Lᵀ` the given second moment, and its condition number.

    Directions without weight (a zero column, two equal ones) are out of reach of K and dropped.
    """
    values, vectors = la.eigh(moment)
    kept = values > max(values[-1], 0.0) * NO_WEIGHT
    values, vectors = values[kept], vectors[:, kept]
    if not values.size:
        return np.zeros((1, len(moment))), 1.0
    return np.asarray((vectors / np.sqrt(values)).T), float(values[-1] / values[0])
