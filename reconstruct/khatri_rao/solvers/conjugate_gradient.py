"""Matrix-free conjugate gradients: float32 inner iterations, float64 refinement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from reconstruct.khatri_rao.checkpoint import Checkpoint
from reconstruct.khatri_rao.engines import cpu_count, one_blas_thread
from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.solution import Solution
from reconstruct.khatri_rao.solvers.cgls import expected_iterations
from reconstruct.khatri_rao.solvers.floating import Array, in_floats
from reconstruct.khatri_rao.solvers.preconditioned import Plain, Preconditioned
from reconstruct.khatri_rao.solvers.refinement import Rounds, refined
from reconstruct.khatri_rao.solvers.solver import Cost
from reconstruct.khatri_rao.solvers.sparse import (
    SparseConjugateGradient,
    sparse_fits,
    sparse_pays,
)
from reconstruct.khatri_rao.solvers.whitening import Whitened, rough_spread
from reconstruct.khatri_rao.storage import to_dense
from reconstruct.khatri_rao.tiles import scratch_bytes
from reconstruct.numbers.given import number, precision, whole
from reconstruct.progress import Progress

WHITEN_ABOVE = 16.0  # spread of the second moments of M1 and M2 above which whitening pays
ROUGHLY = 0.9  # of it: below this, a few digits of the spread are enough to say that it does not
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

    def solve(
        self,
        operator: KhatriRao,
        W: Array,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Solution:
        """Iterate on dense tiles, or on a sparse K where that is faster."""
        return in_floats(operator, W, lambda K, R: self.attempt(K, R, progress, checkpoint))

    def attempt(
        self,
        operator: KhatriRao,
        W: Array,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Solution:
        """The iteration itself, on a system that is scaled and not refused."""
        if not operator.sparse:
            return self._on_tiles(operator, W, progress, checkpoint)
        if sparse_pays(operator):
            return self._sparse().attempt(operator, W, progress, checkpoint)
        M1, M2 = to_dense(operator.M1), to_dense(operator.M2T).T
        tiled = KhatriRao(M1, M2, engine=operator.engine)
        return self._on_tiles(tiled, W, progress, checkpoint)

    def cost(self, m: int, k: int, n: int, density: float = 1.0) -> Cost:
        """The weights in float32 and a few vectors; iterations by the Marchenko-Pastur law."""
        if sparse_fits(density):
            sparse = self._sparse().cost(m, k, n, density)
            return Cost(self, sparse.memory, sparse.work)
        iterations = expected_iterations(m * k, n)
        tiles = cpu_count() * scratch_bytes(m, k)
        memory = 4 * n * (m + k) + tiles + 8 * (6 * n + 4 * m * k)
        return Cost(self, memory, iterations * 4 * n * m * k / (2 * EFFICIENCY))

    def _sparse(self) -> SparseConjugateGradient:
        return SparseConjugateGradient(self.tolerance, self.max_iterations, self.refinements)

    def _on_tiles(
        self,
        operator: KhatriRao,
        W: Array,
        progress: Progress | None,
        checkpoint: Checkpoint | None,
    ) -> Solution:
        with operator.engine.joined(operator, W, self, checkpoint) as shared:
            return self.iterate(shared, W, progress, checkpoint)

    def iterate(
        self,
        operator: KhatriRao,
        W: Array,
        progress: Progress | None,
        checkpoint: Checkpoint | None,
    ) -> Solution:
        """The iteration on dense or drawn tiles; every holder of the engine makes this call."""
        dtype = np.dtype(self.inner_dtype)
        rounds = Rounds(self.tolerance, self.max_iterations, self.refinements, dtype, PATIENCE)
        with one_blas_thread():  # the tiles run in parallel instead
            operator.prepare(dtype)
            return refined(operator, _inner(operator), W, rounds, "cg", progress, checkpoint)


def _inner(operator: KhatriRao) -> Preconditioned:
    """What to iterate on: whitened where that pays, which float64 says unless it is plain."""
    if rough_spread(operator) <= ROUGHLY * WHITEN_ABOVE:
        return Plain(operator)
    whitened = Whitened(operator)
    return whitened if whitened.spread > WHITEN_ABOVE else Plain(operator)
