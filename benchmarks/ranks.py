"""How fast are MPI ranks, beside as many threads?

One map at ratio 1.5 by conjugate gradients: 1 and 2 threads in one process, 1 and 2 ranks of one
thread each under mpiexec (extra `mpi`). Sums are exchanged once an iteration. Times are the best
of some solves, taken in turns. `python -m benchmarks.ranks`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks._common import Row, run
from reconstruct.khatri_rao import ConjugateGradient, over_ranks, solve
from reconstruct.khatri_rao.ranks import is_first, world
from reconstruct.numbers.parallel import at_most_threads

SEED = 0
RATIO = 1.5
SIZE, QUICK_SIZE = 96, 32
REPEATS = 3
COUNTS = (1, 2)


def measure(quick: bool) -> Iterator[Row]:
    """Rows of threads and of ranks; the last column compares a row of ranks with its threads."""
    d = QUICK_SIZE if quick else SIZE
    best: dict[tuple[str, int], Row] = {}
    for _ in range(REPEATS):
        for kind in ("threads", "ranks"):
            for count in COUNTS:
                row = _one(kind, count, d)
                key = kind, count
                if row and (key not in best or row["seconds"] < best[key]["seconds"]):
                    best[key] = row
    for (kind, count), row in best.items():
        beside = best["threads", count]["seconds"] / row["seconds"]
        yield {**row, "speed_of_threads": beside if kind == "ranks" else None}


def _one(kind: str, count: int, d: int) -> Row:
    """One solve in a fresh process or job; empty where there is no MPI."""
    command = [sys.executable, "-m", "benchmarks.ranks", "--solve", kind, str(count), str(d)]
    if kind == "ranks":
        beside = Path(sys.executable).with_name("mpiexec")
        launcher = str(beside) if beside.exists() else shutil.which("mpiexec")
        if launcher is None or find_spec("mpi4py") is None:
            return {}
        command = [launcher, "-n", str(count), *command]
    around = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=around, check=True)
    row: Row = json.loads(done.stdout.strip().splitlines()[-1])
    return row


def solve_here(kind: str, count: int, d: int) -> None:
    """What each process of `_one` does; the first rank prints the row."""
    n = int(np.ceil(RATIO * d * d))
    rng = np.random.default_rng(SEED)
    M1 = rng.standard_normal((n, d), dtype=np.float32)
    M2 = rng.standard_normal((n, d), dtype=np.float32).T
    W = rng.standard_normal((d, d))
    shared = kind == "ranks"
    with over_ranks(world()) if shared else nullcontext(), at_most_threads(1 if shared else count):
        found = solve(M1, M2, W, ConjugateGradient())
        first = is_first()
    if first:
        row = {"engine": kind, "count": count, "m": d, "k": d, "n": n, "seed": SEED}
        row |= {"status": found.status.value, "seconds": found.seconds}
        row |= {"iterations": found.iterations, "residual": found.residual}
        print(json.dumps(row))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--solve"]:
        solve_here(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        run("ranks", __doc__ or "", measure)
