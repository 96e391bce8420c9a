"""Direct solver: factor the dense `K` once, then refine against the matrix-free operator.

By the QR factorisation of `Kᵀ` the minimum-norm solution is `s = Q R⁻ᵀ w`; it overwrites the `K`
that it is given. (LU takes half the time where `K` is square, which is no reason for a second
factorisation: ratio 1 is for small systems.) When it finds `K` numerically rank deficient, or when
there are fewer unknowns than equations, a complete orthogonal factorisation decides the rank and
gives the minimum-norm least-squares solution.

Rests on proofs_check: vec-identity, solvable-iff-rank.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg as la

from reconstruct.errors import InputError
from reconstruct.khatri_rao import solution
from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.solution import EPS, Cost, Solution, Status, judged, refine
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.given import number, whole
from reconstruct.numbers.parallel import one_blas_thread, physical_memory
from reconstruct.progress import Progress, Step, silent


@dataclass(frozen=True)
class DirectLimits:
    """Sizes at which a factorisation is done otherwise; each was measured."""

    one_thread: int = 1024  # equations: below, threads of BLAS wait more than they work
    singular_values: int = 512  # equations up to which all of them are computed
    power_steps: int = 12  # two triangular solves each: the estimate is good to some per cent
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

    def solve(self, operator: KhatriRao, W: Array, progress: Progress = silent) -> Solution:
        """Factor, solve, refine; the rank-revealing factorisation when it matters."""
        m, k = operator.map_shape
        needed, present = int(self.cost(m, k, operator.width).memory), physical_memory()
        if present is not None and needed > present:
            raise InputError(
                f"the direct solver would need {needed / 2**30:.1f} GiB for the dense matrix of a "
                f"{m} × {k} map with width {operator.width}, but this machine has "
                f"{present / 2**30:.1f} GiB; use ConjugateGradient() or Auto()"
            )
        progress(Step("factoring", 0.0, 1.0))
        with one_blas_thread() if operator.rows <= LIMITS.one_thread else nullcontext():
            factor = factored(operator)
            s, history = refine(
                np.zeros(operator.width),
                W,
                np.inf,
                lambda R: factor.solve(R.ravel()),
                lambda s: solution.relative_residual(operator, s, W),
                self.refinements + 1,
            )
        residual = history[-1] if history else solution.relative_residual(operator, s, W)[1]
        progress(Step("factoring", 1.0, 1.0, residual))
        known = (operator.map_shape, factor.rank, factor.condition, tuple(history))
        found = Solution(s, Status.NOT_CONVERGED, "direct", residual, *known)
        return found.replace(status=judged(found, operator, W, self.tolerance))

    def cost(self, m: int, k: int, n: int, density: float = 1.0) -> Cost:
        """The dense `K` and one factorisation of it; zeros do not help."""
        rows = m * k
        flops = 2 * max(n, rows) * min(n, rows) ** 2
        memory = 8 * rows * (n + rows) + 16 * n * (m + k)
        return Cost(self, memory, flops / LIMITS.efficiency)


@dataclass(frozen=True, eq=False)
class Factor:
    """A factored `K`: `solve` applies its (pseudo-)inverse to a vector of length m·k."""

    rank: int
    condition: float
    solve: Callable[[Array], Array]


def factored(operator: KhatriRao) -> Factor:
    """A factorisation of K: the rank-revealing one where QR finds it singular, or too narrow."""
    if operator.width >= operator.rows:
        factor = _by_qr(operator.dense())
        if factor.condition < 1 / (EPS * max(operator.rows, operator.width)):
            return factor
    return _rank_revealing(operator.dense())


def _by_qr(K: Array) -> Factor:
    """QR of `Kᵀ` for `n ≥ m·k`: `K⁺ w = Q R⁻ᵀ w`, the minimum-norm solution."""
    Q, R = la.qr(K.T, mode="economic", overwrite_a=True, check_finite=False)

    def back(w: Array, trans: str = "T") -> Array:
        return np.asarray(la.solve_triangular(R, w, trans=trans, check_finite=False))

    if len(K) <= LIMITS.singular_values:
        singular = np.linalg.svd(R, compute_uv=False)
        condition = _ratio(singular[0], singular[-1])
    elif np.any(np.diagonal(R) == 0):
        condition = np.inf
    else:
        largest = _power(lambda v: R.T @ (R @ v), len(K))
        condition = float(np.sqrt(largest * _power(lambda v: back(back(v), "N"), len(K))))
    return Factor(len(K), condition, lambda w: np.asarray(Q @ back(w)))


def _rank_revealing(K: Array) -> Factor:
    """`Kᵀ P = Q [R11 R12; 0 0]`, then `[R11 R12]ᵀ = U T`: `K⁺ = Q T⁻¹ Uᵀ Pᵀ`, the minimum-norm
    least-squares solution.

    The rank is the number of `|r_ii| > max(m·k, n) ε |r_11|` of the pivoted QR factorisation.
    """
    Q, R, pivots = la.qr(K.T, overwrite_a=True, mode="economic", pivoting=True)
    size = np.abs(np.diagonal(R))
    rank = int(np.count_nonzero(size > max(K.shape) * EPS * size[0]))
    condition = _ratio(size[0], size[-1]) if rank == min(K.shape) else np.inf
    U, T = la.qr(R[:rank].T, mode="economic")

    def solve(w: Array) -> Array:
        return np.asarray(Q[:, :rank] @ la.solve_triangular(T, U.T @ w[pivots], check_finite=False))

    nothing = np.zeros(K.shape[1])
    return Factor(rank, condition, solve if rank else lambda w: nothing)


def _ratio(largest: Any, smallest: Any) -> float:
    return float(largest / smallest) if smallest > 0 else float(np.inf)


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
