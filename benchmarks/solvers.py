"""What do direct and matrix-free cost in time and memory, at square maps and ratio 1.5?

Each solve runs in a process of its own; `peak_bytes` is the high-water mark of that process,
`solver_bytes` what the solve added to it. A dense matrix that would not fit is not tried, and the
row says so. `python -m benchmarks.solvers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks._common import Row, in_fresh_process, run
from reconstruct.khatri_rao import ConjugateGradient, Direct, Solver, plan, solve
from reconstruct.reports.environment import peak_bytes

SEED = 0
RATIO = 1.5
SIZES = (32, 64, 96)
QUICK_SIZES = (16, 32)
SOLVERS: dict[str, Solver] = {"direct": Direct(), "cg": ConjugateGradient()}
SHARE = 0.6  # of the free memory that a dense matrix may take


def measure(quick: bool) -> Iterator[Row]:
    """One row per size and solver, the two side by side."""
    for d in QUICK_SIZES if quick else SIZES:
        for name in SOLVERS:
            yield compare(d, name)
    if not quick:
        yield compare(256, "direct")
        yield compare(256, "cg")


def compare(d: int, name: str) -> Row:
    """The row of one size and one solver; skipped if it would not fit."""
    n = int(np.ceil(RATIO * d * d))
    expected = plan(d, d, n, SOLVERS[name])
    row: Row = {
        "solver": name,
        "m": d,
        "k": d,
        "n": n,
        "ratio": RATIO,
        "seed": SEED,
        "planned_bytes": expected.memory_bytes,
        "planned_seconds": expected.seconds,
    }
    free = _free_memory()
    if free is not None and expected.memory_bytes > SHARE * free:
        return {**row, "status": "skipped", "reason": "the dense matrix would not fit in memory"}
    return {**row, **in_fresh_process(timed_solve, d, n, name)}


def timed_solve(d: int, n: int, name: str) -> Row:
    """Draw, solve and look at the memory: runs in a fresh process."""
    rng = np.random.default_rng(SEED)
    M1 = rng.standard_normal((n, d), dtype=np.float32)
    M2 = rng.standard_normal((d, n), dtype=np.float32)
    W = rng.standard_normal((d, d))
    before = peak_bytes()
    solution = solve(M1, M2, W, SOLVERS[name])
    after = peak_bytes()
    return {
        "status": solution.status.value,
        "seconds": solution.seconds,
        "peak_bytes": after,
        "solver_bytes": None if after is None or before is None else after - before,
        "residual": solution.residual,
        "iterations": solution.iterations,
        "condition": solution.condition,
    }


def _free_memory() -> int | None:
    import os

    names: Any = getattr(os, "sysconf_names", {})
    if "SC_AVPHYS_PAGES" not in names:
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


if __name__ == "__main__":
    run("solvers", __doc__ or "", measure)
