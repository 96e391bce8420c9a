"""The one verb: solve `M2 diag(s) M1 = W` for `s`."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError
from reconstruct.khatri_rao.auto import Auto, Solver, physical_memory, plan
from reconstruct.khatri_rao.conjugate_gradient import ConjugateGradient, solve_cg
from reconstruct.khatri_rao.direct import Direct, solve_direct
from reconstruct.khatri_rao.exact import Exact, solve_exact
from reconstruct.khatri_rao.inputs import checked_system
from reconstruct.khatri_rao.modular import prove_full_rank
from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.outcome import Outcome
from reconstruct.khatri_rao.solution import Solution
from reconstruct.khatri_rao.sparse import (
    MOST_ENTRIES,
    entries_of_product,
    refusal,
    solve_sparse_cg,
)
from reconstruct.khatri_rao.status import Status
from reconstruct.khatri_rao.storage import Frozen, entries, is_sparse
from reconstruct.khatri_rao.structure import structural_obstruction
from reconstruct.progress import Progress

AUTO = Auto()
TINY = 1e-9  # a density, for a matrix of zeros
PROOF_LIMIT = 400  # equations up to which a rank modulo a prime takes less than a second
SAFE_EXPONENT = 30  # weights within 2^±30 need no rescaling, in float32 either


def solve(
    M1: Any,
    M2: Any,
    W: Any,
    solver: Solver = AUTO,
    *,
    progress: Progress | None = None,
    workers: int | None = None,
) -> Solution:
    """Solve `M2 diag(s) M1 = W`, the minimum-norm `s` when there are many.

    Parameters: `M1` of shape `n × k` and `M2` of shape `m × n`, dense or scipy.sparse, float32 or
    float64; `W` of shape `m × k`; `solver` one of `Auto()` (the default), `Direct()`,
    `ConjugateGradient()`, `Exact()`; `progress` hears each step; `workers` threads.

    Bad input raises InputError before any work. Everything numerical is in the `Solution`: its
    status is SOLVED only if the float64 residual is at rounding level or within the tolerance.
    """
    start = time.perf_counter()
    if not isinstance(solver, Solver):
        raise InputError(
            "solver must be one of Auto(), Direct(), ConjugateGradient(), Exact(), "
            f"but is {solver!r}; pass an instance"
        )
    first, second, right = checked_system(M1, M2, W)
    if isinstance(solver, Exact):
        return solve_exact(first, second, right).rounded()
    outcome = _solve_scaled(first, second, right, solver, progress, workers)
    m, k = right.shape
    return Solution(
        s=outcome.s,
        status=outcome.status,
        solver=outcome.solver,
        residual=outcome.residual,
        rank=outcome.rank,
        needed=m * k,
        width=first.shape[0],
        condition=outcome.condition,
        iterations=len(outcome.history),
        history=outcome.history,
        seconds=time.perf_counter() - start,
        obstruction=outcome.obstruction,
    )


def _solve_scaled(
    M1: Frozen,
    M2: Frozen,
    W: NDArray[np.float64],
    solver: Solver,
    progress: Progress | None,
    workers: int | None,
) -> Outcome:
    """Solve with entries brought near 1 by powers of two, which changes no digit."""
    a, b, c = _exponent(M1), _exponent(M2), _exponent(W)
    a, b = (e if abs(e) > SAFE_EXPONENT else 0 for e in (a, b))
    operator = KhatriRao(_scaled(M1, -a), _scaled(M2, -b), workers=workers)
    outcome = _dispatch_unless_refused(operator, _scaled(W, -c), solver, progress)
    with np.errstate(over="ignore", under="ignore"):
        s = np.ldexp(outcome.s, c - a - b)
    if not np.isfinite(s).all():
        return outcome.replace(s=np.zeros_like(s), status=Status.ILL_CONDITIONED, residual=1.0)
    return outcome.replace(s=s)


def _dispatch_unless_refused(
    operator: KhatriRao, W: NDArray[np.float64], solver: Solver, progress: Progress | None
) -> Outcome:
    """Ask the zero pattern first where that is cheap, and after a failure in any case."""
    known = operator.sparse and entries_of_product(operator) <= MOST_ENTRIES
    obstruction = structural_obstruction(operator.M1, operator.M2T.T) if known else None
    if obstruction is not None and (refused := refusal(operator, W, obstruction)) is not None:
        return refused.replace(obstruction=obstruction)
    outcome = _dispatch(operator, W, solver, progress)
    if obstruction is None and outcome.status is Status.RANK_DEFICIENT:
        if not known and operator.rows * operator.width <= MOST_ENTRIES:
            obstruction = structural_obstruction(operator.M1, operator.M2T.T)
        if obstruction is None and _is_regular(operator):
            return outcome.replace(status=Status.ILL_CONDITIONED, rank=operator.rows)
    return outcome.replace(obstruction=obstruction)


def _is_regular(operator: KhatriRao) -> bool:
    """Whether a numerical loss of rank is due to rounding alone, proved modulo a prime."""
    small = operator.rows <= PROOF_LIMIT
    return small and prove_full_rank(operator.M1, operator.M2T.T).proved


def _dispatch(
    operator: KhatriRao, W: NDArray[np.float64], solver: Solver, progress: Progress | None
) -> Outcome:
    if isinstance(solver, Direct):
        _check_memory(operator, solver)
        return solve_direct(operator, W, solver, progress)
    if isinstance(solver, ConjugateGradient):
        method = solve_sparse_cg if operator.sparse else solve_cg
        return method(operator, W, solver, progress)
    if isinstance(solver, Auto):
        return _solve_auto(operator, W, solver, progress)
    raise AssertionError(solver)


def _check_memory(operator: KhatriRao, solver: Direct) -> None:
    m, k = operator.shape
    needed, present = plan(m, k, operator.width, solver).memory_bytes, physical_memory()
    if present is not None and needed > present:
        raise InputError(
            f"the direct solver would need {needed / 2**30:.1f} GiB for the dense matrix of a "
            f"{m} × {k} map with width {operator.width}, but this machine has "
            f"{present / 2**30:.1f} GiB; use ConjugateGradient() or Auto()"
        )


def _solve_auto(
    operator: KhatriRao, W: NDArray[np.float64], auto: Auto, progress: Progress | None
) -> Outcome:
    m, k = operator.shape
    density = 1.0
    if operator.sparse:
        density = float(np.sqrt(entries_of_product(operator) / (operator.rows * operator.width)))
    chosen = plan(m, k, operator.width, auto, max(density, TINY)).solver
    outcome = _dispatch(operator, W, chosen, progress)
    fits = 8 * operator.rows * operator.width <= auto.dense_bytes
    if outcome.status is Status.SOLVED or isinstance(chosen, Direct) or not fits:
        return outcome
    return solve_direct(operator, W, Direct(), progress)


def _exponent(matrix: Frozen) -> int:
    largest = float(np.max(np.abs(entries(matrix)), initial=0.0))
    return int(np.frexp(largest)[1])


def _scaled(matrix: Any, exponent: int) -> Any:
    if exponent == 0:
        return matrix
    if is_sparse(matrix):
        out = matrix.copy()
        out.data = np.ldexp(out.data, exponent)
        return out
    return np.ldexp(matrix, exponent)
