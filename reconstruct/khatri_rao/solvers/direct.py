"""Direct solver: factor the dense `K` once, then refine against the matrix-free operator.

By the QR factorisation of `Kᵀ` the minimum-norm solution is `s = Q R⁻ᵀ w`; it overwrites the `K`
that it is given. (LU takes half the time where `K` is square, which is no reason for a second
factorisation: ratio 1 is for small systems.) When it finds `K` numerically rank deficient, or when
there are fewer unknowns than equations, a complete orthogonal factorisation decides the rank and
gives the minimum-norm least-squares solution.

Rests on proofs_check: vec-identity, solvable-iff-rank.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy.linalg as la

from reconstruct.errors import InputError
from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.solution import (
    ACCEPTED,
    EPS,
    Cost,
    Solution,
    Status,
    attainable_residual,
    is_solved,
    refine,
    relative_residual,
)
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.given import number, whole
from reconstruct.numbers.parallel import one_blas_thread, physical_memory
from reconstruct.progress import Progress, Step


@dataclass(frozen=True)
class DirectLimits:
    """Sizes at which a factorisation is done otherwise; each was measured."""

    one_thread: int = 1024  # equations: below, threads of BLAS wait more than they work
    singular_values: int = 512  # equations up to which all of them are computed
    power_steps: int = 12  # two triangular solves each: the estimate is good to some per cent
    block: int = 64  # LAPACK's usual block size: workspace per row
    efficiency: float = 0.5  # of GEMM speed, for QR at 1,000 to 4,000 equations


LIMITS = DirectLimits()


@dataclass(frozen=True)
class Direct:
    """Settings of the direct solver.

    `tolerance`: relative residual that counts as solved even above rounding level;
    `refinements`: most steps of iterative refinement.
    """

    tolerance: float = 1e-14
    refinements: int = 5

    rational: ClassVar[bool] = False

    def __post_init__(self) -> None:
        number(self.tolerance, "the tolerance of a solve")
        whole(self.refinements, "refinements")

    def solve(self, operator: KhatriRao, W: Array, progress: Progress | None = None) -> Solution:
        """Factor, solve, refine; the rank-revealing factorisation when it matters."""
        self._check_memory(operator)
        if progress is not None:
            progress(Step("factoring", 0.0, 1.0))
        with one_blas_thread() if operator.rows <= LIMITS.one_thread else nullcontext():
            solution = _refine(operator, W, factored(operator), self)
        if progress is not None:
            progress(Step("factoring", 1.0, 1.0, solution.residual))
        return solution

    def cost(self, m: int, k: int, n: int, density: float = 1.0) -> Cost:
        """The dense `K` and one factorisation of it; zeros do not help."""
        rows = m * k
        flops = 2 * max(n, rows) * min(n, rows) ** 2
        memory = 8 * rows * n + 8 * 64 * rows + 16 * n * (m + k)
        return Cost(self, memory, flops / LIMITS.efficiency)

    def _check_memory(self, operator: KhatriRao) -> None:
        m, k = operator.map_shape
        needed, present = int(self.cost(m, k, operator.width).memory), physical_memory()
        if present is not None and needed > present:
            raise InputError(
                f"the direct solver would need {needed / 2**30:.1f} GiB for the dense matrix of a "
                f"{m} × {k} map with width {operator.width}, but this machine has "
                f"{present / 2**30:.1f} GiB; use ConjugateGradient() or Auto()"
            )


def factored(operator: KhatriRao) -> Factor:
    """A factorisation of K: the rank-revealing one where QR finds it singular, or too narrow."""
    if operator.width >= operator.rows:
        factor = WideQR(operator.dense())
        if factor.condition < 1 / (EPS * max(operator.rows, operator.width)):
            return factor
    return CompleteOrthogonal(operator.dense())


def _refine(operator: KhatriRao, W: Array, factor: Factor, settings: Direct) -> Solution:
    """Iterative refinement `s ← s + K⁺ (W − K s)` as long as the residual at least halves."""
    best, history = refine(
        np.zeros(operator.width),
        W,
        np.inf,
        lambda R: factor.solve(R.ravel()),
        lambda s: relative_residual(operator, s, W),
        settings.refinements + 1,
    )
    residual = history[-1] if history else relative_residual(operator, best, W)[1]
    status = _status(operator, best, W, residual, factor, settings)
    return Solution(
        s=best,
        status=status,
        solver="direct",
        residual=residual,
        shape=operator.map_shape,
        rank=factor.rank,
        condition=factor.condition,
        history=tuple(history),
    )


def _status(
    operator: KhatriRao, s: Array, W: Array, residual: float, factor: Factor, settings: Direct
) -> Status:
    full = factor.rank == operator.rows
    attainable = attainable_residual(operator, s, W)
    if is_solved(residual, settings.tolerance, attainable, full):
        return Status.SOLVED
    if operator.width < operator.rows:
        return Status.TOO_NARROW
    if not full:
        return Status.RANK_DEFICIENT
    return Status.ILL_CONDITIONED if factor.condition > ACCEPTED.condition else Status.NOT_CONVERGED


class Factor(Protocol):
    """A factored `K`: applies a (pseudo-)inverse."""

    rank: int
    condition: float

    def solve(self, w: Array) -> Array:
        """`K⁺ w` for a vector of length m·k."""
        ...


class WideQR:
    """QR of `Kᵀ` for `n ≥ m·k`: `K⁺ w = Q R⁻ᵀ w`, the minimum-norm solution."""

    def __init__(self, K: Array) -> None:
        rows, self._width = K.shape
        norm = _spectral_norm(K) if rows > LIMITS.singular_values else 0.0
        geqrf, self._ormqr, self._trtrs = _lapack("geqrf", "ormqr", "trtrs")
        self._qr, self._tau, _, _ = geqrf(K.T, lwork=LIMITS.block * rows, overwrite_a=True)
        self._rows = rows
        if rows <= LIMITS.singular_values:
            singular = np.linalg.svd(np.triu(self._qr[:rows]), compute_uv=False)
            self.condition = _ratio(singular[0], singular[-1])
        elif np.any(np.diagonal(self._qr) == 0):
            self.condition = np.inf
        else:
            self.condition = norm * float(np.sqrt(_power(self._solve_normal, rows)))
        self.rank = rows

    def solve(self, w: Array) -> Array:
        """`Q R⁻ᵀ w`."""
        padded = np.zeros((self._width, 1), order="F")
        padded[: self._rows, 0] = self._triangular(w, trans=1)
        out, _, _ = self._ormqr("L", "N", self._qr, self._tau, padded, lwork=LIMITS.block)
        return np.asarray(out[:, 0])

    def _triangular(self, w: Array, trans: int) -> Array:
        # the whole factor goes in: LAPACK reads its leading triangle, and a slice would be a copy
        return np.asarray(self._trtrs(self._qr, w, lower=0, trans=trans)[0])

    def _solve_normal(self, v: Array) -> Array:
        return self._triangular(self._triangular(v, trans=1), trans=0)


class CompleteOrthogonal:
    """Rank-revealing `Kᵀ P = Q [R11 R12; 0 0]`, then `[R11 R12]ᵀ = U T`: `K⁺ = Q T⁻¹ Uᵀ Pᵀ`.

    The rank is the number of `|r_ii| > max(m·k, n) ε |r_11|` of the pivoted QR factorisation.
    """

    def __init__(self, K: Array) -> None:
        rows, width = K.shape
        q, r, self._pivots = la.qr(K.T, overwrite_a=True, mode="economic", pivoting=True)
        size = np.abs(np.diagonal(r))
        cut = max(rows, width) * EPS * (size[0] if size.size else 0.0)
        self.rank = int(np.count_nonzero(size > cut))
        full = self.rank == min(rows, width)
        self.condition = _ratio(size[0], size[-1]) if full else np.inf
        self._q = q[:, : self.rank]
        self._u, self._t = la.qr(r[: self.rank].T, mode="economic")

    def solve(self, w: Array) -> Array:
        """Minimum-norm least-squares solution."""
        if self.rank == 0:
            return np.zeros(self._q.shape[0])
        z = la.solve_triangular(self._t, self._u.T @ w[self._pivots], check_finite=False)
        return np.asarray(self._q @ z)


def _lapack(*names: str) -> Any:
    return la.get_lapack_funcs(names, dtype=np.float64)


def _ratio(largest: Any, smallest: Any) -> float:
    return float(largest / smallest) if smallest > 0 else float(np.inf)


def _spectral_norm(K: Array) -> float:
    return float(np.sqrt(_power(lambda v: K @ (K.T @ v), len(K))))


def _power(step: Any, size: int) -> float:
    """Largest eigenvalue of a positive semi-definite map by power iteration: a lower estimate."""
    v = np.random.default_rng(0).standard_normal(size)
    value = 0.0
    for _ in range(LIMITS.power_steps):
        norm = float(np.linalg.norm(v))
        if not 0 < norm < np.inf:
            return norm
        v = step(v / norm)
        value = float(np.linalg.norm(v))
    return value
