"""Rank modulo a prime, exactly: block elimination in numpy, or python-flint when it is there.

Exactness of the float64 products: entries are below PRIME < 2^23 and a block has 64 columns, so
every sum of products stays below 64 · 2^46 = 2^52 < 2^53.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

PRIME = 8_388_593
"""The largest prime below 2^23."""

BLOCK = 64

Residues = npt.NDArray[np.int64]


def flint_available() -> bool:
    """Whether python-flint can be imported."""
    return find_spec("flint") is not None


def rank(A: Residues, prime: int = PRIME, use_flint: bool | None = None) -> int:
    """Rank of A modulo `prime`; `use_flint` None means: when it is installed.

    The rank over the integers (or, at a random point, the generic rank) is never smaller, so full
    rank here is a proof; a smaller rank here proves nothing.
    """
    if flint_available() if use_flint is None else use_flint:
        return _rank_by_flint(A, prime)
    if prime > PRIME:
        raise ValueError(f"prime must be at most {PRIME} for exact blocks, but is {prime}")
    return _rank_by_blocks(np.asarray(A % prime, dtype=np.float64), prime)


def _rank_by_flint(A: Residues, prime: int) -> int:
    flint = import_module("flint")
    rows, columns = A.shape
    return int(flint.nmod_mat(rows, columns, (A % prime).ravel().tolist(), prime).rank())


def _rank_by_blocks(A: npt.NDArray[np.float64], prime: int) -> int:
    """Right-looking elimination: a panel of 64 columns, then one product for all that follows."""
    found = 0
    while A.shape[0] and A.shape[1]:
        panel, rest = A[:, :BLOCK].astype(np.int64), A[:, BLOCK:]
        order, size, multipliers = _eliminate(panel, prime)
        found += size
        top, below = rest[order[:size]], rest[order[size:]]
        upper = _modulo(_unit_lower_inverse(multipliers[:size], prime) @ top, prime)
        A = _modulo(below - multipliers[size:] @ upper, prime)
    return found


def _eliminate(
    panel: Residues, prime: int
) -> tuple[npt.NDArray[np.int64], int, npt.NDArray[np.float64]]:
    """Row order, number of pivots and multipliers (rows × pivots) that clear a panel."""
    rows, columns = panel.shape
    order = np.arange(rows)
    multipliers = np.zeros((rows, min(rows, columns)), dtype=np.int64)
    size = 0
    for j in range(columns):
        below = np.flatnonzero(panel[size:, j])
        if not below.size:
            continue
        swap = [size + int(below[0]), size]
        for array in (order, panel, multipliers):
            array[swap[::-1]] = array[swap]
        inverse = pow(int(panel[size, j]), -1, prime)
        factor = panel[size + 1 :, j] * inverse % prime
        panel[size + 1 :] = (panel[size + 1 :] - factor[:, None] * panel[size]) % prime
        multipliers[size + 1 :, size] = factor
        size += 1
        if size == rows:
            break
    return order, size, multipliers[:, :size].astype(np.float64)


def _unit_lower_inverse(lower: npt.NDArray[np.float64], prime: int) -> npt.NDArray[np.float64]:
    """Inverse modulo prime of the unit lower triangular matrix with these multipliers."""
    inverse = np.eye(len(lower))
    for i in range(1, len(lower)):
        inverse[i, :i] = _modulo(-(lower[i, :i] @ inverse[:i, :i]), prime)
    return inverse


def _modulo(A: npt.NDArray[np.float64], prime: int) -> npt.NDArray[np.float64]:
    """A mod prime for integers |A| < 2^53: the quotient is off by at most one, then put right."""
    A = A - prime * np.floor(A * (1.0 / prime))
    A[A < 0] += prime
    A[prime <= A] -= prime
    return A


def ranks(batch: Residues, prime: int = PRIME) -> Residues:
    """Ranks modulo prime of many small matrices at once: batch (count × rows × columns)."""
    A = np.array(batch % prime)
    count, rows, columns = A.shape
    every, found = np.arange(count), np.zeros(count, dtype=np.int64)
    place = np.arange(rows)
    for j in range(columns):
        usable = (A[:, :, j] != 0) & (place >= found[:, None])
        live = usable.any(axis=1)
        pivot = np.where(live, usable.argmax(axis=1), 0)
        target = np.where(live, np.minimum(found, rows - 1), 0)
        swapped = A[every, pivot].copy()
        A[every, pivot] = np.where(live[:, None], A[every, target], swapped)
        A[every, target] = np.where(live[:, None], swapped, A[every, target])
        right = A[:, :, j:]  # what lies left of it is zero where it is still looked at
        lead, factor = A[every, target, j], A[:, :, j]
        cleared = (
            right * lead[:, None, None] - factor[:, :, None] * right[every, target][:, None, :]
        ) % prime
        below = live[:, None] & (place > target[:, None])
        A[:, :, j:] = np.where(below[:, :, None], cleared, right)
        found += live
    return found
