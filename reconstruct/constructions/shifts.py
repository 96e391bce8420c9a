"""Shifting hidden values into the piece of the activation that is a straight line.

The shift is the price of the theorem: it is added before the activation and taken away after it,
so its size decides the rounding error. It is kept as small as the bounds allow, plus a slack
that covers the rounding of gamma and of the layers before.

Rests on proofs_check: active-relu-is-identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np

from reconstruct.errors import InputError
from reconstruct.networks import Piece
from reconstruct.numbers.arrays import Vector

SLACK = 2.0**-5  # of |A|·max|h|: room for the errors of a float32 evaluation, 3 % of the shift
ROOM = 2.0**-12  # the same for two layers: a thousand units of float32 and more, 0.02 %
LARGEST = 1e150  # products with weights of this size are still far from overflow
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
