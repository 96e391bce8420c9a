"""A solution as accurate as its entries can be in the type that they are written in.

**Polished**: a residual computed in float64 carries the rounding of its own n products, about ten
times what rounding the entries of `s` leaves behind. Evaluated by error-free splitting it shows
that rest, and one correction brings `s` down to it:

    R = W − M2 diag(s) M1 (to 2^-100),    K d = R to a few digits,    s ← fl(s + d).

Small systems are rounded with feedback besides, for it takes no time there. Networks begin with
maps of few inputs, and what is left of the first map goes through all others: on ACAS Xu it is four
fifths of the certified bound.

**Cast with feedback**: a plain cast moves every entry of `s` by its own rounding, and
`M2 diag(s) M1` by all of them. Here the largest entries are rounded first; what that does to the
product is solved away over the entries that are still free, and so on. Errors that the later
columns can express vanish, and what is left comes from the smallest entries, whose steps are the
finest: a third of what plain casts leave at a ratio of 1.5, in any type. Both are kept only where
the residual falls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reconstruct.khatri_rao.solve import solve
from reconstruct.khatri_rao.solvers import ConjugateGradient, Direct, Solver
from reconstruct.numbers.arrays import Array, Matrix, Vector, to_dense
from reconstruct.numbers.double_double import Enclosure
from reconstruct.numbers.splitting import product
from reconstruct.progress import Progress, Step, silent

Cast = Callable[[Vector, Array], Vector]  # values, and the units that they belong to


@dataclass(frozen=True)
class CorrectionLimits:
    """How far corrections go."""

    digits: float = 3e-3  # of the residual that a correction may leave
    known: float = 0.1  # of a residual that may be unknown, for a correction to be worth while
    feedback: int = 2**20  # m·n·k up to which float64 is rounded with feedback: a tenth of a second
    near_square: float = 1.1  # ratio below which an iteration takes too long
    steps: int = 100  # of an iteration for one part: near the square it would take too many
    # Entries that are still free after each part is rounded, as shares of all.
    free: tuple[float, ...] = (0.74, 0.5, 0.35, 0.24, 0.15, 0.08, 0.04, 0.015)


LIMITS = CorrectionLimits()


def polished(M1: Matrix, M2: Matrix, W: Array, s: Vector) -> tuple[Vector, float | None]:
    """`s` with its residual at what rounding its entries leaves, and that residual, relative, where
    it was computed to all digits."""
    (n, k), m = M1.shape, M2.shape[0]
    if n < m * k or not np.isfinite(s).all():
        return s, None
    first, second = (np.asarray(to_dense(part), dtype=np.float64) for part in (M1, M2))
    R = exact_residual(first, second, W, s)
    size, scale = R.size, float(np.linalg.norm(W)) or 1.0
    if not (np.isfinite(size) and size > 0 and R.radius <= LIMITS.known * size):
        return s, None
    solver: Solver = (
        Direct() if n < LIMITS.near_square * m * k else ConjugateGradient(tolerance=LIMITS.digits)
    )
    better = s + solve(first, second, R.values, solver).s
    if m * n * k <= LIMITS.feedback:
        better = cast_with_feedback(first, second, W, better, lambda values, units: values)
    least = exact_residual(first, second, W, better)
    if least.size + least.radius < size:
        return better, least.size / scale
    return s, size / scale


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


def cast_with_feedback(
    M1: Matrix, M2: Matrix, W: Array, s: Vector, cast: Cast, progress: Progress = silent
) -> Vector:
    """`s` with entries that `cast` leaves as they are, its residual small for such entries."""
    first, second = (np.asarray(to_dense(part), dtype=np.float64) for part in (M1, M2))
    iteration = ConjugateGradient(LIMITS.digits, max_iterations=LIMITS.steps)
    order = np.argsort(-np.abs(s), kind="stable")
    found, done = s.copy(), 0
    for number, share in enumerate(LIMITS.free):
        progress(Step("rounding with feedback", number, len(LIMITS.free)))
        stop = len(s) - int(share * len(s))
        part, rest = order[done:stop], order[stop:]
        found[part] = cast(found[part], part)
        done = stop
        residual = exact_residual(first, second, W, found).values
        if len(rest) and residual.any():
            found[rest] += solve(first[rest], second[:, rest], residual, iteration).s
    units = np.arange(len(s))
    found, plain = cast(found, units), cast(s, units)
    sizes = [exact_residual(first, second, W, each).size for each in (found, plain)]
    return found if np.isfinite(sizes[0]) and sizes[0] < sizes[1] else plain
