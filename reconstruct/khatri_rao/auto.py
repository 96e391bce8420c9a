"""Which solver for which size: costs in memory and time, and the choice that follows."""

from __future__ import annotations

import functools
import os
import time
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from reconstruct.errors import InputError
from reconstruct.khatri_rao.conjugate_gradient import ConjugateGradient, expected_iterations
from reconstruct.khatri_rao.direct import Direct
from reconstruct.khatri_rao.exact import Exact
from reconstruct.khatri_rao.operator import TILE_ROWS
from reconstruct.khatri_rao.sparse import PAYS_BELOW
from reconstruct.khatri_rao.threads import cpu_count, one_blas_thread


@dataclass(frozen=True)
class Auto:
    """Let size and ratio decide; fall back to direct when the iteration fails and it fits.

    `dense_bytes`: largest dense `K` that may be formed.
    """

    dense_bytes: int = 1 << 30


AUTO = Auto()
Solver: TypeAlias = Auto | Direct | ConjugateGradient | Exact


@dataclass(frozen=True)
class Plan:
    """What a solve would do: the method, and estimates of its peak memory and its time.

    `memory_bytes` counts the solver's own arrays, copies of the weights included. `seconds` comes
    from the flop count and a GEMM speed measured once; expect a factor of two either way.
    """

    solver: Direct | ConjugateGradient | Exact
    memory_bytes: int
    seconds: float
    reason: str


DIRECT_EFFICIENCY = 0.5  # of GEMM speed: measured for LU and QR at 1,000 to 4,000 equations
CG_EFFICIENCY = 0.33  # of float32 GEMM speed: measured, 256 × 256 maps on 2 cores
UNEVEN = 2  # sparse equations of uneven length take about twice the iterations of dense ones
NEAR_SQUARE = 1.05  # below this ratio the iteration count is no longer predictable
QUICK = 1e10  # flops, some tenths of a second: up to here the direct method's certainty wins


def physical_memory() -> int | None:
    """Bytes of memory in this machine, None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


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


def plan(m: int, k: int, n: int, solver: Solver = AUTO, density: float = 1.0) -> Plan:
    """Method, memory and time for a map of `m × k` with hidden width `n`, without solving.

    `density` is the fraction of non-zero frozen weights (1.0 for dense storage).
    """
    for name, value in (("m", m), ("k", k), ("n", n)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, but is {value}; give the sizes of a map")
    if not 0 < density <= 1:
        raise InputError(f"density must be in (0, 1], but is {density}; 1.0 means dense")
    if isinstance(solver, Direct):
        return _plan(solver, _direct_cost(m, k, n), "asked for")
    if isinstance(solver, ConjugateGradient):
        return _plan(solver, _cg_cost(m, k, n, density), "asked for")
    if isinstance(solver, Exact):
        return _plan(solver, _exact_cost(m, k, n), "asked for")
    return _choose(m, k, n, density, solver)


@dataclass(frozen=True)
class _Cost:
    """Bytes, and work in flops that would take as long in a float64 matrix product.

    Choices compare work, not seconds, so that they are the same on every machine.
    """

    memory: float
    work: float


def _plan(solver: Direct | ConjugateGradient | Exact, cost: _Cost, reason: str) -> Plan:
    return Plan(solver, int(cost.memory), cost.work / gemm_speed(), reason)


def _choose(m: int, k: int, n: int, density: float, auto: Auto) -> Plan:
    rows, ratio = m * k, n / (m * k)
    direct, cg = _direct_cost(m, k, n), _cg_cost(m, k, n, density)
    dense = 8 * rows * n
    if dense > auto.dense_bytes:
        sizes = f"{dense / 2**30:.1f} GiB is over the limit of {auto.dense_bytes / 2**30:.1f} GiB"
        return _plan(ConjugateGradient(), cg, f"the dense matrix of {sizes}")
    if n < NEAR_SQUARE * rows:
        reason = f"ratio {ratio:.3g} is near 1, where the iteration is slow"
        return _plan(Direct(), direct, reason)
    if direct.work <= max(QUICK, cg.work):
        return _plan(Direct(), direct, f"the dense matrix is small ({dense / 2**20:.1f} MiB)")
    count = expected_iterations(rows, n)
    reason = f"at ratio {ratio:.3g} about {count:.0f} iterations cost less than a factorisation"
    return _plan(ConjugateGradient(), cg, reason)


def _direct_cost(m: int, k: int, n: int) -> _Cost:
    rows = m * k
    flops = 2 / 3 * rows**3 if n == rows else 2 * max(n, rows) * min(n, rows) ** 2
    memory = 8 * rows * n + 8 * 64 * rows + 16 * n * (m + k)
    return _Cost(memory, flops / DIRECT_EFFICIENCY)


def _cg_cost(m: int, k: int, n: int, density: float) -> _Cost:
    iterations = expected_iterations(m * k, n)
    if density**2 < PAYS_BELOW:  # K itself, sparse: 12 bytes an entry
        entries = density**2 * m * k * n
        return _Cost(12 * entries + 48 * n, UNEVEN * iterations * 4 * entries / PAYS_BELOW)
    tiles = cpu_count() * 4 * (TILE_ROWS * (m + k) + 2 * m * k)
    memory = 4 * n * (m + k) + tiles + 8 * (6 * n + 4 * m * k)
    return _Cost(memory, iterations * 4 * n * m * k / (2 * CG_EFFICIENCY))


def _exact_cost(m: int, k: int, n: int) -> _Cost:
    """Integers of some 100 bits an entry, lifted about as often as there are equations."""
    rows = m * k
    return _Cost(200 * rows * max(n, rows), 3000.0 * rows**2 * max(n, rows))
