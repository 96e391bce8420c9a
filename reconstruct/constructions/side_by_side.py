"""Small sites side by side, one thread each: they are too short for threads to share.

The maps of a network do not depend on each other, given bounds of the target. Every solve sums in
the order that it would have alone, so that every bit is the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from reconstruct.constructions.construction import SitePlan, SiteSolution
from reconstruct.khatri_rao import Solver, using
from reconstruct.khatri_rao.checkpoint import Checkpoint
from reconstruct.khatri_rao.engines import Turns, cpu_count
from reconstruct.khatri_rao.many import SMALL, in_threads
from reconstruct.khatri_rao.using import surroundings
from reconstruct.progress import Progress, Step

SiteJob: TypeAlias = Callable[[Progress], SiteSolution]

MOST_MEMORY = 2**28  # bytes that one of them may take


def is_small(plan: SitePlan, solver: Solver) -> bool:
    """Whether a site is better solved by one thread, beside others."""
    if not plan.alone or solver.rational or cpu_count() == 1 or surroundings().engine is not None:
        return False
    costs = [solver.cost(*system) for system in plan.systems]
    return sum(c.work for c in costs) <= SMALL and all(c.memory <= MOST_MEMORY for c in costs)


def solve_side_by_side(
    jobs: Mapping[int, SiteJob], progress: Progress, solved: Callable[[int, SiteSolution], None]
) -> None:
    """Run the jobs; `progress` and `solved` hear from one thread at a time."""
    desk = _Desk(progress, solved, surroundings().checkpoint)
    in_threads([partial(desk.work, i, job) for i, job in jobs.items()], cpu_count(), desk.stop)


class _Desk:
    """Where threads report: one at a time, until they are stopped."""

    def __init__(
        self,
        progress: Progress,
        solved: Callable[[int, SiteSolution], None],
        checkpoint: Checkpoint | None,
    ) -> None:
        self._progress, self._solved, self._checkpoint = progress, solved, checkpoint
        self._lock = threading.Lock()
        self._stopped = False

    def work(self, i: int, job: SiteJob) -> None:
        with using(engine=Turns(), checkpoint=self._checkpoint):
            done = job(self._hear)
        with self._lock:
            self._solved(i, done)

    def _hear(self, step: Step) -> None:
        if self._stopped:
            raise KeyboardInterrupt
        with self._lock:
            self._progress(step)

    def stop(self) -> None:
        self._stopped = True
