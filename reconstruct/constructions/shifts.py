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
from reconstruct.numbers.arrays import Array, Vector

LARGEST = 1e150  # products with weights of this size are still far from overflow


@dataclass(frozen=True, eq=False)
class Shift:
    """`scale·z + shift` lies in the piece for all reachable z; `scale` is a power of two ≤ 1."""

    scale: float
    shift: Vector

    @property
    def largest(self) -> float:
        """The largest shift."""
        return float(np.max(np.abs(self.shift), initial=0.0))


def find_shift(
    piece: Piece, lo: Vector, hi: Vector, magnitude: Vector, slack: float = 2.0**-5
) -> Shift:
    """Where to move functionals that lie in [lo, hi], so that the activation is linear on them.

    `magnitude` bounds the sum of the absolute terms of each functional; `slack` of it is kept free
    on either side, for the errors of a float32 evaluation. 2^-5 is about 7 % of the shifts; with
    2^-12 the float32 errors of ACAS Xu, HCAS and digits were smaller by a factor of 1.2 at most,
    and what is proved of them larger by orders of magnitude.
    On a half-line only a shift is needed; on an interval the values are scaled down as well, by
    one power of two for all units.
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
        return Shift(1.0, round_up(np.maximum(piece.lo - lower, 0.0)))
    width = (piece.hi - piece.lo) * (1 - 2.0**-8)
    widest = float(np.max(upper - lower, initial=0.0))
    scale = 1.0 if widest <= width else float(2.0 ** np.floor(np.log2(width / widest)))
    middle = (piece.lo + piece.hi) / 2 - scale * (lower + upper) / 2
    return Shift(scale, middle.astype(np.float32).astype(np.float64))


def cancelling(M2: Array, least: Vector, steps: int = 12) -> Vector:
    """Shifts x ≥ `least` whose sum M2 x behind the second map is small.

    The second norm takes M2 x away again, and its beta is rounded by half a unit of that sum: a
    constant error of every output, the largest of all in real arithmetic. Raised by

        x = t + max(0, −C⁻¹ M2ᵀ μ),      C = diag ‖M2[:, l]‖²,

    half of the units take part, whichever μ is, so that M2 x moves by about −(n/2m) μ for weights
    that are drawn: a few steps find the μ for which nothing is left. `least` itself where the steps
    do not end so, as with few units to each output.
    """
    m, n = M2.shape
    squares = np.einsum("ij,ij->j", M2, M2)
    weights = M2 / np.where(squares > 0, squares, 1.0)
    mu, shift = np.zeros(m), least
    for _ in range(steps):
        mu = mu + (2 * m / n) * (M2 @ shift)
        shift = least + np.maximum(-(mu @ weights), 0.0)
    smaller = np.linalg.norm(M2 @ shift) < 0.1 * np.linalg.norm(M2 @ least)
    return shift if smaller and np.max(shift) < 2 * np.max(least) else least


def round_up(values: Vector, bits: int = 16) -> Vector:
    """Each value ≥ 0 rounded up to `bits` significant bits: products of 16 bits with float32
    weights are exact in float64."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.ceil(np.ldexp(mantissa, bits)), exponent - bits))
