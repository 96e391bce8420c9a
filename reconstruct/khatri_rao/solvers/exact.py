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
from operator import mul
from typing import Any, ClassVar

import numpy as np
import scipy.linalg as la

from reconstruct.errors import InputError
from reconstruct.khatri_rao.matrices import check_shapes, to_dense
from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.solution import ACCEPTED, Cost, Solution, Status
from reconstruct.khatri_rao.solvers.direct import Direct
from reconstruct.numbers.residues import PRIMES, pivots_modulo
from reconstruct.progress import Progress

Rationals = list[list[Fraction]]
Integers = list[list[int]]


@dataclass(frozen=True)
class Exact:
    """Settings of the exact solver: rational arithmetic, every float a dyadic rational.

    The float64 `s` of the solution is the correctly rounded rational one, `residual` what rounding
    it leaves, evaluated exactly; the rationals are beside it, checked, if there is a solution.
    `rank` is that modulo a prime, which never exceeds the rank of K and equals it but for bad luck.
    `solve_exact` takes rational matrices too.
    """

    rational: ClassVar[bool] = True

    def solve(self, operator: KhatriRao, W: Any, progress: Progress | None = None) -> Solution:
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
    first, second, right = _rationals("M1", M1), _rationals("M2", M2), _rationals("W", W)
    n, m, k = len(first), len(second), len(first[0])
    check_shapes((n, k), (m, len(second[0])), (len(right), len(right[0])))
    near = _float_solution(first, second, right)
    values = _free_values(near.s if free is None else free, n)
    K, scales = integer_matrix(first, second)
    w = [entry for row in right for entry in row]
    rows, basis = independent(K)
    t = solve_basis(K, scales, w, rows, basis, values)
    s = tuple(value * scale for value, scale in zip(t, scales, strict=True))
    solved, rounding = not any(residual(K, t, w)), _rounding(K, scales, s, w)
    status = Status.TOO_NARROW if n < m * k else Status.RANK_DEFICIENT
    if solved:  # rounding alone may leave what is no solution
        status = Status.SOLVED if rounding <= ACCEPTED.residual else Status.ILL_CONDITIONED
    return Solution(
        s=np.array([_nearest(value) for value in s]),
        status=status,
        solver="exact",
        residual=rounding,
        shape=(m, k),
        rank=len(basis),
        condition=near.condition,
        history=(rounding,),
        seconds=time.perf_counter() - start,
        rationals=s if solved else None,
    )


def _float_solution(M1: Rationals, M2: Rationals, W: Rationals) -> Solution:
    """The float64 minimum-norm solution: a guide for the free entries, trusted for nothing."""
    first, second, right = (
        np.array([[_nearest(x) for x in row] for row in matrix]) for matrix in (M1, M2, W)
    )
    n = len(first)
    none = Solution(np.zeros(n), Status.NOT_CONVERGED, "none", np.inf, right.shape)
    if not all(np.isfinite(matrix).all() for matrix in (first, second, right)):
        return none
    with np.errstate(all="ignore"):
        found = Direct().solve(KhatriRao(first, second), right)
    return found if np.isfinite(found.s).all() else none


def _rationals(name: str, matrix: Any) -> Rationals:
    array = to_dense(matrix)
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(
            f"{name} must be a matrix with at least one row and one column, but has shape "
            f"{array.shape}; reshape it to two dimensions"
        )
    try:
        return [[Fraction(_plain(entry)) for entry in row] for row in array.tolist()]
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{name} of shape {array.shape} must hold finite real numbers, but has an entry that "
            f"is not ({error}); repair the weights it came from"
        ) from None


def _plain(entry: Any) -> Any:
    if isinstance(entry, int | float | Fraction):
        return entry
    raise TypeError(f"{type(entry).__name__} is not a real number")


def _free_values(free: Any, n: int) -> list[Fraction]:
    if free is None or isinstance(free, int | float | Fraction):
        return [Fraction(free or 0)] * n
    values = [Fraction(value) for value in np.asarray(free).tolist()]
    if len(values) != n:
        raise InputError(
            f"free must be one value or one per hidden unit ({n}), but has {len(values)}; "
            "pass a number or a vector of length n"
        )
    return values


def _rounding(K: Integers, scales: list[int], s: tuple[Fraction, ...], w: list[Fraction]) -> float:
    """Relative residual of the float64 vector nearest to `s`, inf if it overflows."""
    nearest = [_nearest(value) for value in s]
    if not all(map(math.isfinite, nearest)):
        return math.inf
    t = [Fraction(value) / scale for value, scale in zip(nearest, scales, strict=True)]
    size = math.hypot(*(_nearest(abs(r)) for r in residual(K, t, w)))
    norm = math.hypot(*(_nearest(abs(x)) for x in w))
    return size / norm if norm > 0 else size


def _nearest(value: Fraction) -> float:
    """The float64 nearest to a rational (true division of integers rounds correctly)."""
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def integer_matrix(M1: Rationals, M2: Rationals) -> tuple[Integers, list[int]]:
    """Integer K and the factor of each column: `K_int[:, l] = scale_l · K[:, l]`."""
    n, m, k = len(M1), len(M2), len(M1[0])
    left = [math.lcm(*(entry.denominator for entry in row)) for row in M1]
    right = [math.lcm(*(M2[i][unit].denominator for i in range(m))) for unit in range(n)]
    A = [[int(entry * left[unit]) for entry in M1[unit]] for unit in range(n)]
    B = [[int(M2[i][unit] * right[unit]) for unit in range(n)] for i in range(m)]
    K = [[B[i][unit] * A[unit][j] for unit in range(n)] for i in range(m) for j in range(k)]
    return K, [left[unit] * right[unit] for unit in range(n)]


def independent(K: Integers) -> tuple[list[int], list[int]]:
    """Independent rows and columns modulo a prime, well-conditioned columns first."""
    order = _column_order(K)
    best: tuple[list[int], list[int]] = ([], [])
    for prime in PRIMES:
        A = np.array([[row[c] % prime for c in order] for row in K], dtype=np.int64)
        rows, columns = pivots_modulo(A, prime)
        if len(columns) > len(best[1]):
            best = rows, [order[c] for c in columns]
        if len(columns) == min(A.shape):
            break
    return best


def _column_order(K: Integers) -> list[int]:
    """Columns in the order of a pivoted QR factorisation, so that the basis gives a small s."""
    largest = [max(1, *map(abs, column)) for column in zip(*K, strict=True)]
    scaled = np.array([[x / top for x, top in zip(row, largest, strict=True)] for row in K])
    order = la.qr(scaled, mode="r", pivoting=True)[1]
    return [int(c) for c in order]


def solve_basis(
    K: Integers,
    scales: list[int],
    w: list[Fraction],
    rows: list[int],
    basis: list[int],
    values: list[Fraction],
) -> list[Fraction]:
    """`t` with `K_int t = w` on the given rows: `s_l = scale_l t_l`, free entries as given."""
    t = [value / scale for value, scale in zip(values, scales, strict=True)]
    for unit in basis:
        t[unit] = Fraction(0)
    target = residual(K, t, w, rows)
    common = math.lcm(1, *(value.denominator for value in target))
    right = [int(value * common) for value in target]
    square = [[K[row][unit] for unit in basis] for row in rows]
    for unit, value in zip(basis, _solve_square(square, right) if basis else [], strict=True):
        t[unit] = value / common
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


def residual(
    K: Integers, t: Sequence[Fraction], w: list[Fraction], rows: Sequence[int] | None = None
) -> list[Fraction]:
    """`w − K t` on some rows, summed in integers over a common denominator."""
    common = math.lcm(*(value.denominator for value in t))
    numerators = [value.numerator * (common // value.denominator) for value in t]
    chosen = range(len(K)) if rows is None else rows
    return [w[row] - Fraction(sum(map(mul, K[row], numerators)), common) for row in chosen]
