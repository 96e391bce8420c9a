"""What does a solve cost in time and memory, beside what one would do without this package?

Square maps, ratio 1.5 (the least work is at 2.6), Gaussian weights. Beside the direct and the
matrix-free solver: SciPy's `khatri_rao` with LAPACK (least squares, and the square system of ratio
1), SciPy's LSMR on a linear operator written in two lines, PyTorch's Adam and L-BFGS on γ. Each
runs in a process of its own until its residual is below `aim` or its time is over, after a tiny
system that loads and starts whatever it needs; the time is the best of three where one takes less
than two seconds. `peak_bytes` is the high-water mark of the process, `solver_bytes` what the first
solve added to it. What would not fit is not tried, and the row says so. `python -m
benchmarks.solvers`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks._alternatives import METHODS, Missing, OutOfTime
from benchmarks._common import Row, in_fresh_process, run
from reconstruct.khatri_rao import ConjugateGradient, Direct, Solver, plan, solve
from reconstruct.reports.document import peak_bytes

Array: TypeAlias = NDArray[Any]

SEED = 0
RATIO, LEAST_WORK = 1.5, 2.6
AIM = 1e-6  # of the comparison: what training in float32 can reach
SIZES = (16, 32, 64)
QUICK_SIZES = (8, 16)
LARGER = (96, 256)
SOLVERS: dict[str, Solver] = {
    "direct": Direct(),
    "cg": ConjugateGradient(),
    f"cg to {AIM:.0e}": ConjugateGradient(tolerance=AIM),
    f"cg to {AIM:.0e}, ratio 2.6": ConjugateGradient(tolerance=AIM),
    "cg, ratio 2.6": ConjugateGradient(),
    "cg to 4e-12, ratio 2.6": ConjugateGradient(tolerance=4e-12),  # what LAPACK's LU leaves at 64
}
TINY = 6  # of the system that comes first
SHORT = 2.0  # seconds below which a solve is timed three times
SHARE = 0.6  # of the free memory that a dense matrix may take


def measure(quick: bool) -> Iterator[Row]:
    """One row per size and method, side by side."""
    for d in QUICK_SIZES if quick else SIZES:
        for name in (*SOLVERS, *METHODS):
            yield compare(d, name)
    for d in () if quick else LARGER:
        for name in ("direct", "cg", "LAPACK square"):
            yield compare(d, name)


def compare(d: int, name: str) -> Row:
    """The row of one size and one method; skipped if it would not fit."""
    square = name == "LAPACK square"
    ratio = LEAST_WORK if "ratio 2.6" in name else RATIO
    n = d * d if square else int(np.ceil(ratio * d * d))
    row: Row = {"solver": name, "m": d, "k": d, "n": n, "ratio": n / (d * d), "seed": SEED}
    expected = plan(d, d, n, SOLVERS.get(name, Direct()))
    free = _free_memory()
    dense = name == "direct" or "LAPACK" in name
    if dense and free is not None and expected.memory_bytes > SHARE * free:
        return {**row, "status": "skipped", "reason": "the dense matrix would not fit in memory"}
    if name in SOLVERS:
        row["planned_bytes"], row["planned_seconds"] = expected.memory_bytes, expected.seconds
    return {**row, **in_fresh_process(timed_solve, d, n, name)}


def timed_solve(d: int, n: int, name: str) -> Row:
    """Draw, solve and look at the memory: runs in a fresh process."""
    try:
        _solved(*_system(TINY, TINY**2 * n // d**2), name)
        system = _system(d, n)
        before = peak_bytes()
        row = _solved(*system, name)
    except Missing as error:
        return {"status": "skipped", "reason": str(error)}
    after = peak_bytes()
    added = None if after is None or before is None else after - before
    times = [row["seconds"]]
    while len(times) < 3 and times[0] < SHORT:
        times.append(_solved(*system, name)["seconds"])
    return {**row, "seconds": min(times), "peak_bytes": after, "solver_bytes": added}


def _system(d: int, n: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(SEED)
    M1 = rng.standard_normal((n, d), dtype=np.float32)
    M2 = rng.standard_normal((n, d), dtype=np.float32).T
    return M1, M2, rng.standard_normal((d, d))


def _solved(M1: Array, M2: Array, W: Array, name: str) -> Row:
    return _own(M1, M2, W, SOLVERS[name]) if name in SOLVERS else _other(M1, M2, W, name)


def _own(M1: Array, M2: Array, W: Array, solver: Solver) -> Row:
    solution = solve(M1, M2, W, solver)
    return {
        "status": solution.status.value,
        "seconds": solution.seconds,
        "residual": solution.residual,
        "iterations": solution.iterations,
        "condition": solution.condition,
    }


def _other(M1: Array, M2: Array, W: Array, name: str) -> Row:
    method: Callable[..., tuple[Array, int]] = METHODS[name]
    start = time.perf_counter()
    status = "solved"
    try:
        s, iterations = method(M1, M2, W, AIM)
    except OutOfTime as over:
        s, iterations, status = over.s, over.iterations, "out of time"
    seconds = time.perf_counter() - start
    left = M2.astype(np.float64) @ (np.asarray(s, np.float64)[:, None] * M1) - W
    residual = float(np.linalg.norm(left) / np.linalg.norm(W))
    return {"status": status, "seconds": seconds, "residual": residual, "iterations": iterations}


def _free_memory() -> int | None:
    if "SC_AVPHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


if __name__ == "__main__":
    run("solvers", __doc__ or "", measure)
