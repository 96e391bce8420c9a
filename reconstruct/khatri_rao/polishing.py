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

from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.solve import solve
from reconstruct.khatri_rao.solvers import ConjugateGradient, Direct, Solver
from reconstruct.khatri_rao.solvers.powers import even_powers
from reconstruct.khatri_rao.storage import to_dense
from reconstruct.numbers.arrays import Array, Matrix, Vector
from reconstruct.numbers.double_double import Enclosure
from reconstruct.numbers.splitting import product

DIGITS = 3e-3  # of the residual that a correction may leave
KNOWN = 0.1  # of a residual that may be unknown, for a correction to be worth while
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
    powers = even_powers(KhatriRao(first, second))
    if powers is None:
        return _corrected(first, second, W, s)
    # digits are kept in proportion to the largest unit: they must be equally large
    a, b = (np.asarray(power) for power in powers)
    first, second = np.ldexp(first, a[:, None]), np.ldexp(second, b)
    found = _corrected(first, second, W, np.ldexp(s, -(a + b)))
    better = np.ldexp(found.s, a + b)
    kept = np.array_equal(np.ldexp(better, -(a + b)), found.s)  # else floats do not hold it
    return Polished(better, found.residual) if kept else Polished(s)


def _corrected(M1: Array, M2: Array, W: Array, s: Vector) -> Polished:
    """One correction, kept if the residual falls for certain."""
    (n, k), m = M1.shape, M2.shape[0]
    R = exact_residual(M1, M2, W, s)
    size, scale = R.size, float(np.linalg.norm(W)) or 1.0
    if not (np.isfinite(size) and size > 0 and R.radius <= KNOWN * size):
        return Polished(s)
    solver: Solver = Direct() if n < NEAR_SQUARE * m * k else ConjugateGradient(tolerance=DIGITS)
    better = s + solve(M1, M2, R.values, solver).s
    least = exact_residual(M1, M2, W, better)
    if least.size + least.radius < size:
        return Polished(better, least.size / scale)
    return Polished(s, size / scale)


@dataclass(frozen=True, eq=False)
class Residual:
    """`W − M2 diag(s) M1`, with the norms of it and of what is not known of it."""

    values: Array
    size: float
    radius: float


def exact_residual(M1: Array, M2: Array, W: Array, s: Vector) -> Residual:
    """`W − M2 diag(s) M1` to 2^-100 of the largest products, however much cancels."""
    hidden = Enclosure.exact(s[:, None]) * Enclosure.exact(M1)
    found = Enclosure.exact(W) - product(M2, hidden)
    values = np.asarray(found.high + found.low)
    return Residual(values, *(float(np.linalg.norm(part)) for part in (values, found.radius)))
