"""Rounds of CGLS in a low precision, against a residual in float64.

Each round solves `K d = W − K s` for a correction `d`. The sum of the corrections is the
minimum-norm solution up to the inner precision: a null-space part of 1e-7 lengthens `s` by 1e-14.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.solution import (
    Solution,
    attainable_residual,
    is_solved,
    relative_residual,
)
from reconstruct.khatri_rao.solvers.cgls import LinearMap, cgls, expected_iterations
from reconstruct.khatri_rao.status import Status
from reconstruct.khatri_rao.storage import Matrix, Vector
from reconstruct.progress import Progress, Step

Array: TypeAlias = NDArray[np.float64]

HOPELESS = 1e12  # condition beyond which a failed iteration is blamed on conditioning
OUT_OF_REACH = 1e-11  # gradient of a residual, relative: it is orthogonal to the range of K
INNER_AIM = {np.dtype(np.float32): 5e-6, np.dtype(np.float64): 1e-13}  # residual of one round


class Preconditioned(LinearMap, Protocol):
    """`P K` for an invertible `P` on `m × k` matrices, with the condition of P as `spread`."""

    @property
    def spread(self) -> float: ...

    def precondition(self, Y: Matrix) -> Matrix:
        """`P Y`."""
        ...


@dataclass(frozen=True)
class Plain:
    """K as it is."""

    operator: KhatriRao
    spread: float = 1.0

    def apply(self, s: Vector, dtype: DTypeLike = np.float64) -> Matrix:
        """`K s`."""
        return self.operator.apply(s, dtype)

    def adjoint(self, Y: Matrix, dtype: DTypeLike = np.float64) -> Vector:
        """`Kᵀ Y`."""
        return self.operator.adjoint(Y, dtype)

    def precondition(self, Y: Matrix) -> Matrix:
        """`Y`."""
        return Y


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


def refined(
    operator: KhatriRao,
    inner: Preconditioned,
    W: Array,
    rounds: Rounds,
    progress: Progress | None,
    name: str,
) -> Solution:
    """Rounds of `inner` until the float64 residual meets the tolerance or stops falling."""
    dtype, limit = rounds.inner_dtype, rounds.limit(operator)
    s = np.zeros(operator.width)
    R, residual = relative_residual(operator, s, W)
    history: list[float] = []
    condition: float | None = None
    orthogonal = False
    report = _Digits(progress, rounds.tolerance)
    for _ in range(rounds.refinements):
        if residual <= rounds.tolerance or len(history) >= limit:
            break
        aim = max(INNER_AIM[dtype], 0.3 * rounds.tolerance / residual)
        report.start(residual)
        found = cgls(inner, inner.precondition(R), aim, limit - len(history), dtype, report)
        if condition is None and (estimate := found.condition()) is not None:
            condition = inner.spread * estimate
        candidate = s + found.d
        R_new, new = relative_residual(operator, candidate, W)
        history.extend(residual * value for value in found.residuals)
        orthogonal = found.orthogonal
        enough = new <= residual / 2
        if new < residual:
            s, R, residual = candidate, R_new, new
            if found.residuals:
                history[-1] = new
        if not enough:
            if dtype == np.float64:
                break
            dtype = np.dtype(np.float64)
    status = _status(operator, s, W, R, residual, rounds.tolerance, orthogonal, condition)
    return Solution(
        s, status, name, residual, operator.shape, condition=condition, history=tuple(history)
    )


def _status(
    operator: KhatriRao,
    s: Array,
    W: Array,
    R: Matrix,
    residual: float,
    tolerance: float,
    orthogonal: bool,
    condition: float | None,
) -> Status:
    wide = operator.width >= operator.rows
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
    return float(np.linalg.norm(operator.adjoint(R))) <= OUT_OF_REACH * scale


class _Digits:
    """Turns inner residuals into progress: decimal digits gained out of those asked for."""

    def __init__(self, progress: Progress | None, tolerance: float) -> None:
        self._progress = progress
        self._digits = -math.log10(max(tolerance, 1e-16))
        self._scale = 1.0

    def start(self, residual: float) -> None:
        self._scale = residual

    def __call__(self, iteration: int, size: float) -> None:
        if self._progress is None:
            return
        residual = self._scale * size
        digits = -math.log10(max(residual, 1e-300))
        done = min(max(digits, 0.0), self._digits)
        self._progress(Step("conjugate gradients", done, self._digits, residual))
