"""CGLS: conjugate gradients on `KᵀK` in the form that keeps the residual itself.

Its two products, `z = Kᵀ r` and `K p` for the next direction `p = z + β p`, are made in one pass
over the weights: `K z` beside `z`, and `K p = K z + β K p` from the one before. The correction is
summed from the very `z` that were computed, so that what rounds them does not count.

Started from zero, its iterates stay in the range of `Kᵀ`, so that it ends at the minimum-norm
solution. For random weights the error falls by `√(mk/n)` per iteration, the Marchenko-Pastur law,
whatever the size.

Rests on proofs_check: adjoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import scipy.linalg as la
from numpy.typing import DTypeLike

from reconstruct.khatri_rao.storage import Matrix, Vector

# Gradient below which a residual counts as orthogonal to the range of K: units of rounding.
ORTHOGONAL = {np.dtype(np.float32): 3e-7, np.dtype(np.float64): 1e-14}
GROWN = 2.0  # in real arithmetic the residual never grows: beyond this factor rounding has won


class LinearMap(Protocol):
    """What the inner iteration needs to know of `K`."""

    def round_trip(self, Y: Matrix, dtype: DTypeLike = ...) -> tuple[Vector, Matrix]:
        """`Kᵀ Y` and `K Kᵀ Y`."""
        ...

    def dot(self, a: Vector, b: Vector) -> float:
        """`⟨a, b⟩` of two vectors over hidden units, in their parts."""
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


class Iterate(NamedTuple):
    """Everything that the iteration goes on from: the correction `d`, the residual `r`, the
    direction `p`, `q = K p`, and `zz = ‖Kᵀr‖²`.

    `steps` iterations are done; `turned` is False in the middle of one: `d` and `r` are new, the
    direction is not. Nothing in it is changed in place, so that an interrupt at any moment leaves
    it whole.
    """

    d: Vector
    r: Matrix
    p: Vector
    q: Matrix
    zz: float
    steps: int = 0
    turned: bool = True


Watch: TypeAlias = Callable[["Inner"], None]


@dataclass
class Inner:
    """One inner solve: where it is, how it ended, the Lanczos coefficients."""

    norm: float
    now: Iterate
    gain: float = 0.0
    smallest: float = math.inf
    orthogonal: bool = False
    residuals: list[float] = field(default_factory=list)
    alphas: list[float] = field(default_factory=list)
    betas: list[float] = field(default_factory=list)

    @property
    def d(self) -> Vector:
        """The correction found."""
        return np.asarray(self.now.d * self.norm)

    def condition(self) -> float | None:
        """Condition of K from the tridiagonal Lanczos matrix of the iteration: lower estimate."""
        if len(self.alphas) < 2 or min(self.alphas) <= 0:
            return None
        a, b = np.array(self.alphas), np.array(self.betas[: len(self.alphas) - 1])
        diagonal = 1 / a
        diagonal[1:] += b / a[:-1]
        values = la.eigvalsh_tridiagonal(diagonal, np.sqrt(b) / a[:-1])
        return math.sqrt(values[-1] / values[0]) if values[0] > 0 else None


def begin(K: LinearMap, R: Matrix, dtype: DTypeLike) -> Inner:
    """The start of minimising `‖K d − R‖_F` from `d = 0`, in `dtype`."""
    norm = float(np.linalg.norm(R))
    r = np.asarray(R / norm, dtype=dtype)
    z, image = K.round_trip(r, dtype)
    return Inner(norm, Iterate(np.zeros(len(z), dtype=dtype), r, z, image, K.dot(z, z)))


def cgls(K: LinearMap, state: Inner, aim: float, limit: int, watch: Watch | None = None) -> Inner:
    """Go on from `state` until the residual is `aim·‖R‖` or `limit` iterations are done.

    Ends early when the residual is orthogonal to the range of K (then no `d` does better), or
    when it grows (then this precision does not). `watch` sees the state after each iteration.
    """
    dtype = state.now.r.dtype
    while True:
        if state.now.turned:
            if state.now.steps >= limit or not _step(K, state, dtype):
                return state
            if watch is not None:
                watch(state)
        size = state.residuals[state.now.steps - 1]
        if size <= aim or size > GROWN * state.smallest:
            return state
        if not _turn(K, state, size, dtype):
            return state


def _step(K: LinearMap, state: Inner, dtype: np.dtype[Any]) -> bool:
    """Along the direction to the least residual; False if there is nothing to gain."""
    now = state.now
    qq = float(np.vdot(now.q, now.q))
    if qq == 0 or now.zz == 0:
        state.orthogonal = True
        return False
    alpha = now.zz / qq
    d = now.d + np.asarray(alpha * now.p, dtype=dtype)
    r = now.r - np.asarray(alpha * now.q, dtype=dtype)
    size = math.sqrt(float(np.vdot(r, r)))
    state.smallest = min(state.smallest, size)
    state.residuals[now.steps :] = [size]  # an interrupt may have left one too many
    state.alphas[now.steps :] = [alpha]
    state.now = Iterate(d, r, now.p, now.q, now.zz, now.steps + 1, turned=False)
    return True


def _turn(K: LinearMap, state: Inner, size: float, dtype: np.dtype[Any]) -> bool:
    """The next direction, conjugate to the ones before; False if the gradient has vanished."""
    now = state.now
    z, image = K.round_trip(now.r, dtype)
    zz = K.dot(z, z)
    if zz > 0:  # a lower estimate of ‖K‖
        state.gain = max(state.gain, math.sqrt(float(np.vdot(image, image)) / zz))
    if math.sqrt(zz) <= ORTHOGONAL[dtype] * state.gain * size:
        state.orthogonal = True
        return False
    beta = zz / now.zz
    factor = np.asarray(beta, dtype=dtype)
    p, q = z + factor * now.p, image + factor * now.q
    state.betas[now.steps - 1 :] = [beta]
    state.now = Iterate(now.d, now.r, p, q, zz, now.steps)
    return True
