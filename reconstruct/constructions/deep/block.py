"""One block of the deep construction: solve `B diag(s) A = W`, well.

The rows of B are made orthonormal first (`B = Rᵀ Q`, solve `Q diag(s) A = R⁻ᵀ W`), so that the
system's own condition is that of a fresh random one; the condition of B comes in once, through
`R⁻ᵀ`, and is what the report shows. The residual is taken with the true B, in extended precision,
and refined against.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray

from reconstruct.constructions.deep.arithmetic import LongDouble, Reals
from reconstruct.khatri_rao import Auto, Direct, KhatriRao, Solver, solve
from reconstruct.khatri_rao.solvers.direct import CompleteOrthogonal, Factor, SquareLU, WideQR
from reconstruct.networks import Matrix
from reconstruct.numbers.arrays import Vector

Array: TypeAlias = NDArray[np.float64]

DENSE_BYTES = 1 << 27  # largest dense K that is factored here; beyond it the solver is asked
REFINEMENTS = 4
SINGULAR = 1e20  # condition of R beyond which B has lost rank: then nothing is preconditioned


@dataclass(frozen=True, eq=False)
class BlockRows:
    """`B = Rᵀ Q` with orthonormal rows Q; `condition` is B's, by singular values."""

    Q: Array
    R: Array
    condition: float

    def undo(self, W: Array) -> Array:
        """`R⁻ᵀ W`."""
        return np.asarray(la.solve_triangular(self.R, W, trans="T", check_finite=False))


def orthonormal_rows(B: Array) -> BlockRows:
    """QR of Bᵀ; a B without full rank is only scaled."""
    scale = float(np.linalg.norm(B)) or 1.0
    q, r = np.linalg.qr((B / scale).T)
    sizes = np.linalg.svd(r, compute_uv=False)
    condition = float(sizes[0] / sizes[-1]) if sizes[-1] > 0 else float("inf")
    if not condition < SINGULAR or np.any(np.diagonal(r) == 0):
        return BlockRows(B / scale, np.eye(len(B)) * scale, condition)
    return BlockRows(q.T, r * scale, condition)


@dataclass(frozen=True, eq=False)
class BlockSystem:
    """`Q diag(s) A = R⁻ᵀ W` with a way to apply the pseudo-inverse of its Khatri-Rao matrix."""

    operator: KhatriRao
    rows: BlockRows
    inverse: Callable[[Array], Vector]
    solver: str
    rank: int | None
    factored: bool

    @property
    def square(self) -> bool:
        return self.operator.width <= self.operator.rows

    def apply(self, v: Vector) -> Array:
        """`Q diag(v) A`."""
        return np.asarray(self.operator.apply(v), np.float64)

    def project(self, v: Vector) -> Vector:
        """The part of v in the null space: `v − K⁺ K v`."""
        return v - self.inverse(self.apply(v))


def block_system(B: Reals, A: Matrix, solver: Solver) -> BlockSystem:
    """Factor the block's system, or hand it to the solver when it is too large for that."""
    rows = orthonormal_rows(np.asarray(B, np.float64))
    operator = KhatriRao(A, rows.Q)
    small = 8 * operator.rows * operator.width <= DENSE_BYTES
    if small and isinstance(solver, (Auto, Direct)):
        factor = _factor(operator)
        return BlockSystem(
            operator, rows, lambda w: factor.solve(w.ravel()), "direct", factor.rank, True
        )

    def inverse(w: Array) -> Vector:
        return solve(A, rows.Q, w, solver).s

    name = solve(A, rows.Q, np.zeros(operator.map_shape), solver).solver
    return BlockSystem(operator, rows, inverse, name, None, False)


def _factor(operator: KhatriRao) -> Factor:
    K = operator.dense()
    if operator.width < operator.rows:
        return CompleteOrthogonal(K)
    factor: Factor = SquareLU(K) if operator.width == operator.rows else WideQR(K)
    limit = 1 / (np.finfo(float).eps * operator.width)
    return factor if factor.condition < limit else CompleteOrthogonal(operator.dense())


def residual(B: Reals, s: Reals, A: Matrix, W: Array) -> Array:
    """`W − B diag(s) A` with the true B, extended where B is."""
    return np.asarray(W - LongDouble().product(B * s, A), np.float64)


def refine(
    system: BlockSystem, start: Vector, real: Callable[[Vector], Array]
) -> tuple[Vector, list[float]]:
    """`s ← s + K⁺ R⁻ᵀ r` while the residual r = `real(s)` at least halves; its size each time."""
    best, rest = start, real(start)
    history = [float(np.linalg.norm(rest))]
    for _ in range(REFINEMENTS):
        s = best + system.inverse(system.rows.undo(rest))
        if not np.isfinite(s).all():
            break
        left = real(s)
        size = float(np.linalg.norm(left))
        if not size < history[-1]:
            break
        halved = size <= history[-1] / 2
        best, rest = s, left
        history.append(size)
        if not halved or size == 0:
            break
    return best, history
