"""What does whitening do for correlated and uneven frozen weights, against none?

Maps of 32 × 32 at ratio 1.5 and 2.5 by conjugate gradients, with the Gram factors of M1 and M2
(where units are of very different size with a power of two for each, too) and without. `spread` is
the condition of the two factors together. `python -m benchmarks.whitening`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from benchmarks._common import Row, run
from reconstruct.khatri_rao import ConjugateGradient, KhatriRao, Solution, solve
from reconstruct.khatri_rao.solvers import conjugate_gradient, powers
from reconstruct.khatri_rao.solvers.whitening import Whitened

SEED = 0
SIZE, QUICK_SIZE = 32, 12
RATIOS = (1.5, 2.5)
KINDS = (
    *("gaussian", "uniform in [0, 1]", "mean 5, deviation 1", "correlation 0.9"),
    *("inputs scaled 1e-2 … 1e2", "rank 3 and 5 % noise", "units scaled 1e-1 … 1e1"),
)


def measure(quick: bool) -> Iterator[Row]:
    """One row per kind of weights and ratio."""
    for kind in KINDS[:3] if quick else KINDS:
        for ratio in RATIOS:
            yield _row(kind, QUICK_SIZE if quick else SIZE, ratio)


def _row(kind: str, d: int, ratio: float) -> Row:
    rng = np.random.default_rng(SEED)
    n = int(np.ceil(ratio * d * d))
    M1, M2T = (weights(kind, n, d, rng).astype(np.float32) for _ in range(2))
    W = rng.standard_normal((d, d))
    row: Row = {"weights": kind, "ratio": ratio, "m": d, "k": d, "n": n, "seed": SEED}
    row["spread"] = Whitened(KhatriRao(M1, M2T.T)).spread
    for name, above, uneven in (("whitened", 0.0, powers.UNEVEN), ("plain", math.inf, math.inf)):
        with (
            mock.patch.object(conjugate_gradient, "WHITEN_ABOVE", above),
            mock.patch.object(powers, "UNEVEN", uneven),
        ):
            row |= _figures(name, solve(M1, M2T.T, W, ConjugateGradient()))
    return row


def _figures(name: str, found: Solution) -> Row:
    return {
        f"{name}_status": found.status.value,
        f"{name}_iterations": found.iterations,
        f"{name}_residual": found.residual,
        f"{name}_seconds": found.seconds,
    }


def weights(kind: str, n: int, d: int, rng: np.random.Generator) -> NDArray[Any]:
    """`n × d` weights, one row per hidden unit."""
    plain = rng.standard_normal((n, d))
    if kind == KINDS[1]:
        return rng.random((n, d))
    if kind == KINDS[2]:
        return plain + 5
    if kind == KINDS[3]:
        index = np.arange(d)
        moment = 0.9 ** np.abs(np.subtract.outer(index, index))
        return np.asarray(plain @ np.linalg.cholesky(moment).T)
    if kind == KINDS[4]:
        return np.asarray(plain * 10 ** rng.uniform(-2, 2, d))
    if kind == KINDS[5]:
        return np.asarray(plain[:, :3] @ rng.standard_normal((3, d)) + 0.05 * plain)
    if kind == KINDS[6]:
        return np.asarray(plain * 10 ** rng.uniform(-1, 1, (n, 1)))
    return plain


if __name__ == "__main__":
    run("whitening", __doc__ or "", measure)
