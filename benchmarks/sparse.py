"""Does the sparse path beat the dense path on sparse weights, in time and in memory?

Weights are kept with probability p; the same system is solved in sparse and in dense storage, each
in a process of its own. `solver_bytes` is the most that the solve allocated on top of the weights'
own `weight_bytes`. The time of the structural check alone stands beside.
`python -m benchmarks.sparse`.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks._common import Row, in_fresh_process, run
from reconstruct.khatri_rao import solve, structural_obstruction

SEED = 0
CASES = ((50, 1.5, 0.15), (64, 1.5, 0.1), (64, 1.5, 0.06), (50, 1.0, 0.25), (50, 1.5, 0.02))
_csr: Any = scipy.sparse.csr_array


def measure(quick: bool) -> Iterator[Row]:
    """Two rows per case: sparse storage, dense storage."""
    for d, ratio, p in CASES[1:2] if quick else CASES:
        for storage in ("sparse", "dense"):
            row: Row = {"d": d, "ratio": ratio, "p": p, "seed": SEED, "storage": storage}
            yield {**row, **in_fresh_process(timed_solve, d, ratio, p, storage)}


def timed_solve(d: int, ratio: float, p: float, storage: str) -> Row:
    """Draw, check the pattern, solve: runs in a fresh process."""
    M1, M2 = draw(d, ratio, p)
    W = np.random.default_rng(SEED + 1).standard_normal((d, d))
    start = time.perf_counter()
    structural_obstruction(M1, M2)
    pattern_seconds = time.perf_counter() - start
    if storage == "dense":
        M1, M2 = M1.toarray(), M2.toarray()
    solution = solve(M1, M2, W)
    tracemalloc.start()  # it slows the solve down, so it watches a second one
    solve(M1, M2, W)
    added = tracemalloc.get_traced_memory()[1]
    return {
        "status": solution.status.value,
        "solver": solution.solver,
        "seconds": solution.seconds,
        "pattern_seconds": pattern_seconds,
        "weight_bytes": stored_bytes(M1) + stored_bytes(M2),
        "solver_bytes": added,
        "residual": solution.residual,
        "iterations": solution.iterations,
    }


def stored_bytes(matrix: Any) -> int:
    """Bytes that a matrix takes in its storage."""
    if scipy.sparse.issparse(matrix):
        parts: Any = matrix
        return int(parts.data.nbytes + parts.indices.nbytes + parts.indptr.nbytes)
    return int(matrix.nbytes)


def draw(d: int, ratio: float, p: float) -> tuple[Any, Any]:
    """Sparse float32 `M1` (`n × d`) and `M2` (`d × n`)."""
    rng = np.random.default_rng(SEED)
    n = int(np.ceil(ratio * d * d))
    shapes = ((n, d), (d, n))
    first, second = (
        _csr(rng.standard_normal(shape, dtype=np.float32) * (rng.random(shape) < p))
        for shape in shapes
    )
    return first, second


if __name__ == "__main__":
    run("sparse", __doc__ or "", measure)
