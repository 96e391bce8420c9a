"""Can a map be solved whose weights are never held, and does it take the time that was predicted?

A map of 512 × 512 at ratio 1.5: 262,144 equations, whose dense matrix would take 825 GB. Weights
are drawn tile by tile from the seed; what fits into 2 GiB beside everything else is kept. `--quick`
solves 96 × 96 within 512 MiB. `python -m benchmarks.large`, ten minutes on two cores.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from benchmarks._common import Row, in_fresh_process, run
from reconstruct.constructions.allowance import Allowance
from reconstruct.constructions.blueprint import hidden_width
from reconstruct.khatri_rao import ConjugateGradient, plan, solve
from reconstruct.networks import Affine
from reconstruct.networks.draw import Pencil
from reconstruct.reports.environment import peak_bytes

SEED = 0
RATIO = 1.5
SIZE, MEMORY = 512, 2**31
QUICK_SIZE, QUICK_MEMORY = 96, 2**29


def measure(quick: bool) -> Iterator[Row]:
    """One row."""
    size, memory = (QUICK_SIZE, QUICK_MEMORY) if quick else (SIZE, MEMORY)
    yield in_fresh_process(solve_drawn, size, memory)


def solve_drawn(d: int, memory: int) -> Row:
    """Draw and solve one map within the memory; runs in a fresh process."""
    n = hidden_width(RATIO, d * d)
    share = Allowance(memory, ((d, d, n),)).share
    pencil = Pencil(SEED)
    (M1,) = Affine(pencil.blocks(0, 5, n, d, hidden=0, share=share)).kernels
    (M2,) = Affine(pencil.blocks(0, 8, d, n, hidden=1, share=share)).kernels
    W = np.random.default_rng(SEED).standard_normal((d, d)) / np.sqrt(d)
    expected = plan(d, d, n, ConjugateGradient())
    start = time.process_time()
    found = solve(M1, M2, W, ConjugateGradient())
    return {
        "m": d,
        "k": d,
        "n": n,
        "seed": SEED,
        "memory": memory,
        "kept_share": share,
        "weights_bytes": 8 * n * d,
        "dense_bytes": 8 * d * d * n,
        "status": found.status.value,
        "seconds": found.seconds,
        "processor_seconds": time.process_time() - start,
        "planned_seconds": expected.seconds,
        "iterations": found.iterations,
        "residual": found.residual,
        "peak_bytes": peak_bytes(),
    }


if __name__ == "__main__":
    run("large", __doc__ or "", measure)
