"""The worst bounds of linear functionals over many leaves, a batch of zonotopes at a time."""

from __future__ import annotations

from threading import Lock

import numpy as np

from reconstruct.bounds.adaptive.zonotope import Zonotope
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.rounding import SLACK, TINY, down, gamma, up


class Worst:
    """The bounds of functionals over the leaves seen so far.

    A leaf's zonotope is first taken with one interval per unit in place of its later symbols, in
    float32; the rows for which that is neither within the samples nor within the worst found so
    far are bounded again with every symbol.
    """

    def __init__(self, forms: Array, offsets: Array, sampled: Array) -> None:
        self.forms, self.offsets, self.size = forms, offsets, np.abs(forms)
        self.short = forms.astype(np.float32)
        self.short_size = up32(self.size)
        self.low, self.high = np.full(len(forms), np.inf), np.full(len(forms), -np.inf)
        self.sampled = sampled
        self.lock = Lock()

    def add(self, value: Zonotope, inputs: int) -> None:
        """Joins the bounds on a batch of leaves."""
        with np.errstate(all="ignore"):
            low, high = self._coarse(value, inputs)
            matters = low < np.minimum(self.sampled[0], self.low)
            matters |= high > np.maximum(self.sampled[1], self.high)
            reach = np.abs(value.centre) + value.spread()
            for box in np.flatnonzero(matters.any(axis=1)):
                rows = np.flatnonzero(matters[box])
                fine = self._fine(value, reach[box], int(box), rows)
                low[box, rows] = np.maximum(low[box, rows], fine[0])
                high[box, rows] = np.minimum(high[box, rows], fine[1])
        with self.lock:
            self.low = np.minimum(self.low, low.min(axis=0))
            self.high = np.maximum(self.high, high.max(axis=0))

    def _coarse(self, value: Zonotope, inputs: int) -> Range:
        """`A c ± (|A G|·1 + |A| ρ)`, G the inputs' own symbols, ρ all others as an interval.

        Casting A, c and G to float32 and every sum err by at most γ·|A| T, T the largest values,
        with γ = (m + inputs + 8)·2^-23 for m units, and by a little where float32 underflows.
        """
        boxes, _, units = value.forms.shape
        rest = Zonotope(value.centre, value.forms[:, inputs:], value.radius).spread()
        own = np.concatenate([value.centre[:, None], value.forms[:, :inputs]], axis=1)
        products = own.reshape(-1, units).astype(np.float32) @ self.short.T
        products = products.reshape(boxes, inputs + 1, -1)
        reach = np.abs(own).sum(axis=1) * SLACK
        error = (units + inputs + 8) * 2.0**-23 * SLACK
        lost = 2.0**-120 * (1.0 + float(np.max(self.size, initial=0.0)) + reach.max(axis=1))
        radius = up32(rest + error * reach + units * lost[:, None]) @ self.short_size.T
        centre = products[:, 0].astype(np.float64)
        spread = np.abs(products[:, 1:]).sum(axis=1, dtype=np.float64) + radius * SLACK
        spread += (units * lost)[:, None]
        return self._ends(centre, spread, np.zeros(1), self.offsets)

    def _fine(self, value: Zonotope, reach: Array, box: int, rows: Array) -> Range:
        """The same in float64 with every symbol, for some rows on one leaf.

        With T = |c| + Σ|G| + radius the sums err by at most γ_{m+s+8}·|A| T, s symbols.
        """
        forms, size = self.forms[rows], self.size[rows]
        spread = np.abs(forms @ value.forms[box].T).sum(axis=1) + size @ value.radius[box]
        terms = sum(value.forms.shape[1:]) + 8
        error = gamma(terms) * (size @ reach) * (SLACK * SLACK) + 8 * terms * TINY
        return self._ends(forms @ value.centre[box], spread, error, self.offsets[rows])

    def _ends(self, centre: Array, spread: Array, error: Array, offsets: Array) -> Range:
        """`centre ± (spread + error) + offsets`, rounded outward; ±inf where it is no number."""
        spread = up(spread + error)
        low = down(down(centre - spread) + offsets)
        high = up(up(centre + spread) + offsets)
        bad = ~(np.isfinite(low) & np.isfinite(high))
        return np.where(bad, -np.inf, low), np.where(bad, np.inf, high)


def up32(values: Array) -> Array:
    """float32 numbers that are at least as large."""
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
    return np.asarray(np.nextafter(near, np.float32(np.inf)))
