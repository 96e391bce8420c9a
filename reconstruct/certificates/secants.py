"""Slopes of chords: how an activation passes on the difference of two inputs.

For z in a range and ẑ near it, f(ẑ) − f(z) = d·(ẑ − z) with d between the least and the largest
slope of the pieces that lie between them. On a range within one piece d is known.

Rests on proofs_check: carried-errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.networks import Activation
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.double_double import UNIT, upward


@dataclass(frozen=True, eq=False)
class Secants:
    """Slopes of chords of an activation on ranges: within `middle` ± `radius`, (leaves, m).

    A chord that leaves the range by more than `room` may be off by `more` for each unit beyond.
    """

    middle: Array
    radius: Array
    room: Array
    more: Array

    def noise(self, before: Array) -> Array:
        """What `middle` times an error of at most `before`, (leaves, m, modes), leaves out."""
        room = np.minimum(self.room[..., None], before)  # no less than nothing is beyond
        beyond = before - room
        return upward(self.radius[..., None] * before + self.more[..., None] * beyond)

    def off(self, before: Array) -> Array:
        """By how much slopes may differ from `middle`, for errors of at most `before`."""
        beyond = before > self.room[..., None]
        return upward(self.radius[..., None] + np.where(beyond, self.more[..., None], 0.0))

    def part(self, rows: slice) -> Secants:
        """The same on some leaves."""
        return Secants(*(a[rows] for a in (self.middle, self.radius, self.room, self.more)))


def secants(op: Activation | None, lo: Array, hi: Array) -> Secants:
    """The slopes of `op` (None: the identity) on the ranges `lo ≤ z ≤ hi`."""
    one, none = np.ones_like(lo), np.zeros_like(lo)
    if op is None:
        return Secants(one, none, none, none)
    lines = op.lines
    if not lines:  # an exponential rises by anything up to the constant
        return Secants(none, one * op.lipschitz, none, none)
    least, most = min(p.slope for p in lines), max(p.slope for p in lines)
    small, large = np.full_like(lo, np.inf), np.full_like(lo, -np.inf)
    room = np.full_like(lo, np.inf)
    for piece in lines:
        meets = (lo < piece.hi) & (hi > piece.lo)
        small = np.where(meets, np.minimum(small, piece.slope), small)
        large = np.where(meets, np.maximum(large, piece.slope), large)
        with np.errstate(invalid="ignore"):
            room = np.where((piece.hi <= lo), np.minimum(room, lo - piece.hi), room)
            room = np.where((piece.lo >= hi), np.minimum(room, piece.lo - hi), room)
    known = small <= large
    small, large = np.where(known, small, least), np.where(known, large, most)
    middle = (small + large) / 2
    radius = np.maximum(large - middle, middle - small)
    most_off = np.maximum(most - middle, middle - least)
    return Secants(middle, upward(radius), room * (1 - 2 * UNIT), upward(most_off - radius))
