"""Direct solver: factor the dense `K` once, then refine against the matrix-free operator.

When LU or QR find `K` numerically rank deficient, or when there are fewer unknowns than equations,
a complete orthogonal factorisation decides the rank and gives the minimum-norm least-squares
solution.

Rests on proofs_check: vec-identity, solvable-iff-rank.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from reconstruct.errors import InputError
from reconstruct.khatri_rao.checkpoint import Checkpoint
from reconstruct.khatri_rao.engines import one_blas_thread, physical_memory
from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.solution import (
    ACCEPTED_DEFICIENT,
    EPS,
    Solution,
    attainable_residual,
    is_solved,
    relative_residual,
)
from reconstruct.khatri_rao.solvers.factors import CompleteOrthogonal, Factor, SquareLU, WideQR
from reconstruct.khatri_rao.solvers.floating import Array, in_floats
from reconstruct.khatri_rao.solvers.solver import Cost
from reconstruct.khatri_rao.status import Status
from reconstruct.numbers.given import number, whole
from reconstruct.progress import Progress, Step

THREADS_ABOVE = 1024  # equations: below, threads of BLAS wait for each other more than they work
HOPELESS = 1e12  # condition beyond which a failed refinement is blamed on conditioning
EFFICIENCY = 0.5  # of GEMM speed: measured for LU and QR at 1,000 to 4,000 equations


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

    def solve(
        self,
        operator: KhatriRao,
        W: Array,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Solution:
        """Factor, solve, refine; the rank-revealing factorisation when it matters."""
        return in_floats(operator, W, lambda K, R: self.attempt(K, R, progress))

    def attempt(self, operator: KhatriRao, W: Array, progress: Progress | None = None) -> Solution:
        """The method itself, on a system that is scaled and not refused."""
        self._check_memory(operator)
        operator = operator.whole()
        if progress is not None:
            progress(Step("factoring", 0.0, 1.0))
        with one_blas_thread() if operator.rows <= THREADS_ABOVE else nullcontext():
            solution = _solve_and_judge(operator, W, self)
        if progress is not None:
            progress(Step("factoring", 1.0, 1.0, solution.residual))
        return solution

    def cost(self, m: int, k: int, n: int, density: float = 1.0) -> Cost:
        """The dense `K` and one factorisation of it; zeros do not help."""
        rows = m * k
        flops = 2 / 3 * rows**3 if n == rows else 2 * max(n, rows) * min(n, rows) ** 2
        memory = 8 * rows * n + 8 * 64 * rows + 16 * n * (m + k)
        return Cost(self, memory, flops / EFFICIENCY)

    def _check_memory(self, operator: KhatriRao) -> None:
        m, k = operator.map_shape
        needed, present = int(self.cost(m, k, operator.width).memory), physical_memory()
        if present is not None and needed > present:
            raise InputError(
                f"the direct solver would need {needed / 2**30:.1f} GiB for the dense matrix of a "
                f"{m} × {k} map with width {operator.width}, but this machine has "
                f"{present / 2**30:.1f} GiB; use ConjugateGradient() or Auto()"
            )


def _solve_and_judge(operator: KhatriRao, W: Array, settings: Direct) -> Solution:
    factor = _factor(operator)
    outcome = _refine(operator, W, factor, settings)
    full_rank = factor.rank == operator.rows and factor.condition < _rank_limit(operator)
    if not full_rank and not isinstance(factor, CompleteOrthogonal):
        revealing = CompleteOrthogonal(operator.dense())
        other = _refine(operator, W, revealing, settings)
        outcome = _better(outcome, other, factor.condition)
    return outcome


def _factor(operator: KhatriRao) -> Factor:
    K = operator.dense()
    if operator.width < operator.rows:
        return CompleteOrthogonal(K)
    return SquareLU(K) if operator.width == operator.rows else WideQR(K)


def _rank_limit(operator: KhatriRao) -> float:
    return 1 / (EPS * max(operator.rows, operator.width))


def _refine(operator: KhatriRao, W: Array, factor: Factor, settings: Direct) -> Solution:
    """Iterative refinement `s ← s + K⁺ (W − K s)` as long as the residual at least halves."""
    best, R, residual = np.zeros(operator.width), W, np.inf
    history: list[float] = []
    if np.isfinite(factor.condition) or isinstance(factor, CompleteOrthogonal):
        for _ in range(settings.refinements + 1):
            s = best + factor.solve(R.ravel())
            R_new, new = (R, np.inf) if not np.isfinite(s).all() else _residual(operator, s, W)
            if not new < residual:
                break
            halved = new <= residual / 2
            best, R, residual = s, R_new, new
            history.append(new)
            if not halved or new == 0:
                break
    if not history:
        residual = _residual(operator, best, W)[1]
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


def _residual(operator: KhatriRao, s: Array, W: Array) -> tuple[Array, float]:
    R, size = relative_residual(operator, s, W)
    return np.asarray(R, dtype=np.float64), size


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
    return Status.ILL_CONDITIONED if factor.condition > HOPELESS else Status.NOT_CONVERGED


def _better(plain: Solution, revealing: Solution, condition: float) -> Solution:
    """Of two attempts at a numerically singular system, the one to report.

    The rank-revealing one has the smaller `s` and wins if it is solved; else the plain one, if its
    residual is what a system without full rank must show. The rank is the pivoted one's.
    """
    found = {"rank": revealing.rank, "condition": max(condition, revealing.condition or 0.0)}
    if revealing.status is Status.SOLVED:
        return revealing.replace(**found)
    if plain.residual <= ACCEPTED_DEFICIENT:
        return plain.replace(status=Status.SOLVED, **found)
    if plain.residual < revealing.residual:
        return plain.replace(status=revealing.status, **found)
    return revealing.replace(**found)
