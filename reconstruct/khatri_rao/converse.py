"""What no γ, β can do: a lower bound for the error of two frozen layers, with its exact proof.

    f(x) = s2 ∘ M2 σ(s∘(M1 x) + t) + t2        any s, t, t2, any σ unit by unit, kinks included

If |f − (W x + b)| ≤ e on a box of half-widths r, then the mean of ∂_j f_i over the box is
s2_i (M2 diag(s̄) M1)_ij for one s̄, and within e/r_j of W_ij. So with K s = M2 diag(s) M1,

    e ≥ min over s̄ of max_ij |s2_i| r_j |W_ij/s2_i − (K s̄)_ij|,

a linear program. A solution Y of its dual, Kᵀ Y = 0, proves it without the program:

    e ≥ |Σ Y_ij W_ij/s2_i| / Σ |Y_ij|/(|s2_i| r_j)

for every such Y, however it was found. The program's Y is rounded and put into the null space
of Kᵀ over the rationals; scaled by a common denominator it is a matrix of integers.

Rests on proofs_check: averaged-derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import linprog

from reconstruct.errors import InputError
from reconstruct.khatri_rao.solvers.exact import independent, integer_matrix, residual, solve_basis
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.exact import RationalInterval, float_beside, rationals

WIDEST = 512  # hidden units: the null space of so many equations takes a minute over the rationals
NOTHING = 1e-9  # of the target's own reach: what the program cannot tell from 0

Entry = tuple[int, int, int]  # row, column and value of Y


@dataclass(frozen=True)
class LowerBound:
    """`bound` ≤ sup |f − g|, the float below the rational number that `dual` proves."""

    bound: float
    dual: tuple[Entry, ...]


def lower_bound(
    M1: Array, M2: Array, W: list[list[Fraction]], r: list[Fraction], c: list[RationalInterval]
) -> LowerBound:
    """The bound of the module's text: `c` encloses 1/s2, inputs with r = 0 say nothing."""
    units = M1.shape[0]
    if units > WIDEST:
        raise InputError(
            f"a lower bound is proved over the rationals for at most {WIDEST} hidden units, but "
            f"the frozen network has {units}; ask for a smaller one"
        )
    wide = [j for j, half in enumerate(r) if half > 0]
    if not wide:
        return LowerBound(0.0, ())
    inverse = np.array([float((low + high) / 2) for low, high in c])
    wanted = np.array([[float(row[j]) for j in wide] for row in W]) * inverse[:, None]
    reach = np.array([float(r[j]) for j in wide]) / np.abs(inverse)[:, None]
    found = _program(M1[:, wide], M2, wanted, reach)
    if found is None:
        return LowerBound(0.0, ())
    numbers = _in_null_space(M1[:, wide], M2, found)
    dual = tuple(
        (index // len(wide), wide[index % len(wide)], value)
        for index, value in enumerate(numbers)
        if value
    )
    return LowerBound(float_beside(proved_by(dual, W, r, c), up=False), dual)


def _program(M1: Array, M2: Array, W: Array, reach: Array) -> Array | None:
    """Y of the linear program in floats, m × k; None where its value is 0."""
    m, k, n = len(M2), M1.shape[1], len(M1)
    K = (M2[:, None, :] * M1.T[None]).reshape(m * k, n) * reach.reshape(-1, 1)
    right = (W * reach).ravel()
    size = float(np.max(np.abs(right), initial=0.0))
    if size == 0:
        return None
    norms = np.linalg.norm(K, axis=0)
    K = K / np.where(norms > 0, norms, 1.0)
    ones = np.ones((m * k, 1))
    found: Any = linprog(
        np.append(np.zeros(n), 1.0),
        A_ub=np.block([[-K, -ones], [K, -ones]]),
        b_ub=np.append(-right, right) / size,
        bounds=[(None, None)] * n + [(0.0, None)],
        method="highs",
    )
    if found.x is None or not found.fun > NOTHING:
        return None
    up, down = np.split(-np.asarray(found.ineqlin.marginals), 2)
    return np.asarray((up - down).reshape(m, k) * reach)


def _in_null_space(M1: Array, M2: Array, near: Array) -> list[int]:
    """Integers Y with Kᵀ Y = 0 exactly, next to a multiple of `near`.

    A corner of the program has hardly more entries than there are units, so that all but one of
    them follow from the equations. The rest is rounded and kept; where the entries of `near` alone
    admit no solution, all entries take part.
    """
    K, _ = integer_matrix(rationals(M1), rationals(M2))
    flat = near.ravel() / float(np.max(np.abs(near)))
    for support in (np.flatnonzero(np.abs(flat) > NOTHING), np.arange(flat.size)):
        system = K[support].T
        rows, basis = independent(system)
        values = rationals(np.rint(flat[support] * 2.0**40) * 2.0**-40)
        ones, zeros = np.ones(len(support), dtype=object), rationals(np.zeros(len(system)))
        t = solve_basis(system, ones, zeros, rows, basis, values)
        if t.any() and not residual(system, t, zeros).any():
            break
    else:
        return [0] * flat.size
    common = math.lcm(*(value.denominator for value in t))
    whole = [int(value * common) for value in t]
    factor = math.gcd(*whole)
    found = [0] * flat.size
    for index, value in zip(support, whole, strict=True):
        found[int(index)] = value // factor
    return found


def proved_by(
    dual: Sequence[Entry], W: list[list[Fraction]], r: list[Fraction], c: list[RationalInterval]
) -> Fraction:
    """|Σ Y_ij c_i W_ij| / Σ |Y_ij| |c_i|/r_j, at least, for all c in their intervals."""
    kept, size = [Fraction(0)] * len(W), Fraction(0)
    for i, j, value in dual:
        kept[i] += value * W[i][j]
        size += abs(value) * max(map(abs, c[i])) / r[j]
    ends = [(low * part, high * part) for part, (low, high) in zip(kept, c, strict=True)]
    least, most = sum(map(min, ends)), sum(map(max, ends))
    return max(least, -most, Fraction(0)) / size if size else Fraction(0)


def expressible(M1: Array, M2: Array, update: Array) -> float:
    """What is left of an update of W, relative to it, when the best K s is taken away."""
    K = (M2[:, None, :] * M1.T[None]).reshape(update.size, len(M1))
    s = np.linalg.lstsq(K, update.ravel(), rcond=None)[0]
    return float(np.linalg.norm(update.ravel() - K @ s) / np.linalg.norm(update))
