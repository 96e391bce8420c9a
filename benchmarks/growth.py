"""How do time and memory of a solve grow with the size of the map?

Square maps d × d at ratio 1.5 by conjugate gradients, each in a process of its own. The last row
has the exponents of d fitted to the larger half of the sizes (4 in time and 3 in memory are what
the operator's flops and the weights say). `--quick` stops at 64. `python -m benchmarks.growth`,
a quarter of an hour on two cores.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks._common import Row, in_fresh_process, run
from reconstruct.khatri_rao import ConjugateGradient, plan, solve
from reconstruct.reports.document import peak_bytes

SEED = 0
RATIO = 1.5
SIZES = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
QUICK_SIZES = (16, 24, 32, 48, 64)


def measure(quick: bool) -> Iterator[Row]:
    """One row per size, then the exponents."""
    rows = []
    for d in QUICK_SIZES if quick else SIZES:
        rows.append(in_fresh_process(solve_one, d))
        yield rows[-1]
    yield exponents(rows)


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
