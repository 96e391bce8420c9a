"""How fast is the operator, as a fraction of the machine's GEMM speed in the same dtype?

One run of `normal`, the `K Kᵀ Y` of an iteration, does `4·n·m·k` flops. The fractions of all
threads compare times on the clock, as inside a solve (BLAS held at one thread per worker); those of
one core compare processor time of one thread, which other work on the machine disturbs less.
`python -m benchmarks.operator`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks._common import Row, run
from reconstruct.khatri_rao import KhatriRao
from reconstruct.numbers.parallel import at_most_threads, cpu_count, one_blas_thread

SEED = 0
RATIO = 1.5
SHAPES = (
    *((50, 5), (50, 50), (64, 64), (96, 96), (128, 128)),
    *((256, 256), (256, 784), (64, 576)),
)
MOST_UNITS = 49_152  # hidden units: wider layers are more of the same tiles
ROUNDS, QUICK_ROUNDS = 8, 3
SIZE, QUICK_SIZE = 1536, 640
ENOUGH = 0.02  # seconds of repetitions in one round
CALM = 0.1  # seconds that OpenBLAS's own threads go on spinning after a product, and more


def measure(quick: bool) -> Iterator[Row]:
    """One row per dtype and shape."""
    shapes = SHAPES[:3] if quick else SHAPES
    for dtype in (np.float32, np.float64):
        for m, k in shapes:
            yield _row(m, k, dtype, quick)


def _row(m: int, k: int, dtype: type[np.floating], quick: bool) -> Row:
    rng = np.random.default_rng(SEED)
    n = min(int(np.ceil(RATIO * m * k)), MOST_UNITS)
    M1, M2T = rng.standard_normal((n, k)).astype(dtype), rng.standard_normal((n, m)).astype(dtype)
    Y = rng.standard_normal((m, k)).astype(dtype)
    A = rng.standard_normal((QUICK_SIZE if quick else SIZE,) * 2).astype(dtype)
    flops, product = 4.0 * n * m * k, 2.0 * len(A) ** 3
    row: Row = {"dtype": np.dtype(dtype).name, "m": m, "k": k, "n": n, "seed": SEED}
    row |= {"threads": cpu_count()}
    K = KhatriRao(M1, M2T.T)
    rounds = QUICK_ROUNDS if quick else ROUNDS
    for name, threads, clock in (("", None, time.perf_counter), ("core_", 1, time.thread_time)):
        with at_most_threads(threads):
            actions: dict[str, Callable[[], Any]] = {"normal": lambda: K.normal(Y, dtype)}
            best = _side_by_side(lambda: A @ A, actions, clock, rounds, one_core=threads == 1)
        row[f"{name}gemm_flops"] = gemm = product / best["gemm"]
        row[f"{name}normal_fraction"] = flops / best["normal"] / gemm
    return row


def _side_by_side(
    gemm: Callable[[], Any],
    actions: dict[str, Callable[[], Any]],
    clock: Callable[[], float],
    rounds: int,
    *,
    one_core: bool,
) -> dict[str, float]:
    """Shortest times of a matrix product and of the actions, taken in turns."""
    best = dict.fromkeys(("gemm", *actions), np.inf)
    for _ in range(rounds):
        if one_core:
            with one_blas_thread():
                best["gemm"] = min(best["gemm"], _shortest(gemm, clock))
        else:
            best["gemm"] = min(best["gemm"], _shortest(gemm, clock))
            time.sleep(CALM)
        with one_blas_thread():
            for name, action in actions.items():
                best[name] = min(best[name], _shortest(action, clock))
    return best


def _shortest(action: Callable[[], Any], clock: Callable[[], float]) -> float:
    best, end = np.inf, time.perf_counter() + ENOUGH
    while True:
        start = clock()
        action()
        elapsed = clock() - start
        if elapsed > 0:  # some clocks of one thread stand still for a while
            best = min(best, elapsed)
        if time.perf_counter() >= end and best < np.inf:
            return float(best)


if __name__ == "__main__":
    run("operator", __doc__ or "", measure)
