"""Matrix-free conjugate gradients on `K Kᵀ` in rounds: float32 inside, float64 residuals outside.

Each round solves `K d = R` for the residual `R = W − K s` by CGLS, with everything in terms of the
small matrices `Y` of the map's shape, `d = Kᵀ Y`:

    v ← r + β v,   q ← K Kᵀ r + β q,   Y ← Y + α v,   r ← r − α q,
    α = ‖Kᵀ r‖² / ‖q‖²,   β = ‖Kᵀ r‖² / ‖Kᵀ r before‖².

So one application of `K Kᵀ` is all that an iteration does with the weights. `Y` is summed in
float64 and `d = Kᵀ Y` formed in float64 at the end of the round: `s` lies in the row space of `K`
to float64's rounding and is *the* minimum-norm solution, whatever the inner precision, the number
of threads or of ranks. (Summing the float32 `d` instead left 1e-7 of it in the null space.) For
random weights the error falls by `√(mk/n)` per iteration, the Marchenko-Pastur law, whatever the
size.

Dense weights are iterated on in tiles, whitened where they are correlated. Of weights kept with
probability p, `K` has a fraction p² of its entries: it is formed as a sparse matrix where that is
quicker, in float64. (Equations scaled to unit length saved a tenth of its iterations.) `K Kᵀ` is
nearly dense all the same, so it is never formed.

Rests on proofs_check: adjoint, sparse-pattern-rank, sparse-choice-of-p.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.linalg as la
from numpy.typing import DTypeLike

from reconstruct.khatri_rao.operator import TILES, KhatriRao, Matrix, Stored
from reconstruct.khatri_rao.rank import LIMITS as PATTERN
from reconstruct.khatri_rao.rank import transposed_matrix
from reconstruct.khatri_rao.solution import Cost, Solution, Status, judged, relative_residual
from reconstruct.numbers.arrays import Array, to_dense
from reconstruct.numbers.given import number, precision, whole
from reconstruct.numbers.parallel import cpu_count, one_blas_thread
from reconstruct.progress import Progress, Step, silent


@dataclass(frozen=True)
class PrecisionLimits:
    """What the inner iteration can do in a precision."""

    aim: float  # relative residual of one round that is safe
    orthogonal: float  # gradient of a residual that counts as orthogonal to the range of K


@dataclass(frozen=True)
class IterationLimits:
    """What decides how an iteration goes, and when it ends."""

    float32: PrecisionLimits = PrecisionLimits(aim=5e-6, orthogonal=3e-7)
    float64: PrecisionLimits = PrecisionLimits(aim=1e-13, orthogonal=1e-14)
    # In real arithmetic the residual never grows: beyond this factor rounding has won.
    grown: float = 2.0
    # Times the iterations that the Marchenko-Pastur law expects; equations of uneven length slow
    # the iteration down, and sparse steps are cheap.
    patience: float = 4.0
    sparse_patience: float = 10.0
    # Spread of the second moments of M1 and M2 above which whitening is worth its products.
    whiten_above: float = 16.0
    # Share of float32 GEMM speed: measured, maps of 96 × 96 to 256 × 256.
    efficiency: float = 0.6
    # Density of K below which a sparse product is quicker: it runs at this share of GEMM speed.
    sparse_below: float = 1 / 32

    def of(self, dtype: np.dtype[Any]) -> PrecisionLimits:
        return self.float32 if dtype == np.float32 else self.float64


LIMITS = IterationLimits()
LEAST = sys.float_info.min  # tolerance, where less or none is given: logarithms are taken of it


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

    def solve(self, operator: KhatriRao, W: Array, progress: Progress = silent) -> Solution:
        """Iterate on dense tiles, or on a sparse K where that is faster and fits."""
        most = min(PATTERN.entries, LIMITS.sparse_below * operator.rows * operator.width)
        if operator.sparse and operator.entries() <= most:
            return _refined(
                operator, Inner(FormedK(operator), "sparse-cg", np.asarray), W, self, progress
            )
        if operator.sparse:
            operator = KhatriRao(to_dense(operator.M1), to_dense(operator.M2T).T)
        with one_blas_thread():  # BLAS's own threads would spin on while the tiles run in parallel
            inner = whitened(operator)
            inner.K.in_precision(self.inner_dtype)
            return _refined(operator, inner, W, self, progress)

    def cost(self, m: int, k: int, n: int, density: float = 1.0) -> Cost:
        """The weights in float32 and a few vectors, or a sparse K at 12 bytes an entry; iterations
        by the Marchenko-Pastur law, and about twice as many where equations are uneven."""
        iterations, flops = expected_iterations(m * k, n), 4 * n * m * k
        if density**2 < LIMITS.sparse_below:
            entries = density**2 * m * k * n
            work = 2 * iterations * 4 * entries / LIMITS.sparse_below
            return Cost(self, 12 * entries + 48 * n, work)
        memory = 4 * n * (m + k) + 4 * cpu_count() * TILES.size + 8 * (2 * n + 10 * m * k)
        return Cost(self, memory, iterations * flops / (2 * LIMITS.efficiency))


# --- rounds --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Inner:
    """The system of a round, `P K d = P R`: `condition` is that of the invertible P."""

    K: Any  # a KhatriRao or a FormedK
    name: str
    precondition: Callable[[Matrix], Matrix]
    condition: float = 1.0


def expected_iterations(rows: int, width: int, tolerance: float = 1e-15) -> float:
    """Iterations by the Marchenko-Pastur law: `ln(2/tolerance) / ln √c`, `c = n/(mk)`.

    Near `c = 1` the law has no finite answer; a finite matrix ends after some multiple of `mk`.
    """
    c = max(width, rows) / min(width, rows)
    limit = 4.0 * rows + 20
    if c == 1:
        return limit
    return min(limit, math.log(2 / tolerance) / (0.5 * math.log(c)))


def _refined(
    operator: KhatriRao, inner: Inner, W: Array, settings: ConjugateGradient, progress: Progress
) -> Solution:
    """Rounds of CGLS on `inner` until the float64 residual meets the tolerance or stops falling."""
    s, residual = np.zeros(operator.width), float(W.any())
    R: Matrix = W
    formed = isinstance(inner.K, FormedK)
    dtype = np.dtype(np.float64 if formed else settings.inner_dtype)
    condition, tolerance = None, settings.tolerance
    history: list[float] = []
    patience = LIMITS.sparse_patience if formed else LIMITS.patience
    expected = int(patience * expected_iterations(operator.rows, operator.width)) + 100
    limit = expected if settings.max_iterations is None else settings.max_iterations
    for _ in range(settings.refinements):
        if residual <= tolerance or len(history) >= limit:
            break
        aim = _aim(tolerance, residual, LIMITS.of(dtype))
        notify = _digits(progress, tolerance, residual)
        found = cgls(inner.K, inner.precondition(R), dtype, aim, limit - len(history), notify)
        if condition is None and (estimate := found.condition()) is not None:
            condition = inner.condition * estimate
        candidate = s + inner.K.apply_transposed(found.Y)
        R_new, new = relative_residual(operator, candidate, W)
        history += [residual * size for size in found.residuals]
        halved = new <= residual / 2
        if new < residual:
            s, R, residual = candidate, R_new, new
            if found.residuals:
                history[-1] = new
        if not halved:  # float64 next, or the end if that was it
            if dtype == np.float64:
                break
            dtype = np.dtype(np.float64)
    known = (operator.map_shape, None, condition, tuple(history))
    made = Solution(s, Status.NOT_CONVERGED, inner.name, residual, *known)
    return made.replace(status=judged(made, operator, W, tolerance, R))


def _aim(tolerance: float, residual: float, limits: PrecisionLimits) -> float:
    """How far a round goes: no further than the tolerance needs, and as far as is safe."""
    return max(limits.aim, max(LEAST, 0.3 * tolerance, 0.9 * tolerance - 1e-15) / residual)


@dataclass
class Round:
    """One round: `Y` with `d = Kᵀ Y`, its residuals, and the Lanczos coefficients."""

    Y: Array
    residuals: list[float] = field(default_factory=list)
    alphas: list[float] = field(default_factory=list)
    betas: list[float] = field(default_factory=list)

    def condition(self) -> float | None:
        """Condition of K from the tridiagonal Lanczos matrix of the iteration: lower estimate."""
        if len(self.alphas) < 2 or min(self.alphas) <= 0:
            return None
        a, b = np.array(self.alphas), np.array(self.betas[: len(self.alphas) - 1])
        diagonal = 1 / a
        diagonal[1:] += b / a[:-1]
        values = la.eigvalsh_tridiagonal(diagonal, np.sqrt(b) / a[:-1])
        return math.sqrt(values[-1] / values[0]) if values[0] > 0 else None


def cgls(
    K: Any,
    R: Matrix,
    dtype: np.dtype[Any],
    aim: float,
    limit: int,
    notify: Callable[[float], None],
) -> Round:
    """Minimise `‖K d − R‖_F` over `d = Kᵀ Y` until the residual is `aim·‖R‖`.

    Ends early after `limit` iterations, when the residual is orthogonal to the range of K (then no
    `d` does better), or when it grows (then this precision does not).
    """
    norm = float(np.linalg.norm(R))
    found = Round(np.zeros(R.shape))
    r = np.asarray(R / norm, dtype=dtype)
    v = r
    zz, q = K.normal(r, dtype)
    gain, smallest = 0.0, math.inf
    while len(found.residuals) < limit:
        qq = float(np.vdot(q, q))
        if qq == 0 or zz == 0:
            break
        alpha = zz / qq
        found.Y += alpha * v
        r = r - np.asarray(alpha * q, dtype=dtype)
        size = math.sqrt(float(np.vdot(r, r)))
        smallest = min(smallest, size)
        found.residuals.append(size)
        found.alphas.append(alpha)
        notify(size)
        if size <= aim or size > LIMITS.grown * smallest:
            break
        before = zz
        zz, image = K.normal(r, dtype)
        if zz > 0:  # a lower estimate of ‖K‖
            gain = max(gain, math.sqrt(float(np.vdot(image, image)) / zz))
        if math.sqrt(zz) <= LIMITS.of(dtype).orthogonal * gain * size:
            break
        beta = zz / before
        found.betas.append(beta)
        factor = np.asarray(beta, dtype=dtype)
        v, q = r + factor * v, image + factor * q
    found.Y *= norm
    return found


def _digits(progress: Progress, tolerance: float, scale: float) -> Callable[[float], None]:
    """Turns inner residuals into progress: decimal digits gained out of those asked for."""
    digits = -math.log10(max(tolerance, 1e-16))

    def notify(size: float) -> None:
        residual = scale * size
        done = min(max(-math.log10(max(residual, LEAST)), 0.0), digits)
        progress(Step("conjugate gradients", done, digits, residual))

    return notify


# --- the systems that are iterated on ------------------------------------------------------------


def whitened(operator: KhatriRao) -> Inner:
    """`L2⁻¹ M2` and `M1 L1⁻ᵀ` in place of M2 and M1: it undoes correlations, and s is the same.

    `K Kᵀ` is about `(M2 M2ᵀ) ⊗ (M1ᵀ M1) / n` for independent weights, so with
    `M1ᵀM1 = L1 L1ᵀ` and `M2 M2ᵀ = L2 L2ᵀ` the whitened system has the spectrum of one with
    independent entries of mean zero. A consistent system keeps its minimum-norm solution. Where the
    condition of the two small matrices together is small, as it is for weights that were drawn,
    the operator is left as it is.
    """
    left, spread2 = _inverse_root(operator.M2T)
    right, spread1 = _inverse_root(operator.M1)
    spread = math.sqrt(spread1 * spread2)
    if spread <= LIMITS.whiten_above:
        return Inner(operator, "cg", np.asarray)
    whiter = KhatriRao(operator.M1 @ right.T, left @ operator.M2T.T)
    return Inner(whiter, "cg", lambda R: np.asarray(left @ R @ right.T), spread)


def _inverse_root(rows: Stored, together: int = 4096) -> tuple[Array, float]:
    """`L⁻¹` with `L Lᵀ` the second moment `(1/n) Σ_l row_l row_lᵀ`, and its condition number.

    Directions without weight (a zero column, two equal ones) are out of reach of K and dropped.
    """
    moment = np.zeros((rows.shape[1], rows.shape[1]))
    for start in range(0, len(rows), together):
        part = rows[start : start + together].astype(np.float64)
        moment += part.T @ part / len(rows)
    values, vectors = la.eigh(moment)
    kept = values > max(values[-1], 0.0) * 1e-14  # below: rounding, not weights
    values, vectors = values[kept], vectors[:, kept]
    if not values.size:
        return np.zeros((1, len(moment))), 1.0
    return np.asarray((vectors / np.sqrt(values)).T), float(values[-1] / values[0])


class FormedK:
    """K as a sparse matrix in float64."""

    def __init__(self, operator: KhatriRao) -> None:
        self._shape = operator.map_shape
        self._transposed = transposed_matrix(operator.M1, operator.M2T, np.float64)

    def apply_transposed(self, Y: Matrix) -> Array:
        """`Kᵀ Y`."""
        return np.asarray(self._transposed @ Y.ravel())

    def normal(self, Y: Matrix, dtype: DTypeLike = np.float64) -> tuple[float, Matrix]:
        """`‖Kᵀ Y‖²` and `K Kᵀ Y`."""
        z = self.apply_transposed(Y)
        return float(z @ z), np.asarray(self._transposed.T @ z).reshape(self._shape)
