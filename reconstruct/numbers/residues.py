"""Arithmetic modulo a prime: residues of floats, rank and pivots by elimination, all exact.

A float is a dyadic rational `a·2^b`, and for an odd prime p the map `a·2^b ↦ a·2^b mod p` is a
ring homomorphism. So a minor that is not zero modulo p is not zero: **full rank modulo p proves
full rank. Rank lost modulo p proves nothing**, since p may divide a minor that is not zero.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

PRIMES = (8388593, 8388587)  # the two largest below 2^23
BLOCK = 64  # exactness bound: a sum of 64 products of residues is below 64 · 2^46 = 2^52 < 2^53


def residues(matrix: Any, prime: int) -> Integers:
    """Each float `a·2^b` as `a·2^b mod p`, exactly."""
    fraction, exponent = np.frexp(np.asarray(matrix, dtype=np.float64))
    mantissa = np.ldexp(fraction, 53).astype(np.int64)  # an integer below 2^53: exact
    shift = exponent.astype(np.int64) - 53
    low = int(shift.min())
    powers = [pow(2, e, prime) for e in range(low, int(shift.max()) + 1)]
    power = np.array(powers, dtype=np.int64)[shift - low]
    return np.asarray((mantissa % prime) * power % prime)  # below 2^46: exact


def rank_modulo(A: Integers, prime: int) -> int:
    """Rank of a matrix of residues."""
    try:
        flint: Any = importlib.import_module("flint")
    except ImportError:
        return len(pivots_modulo(A, prime)[1])
    rows, columns = A.shape
    return int(flint.nmod_mat(rows, columns, A.ravel().tolist(), prime).rank())


def pivots_modulo(A: Integers, prime: int) -> tuple[list[int], list[int]]:
    """Independent rows and columns of a matrix modulo `prime`: `A[rows][:, columns]` is regular.

    Columns are taken greedily from the left. Right-looking block elimination; a panel has at most
    BLOCK columns, so that each float64 matrix product in it is an exact integer (see BLOCK).
    """
    if prime >= 1 << 23:
        raise ValueError(f"the exactness bound needs a prime below 2^23, but got {prime}")
    work = np.asarray(A % prime, dtype=np.float64)
    order = np.arange(len(work))
    columns: list[int] = []
    for start in range(0, work.shape[1], BLOCK):
        if len(columns) == len(work):
            break
        stop = min(start + BLOCK, work.shape[1])
        top = len(columns)
        panel, found = _eliminate_panel(work, order, top, start, stop, prime)
        _update_trailing(work, panel, top, stop, prime)
        columns.extend(found)
    return [int(row) for row in order[: len(columns)]], columns


def _eliminate_panel(
    work: Floats, order: Any, top: int, start: int, stop: int, prime: int
) -> tuple[Floats, list[int]]:
    """Unblocked elimination of columns `start:stop` below row `top`.

    Returns the multipliers (unit lower trapezoidal, one column per pivot) and the pivot columns;
    rows are swapped in `work` and `order`.
    """
    multipliers = np.zeros((len(work) - top, stop - start))
    found: list[int] = []
    for column in range(start, stop):
        row = top + len(found)
        if row == len(work):
            break
        candidates = np.flatnonzero(work[row:, column])
        if not candidates.size:
            continue
        other = row + int(candidates[0])
        work[[row, other]] = work[[other, row]]
        order[[row, other]] = order[[other, row]]
        multipliers[[row - top, other - top]] = multipliers[[other - top, row - top]]
        inverse = pow(int(work[row, column]), -1, prime)
        factor = _mod(work[row + 1 :, column] * inverse, prime)
        multipliers[row - top, len(found)] = 1.0
        multipliers[row + 1 - top :, len(found)] = factor
        rest = slice(column, stop)
        below = work[row + 1 :, rest]
        below -= np.outer(factor, work[row, rest])
        work[row + 1 :, rest] = _mod(below, prime)
        found.append(column)
    return multipliers[:, : len(found)], found


def _update_trailing(work: Floats, panel: Floats, top: int, stop: int, prime: int) -> None:
    """`U12 = L11⁻¹ A12`, then `A22 ← A22 − L21 U12`, modulo `prime`."""
    count = panel.shape[1]
    if count == 0 or stop == work.shape[1]:
        return
    trailing = work[top:, stop:]
    for i in range(1, count):
        trailing[i] = _mod(trailing[i] - panel[i, :i] @ trailing[:i], prime)
    trailing[count:] = _mod(trailing[count:] - panel[count:] @ trailing[:count], prime)


def _mod(x: Floats, prime: int) -> Floats:
    """`x mod prime` in [0, prime), for integers |x| ≤ 2^53 − 2·prime held in float64.

    The quotient by floor is off by at most one, and within this bound its product with `prime` is
    exact, so one correction either way is enough. Elimination stays below 2^52 + 2^23.
    """
    x = x - np.floor(x * (1.0 / prime)) * prime
    x += np.where(x < 0, prime, 0)
    x -= np.where(x >= prime, prime, 0)
    return x
