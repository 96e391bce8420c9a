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
from reconstruct.khatri_rao.matrices import to_dense
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

    The float64 `s` of the solution is the correctly rounded rational one; the rationals are beside
    it. `solve_exact` takes rational matrices too.
    """

    rational: ClassVar[bool] = True

    def solve(self, operator: KhatriRao, W: Any, progress: Progress | None = None) -> Solution:
        """Solve over the rationals and round; W may hold Fractions."""
        return solve_exact(operator.M1, operator.M2T.T, W).rounded()

    def cost(self, m: int, k: int, n: int, density: float = 1.0) -> Cost:
        """Integers of some 100 bits an entry, lifted about as often as there are equations."""
        rows = m * k
        return Cost(self, 200 * rows * max(n, rows), 3000.0 * rows**2 * max(n, rows))


@dataclass(frozen=True, repr=False)
class ExactSolution:
    """Result of `solve_exact`.

    - `s`: n rationals with `M2 diag(s) M1 == W`, checked, if `status` is SOLVED; after a failure
      they satisfy the independent equations only.
    - `rank`: rank of K modulo a prime, which never exceeds the rank of K and equals it but for
      bad luck; `shape` = (m, k); `needed` = m·k; `width` = n.
    - `condition`: 2-norm condition number of K, as in `Solution`.
    - `basis`: the hidden units that were solved for; the others have the values given as free.
    - `rounding`: relative residual of the float64 vector nearest to `s`, evaluated exactly.
    - `backend`: "flint" or "sympy".
    """

    s: tuple[Fraction, ...]
    status: Status
    shape: tuple[int, int]
    rank: int
    condition: float | None
    basis: tuple[int, ...]
    rounding: float
    backend: str
    seconds: float

    @property
    def needed(self) -> int:
        """Number of equations `m·k`."""
        return self.shape[0] * self.shape[1]

    @property
    def width(self) -> int:
        """Hidden width n: the number of unknowns."""
        return len(self.s)

    @property
    def solved(self) -> bool:
        """True when `status` is SOLVED."""
        return self.status is Status.SOLVED

    @property
    def message(self) -> str:
        """One sentence: outcome, numbers, remedy."""
        numbers = f"rank {self.rank} of {self.needed} needed, width {self.width}, exact"
        if self.solved:
            return f"solved: M2 diag(s) M1 == W over the rationals ({numbers})"
        return f"{self.status.value}: {self.status.explanation} ({numbers}); {self.status.remedy}"

    def __repr__(self) -> str:
        return f"ExactSolution({self.message})"

    def rounded(self) -> Solution:
        """The solution in float64, each entry correctly rounded.

        Its status is ILL_CONDITIONED if rounding alone leaves a residual that is no solution.
        """
        status = self.status
        if self.solved and not self.rounding <= ACCEPTED.residual:
            status = Status.ILL_CONDITIONED
        return Solution(
            s=np.array([_nearest(value) for value in self.s]),
            status=status,
            solver="exact",
            residual=self.rounding,
            shape=self.shape,
            rank=self.rank,
            condition=self.condition,
            history=(self.rounding,),
            seconds=self.seconds,
            rationals=self.s,
        )


def solve_exact(
    M1: Any, M2: Any, W: Any, *, free: float | Fraction | Sequence[float] | None = None
) -> ExactSolution:
    """Solve `M2 diag(s) M1 = W` over the rationals.

    Parameters: `M1` (`n × k`), `M2` (`m × n`), `W` (`m × k`) of floats, ints or Fractions;
    `free`: values of the entries that spare width leaves undetermined, one for all or one per
    hidden unit. By default they are those of the float64 minimum-norm solution, which keeps `s`
    small and its entries non-zero; `free=0` gives a basic solution.
    """
    start = time.perf_counter()
    first, second, right = _rationals("M1", M1), _rationals("M2", M2), _rationals("W", W)
    n, m, k = len(first), len(second), len(first[0])
    _check_shapes((n, k), (m, len(second[0])), (len(right), len(right[0])))
    near = _float_solution(first, second, right)
    values = _free_values(near.s if free is None else free, n)
    K, scales = integer_matrix(first, second)
    w = [entry for row in right for entry in row]
    rows, basis = independent(K)
    t, backend = solve_basis(K, scales, w, rows, basis, values)
    s = tuple(value * scale for value, scale in zip(t, scales, strict=True))
    solved = not any(residual(K, t, w))
    return ExactSolution(
        s=s,
        status=Status.SOLVED if solved else _failure(n, m * k),
        shape=(m, k),
        rank=len(basis),
        condition=near.condition,
        basis=tuple(basis),
        rounding=_rounding(K, scales, s, w),
        backend=backend,
        seconds=time.perf_counter() - start,
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


def _failure(width: int, needed: int) -> Status:
    return Status.TOO_NARROW if width < needed else Status.RANK_DEFICIENT


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


def _check_shapes(M1: tuple[int, int], M2: tuple[int, int], W: tuple[int, int]) -> None:
    if M1[0] != M2[1]:
        raise InputError(
            f"M1 must have as many rows as M2 has columns (the hidden width n), but M1 has shape "
            f"{M1} and M2 has shape {M2}; M1 is n × k and M2 is m × n"
        )
    needed = (M2[0], M1[1])
    if needed != W:
        raise InputError(
            f"W must have shape (m, k) = {needed} to match M2 of shape {M2} and M1 of "
            f"shape {M1}, but has shape {W}; transpose it or check the order of the arguments"
        )


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
) -> tuple[list[Fraction], str]:
    """`t` with `K_int t = w` on the given rows: `s_l = scale_l t_l`, free entries as given."""
    t = [value / scale for value, scale in zip(values, scales, strict=True)]
    for unit in basis:
        t[unit] = Fraction(0)
    target = residual(K, t, w, rows)
    common = math.lcm(1, *(value.denominator for value in target))
    right = [int(value * common) for value in target]
    square = [[K[row][unit] for unit in basis] for row in rows]
    x, backend = _solve_square(square, right) if basis else ([], "none")
    for unit, value in zip(basis, x, strict=True):
        t[unit] = value / common
    return t, backend


def _solve_square(A: Integers, b: list[int]) -> tuple[list[Fraction], str]:
    try:
        flint: Any = importlib.import_module("flint")
    except ImportError:
        return _solve_sympy(A, b), "sympy"
    size = len(A)
    flat = [entry for row in A for entry in row]
    found = flint.fmpz_mat(size, size, flat).solve(flint.fmpz_mat(size, 1, b))
    return [Fraction(int(x.p), int(x.q)) for x in found.entries()], "flint"


def _solve_sympy(A: Integers, b: list[int]) -> list[Fraction]:
    sympy: Any = importlib.import_module("sympy")
    matrices: Any = importlib.import_module("sympy.polys.matrices")
    ZZ, size = sympy.ZZ, len(A)
    left = matrices.DomainMatrix([[ZZ(x) for x in row] for row in A], (size, size), ZZ)
    right = matrices.DomainMatrix([[ZZ(x)] for x in b], (size, 1), ZZ)
    numerator, denominator = left.solve_den(right)
    return [Fraction(int(x), int(denominator)) for (x,) in numerator.to_list()]


def residual(
    K: Integers, t: Sequence[Fraction], w: list[Fraction], rows: Sequence[int] | None = None
) -> list[Fraction]:
    """`w − K t` on some rows, summed in integers over a common denominator."""
    common = math.lcm(*(value.denominator for value in t))
    numerators = [value.numerator * (common // value.denominator) for value in t]
    chosen = range(len(K)) if rows is None else rows
    return [w[row] - Fraction(sum(map(mul, K[row], numerators)), common) for row in chosen]
