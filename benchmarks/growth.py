"""How do time and memory of a solve grow with the size of the map?

Square maps d × d at ratio 1.5 by conjugate gradients, each in a process of its own. The last row
has the exponents of d fitted to the larger half of the sizes (4 in time and 3 in memory are what
the operator's flops and the weights say). Grouped layers follow, in blocks of 8, to four million
equations: their exponents are of m·k, from processor time, for the sizes from `FITTED` on (below,
starting up is all there is). `--quick` stops at 64. `python -m benchmarks.growth`, a quarter of an
hour on two cores.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from benchmarks._common import Row, in_fresh_process, run
from reconstruct.khatri_rao import ConjugateGradient, plan, solve
from reconstruct.khatri_rao.blocks import solve_blocks
from reconstruct.reports.document import peak_bytes

SEED = 0
RATIO = 1.5
SIZES = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
QUICK_SIZES = (16, 24, 32, 48, 64)
BLOCK = 8
GROUPED_SIZES = (16, 32, 64, 128, 256, 512, 1024, 2048)
FITTED = 128


def measure(quick: bool) -> Iterator[Row]:
    """One row per size, then the exponents; the same of grouped layers."""
    rows = []
    for d in QUICK_SIZES if quick else SIZES:
        rows.append(in_fresh_process(solve_one, d))
        yield rows[-1]
    yield exponents(rows)
    yield from measure_grouped(quick)


def measure_grouped(quick: bool) -> Iterator[Row]:
    """Grouped layers alone."""
    blocks = []
    for d in GROUPED_SIZES[:3] if quick else GROUPED_SIZES:
        blocks.append(in_fresh_process(solve_grouped, d))
        yield blocks[-1]
    if not quick:
        yield grouped_exponents(blocks)


def solve_one(d: int) -> Row:
    """Draw and solve one map; runs in a fresh process."""
    n = int(np.ceil(RATIO * d * d))
    rng = np.random.default_rng(SEED)
    start = peak_bytes()
    M1 = rng.standard_normal((n, d), dtype=np.float32)
    M2 = rng.standard_normal((n, d), dtype=np.float32).T  # its transpose is contiguous: no copy
    W = rng.standard_normal((d, d))
    expected = plan(d, d, n, ConjugateGradient())
    found = solve(M1, M2, W, ConjugateGradient())
    peak = peak_bytes()
    return {
        "m": d,
        "k": d,
        "n": n,
        "seed": SEED,
        "dense_bytes": 8 * d * d * n,
        "status": found.status.value,
        "seconds": found.seconds,
        "planned_seconds": expected.seconds,
        "iterations": found.iterations,
        "residual": found.residual,
        "peak_bytes": peak,
        "added_bytes": None if peak is None or start is None else peak - start,
    }


def solve_grouped(d: int) -> Row:
    """The same by blocks of `BLOCK`."""
    count, width = (d // BLOCK) ** 2, int(np.ceil(RATIO * BLOCK * BLOCK))
    rng = np.random.default_rng(SEED)
    start = peak_bytes()
    A = rng.standard_normal((count, width, BLOCK), dtype=np.float32)
    B = rng.standard_normal((count, BLOCK, width), dtype=np.float32)
    W = rng.standard_normal((count, BLOCK, BLOCK))
    before = time.process_time()
    found, _ = solve_blocks(A, B, W)
    used = time.process_time() - before
    peak = peak_bytes()
    return {
        "m": d,
        "k": d,
        "n": count * width,
        "block": BLOCK,
        "seed": SEED,
        "weights": A.size + B.size,
        "status": found.status.value,
        "seconds": found.seconds,
        "processor_seconds": used,
        "condition": found.condition,
        "residual": found.residual,
        "peak_bytes": peak,
        "added_bytes": None if peak is None or start is None else peak - start,
    }


def grouped_exponents(rows: list[Row]) -> Row:
    """Slopes over m·k."""
    used = [row for row in rows if row["m"] >= FITTED]
    size = np.log([row["m"] * row["k"] for row in used])
    out: Row = {"block": BLOCK, "fitted_from": used[0]["m"], "fitted_to": used[-1]["m"]}
    for key in ("processor_seconds", "added_bytes"):
        slope = np.polyfit(size, np.log([row[key] for row in used]), 1)[0]
        out[f"{key}_exponent_in_mk"] = float(slope)
    return out


def exponents(rows: list[Row]) -> Row:
    """Slopes of log time and log memory over log d."""
    used = rows[len(rows) // 2 :]
    size = np.log([row["m"] for row in used])
    out: Row = {"fitted_from": used[0]["m"], "fitted_to": used[-1]["m"]}
    for key in ("seconds", "added_bytes"):
        values = [row[key] for row in used]
        known = all(value is not None and value > 0 for value in values)
        out[f"{key}_exponent"] = float(np.polyfit(size, np.log(values), 1)[0]) if known else None
    return out


if __name__ == "__main__":
    run("growth", __doc__ or "", measure)
