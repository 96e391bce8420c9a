"""The worst bound of linear forms over many boxes, without bounding every form on every box.

The bound over the union of the boxes is the smallest of the boxes' lower bounds. Intervals give
a quick lower bound of each; only the boxes whose quick bound is below the best sharp one found
so far can matter, so the sharp bound is computed for the lowest first, and stops there.
"""

from __future__ import annotations

import numpy as np

from reconstruct.bounds.interval import affine
from reconstruct.bounds.propagation import TILE_ELEMENTS, Ranges
from reconstruct.numbers.arrays import Array, Range

FIRST = 4  # boxes per form in the first round; twice as many in each round that follows


def worst_functionals(ranges: Ranges, name: str, forms: Array, offsets: Array) -> Range:
    """Bounds of `forms·v + offsets` over all boxes together, as a batch of one: (1, rows)."""
    quick_lo, quick_hi = affine(forms, offsets, *ranges.values[name])
    if name == ranges.network.source or not ranges.transfers:
        return quick_lo.min(axis=0)[None], quick_hi.max(axis=0)[None]
    lo = _worst(ranges, name, forms, offsets, quick_lo)
    hi = -_worst(ranges, name, -forms, -offsets, -quick_hi)
    return lo[None], hi[None]


def _worst(ranges: Ranges, name: str, forms: Array, offsets: Array, quick: Array) -> Array:
    """The smallest over boxes of max(quick, sharp), for each row; `quick` is (boxes, rows)."""
    bounds = quick.T.copy()
    sharp = np.zeros(bounds.shape, dtype=bool)
    active, count = np.arange(len(forms)), FIRST
    while active.size:
        rows, boxes = _lowest(bounds, sharp, active, count)
        found = _sharpen(ranges, name, forms[rows], offsets[rows], boxes)
        bounds[rows, boxes] = np.maximum(bounds[rows, boxes], found)
        sharp[rows, boxes] = True
        lowest = bounds[active].argmin(axis=1)
        active = active[~sharp[active, lowest]]
        count *= 2
    return np.asarray(bounds.min(axis=1))


def _lowest(bounds: Array, sharp: Array, rows: Array, count: int) -> tuple[Array, Array]:
    """Pairs (row, box): for each row, those of its `count` lowest boxes that are not sharp."""
    part = bounds[rows]
    if count < part.shape[1]:
        boxes = np.argpartition(part, count - 1, axis=1)[:, :count]
    else:
        boxes = np.broadcast_to(np.arange(part.shape[1]), part.shape)
    pairs = np.repeat(rows, boxes.shape[1]), boxes.ravel()
    fresh = ~sharp[pairs]
    return pairs[0][fresh], pairs[1][fresh]


def _sharpen(ranges: Ranges, name: str, forms: Array, offsets: Array, boxes: Array) -> Array:
    """The CROWN lower bound of each form on its own box, a tile of pairs at a time."""
    step = max(1, TILE_ELEMENTS // max(ranges.network.sizes.values()))
    found = np.empty(len(forms))
    for start in range(0, len(forms), step):
        part = slice(start, start + step)
        low = ranges.lower({name: forms[part][:, None]}, offsets[part][:, None], boxes[part])
        found[part] = low[:, 0]
    return found
