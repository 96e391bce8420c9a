"""Products of a matrix with a short vector, each entry exact until it is rounded once."""

from __future__ import annotations

from itertools import chain
from math import fsum

import numpy as np

from reconstruct.numbers.arrays import Array, Matrix, Vector, dense
from reconstruct.numbers.parallel import parallel_map

COLUMNS, LEADING = 2**21, 30  # of at most 2^22 products so many bits: sums are below 2^53
PIECES = 3  # floats that a sum of products may be made of


def exact_dot(matrix: Matrix, shift: Vector) -> Vector:
    """`matrix @ shift`, each entry correctly rounded, for a shift of at most 24 bits."""
    return np.array([fsum(row) for row in zip(*_sums(matrix, shift), strict=True)])


def exact_pieces(matrix: Matrix, shift: Vector) -> tuple[Vector, ...] | None:
    """A few vectors of float32 numbers whose sum is exactly `matrix @ shift`, the largest first;
    None if these are not enough."""
    left = [list(row) for row in zip(*_sums(matrix, shift), strict=True)]
    found: list[Vector] = []
    for _ in range(PIECES):
        with np.errstate(over="ignore"):
            near = np.array([fsum(row) for row in left]).astype(np.float32).astype(np.float64)
        if not np.isfinite(near).all():
            return None
        found.append(near)
        left = [[*row, -float(value)] for row, value in zip(left, near, strict=True)]
    return tuple(found) if all(fsum(row) == 0 for row in left) else None


def _sums(matrix: Matrix, shift: Vector) -> list[list[float]]:
    """Vectors whose sum is exactly `matrix @ shift`.

    Weights are split into halves of at most 27 bits, so that every product with a shift of at
    most 24 bits is exact in float64. The sum over some columns is kept as a few floats that are
    it exactly.
    """
    step = max(1, COLUMNS // matrix.shape[0])

    def added(start: int) -> list[Vector]:
        part = slice(start, start + step)
        rows, own = dense(matrix[:, part]), shift[part]
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is seen by its sum
            factor = rows * 134217729.0  # 2^27 + 1: Veltkamp's splitting
            high = factor - (factor - rows)
            return _exact_sums(np.concatenate([high * own, (rows - high) * own], axis=1))

    found = chain(*parallel_map(added, range(0, len(shift), step)))
    return [part.tolist() for part in found] or [[0.0] * matrix.shape[0]]


def _exact_sums(terms: Array) -> list[Vector]:
    """A few vectors whose sum is exactly that of the terms along their rows.

    The leading 30 bits of all terms of a row, on one scale, are integers whose sum is below 2^53;
    what is left of the terms is at most half of the scale's unit, and is summed likewise.
    """
    found: list[Vector] = []
    if not np.isfinite(terms).all():
        return [np.full(len(terms), np.nan)]
    while terms.any():
        scale = np.frexp(np.abs(terms).max(axis=1, keepdims=True))[1] - LEADING
        whole = np.rint(np.ldexp(terms, -scale))
        found.append(np.ldexp(whole.sum(axis=1), scale[:, 0]))
        terms = terms - np.ldexp(whole, scale)
    return found
