"""Shifting hidden values into the piece of the activation that is a straight line.

The shift is the price of the theorem: it is added before the activation and taken away after it,
so its size decides the rounding error. It is kept as small as the bounds allow, plus a slack
that covers the rounding of gamma and of the layers before.

Rests on proofs_check: active-relu-is-identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from math import fsum, isfinite

import numpy as np

from reconstruct.errors import InputError
from reconstruct.networks import Matrix, Piece, dense
from reconstruct.numbers.arrays import Vector
from reconstruct.numbers.drawn import is_drawn
from reconstruct.numbers.in_order import in_order

SLACK = 2.0**-5  # of |A|·max|h|: room for the errors of a float32 evaluation, 3 % of the shift
ROOM = 2.0**-12  # the same for two layers: a thousand units of float32 and more, 0.02 %
LARGEST = 1e150  # products with weights of this size are still far from overflow
COLUMNS, LEADING = 2**21, 30  # of at most 2^22 products so many bits: sums are below 2^53
SHIFT_BITS = 16  # shifts keep 16 significant bits: their products with float32 weights are exact


@dataclass(frozen=True, eq=False)
class Placing:
    """`scale·z + shift` lies in the piece for all reachable z; `scale` is a power of two ≤ 1."""

    scale: float
    shift: Vector


def place(piece: Piece, lo: Vector, hi: Vector, magnitude: Vector, slack: float = SLACK) -> Placing:
    """Where to move functionals that lie in [lo, hi], so that the activation is linear on them.

    `magnitude` bounds the sum of the absolute terms of each functional; `slack` of it is kept free
    on either side. On a half-line only a shift is needed; on an interval the values are scaled
    down as well, by one power of two for all units.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        lower, upper = lo - slack * magnitude, hi + slack * magnitude
        reached = float(np.max(np.abs([lower, upper]), initial=0.0))
    if not reached < LARGEST:
        raise InputError(
            f"hidden values must stay below {LARGEST:.0e} to be shifted in float64, but their "
            f"bounds on this domain reach {reached:.0e}; use a smaller domain, or scale the target"
        )
    if not isfinite(piece.hi):
        return Placing(1.0, round_up(np.maximum(piece.lo - lower, 0.0)))
    room = (piece.hi - piece.lo) * (1 - 2.0**-8)
    widest = float(np.max(upper - lower, initial=0.0))
    scale = 1.0 if widest <= room else float(2.0 ** np.floor(np.log2(room / widest)))
    middle = (piece.lo + piece.hi) / 2 - scale * (lower + upper) / 2
    return Placing(scale, middle.astype(np.float32).astype(np.float64))


def round_up(values: Vector, bits: int = SHIFT_BITS) -> Vector:
    """Each value ≥ 0 rounded up to `bits` significant bits."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.ceil(np.ldexp(mantissa, bits)), exponent - bits))


def exact_dot(matrix: Matrix, shift: Vector) -> Vector:
    """`matrix @ shift`, each entry correctly rounded.

    Weights are split into halves of at most 27 bits, so that every product with a shift of at
    most 24 bits is exact in float64. The sum over some columns is kept as a few floats that are
    it exactly; `fsum` adds those of all columns exactly and rounds once.
    """
    step = max(1, COLUMNS // matrix.shape[0])

    def added(start: int) -> list[Vector]:
        part = slice(start, start + step)
        return _exact_sums(_exact_products(_columns(matrix, part), shift[part]))

    sums = list(chain(*in_order(added, range(0, len(shift), step))))
    return np.array([fsum(float(part[i]) for part in sums) for i in range(matrix.shape[0])])


def _columns(matrix: Matrix, part: slice) -> Vector:
    return dense(matrix.T[part]).T if is_drawn(matrix) else dense(matrix[:, part])


def _exact_products(rows: Vector, shift: Vector) -> Vector:
    """Numbers whose sums along the rows are those of the products, twice as many."""
    factor = rows * 134217729.0  # 2^27 + 1: Veltkamp's splitting
    high = factor - (factor - rows)
    return np.concatenate([high * shift, (rows - high) * shift], axis=1)


def _exact_sums(terms: Vector) -> list[Vector]:
    """A few vectors whose sum is exactly that of the terms along their rows.

    The leading 30 bits of all terms of a row, on one scale, are integers whose sum is below 2^53;
    what is left of the terms is at most half of the scale's unit, and is summed likewise.
    """
    found = []
    while terms.any():
        scale = np.frexp(np.abs(terms).max(axis=1, keepdims=True))[1] - LEADING
        whole = np.rint(np.ldexp(terms, -scale))
        found.append(np.ldexp(whole.sum(axis=1), scale[:, 0]))
        terms = terms - np.ldexp(whole, scale)
    return found
