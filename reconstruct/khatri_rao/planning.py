"""What a solve would do and cost, said beforehand."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass

import numpy as np

from reconstruct.errors import InputError
from reconstruct.khatri_rao.engines import cpu_count, one_blas_thread
from reconstruct.khatri_rao.solvers import Auto, Solver

AUTO = Auto()


@dataclass(frozen=True)
class Plan:
    """What a solve would do: the method, and estimates of its peak memory and its time.

    `memory_bytes` counts the solver's own arrays, copies of the weights included. `seconds` comes
    from the flop count and a GEMM speed measured once; expect a factor of two either way.
    """

    solver: Solver
    memory_bytes: int
    seconds: float
    reason: str


def plan(m: int, k: int, n: int, solver: Solver = AUTO, density: float = 1.0) -> Plan:
    """Method, memory and time for a map of `m × k` with hidden width `n`, without solving.

    `density` is the fraction of non-zero frozen weights (1.0 for dense storage).
    """
    for name, value in (("m", m), ("k", k), ("n", n)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, but is {value}; give the sizes of a map")
    if not 0 < density <= 1:
        raise InputError(f"density must be in (0, 1], but is {density}; 1.0 means dense")
    cost = solver.cost(m, k, n, density)
    return Plan(cost.solver, int(cost.memory), cost.work / gemm_speed(), cost.reason)


@functools.cache
def gemm_speed() -> float:
    """Flops per second of float64 matrix products on all processors, measured once.

    One thread times the number of processors: several threads would wait for each other on a busy
    machine, and a product of milliseconds would show nothing but that.
    """
    A = np.random.default_rng(0).standard_normal((384, 384))
    best = np.inf
    with one_blas_thread():
        for _ in range(12):
            start = time.perf_counter()
            A @ A
            best = min(best, time.perf_counter() - start)
    return float(cpu_count() * 2 * 384**3 / best)
