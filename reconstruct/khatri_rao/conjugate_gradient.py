"""Matrix-free conjugate gradients: float32 inner iterations, float64 refinement.

Each round solves `K d = W − K s` for a correction `d` by CGLS, conjugate gradients on `KᵀK` in the
form that keeps the residual itself. Started from zero, its iterates stay in the range of `Kᵀ`, so
the sum of the corrections is the minimum-norm solution (up to the inner precision: a null-space
part of 1e-7 lengthens `s` by 1e-14). For random weights the error falls by `√(mk/n)` per
iteration, the Marchenko-Pastur law, whatever the size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import scipy.linalg as la
from numpy.typing import DTypeLike, NDArray

from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.outcome import Outcome
from reconstruct.khatri_rao.solution import attainable_residual, is_solved, relative_residual
from reconstruct.khatri_rao.status import Status
from reconstruct.khatri_rao.storage import Frozen, Matrix, Vector, to_dense
from reconstruct.khatri_rao.threads import one_blas_thread
from reconstruct.progress import Progress, Step

Array = NDArray[np.float64]

WHITEN_ABOVE = 16.0  # spread of the second moments of M1 and M2 above which whitening pays
NO_WEIGHT = 1e-14  # of the largest second moment: rounding, not weights
HOPELESS = 1e12
OUT_OF_REACH = 1e-11  # gradient of a residual, relative: it is orthogonal to the range of K
# Relative residual that one round aims at, and the gradient below which a residual counts as
# orthogonal to the range of K, for each inner precision: some 50 units of rounding.
INNER_AIM = {np.dtype(np.float32): 5e-6, np.dtype(np.float64): 1e-13}
ORTHOGONAL = {np.dtype(np.float32): 3e-7, np.dtype(np.float64): 1e-14}


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


class LinearMap(Protocol):
    """What the inner iteration needs to know of `K`."""

    def apply(self, s: Vector, dtype: DTypeLike = ...) -> Matrix:
        """`K s`."""
        ...

    def adjoint(self, Y: Matrix, dtype: DTypeLike = ...) -> Vector:
        """`Kᵀ Y`."""
        ...


def expected_iterations(rows: int, width: int, tolerance: float = 1e-15) -> float:
    """Iterations by the Marchenko-Pastur law: `ln(2/tolerance) / ln √c`, `c = n/(mk)`.

    Near `c = 1` the law has no finite answer; a finite matrix ends after some multiple of `mk`.
    """
    c = max(width, rows) / min(width, rows)
    limit = 4.0 * rows + 20
    if c == 1:
        return limit
    return min(limit, math.log(2 / tolerance) / (0.5 * math.log(c)))


@dataclass
class Inner:
    """State of one inner solve: the correction, how it ended, the Lanczos coefficients."""

    d: Vector
    residuals: list[float] = field(default_factory=list)
    orthogonal: bool = False
    alphas: list[float] = field(default_factory=list)
    betas: list[float] = field(default_factory=list)

    def condition(self) -> float | None:
        """Condition of K from the tridiagonal Lanczos matrix of the iteration: lower estimate."""
        if len(self.alphas) < 2:
            return None
        a, b = np.array(self.alphas), np.array(self.betas[: len(self.alphas) - 1])
        diagonal = 1 / a
        diagonal[1:] += b / a[:-1]
        values = la.eigvalsh_tridiagonal(diagonal, np.sqrt(b) / a[:-1])
        return math.sqrt(values[-1] / values[0]) if values[0] > 0 else None


def cgls(
    K: LinearMap,
    R: Matrix,
    aim: float,
    limit: int,
    dtype: DTypeLike,
    report: Callable[[int, float], None] | None = None,
) -> Inner:
    """Minimise `‖K d − R‖_F` from `d = 0` until the residual is `aim·‖R‖`, in `dtype`.

    Ends early when the residual is orthogonal to the range of K: then no `d` does better.
    """
    norm = float(np.linalg.norm(R))
    r = np.asarray(R / norm, dtype=dtype)
    z = K.adjoint(r, dtype)
    state = Inner(np.zeros(len(z), dtype=dtype))
    p, zz, gain = z.copy(), float(z @ z), 0.0
    for iteration in range(limit):
        q = K.apply(p, dtype)
        qq, pp = float(np.vdot(q, q)), float(p @ p)
        if qq == 0 or pp == 0:
            state.orthogonal = True
            break
        gain = max(gain, math.sqrt(qq / pp))  # a lower estimate of ‖K‖
        alpha = zz / qq
        state.d += np.asarray(alpha * p, dtype=dtype)
        r -= np.asarray(alpha * q, dtype=dtype)
        size = float(np.linalg.norm(r))
        state.residuals.append(size)
        state.alphas.append(alpha)
        if report is not None:
            report(iteration, size)
        if size <= aim:
            break
        z = K.adjoint(r, dtype)
        zz, before = float(z @ z), zz
        if math.sqrt(zz) <= ORTHOGONAL[np.dtype(dtype)] * gain * size:
            state.orthogonal = True
            break
        state.betas.append(zz / before)
        p *= np.asarray(zz / before, dtype=dtype)
        p += z
    state.d = state.d * norm
    return state


class Whitened:
    """`K` between two small matrices, `Y ↦ L2⁻¹ Y L1⁻ᵀ`, that undo correlations in M1 and M2.

    `K Kᵀ` is about `(M2 M2ᵀ) ⊗ (M1ᵀ M1) / n` for independent weights, so with
    `M1ᵀM1 = L1 L1ᵀ` and `M2 M2ᵀ = L2 L2ᵀ` the whitened system has the spectrum of one with
    independent entries of mean zero. A consistent system keeps its minimum-norm solution.
    """

    def __init__(self, operator: KhatriRao) -> None:
        self.operator = operator
        self.left, spread2 = _inverse_root(operator.M2T)
        self.right, spread1 = _inverse_root(operator.M1)
        self.spread = math.sqrt(spread1 * spread2)

    def apply(self, s: Vector, dtype: DTypeLike = np.float64) -> Matrix:
        """`L2⁻¹ (K s) L1⁻ᵀ`."""
        return self.whiten(self.operator.apply(s, dtype))

    def adjoint(self, Y: Matrix, dtype: DTypeLike = np.float64) -> Vector:
        """`Kᵀ (L2⁻ᵀ Y L1⁻¹)`."""
        left, right = self.left.astype(dtype), self.right.astype(dtype)
        return self.operator.adjoint(left.T @ np.asarray(Y, dtype=dtype) @ right, dtype)

    def whiten(self, Y: Matrix) -> Matrix:
        """`L2⁻¹ Y L1⁻ᵀ`."""
        return np.asarray(self.left.astype(Y.dtype) @ Y @ self.right.astype(Y.dtype).T)


def _inverse_root(rows: Frozen) -> tuple[Array, float]:
    """`L⁻¹` with `L Lᵀ` the mean second moment of the rows, and its condition number.

    Directions without weight (a zero column, two equal ones) are out of reach of K and dropped.
    """
    values, vectors = la.eigh(_second_moment(rows))
    kept = values > max(values[-1], 0.0) * NO_WEIGHT
    values, vectors = values[kept], vectors[:, kept]
    if not values.size:
        return np.zeros((1, rows.shape[1])), 1.0
    return np.asarray((vectors / np.sqrt(values)).T), float(values[-1] / values[0])


def _second_moment(rows: Frozen) -> Array:
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for start in range(0, rows.shape[0], 4096):
        tile = to_dense(rows[start : start + 4096]).astype(np.float64)
        total += tile.T @ tile
    return np.asarray(total / rows.shape[0])


def solve_cg(
    operator: KhatriRao,
    W: Array,
    settings: ConjugateGradient,
    progress: Progress | None = None,
) -> Outcome:
    """Inner rounds until the float64 residual meets the tolerance or stops falling."""
    with one_blas_thread():  # the tiles run in parallel instead
        whitened = Whitened(operator)
        use = whitened.spread > WHITEN_ABOVE
        return refined_cg(
            operator,
            whitened if use else operator,
            whitened.whiten if use else lambda Y: Y,
            W,
            settings,
            progress,
            spread=whitened.spread if use else 1.0,
        )


def refined_cg(
    operator: KhatriRao,
    inner: LinearMap,
    precondition: Callable[[Matrix], Matrix],
    W: Array,
    settings: ConjugateGradient,
    progress: Progress | None,
    spread: float = 1.0,
    name: str = "cg",
) -> Outcome:
    """Refinement of `operator` by inner solves with `inner = precondition ∘ operator`."""
    dtype = np.dtype(settings.inner_dtype)
    limit = settings.max_iterations
    if limit is None:
        limit = int(4 * expected_iterations(operator.rows, operator.width)) + 100
    s = np.zeros(operator.width)
    R, residual = relative_residual(operator, s, W)
    history: list[float] = []
    condition: float | None = None
    orthogonal = False
    report = _reporter(progress, settings.tolerance)
    for _ in range(settings.refinements):
        if residual <= settings.tolerance or len(history) >= limit:
            break
        aim = max(INNER_AIM[dtype], 0.3 * settings.tolerance / residual)
        report.start(len(history), residual)
        found = cgls(inner, precondition(R), aim, limit - len(history), dtype, report)
        if condition is None and (estimate := found.condition()) is not None:
            condition = spread * estimate
        candidate = s + found.d
        R_new, new = relative_residual(operator, candidate, W)
        history.extend(residual * value for value in found.residuals)
        orthogonal = found.orthogonal
        improved = new < residual
        enough = new <= residual / 2
        if improved:
            s, R, residual = candidate, R_new, new
            if found.residuals:
                history[-1] = new
        if not enough:
            if dtype == np.float64:
                break
            dtype = np.dtype(np.float64)
    orthogonal = orthogonal or _is_orthogonal(operator, R)
    status = _status(operator, s, W, residual, settings, orthogonal, condition)
    return Outcome(s, status, name, residual, None, condition, tuple(history))


def _is_orthogonal(operator: KhatriRao, R: Matrix) -> bool:
    """Whether `Kᵀ R` vanishes to rounding: then no correction brings the residual R down."""
    scale = math.sqrt(operator.squared_norm()) * float(np.linalg.norm(R))
    return float(np.linalg.norm(operator.adjoint(R))) <= OUT_OF_REACH * scale


def _status(
    operator: KhatriRao,
    s: Array,
    W: Array,
    residual: float,
    settings: ConjugateGradient,
    orthogonal: bool,
    condition: float | None,
) -> Status:
    wide = operator.width >= operator.rows
    if is_solved(residual, settings.tolerance, attainable_residual(operator, s, W), wide):
        return Status.SOLVED
    if not wide:
        return Status.TOO_NARROW
    if orthogonal:
        return Status.RANK_DEFICIENT
    if condition is not None and condition > HOPELESS:
        return Status.ILL_CONDITIONED
    return Status.NOT_CONVERGED


class _reporter:
    """Turns inner residuals into progress: decimal digits gained out of those asked for."""

    def __init__(self, progress: Progress | None, tolerance: float) -> None:
        self._progress = progress
        self._digits = -math.log10(max(tolerance, 1e-16))
        self._before, self._scale = 0, 1.0

    def start(self, iterations: int, residual: float) -> None:
        self._before, self._scale = iterations, residual

    def __call__(self, iteration: int, size: float) -> None:
        if self._progress is None:
            return
        residual = self._scale * size
        digits = -math.log10(max(residual, 1e-300))
        done = min(max(digits, 0.0), self._digits)
        self._progress(Step("conjugate gradients", done, self._digits, residual))
