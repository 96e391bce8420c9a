"""CGLS: conjugate gradients on `KᵀK` in the form that keeps the residual itself.

Started from zero, its iterates stay in the range of `Kᵀ`, so that it ends at the minimum-norm
solution. For random weights the error falls by `√(mk/n)` per iteration, the Marchenko-Pastur law,
whatever the size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import scipy.linalg as la
from numpy.typing import DTypeLike

from reconstruct.khatri_rao.storage import Matrix, Vector

# Gradient below which a residual counts as orthogonal to the range of K: units of rounding.
ORTHOGONAL = {np.dtype(np.float32): 3e-7, np.dtype(np.float64): 1e-14}


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
