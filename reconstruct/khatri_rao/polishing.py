"""One more correction, against a residual that is known beyond float64.

A residual computed in float64 carries the rounding of its own n products, about ten times what
rounding the entries of `s` leaves behind. Evaluated by error-free splitting it shows that rest,
and one correction brings `s` down to it:

    R = W − M2 diag(s) M1 (to 2^-100),    K d = R to a few digits,    s ← fl(s + d).

Kept only if the residual falls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.khatri_rao.solve import solve
from reconstruct.khatri_rao.solvers import ConjugateGradient, Direct, Solver
from reconstruct.khatri_rao.storage import to_dense
from reconstruct.numbers.arrays import Array, Matrix, Vector
from reconstruct.numbers.double_double import Enclosure
from reconstruct.numbers.splitting import product

DIGITS = 3e-3  # of the residual that a correction may leave
NEAR_SQUARE = 1.1  # below this ratio an iteration takes too long


@dataclass(frozen=True, eq=False)
class Polished:
    """`s`, and its relative residual where that was computed to all digits."""

    s: Vector
    residual: float | None = None


def polished(M1: Matrix, M2: Matrix, W: Array, s: Vector) -> Polished:
    """`s` with its residual at what rounding its entries leaves."""
    (n, k), m = M1.shape, M2.shape[0]
    if n < m * k or not np.isfinite(s).all():
        return Polished(s)
    first, second = (np.asarray(to_dense(part), dtype=np.float64) for part in (M1, M2))
    R = exact_residual(first, second, W, s)
    size = float(np.linalg.norm(R))
    scale = float(np.linalg.norm(W)) or 1.0
    if not (np.isfinite(size) and size > 0):
        return Polished(s)
    solver: Solver = Direct() if n < NEAR_SQUARE * m * k else ConjugateGradient(tolerance=DIGITS)
    better = s + solve(first, second, R, solver).s
    least = float(np.linalg.norm(exact_residual(first, second, W, better)))
    return Polished(better, least / scale) if least < size else Polished(s, size / scale)


def exact_residual(M1: Array, M2: Array, W: Array, s: Vector) -> Array:
    """`W − M2 diag(s) M1` to all digits of float64, however much cancels."""
    hidden = Enclosure.exact(s[:, None]) * Enclosure.exact(M1)
    found = Enclosure.exact(W) - product(M2, hidden)
    return np.asarray(found.high + found.low)
