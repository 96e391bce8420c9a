"""The one verb: solve `M2 diag(s) M1 = W` for `s`; and what a solve would do and cost.

Around every solver in floats the same is done: entries are brought near 1 by powers of two, which
changes no digit that counts; where a rank is lost, it is said whether the zero pattern forbids it,
and a loss that is numerical is told apart from one that is not.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from reconstruct.errors import InputError
from reconstruct.khatri_rao.operator import KhatriRao, checked_system, largest, scaled
from reconstruct.khatri_rao.rank import LIMITS as PATTERN
from reconstruct.khatri_rao.rank import prove_full_rank, structural_obstruction
from reconstruct.khatri_rao.solution import Cost, Solution, Status
from reconstruct.khatri_rao.solvers import Auto, Solver
from reconstruct.numbers.arrays import Array
from reconstruct.progress import Progress, silent

AUTO = Auto()


@dataclass(frozen=True)
class SolveLimits:
    """What is done around every solver in floats."""

    exponent: int = 30  # weights within 2^±30 need no rescaling, in float32 either
    rounding: float = 1e-13  # a residual up to this is no sign of lost digits
    proof: int = 400  # equations up to which a rank modulo a prime takes less than a second


LIMITS = SolveLimits()


def as_solver(solver: Solver | None) -> Solver:
    """The solver that is meant; None is `Auto()`. Words are for the command line."""
    if solver is None:
        return Auto()
    if isinstance(solver, type) or not isinstance(solver, Solver):
        raise InputError(
            "solver must be one of Auto(), Direct(), ConjugateGradient(), Exact(), "
            f"but is {solver!r}; pass an instance"
        )
    return solver


def solve(
    M1: Any, M2: Any, W: Any, solver: Solver = AUTO, *, progress: Progress = silent
) -> Solution:
    """Solve `M2 diag(s) M1 = W`, the minimum-norm `s` when there are many.

    Parameters: `M1` of shape `n × k` and `M2` of shape `m × n`, dense or scipy.sparse, float32 or
    float64; `W` of shape `m × k`; `solver` one of `Auto()` (the default), `Direct()`,
    `ConjugateGradient()`, `Exact()`; `progress` hears each step.

    Bad input raises InputError before any work. Everything numerical is in the `Solution`: its
    status is SOLVED only if the float64 residual is at rounding level or within the tolerance.
    """
    start = time.perf_counter()
    solver = as_solver(solver)
    first, second, right = checked_system(M1, M2, W, rational=solver.rational)
    operator = KhatriRao(first, second)
    if solver.rational:
        solution = solver.solve(operator, right, progress)
    else:
        solution = _in_floats(operator, right, solver, progress)
    return solution.replace(seconds=time.perf_counter() - start)


def _in_floats(operator: KhatriRao, W: Array, solver: Solver, progress: Progress) -> Solution:
    """The solution of the scaled system, scaled back and judged in the system as given.

    The residual is that of the scaled system, unless scaling cost digits: of entries far below the
    others, or of an `s` that floats do not hold.
    """
    first, second = (-_exponent(largest(one)) for one in (operator.M1, operator.M2T))
    c = int(np.frexp(largest(W))[1])
    right = scaled(W, -c)
    found = _explained(operator.scaled(first, second), right, solver, progress)
    power = c + first + second
    with np.errstate(all="ignore"):
        s = np.ldexp(found.s, power)
        exact = np.array_equal(np.ldexp(s, -power), found.s)
        if exact and first == second == 0:
            return found.replace(s=s)
        rest = right - np.ldexp(operator.apply(s), -c)
        size = float(np.linalg.norm(rest)) / (float(np.linalg.norm(right)) or 1.0)
    if size <= max(2 * found.residual, LIMITS.rounding):
        return found.replace(s=s, residual=size)
    status = Status.ILL_CONDITIONED if found.solved else found.status
    if not np.isfinite(s).all():
        s, status = np.zeros_like(s), Status.ILL_CONDITIONED
    return found.replace(s=s, status=status, residual=size if np.isfinite(size) else 1.0)


def _exponent(size: float) -> int:
    """The power of two to scale weights down by: 0 unless they are far from 1."""
    power = int(np.frexp(size)[1])
    return power if abs(power) > LIMITS.exponent else 0


def _explained(operator: KhatriRao, W: Array, solver: Solver, progress: Progress) -> Solution:
    """The solution; of a system that lost rank, whether its zero pattern or rounding explains it.

    A zero pattern that forbids some W may leave this one in reach, so the solver decides.
    """
    solution = solver.solve(operator, W, progress)
    if solution.status not in (Status.RANK_DEFICIENT, Status.NOT_CONVERGED):
        return solution
    pair = operator.M1, operator.M2T.T
    if operator.entries() <= PATTERN.entries:
        obstruction = structural_obstruction(*pair)
        if obstruction is not None:
            told = {"rank": obstruction.rank, "obstruction": obstruction}
            return solution.replace(status=Status.RANK_DEFICIENT, **told)
    lost = solution.status is Status.RANK_DEFICIENT and operator.rows <= LIMITS.proof
    if lost and prove_full_rank(*pair).proved:  # by rounding alone
        return solution.replace(status=Status.ILL_CONDITIONED, rank=operator.rows)
    return solution


def plan(m: int, k: int, n: int, solver: Solver = AUTO, density: float = 1.0) -> Cost:
    """Method, memory and time for a map of `m × k` with hidden width `n`, without solving.

    `density` is the fraction of non-zero frozen weights (1.0 for dense storage).
    """
    for name, value in (("m", m), ("k", k), ("n", n)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, but is {value}; give the sizes of a map")
    if not 0 < density <= 1:
        raise InputError(f"density must be in (0, 1], but is {density}; 1.0 means dense")
    return solver.cost(m, k, n, density)
