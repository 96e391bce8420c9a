"""Rational linear systems in integers: scaling, independent rows and columns, the square solve.

Hidden unit `l` is scaled so that its weights are integers, which turns `K` into an integer matrix;
`s_l = scale_l t_l` with `K_int t = w`.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from fractions import Fraction
from operator import mul
from typing import Any

import numpy as np
import scipy.linalg as la

from reconstruct.numbers.residues import PRIMES, pivots_modulo

Rationals = list[list[Fraction]]
Integers = list[list[int]]


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
