"""Bounds of kernels that move over an image: the worst position of each row.

A box of a domain made of data has no width, or what rounding gives it on the way. With centre c and
radius r of what a window meets, by Cauchy and Schwarz,

    |w·h − fl(w·c)| ≤ ‖w‖ (‖r‖ + γ‖c‖),

which takes one matrix product where signed intervals take eight. Wider boxes are taken by these.
"""

from __future__ import annotations

import numpy as np

from reconstruct.bounds.propagation import Ranges
from reconstruct.networks import Dense
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.rounding import SLACK, TINY, gamma, midpoint

NARROW = 2.0**-20  # of the largest magnitude: boxes whose width is no more than rounding
NORM = 2.0**-536  # what the squares of tiny numbers lose, at most, of a norm of up to 2^40 numbers


def worst_position(ranges: Ranges, name: str, kernel: Array, index: Array) -> Range:
    """Bounds of `kernel · v[index]` over all boxes and positions, row by row, by intervals."""
    wide = np.ascontiguousarray(kernel, dtype=np.float64)
    op = Dense.over(wide)
    norms = _norms(wide, 1)
    low, high = np.full(len(wide), np.inf), np.full(len(wide), -np.inf)
    for lo, hi in zip(*ranges.values[name], strict=True):
        with np.errstate(all="ignore"):
            middle, radius = midpoint(lo, hi)
        if np.max(radius) <= NARROW * np.max(np.abs(middle)):  # never where it is not a number
            below, above = _narrow(
                wide, norms, gathered_at(middle, index), gathered_at(radius, index)
            )
        else:
            ends = op.image(gathered_at(lo, index).T, gathered_at(hi, index).T)
            below, above = ends[0].min(axis=0), ends[1].max(axis=0)
        low, high = np.minimum(low, below), np.maximum(high, above)
    return low, high


def _narrow(kernel: Array, norms: Array, middle: Array, radius: Array) -> Range:
    """Over all positions, for windows (columns × positions) that are known but for a radius."""
    columns = kernel.shape[1]
    with np.errstate(all="ignore"):
        centre = kernel @ middle
        far = _norms(radius, 0) + gamma(columns + 1) * SLACK * _norms(middle, 0)
        error = norms[:, None] * (far * SLACK) + 2 * columns * TINY
        below = (np.nextafter(centre - error, -np.inf)).min(axis=1)
        above = (np.nextafter(centre + error, np.inf)).max(axis=1)
    known = np.isfinite(below) & np.isfinite(above)
    return np.where(known, below, -np.inf), np.where(known, above, np.inf)


def _norms(values: Array, axis: int) -> Array:
    """Euclidean norms from above: SLACK covers the rounding of sum and root."""
    with np.errstate(all="ignore"):
        return np.asarray(np.sqrt((values * values).sum(axis=axis)) * SLACK + NORM)


def gathered_at(values: Array, index: Array) -> Array:
    """The values at these places, zeros where there is none."""
    return np.where(index >= 0, values[index], 0.0)
