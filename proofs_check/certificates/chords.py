"""Slopes of chords: how an activation passes on the difference of two of its inputs.

f(ẑ) − f(z) = d (ẑ − z), d between the least and the largest slope of the pieces between z and ẑ.

Rests on proofs_check: carried-errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proofs_check.certificates.arithmetic import TINY, UNIT, Floats, above
from proofs_check.certificates.bends import Bend
from reconstruct.networks.activations import Line

ROOMY = 2.0**-30  # for up to 2^20 roundings of sums and products without a minus


def upper(x: Floats) -> Floats:
    """A non-negative expression of fewer than 2^20 roundings, from above."""
    with np.errstate(all="ignore"):
        return above(x * (1 + ROOMY) + 2.0**20 * TINY)


@dataclass(frozen=True, eq=False)
class Chords:
    """Slopes of chords on ranges (leaves, m): `middle` ± `radius`; off by `more` for each unit by
    which a chord leaves the range beyond `room`."""

    middle: Floats
    radius: Floats
    room: Floats
    more: Floats

    @classmethod
    def of(cls, bend: Bend | None, lo: Floats, hi: Floats) -> Chords:
        zero = np.zeros(lo.shape)
        if bend is None:
            return cls(np.ones(lo.shape), zero, zero, zero)
        lines = [piece for piece in bend.pieces if isinstance(piece, Line)]
        if len(lines) < len(bend.pieces):  # an exponential rises by anything up to the constant
            steep = np.full(lo.shape, bend.lipschitz)
            return cls(zero, steep, zero, zero)
        slopes = [piece.slope for piece in lines]
        small, large = np.full(lo.shape, np.inf), np.full(lo.shape, -np.inf)
        room = np.full(lo.shape, np.inf)
        with np.errstate(all="ignore"):
            for piece in lines:
                met = (hi > piece.lo) & (lo < piece.hi)
                small = np.where(met, np.minimum(small, piece.slope), small)
                large = np.where(met, np.maximum(large, piece.slope), large)
                away = np.where(lo >= piece.hi, lo - piece.hi, piece.lo - hi)
                room = np.where(met, room, np.minimum(room, np.maximum(away, 0.0)))
        unknown = ~(small <= large)
        small = np.where(unknown, min(slopes), small)
        large = np.where(unknown, max(slopes), large)
        middle = 0.5 * small + 0.5 * large
        radius = np.where(small == large, 0.0, above(np.maximum(large - middle, middle - small)))
        far = above(np.maximum(max(slopes) - middle, middle - min(slopes)))
        room = np.where(np.isnan(room), 0.0, room * (1 - 4 * UNIT))
        return cls(middle, radius, room, np.maximum(far - radius, 0.0) * (1 + 8 * UNIT))

    def noise(self, before: Floats, rows: slice) -> Floats:
        """What `middle` leaves out of an error of at most `before`, (leaves, m, modes)."""
        room = np.minimum(self.room[rows][..., None], before)
        beyond = np.where(np.isinf(before), np.inf, before - room)
        lost = np.where(self.more[rows][..., None] == 0, 0.0, self.more[rows][..., None] * beyond)
        kept = np.where(self.radius[rows][..., None] == 0, 0.0, self.radius[rows][..., None])
        return upper(np.where(kept == 0, 0.0, kept * before) + lost)
