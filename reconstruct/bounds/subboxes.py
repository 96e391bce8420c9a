"""A grid of sub-boxes that covers the box, cut finest where the network varies most."""

from __future__ import annotations

import numpy as np

from reconstruct.bounds.methods import Split
from reconstruct.networks.box import Box
from reconstruct.networks.graph import Network
from reconstruct.numbers.arrays import Array

PROBES = 16  # base points at which the effect of a coordinate is measured


def grid(network: Network, box: Box, method: Split) -> tuple[int, ...]:
    """How many parts along each coordinate; 1 where the box has no width or no finite one.

    Without `parts`, the coordinate whose piece has the largest effect is cut once more as long as
    the grid stays within the budget. The choice is a guess that decides tightness only.
    """
    with np.errstate(over="ignore"):
        width = box.hi - box.lo
    usable = (width > 0) & np.isfinite(width)
    if method.parts is not None:
        return tuple(np.where(usable, method.parts, 1).tolist())
    parts = np.ones(box.size, dtype=np.int64)
    effect = np.where(usable, _effects(network, box), 0.0)
    while True:
        piece = effect / parts
        fits = (np.prod(parts) // parts) * (parts + 1) <= method.budget
        piece = np.where(fits, piece, 0.0)
        best = int(np.argmax(piece))
        if piece[best] <= 0:
            return tuple(parts.tolist())
        parts[best] += 1


def _effects(network: Network, box: Box) -> Array:
    """The mean change of the output, in units of its spread, as each coordinate crosses the box."""
    rng = np.random.default_rng(0)
    base = box.sample(PROBES, rng)
    with np.errstate(all="ignore"):
        spread = np.ptp(network(base), axis=0)
        effects = []
        for i in range(box.size):
            ends = []
            for side in (box.lo, box.hi):
                moved = base.copy()
                moved[:, i] = side[i]
                ends.append(network(moved))
            change = np.abs(ends[1] - ends[0]).mean(axis=0)
            effects.append(np.sum(change / np.where(spread > 0, spread, 1.0)))
    found = np.array(effects)
    found = np.where(np.isfinite(found), found, 0.0)
    return np.asarray(found + 1e-9 * max(1e-290, float(found.max())))


def sub_boxes(box: Box, parts: tuple[int, ...]) -> tuple[Array, Array]:
    """The grid's boxes as two arrays (boxes, size)."""
    cells = list(box.split(parts))
    return np.stack([c.lo for c in cells]), np.stack([c.hi for c in cells])
