"""The one verb: solve `M2 diag(s) M1 = W` for `s`."""

from __future__ import annotations

import time
from typing import Any

from reconstruct.errors import InputError
from reconstruct.khatri_rao.checkpoint import Checkpoint
from reconstruct.khatri_rao.engines import Engine
from reconstruct.khatri_rao.inputs import checked_system
from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.solution import Solution
from reconstruct.khatri_rao.solvers import Auto, Solver
from reconstruct.khatri_rao.using import surroundings
from reconstruct.progress import Progress

AUTO = Auto()


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
    M1: Any,
    M2: Any,
    W: Any,
    solver: Solver = AUTO,
    *,
    progress: Progress | None = None,
    engine: Engine | None = None,
    checkpoint: Checkpoint | None = None,
) -> Solution:
    """Solve `M2 diag(s) M1 = W`, the minimum-norm `s` when there are many.

    Where hidden units are of very different size, `‖M1[l, :]‖ ‖M2[:, l]‖ s_l` is what has the
    minimum norm, up to powers of two.

    Parameters: `M1` of shape `n × k` and `M2` of shape `m × n`, dense or scipy.sparse, float32 or
    float64; `W` of shape `m × k`; `solver` one of `Auto()` (the default), `Direct()`,
    `ConjugateGradient()`, `Exact()`; `progress` hears each step; `engine` shares out the work
    (default: `Threads()`); `checkpoint` keeps the state of an iteration, so that an interrupted
    solve goes on where it was. Where neither is given, those of `using` hold.

    Bad input raises InputError before any work. Everything numerical is in the `Solution`: its
    status is SOLVED only if the float64 residual is at rounding level or within the tolerance.
    """
    start = time.perf_counter()
    solver = as_solver(solver)
    around = surroundings()
    engine, checkpoint = engine or around.engine, checkpoint or around.checkpoint
    first, second, right = checked_system(M1, M2, W, rational=solver.rational)
    solution = solver.solve(KhatriRao(first, second, engine=engine), right, progress, checkpoint)
    return solution.replace(seconds=time.perf_counter() - start)
