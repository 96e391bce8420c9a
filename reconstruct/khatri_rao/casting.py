"""A solution in fewer bits: rounded a part at a time, and each error fed into what follows.

A plain cast moves every entry of `s` by its own rounding, and `M2 diag(s) M1` by all of them. Here
the largest entries are rounded first; what that does to the product is solved away over the entries
that are still free, and so on. Errors that the later columns can express vanish, and what is left
comes from the smallest entries, whose steps are the finest. The measure is the residual
`‖M2 diag(s) M1 − W‖_F`; a plain cast is kept where it is no worse.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.solution import relative_residual
from reconstruct.khatri_rao.solve import solve
from reconstruct.khatri_rao.solvers import ConjugateGradient
from reconstruct.khatri_rao.storage import to_dense
from reconstruct.numbers.arrays import Array, Matrix, Vector

FREE = (0.74, 0.5, 0.35, 0.24, 0.15, 0.08, 0.04, 0.015)  # of the entries, after each part
WIDE_ENOUGH = 1.1  # ratio down to which an iteration solves quickly
MOST_DENSE = 2**26  # entries of a dense least-squares matrix, below that ratio
DIGITS = 1e-3

Cast = Callable[[Vector, Array], Vector]  # values, and the units that they belong to


def cast_with_feedback(M1: Matrix, M2: Matrix, W: Array, s: Vector, cast: Cast) -> Vector:
    """`s` with entries that `cast` leaves as they are, its residual small for such entries."""
    first, second = (np.asarray(to_dense(part), dtype=np.float64) for part in (M1, M2))
    operator = KhatriRao(first, second)
    order = np.argsort(-np.abs(s), kind="stable")
    found, done = s.copy(), 0
    for share in FREE:
        stop = len(s) - int(share * len(s))
        part, rest = order[done:stop], order[stop:]
        found[part] = cast(found[part], part)
        done = stop
        residual, _ = relative_residual(operator, found, W)
        found[rest] += _correction(first[rest], second[:, rest], residual)
    units = np.arange(len(s))
    found, plain = cast(found, units), cast(s, units)
    sizes = [relative_residual(operator, each, W)[1] for each in (found, plain)]
    return found if np.isfinite(sizes[0]) and sizes[0] < sizes[1] else plain


def _correction(M1: Array, M2: Array, R: Array) -> Vector:
    """What of the residual these columns can take: nothing where it would cost too much, or they
    do not tell."""
    (n, k), m = M1.shape, len(M2)
    if n == 0 or not R.any():
        return np.zeros(n)
    if n >= WIDE_ENOUGH * m * k:
        return solve(M1, M2, R, ConjugateGradient(tolerance=DIGITS)).s
    if m * k * n > MOST_DENSE:
        return np.zeros(n)
    columns = (M2.T[:, :, None] * M1[:, None, :]).reshape(n, m * k)
    gram = columns @ columns.T
    gram[np.diag_indices(n)] *= 1 + 1e-9  # near the square the last directions are not worth it
    try:
        return np.asarray(np.linalg.solve(gram, columns @ R.ravel()))
    except np.linalg.LinAlgError:  # columns that are the same, or zero
        return np.zeros(n)
