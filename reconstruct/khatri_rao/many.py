"""Many independent systems: small ones side by side, one thread each, large ones in turn.

A small system is too short for threads to share: they would wait for each other. The maps of a
network do not depend on each other, so each thread takes a whole system instead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias

from reconstruct.khatri_rao.engines import Turns, cpu_count, one_blas_thread
from reconstruct.khatri_rao.inputs import checked_system
from reconstruct.khatri_rao.solution import Solution
from reconstruct.khatri_rao.solve import solve
from reconstruct.khatri_rao.solvers import Auto, Solver
from reconstruct.progress import Progress, Step

System: TypeAlias = tuple[Any, Any, Any]  # M1, M2, W
Hearing: TypeAlias = Callable[[int, Solution], None]

AUTO = Auto()
SMALL = 2e11  # flops of a matrix product, some seconds: beyond it threads share one system


def solve_many(
    systems: Sequence[System],
    solver: Solver = AUTO,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    solved: Hearing | None = None,
) -> list[Solution]:
    """Solutions of `M2 diag(s) M1 = W` for each `(M1, M2, W)`, in the order given.

    They are bit by bit those of `solve`. `workers` threads (default: all processors);
    `solved(i, solution)` hears of each as it is done, from one thread at a time. Bad input raises
    before any work; an interrupt ends the solves that are under way at their next step.
    """
    checked = [checked_system(*system, rational=solver.rational) for system in systems]
    count = cpu_count() if workers is None else workers
    small = [i for i, system in enumerate(checked) if count > 1 and _is_small(system, solver)]
    found: dict[int, Solution] = {}
    hear = _Hearing(found, solved, progress, len(systems))
    if len(small) > 1:
        _side_by_side(checked, small, solver, count, hear)
    for i, system in enumerate(checked):
        if i not in found:
            hear(i, solve(*system, solver))
    return [found[i] for i in range(len(checked))]


def _is_small(system: System, solver: Solver) -> bool:
    M1, M2, _ = system
    return solver.cost(M2.shape[0], M1.shape[1], M1.shape[0]).work <= SMALL


def _side_by_side(
    systems: Sequence[System], chosen: list[int], solver: Solver, count: int, hear: _Hearing
) -> None:
    """Whole systems to threads, the longest first so that none is left waiting for it."""
    order = sorted(chosen, key=lambda i: -systems[i][0].shape[0] * systems[i][2].size)
    in_threads([partial(_one, systems[i], solver, hear, i) for i in order], count, hear.stop)


def in_threads(jobs: Sequence[Callable[[], None]], count: int, stop: Callable[[], None]) -> None:
    """Each job on a thread of its own, with one thread of BLAS; an error or an interrupt calls
    `stop`, which should end those that are under way, and goes on when they have ended."""
    with one_blas_thread(), ThreadPoolExecutor(count, thread_name_prefix="systems") as pool:
        _wait(pool, [pool.submit(job) for job in jobs], stop)


def _one(system: System, solver: Solver, hear: _Hearing, i: int) -> None:
    hear(i, solve(*system, solver, engine=Turns(), progress=hear.step))


def _wait(pool: ThreadPoolExecutor, futures: list[Future[None]], stop: Callable[[], None]) -> None:
    try:
        for future in futures:
            future.result()
    except BaseException:
        stop()
        pool.shutdown(wait=True, cancel_futures=True)
        raise


class _Hearing:
    """Collects solutions and tells of them, one thread at a time; stops solves when asked."""

    def __init__(
        self,
        found: dict[int, Solution],
        solved: Hearing | None,
        progress: Progress | None,
        total: int,
    ) -> None:
        self._found, self._solved, self._progress, self._total = found, solved, progress, total
        self._lock = threading.Lock()
        self._stopped = False

    def __call__(self, i: int, solution: Solution) -> None:
        with self._lock:
            self._found[i] = solution
            if self._solved is not None:
                self._solved(i, solution)
            if self._progress is not None:
                self._progress(Step("systems", len(self._found), self._total, solution.residual))

    def step(self, _: Step) -> None:
        """What each solve reports to: the place where a stopped one ends."""
        if self._stopped:
            raise KeyboardInterrupt

    def stop(self) -> None:
        self._stopped = True
