"""Small sites side by side, one thread each: they are too short for threads to share.

The maps of a network do not depend on each other, given bounds of the target.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TypeAlias

from reconstruct.constructions.construction import SitePlan, SiteSolution
from reconstruct.khatri_rao import Solver, ranks
from reconstruct.numbers.parallel import cpu_count, parallel_map
from reconstruct.progress import Progress, Step

SiteJob: TypeAlias = Callable[[Progress], SiteSolution]

SMALL = 2e11  # flops of a matrix product, some seconds: beyond it threads share one system
MOST_MEMORY = 2**28  # bytes that one of them may take


def is_small(plan: SitePlan, solver: Solver) -> bool:
    """Whether a site is better solved by one thread, beside others.

    Not over ranks: every rank has to take its part in the same sums in the same order.
    """
    if not plan.alone or solver.rational or cpu_count() == 1 or ranks.current() is not None:
        return False
    costs = [solver.cost(*system) for system in plan.systems]
    return sum(c.work for c in costs) <= SMALL and all(c.memory <= MOST_MEMORY for c in costs)


def solve_side_by_side(
    jobs: Mapping[int, SiteJob], progress: Progress, solved: Callable[[int, SiteSolution], None]
) -> None:
    """Run the jobs; `progress` and `solved` hear from one thread at a time."""
    lock, stopped = threading.Lock(), threading.Event()

    def hear(step: Step) -> None:
        if stopped.is_set():  # another one failed or was interrupted: end at the next step
            raise _Stopped
        with lock:
            progress(step)

    def work(i: int) -> BaseException | None:
        try:
            done = jobs[i](hear)
        except _Stopped:
            return None
        except BaseException as error:  # told by the caller, whichever job it was
            stopped.set()
            return error
        with lock:
            solved(i, done)
        return None

    for error in list(parallel_map(work, jobs, stop=stopped.set)):
        if error is not None:
            raise error


class _Stopped(Exception):
    """Ends a solve whose result nobody waits for."""
