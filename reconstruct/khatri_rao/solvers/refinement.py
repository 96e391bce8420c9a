"""Conjugate gradients on `K Kᵀ` in rounds: low precision inside, float64 residuals outside.

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

Rests on proofs_check: adjoint.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.linalg as la
from numpy.typing import DTypeLike, NDArray

from reconstruct.khatri_rao.matrices import Matrix
from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.solution import (
    HOPELESS,
    Solution,
    Status,
    attainable_residual,
    is_solved,
    relative_residual,
)
from reconstruct.progress import Progress, Step

Array: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Limits:
    """What a precision can do."""

    aim: float  # relative residual of one round that is safe
    deepest: float  # the same where it saves another round
    orthogonal: float  # gradient of a residual that counts as orthogonal to the range of K


LIMITS = {
    np.dtype(np.float32): Limits(aim=5e-6, deepest=1.5e-6, orthogonal=3e-7),
    np.dtype(np.float64): Limits(aim=1e-13, deepest=1e-13, orthogonal=1e-14),
}
GROWN = 2.0  # in real arithmetic the residual never grows: beyond this factor rounding has won
OUT_OF_REACH = 1e-11  # gradient of a float64 residual, relative: orthogonal to the range of K
OWN_ROUNDING = 1e-15  # of a residual in float64, relative
LEAST = 1e-300  # tolerance, where less or none is given: logarithms are taken of it


class Preconditioned(Protocol):
    """`P K` with an invertible `P` on `m × k` matrices, whose condition is `spread`."""

    @property
    def spread(self) -> float: ...

    def normal(self, Y: Matrix, dtype: DTypeLike = ...) -> tuple[float, Matrix]:
        """`‖Kᵀ Pᵀ Y‖²` and `P K Kᵀ Pᵀ Y`."""
        ...

    def precondition(self, Y: Matrix) -> Matrix:
        """`P Y`."""
        ...

    def restore(self, Y: Matrix) -> Matrix:
        """`Pᵀ Y`."""
        ...


@dataclass(frozen=True)
class Rounds:
    """When to stop: see `ConjugateGradient`; `patience` multiplies the expected iterations."""

    tolerance: float
    max_iterations: int | None
    refinements: int
    inner_dtype: np.dtype[Any]
    patience: float

    def limit(self, operator: KhatriRao) -> int:
        """Most iterations over all rounds."""
        if self.max_iterations is not None:
            return self.max_iterations
        return int(self.patience * expected_iterations(operator.rows, operator.width)) + 100


def expected_iterations(rows: int, width: int, tolerance: float = 1e-15) -> float:
    """Iterations by the Marchenko-Pastur law: `ln(2/tolerance) / ln √c`, `c = n/(mk)`.

    Near `c = 1` the law has no finite answer; a finite matrix ends after some multiple of `mk`.
    """
    c = max(width, rows) / min(width, rows)
    limit = 4.0 * rows + 20
    if c == 1:
        return limit
    return min(limit, math.log(2 / tolerance) / (0.5 * math.log(c)))


def refined(
    operator: KhatriRao,
    inner: Preconditioned,
    W: Array,
    rounds: Rounds,
    name: str,
    progress: Progress | None = None,
) -> Solution:
    """Rounds of CGLS on `inner` until the float64 residual meets the tolerance or stops falling."""
    s, residual = np.zeros(operator.width), float(W.any())
    R: Matrix = W
    dtype, condition, orthogonal = rounds.inner_dtype, None, False
    history: list[float] = []
    limit = rounds.limit(operator)
    for _ in range(rounds.refinements):
        if residual <= rounds.tolerance or len(history) >= limit:
            break
        aim = _aim(rounds.tolerance, residual, LIMITS[dtype])
        hear = _Digits(progress, rounds.tolerance, residual)
        found = cgls(inner, inner.precondition(R), dtype, aim, limit - len(history), hear)
        if condition is None and (estimate := found.condition()) is not None:
            condition = inner.spread * estimate
        candidate = s + operator.apply_transposed(inner.restore(found.Y))
        R_new, new = relative_residual(operator, candidate, W)
        history += [residual * size for size in found.residuals]
        orthogonal = found.orthogonal
        halved = new <= residual / 2
        if new < residual:
            s, R, residual = candidate, R_new, new
            if found.residuals:
                history[-1] = new
        if not halved:  # float64 next, or the end if that was it
            if dtype == np.float64:
                break
            dtype = np.dtype(np.float64)
    return Solution(
        s=s,
        status=_status(operator, s, W, R, residual, rounds.tolerance, condition, orthogonal),
        solver=name,
        residual=residual,
        shape=operator.map_shape,
        condition=condition,
        history=tuple(history),
    )


def _aim(tolerance: float, residual: float, limits: Limits) -> float:
    """How far a round goes: no further than the tolerance needs, and as far as is safe.

    A little further where that saves a round: each begins anew, and ends with a residual in
    float64. Then the rounds share the way equally, so that none comes near its own rounding.
    """
    left = max(LEAST, 0.3 * tolerance, 0.9 * tolerance - OWN_ROUNDING) / residual
    if left >= limits.aim:
        return left
    count = math.ceil(math.log(left) / math.log(limits.deepest))
    return min(limits.aim, math.pow(left, 1 / count))


@dataclass
class Inner:
    """One round: `Y` with `d = Kᵀ Pᵀ Y`, its residuals, and the Lanczos coefficients."""

    Y: Array
    orthogonal: bool = False
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
    K: Preconditioned, R: Matrix, dtype: np.dtype[Any], aim: float, limit: int, hear: _Digits
) -> Inner:
    """Minimise `‖K d − R‖_F` over `d = Kᵀ Y` until the residual is `aim·‖R‖`.

    Ends early after `limit` iterations, when the residual is orthogonal to the range of K (then no
    `d` does better), or when it grows (then this precision does not).
    """
    norm = float(np.linalg.norm(R))
    found = Inner(np.zeros(R.shape))
    r = np.asarray(R / norm, dtype=dtype)
    v = r
    zz, q = K.normal(r, dtype)
    gain, smallest = 0.0, math.inf
    while len(found.residuals) < limit:
        qq = float(np.vdot(q, q))
        if qq == 0 or zz == 0:
            found.orthogonal = True
            break
        alpha = zz / qq
        found.Y += alpha * v
        r = r - np.asarray(alpha * q, dtype=dtype)
        size = math.sqrt(float(np.vdot(r, r)))
        smallest = min(smallest, size)
        found.residuals.append(size)
        found.alphas.append(alpha)
        hear(size)
        if size <= aim or size > GROWN * smallest:
            break
        before = zz
        zz, image = K.normal(r, dtype)
        if zz > 0:  # a lower estimate of ‖K‖
            gain = max(gain, math.sqrt(float(np.vdot(image, image)) / zz))
        if math.sqrt(zz) <= LIMITS[dtype].orthogonal * gain * size:
            found.orthogonal = True
            break
        beta = zz / before
        found.betas.append(beta)
        factor = np.asarray(beta, dtype=dtype)
        v, q = r + factor * v, image + factor * q
    found.Y *= norm
    return found


def _status(
    operator: KhatriRao,
    s: Array,
    W: Array,
    R: Matrix,
    residual: float,
    tolerance: float,
    condition: float | None,
    orthogonal: bool,
) -> Status:
    wide = operator.width >= operator.rows
    if is_solved(residual, tolerance, 0.0, wide):
        return Status.SOLVED
    if is_solved(residual, tolerance, attainable_residual(operator, s, W), wide):
        return Status.SOLVED
    if not wide:
        return Status.TOO_NARROW
    if orthogonal or _is_orthogonal(operator, R):
        return Status.RANK_DEFICIENT
    if condition is not None and condition > HOPELESS:
        return Status.ILL_CONDITIONED
    return Status.NOT_CONVERGED


def _is_orthogonal(operator: KhatriRao, R: Matrix) -> bool:
    """Whether `Kᵀ R` vanishes to rounding: then no correction brings the residual R down."""
    scale = math.sqrt(operator.squared_norm()) * float(np.linalg.norm(R))
    return float(np.linalg.norm(operator.apply_transposed(R))) <= OUT_OF_REACH * scale


class _Digits:
    """Turns inner residuals into progress: decimal digits gained out of those asked for."""

    def __init__(self, progress: Progress | None, tolerance: float, scale: float) -> None:
        self._progress, self._scale = progress, scale
        self._digits = -math.log10(max(tolerance, 1e-16))

    def __call__(self, size: float) -> None:
        if self._progress is None:
            return
        residual = self._scale * size
        done = min(max(-math.log10(max(residual, LEAST)), 0.0), self._digits)
        self._progress(Step("conjugate gradients", done, self._digits, residual))
