"""How fast is the operator, as a fraction of the machine's GEMM speed in the same dtype?

One run of `apply` and of `adjoint` does `2·n·m·k` flops. `python -m benchmarks.operator`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks._common import Row, best_time, gemm_flops, run
from reconstruct.khatri_rao import KhatriRao

SEED = 0
SHAPES = ((32, 32, 1536), (64, 64, 6144), (50, 5, 375), (96, 96, 13824), (256, 256, 24576))


def measure(quick: bool) -> Iterator[Row]:
    """One row per dtype and shape."""
    shapes = SHAPES[:2] if quick else SHAPES
    for dtype in (np.float32, np.float64):
        gemm = gemm_flops(dtype, 768 if quick else 1536)
        for m, k, n in shapes:
            yield _row(m, k, n, dtype, gemm)


def _row(m: int, k: int, n: int, dtype: type[np.floating], gemm: float) -> Row:
    rng = np.random.default_rng(SEED)
    K = KhatriRao(
        rng.standard_normal((n, k)).astype(dtype), rng.standard_normal((m, n)).astype(dtype)
    )
    s, Y = rng.standard_normal(n).astype(dtype), rng.standard_normal((m, k)).astype(dtype)
    flops = 2.0 * n * m * k
    apply = flops / best_time(lambda: K.apply(s, dtype), 5)
    adjoint = flops / best_time(lambda: K.apply_transposed(Y, dtype), 5)
    return {
        "dtype": np.dtype(dtype).name,
        "m": m,
        "k": k,
        "n": n,
        "seed": SEED,
        "threads": K.engine.count,
        "gemm_flops": gemm,
        "apply_fraction": apply / gemm,
        "adjoint_fraction": adjoint / gemm,
    }


if __name__ == "__main__":
    run("operator", __doc__ or "", measure)
