"""Exact rational solve: floats are dyadic rationals, and the answer is checked with `==`.

Hidden unit `l` is scaled so that its weights are integers, which turns `K` into an integer matrix
(`s_l = scale_l t_l` with `K_int t = w`).
Elimination modulo a prime picks `m·k` independent columns; the other entries of `s` are free and
set to given values; the square system is solved over the rationals (Dixon lifting in python-flint
when it is installed, fraction-free elimination in sympy otherwise).

Rests on proofs_check: solvable-iff-rank.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import scipy.linalg as la

from reconstruct.errors import InputError
from reconstruct.khatri_rao.operator import KhatriRao, checked_system
from reconstruct.khatri_rao.solution import ACCEPTED, Cost, Solution, Status
from reconstruct.khatri_rao.solvers.direct import Direct
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.exact import RationalMatrix, rationals
from reconstruct.numbers.residues import PRIMES, pivots_modulo
from reconstruct.progress import Progress, silent

Integers = list[list[int]]  # matrices of rationals and of integers are arrays of objects


@dataclass(frozen=True)
class Exact:
    """Settings of the exact solver: rational arithmetic, every float a dyadic rational.

    The float64 `s` of the solution is the correctly rounded rational one, `residual` what rounding
    it leaves, evaluated exactly; the rationals are beside it, checked, if there is a solution.
    `rank` is that modulo a prime, which never exceeds the rank of K and equals it but for bad luck.
    `solve_exact` takes rational matrices too.
    """

    rational: ClassVar[bool] = True

    def solve(self, operator: KhatriRao, W: Any, progress: Progress = silent) -> Solution:
        """Solve over the rationals and round; W may hold Fractions."""
        return solve_exact(operator.M1, operator.M2T.T, W)

    def cost(self, m: int, k: int, n: int, density: float = 1.0) -> Cost:
        """Integers of some 100 bits an entry, lifted about as often as there are equations."""
        rows = m * k
        return Cost(self, 200 * rows * max(n, rows), 3000.0 * rows**2 * max(n, rows))


def solve_exact(
    M1: Any, M2: Any, W: Any, *, free: float | Fraction | Sequence[float] | None = None
) -> Solution:
    """Solve `M2 diag(s) M1 = W` over the rationals.

    Parameters: `M1` (`n × k`), `M2` (`m × n`), `W` (`m × k`) of floats, ints or Fractions;
    `free`: values of the entries that spare width leaves undetermined, one for all or one per
    hidden unit. By default they are those of the float64 minimum-norm solution, which keeps `s`
    small and its entries non-zero; `free=0` gives a basic solution.
    """
    start = time.perf_counter()
    first, second, right = map(rationals, checked_system(M1, M2, W, rational=True))
    near = _float_solution(first, second, right)
    values = _free_values(near.s if free is None else free, len(first))
    K, scales = integer_matrix(first, second)
    w = right.ravel()
    rows, basis = independent(K)
    t = solve_basis(K, scales, w, rows, basis, values)
    s = t * scales
    solved, rounding = not residual(K, t, w).any(), _rounding(K, scales, s, w)
    status = Status.TOO_NARROW if len(first) < right.size else Status.RANK_DEFICIENT
    if solved:  # rounding alone may leave what is no solution
        status = Status.SOLVED if rounding <= ACCEPTED.residual else Status.ILL_CONDITIONED
    found = Solution(_nearest(s), status, "exact", rounding, right.shape, len(basis))
    return found.replace(
        condition=near.condition,
        history=(rounding,),
        seconds=time.perf_counter() - start,
        rationals=tuple(s) if solved else None,
    )


def _float_solution(M1: Array, M2: Array, W: Array) -> Solution:
    """The float64 minimum-norm solution: a guide for the free entries, trusted for nothing."""
    first, second, right = (_nearest(matrix) for matrix in (M1, M2, W))
    none = Solution(np.zeros(len(first)), Status.NOT_CONVERGED, "none", np.inf, right.shape)
    if not all(np.isfinite(matrix).all() for matrix in (first, second, right)):
        return none
    with np.errstate(all="ignore"):
        found = Direct().solve(KhatriRao(first, second), right)
    return found if np.isfinite(found.s).all() else none


def _free_values(free: Any, n: int) -> Array:
    given = np.ravel(np.asarray(free, dtype=object))
    if len(given) not in (1, n) or (np.ndim(free) and len(given) != n):
        raise InputError(
            f"free must be one value or one per hidden unit ({n}), but has {len(given)}; "
            "pass a number or a vector of length n"
        )
    values = np.array([Fraction(value) for value in given.tolist()], dtype=object)
    return values if len(values) == n else np.repeat(values, n)


def _rounding(K: Array, scales: Array, s: Array, w: Array) -> float:
    """Relative residual of the float64 vector nearest to `s`, inf if it overflows."""
    nearest = _nearest(s)
    if not np.isfinite(nearest).all():
        return math.inf
    rest = residual(K, np.array([Fraction(v) for v in nearest.tolist()], dtype=object) / scales, w)
    size, norm = (math.hypot(*_nearest(abs(part))) for part in (rest, w))
    return size / norm if norm > 0 else size


def _nearest(values: Array) -> Array:
    """The float64 numbers nearest to rationals (true division of integers rounds correctly)."""

    def nearest(value: Fraction) -> float:
        try:
            return value.numerator / value.denominator
        except OverflowError:
            return math.inf if value > 0 else -math.inf

    return np.array([nearest(v) for v in values.ravel()], np.float64).reshape(values.shape)


def integer_matrix(M1: Array, M2: Array) -> tuple[Array, Array]:
    """Integer K and the factor of each column: `K_int[:, l] = scale_l · K[:, l]`."""
    left, right = (
        np.array([math.lcm(*(x.denominator for x in row)) for row in part], dtype=object)
        for part in (M1, M2.T)
    )
    whole = np.frompyfunc(int, 1, 1)
    A, B = whole(M1 * left[:, None]), whole(M2 * right)
    K = (B[:, None, :] * A.T[None]).reshape(len(M2) * M1.shape[1], len(M1))
    return K, left * right


def independent(K: Array) -> tuple[list[int], list[int]]:
    """Independent rows and columns modulo a prime, well-conditioned columns first."""
    # in the order of a pivoted QR factorisation, so that the basis gives a small s
    scaled = (K / np.maximum(np.abs(K).max(axis=0), 1)).astype(np.float64)
    order = la.qr(scaled, mode="r", pivoting=True)[1]
    best: tuple[list[int], list[int]] = ([], [])
    for prime in PRIMES:
        rows, columns = pivots_modulo((K[:, order] % prime).astype(np.int64), prime)
        if len(columns) > len(best[1]):
            best = rows, [int(order[c]) for c in columns]
        if len(columns) == min(K.shape):
            break
    return best


def solve_basis(
    K: Array, scales: Array, w: Array, rows: list[int], basis: list[int], values: Array
) -> Array:
    """`t` with `K_int t = w` on the given rows: `s_l = scale_l t_l`, free entries as given."""
    t = values / scales
    if basis:
        t[basis] = Fraction(0)
        target = RationalMatrix.of(residual(K[rows], t, w[rows]).tolist())
        found = _solve_square(K[np.ix_(rows, basis)].tolist(), target.numbers.tolist())
        t[basis] = [value / target.denominator for value in found]
    return t


def _solve_square(A: Integers, b: list[int]) -> list[Fraction]:
    """By flint where it is installed, else by sympy."""
    size = len(A)
    try:
        flint: Any = importlib.import_module("flint")
    except ImportError:
        matrices: Any = importlib.import_module("sympy.polys.matrices")
        ZZ: Any = importlib.import_module("sympy").ZZ
        left = matrices.DomainMatrix([[ZZ(x) for x in row] for row in A], (size, size), ZZ)
        right = matrices.DomainMatrix([[ZZ(x)] for x in b], (size, 1), ZZ)
        top, bottom = left.solve_den(right)
        return [Fraction(int(x), int(bottom)) for (x,) in top.to_list()]
    flat = [entry for row in A for entry in row]
    found = flint.fmpz_mat(size, size, flat).solve(flint.fmpz_mat(size, 1, b))
    return [Fraction(int(x.p), int(x.q)) for x in found.entries()]


def residual(K: Array, t: Array, w: Array) -> Array:
    """`w − K t`, summed in integers over a common denominator."""
    whole = RationalMatrix.of(t.tolist())
    return np.asarray(w - (K @ whole.numbers) * Fraction(1, whole.denominator))
