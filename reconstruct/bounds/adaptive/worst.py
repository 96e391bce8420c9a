"""The worst bounds of linear functionals over a batch of leaves."""

from __future__ import annotations

import numpy as np

from reconstruct.bounds.adaptive.zonotope import Zonotope
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.rounding import SLACK, down, gamma, up


class Worst:
    """The bounds of functionals `forms·v + offsets`, at least those that were `seen` before.

    A leaf's zonotope is first taken with one interval per unit in place of its later symbols; the
    rows for which that is neither within what was seen nor within the worst of the batch so far are
    bounded again with every symbol. Both in float32, whose errors are small beside the symbols' own
    sums.
    """

    def __init__(self, forms: Array, offsets: Array, seen: Array) -> None:
        self.forms, self.offsets, self.size = forms, offsets, np.abs(forms)
        self.short = forms.astype(np.float32)
        self.short_size = up32(self.size)
        self.seen = seen

    def over(self, value: Zonotope, inputs: int) -> Range:
        """The bounds over the leaves of a zonotope, the first symbols of which are the inputs."""
        low, high = np.full(len(self.forms), np.inf), np.full(len(self.forms), -np.inf)
        with np.errstate(all="ignore"):
            lows, highs = self._coarse(value, inputs)
            for box in range(len(lows)):
                matters = lows[box] < np.minimum(self.seen[0], low)
                matters |= highs[box] > np.maximum(self.seen[1], high)
                rows = np.flatnonzero(matters)
                if len(rows):
                    fine = self._fine(value, box, rows)
                    lows[box, rows] = np.maximum(lows[box, rows], fine[0])
                    highs[box, rows] = np.minimum(highs[box, rows], fine[1])
                low, high = np.minimum(low, lows[box]), np.maximum(high, highs[box])
        return low, high

    def _coarse(self, value: Zonotope, inputs: int) -> Range:
        """`A c ± (|A G|·1 + |A| ρ)`, G the inputs' own symbols, ρ all others as an interval."""
        boxes, _, units = value.forms.shape
        rest = Zonotope(value.centre, value.forms[:, inputs:], value.radius).spread
        own = np.concatenate([value.centre[:, None], value.forms[:, :inputs]], axis=1)
        products = own.reshape(-1, units).astype(np.float32) @ self.short.T
        products = products.reshape(boxes, inputs + 1, -1)
        relative, lost = self._short_error(units + inputs, np.abs(own).sum(axis=1) * SLACK)
        reach = np.abs(own).sum(axis=1) * SLACK
        radius = up32(rest + relative * reach + lost[:, None]) @ self.short_size.T
        centre = products[:, 0].astype(np.float64)
        spread = np.abs(products[:, 1:]).sum(axis=1, dtype=np.float64)
        spread += radius * (SLACK + units * 2.0**-22) + lost[:, None]
        return self._ends(centre, spread, self.offsets)

    def _fine(self, value: Zonotope, box: int, rows: Array) -> Range:
        """The same with every symbol, for some rows on one leaf; in float64 if float32 overflows.

        With T = |c| + Σ|G| + radius the float64 sums err by at most γ_{m+s+8}·|A| T, s symbols.
        """
        symbols, units = value.forms.shape[1:]
        size, reach = self.size[rows], value.reach[box]
        products = np.abs(self.short[rows] @ value.forms[box].T.astype(np.float32))
        spread = products.sum(axis=1, dtype=np.float64)
        relative, lost = self._short_error(units + symbols, reach[None])
        if not np.isfinite(spread).all():
            spread = np.abs(self.forms[rows] @ value.forms[box].T).sum(axis=1)
            relative = 0.0
        error = (relative + gamma(units + symbols + 8)) * (size @ reach) * (SLACK * SLACK)
        spread = spread + size @ value.radius[box] * SLACK + error + lost
        return self._ends(self.forms[rows] @ value.centre[box], spread, self.offsets[rows])

    def _short_error(self, terms: int, reach: Array) -> tuple[float, Array]:
        """What casts to float32 and sums of products there lose, per unit of |A| T, and at least.

        Two casts and a sum of up to `terms` products err by (terms + 3)·2^-24 relative to the sum
        of magnitudes, for fewer than 2^22 terms; what underflows, below 2^-126, is far less than
        `terms`·2^-120·(1 + max|A| + max T) for all symbols together.
        """
        most = 1.0 + float(np.max(self.size, initial=0.0)) + reach.max(axis=1)
        return (terms + 8) * 2.0**-23 * SLACK, np.asarray(terms * 2.0**-120 * most)

    def _ends(self, centre: Array, spread: Array, offsets: Array) -> Range:
        """`centre ± spread + offsets`, rounded outward; ±inf where that is no number."""
        spread = up(spread * (1 + 2.0**-48))
        low = down(down(centre - spread) + offsets)
        high = up(up(centre + spread) + offsets)
        bad = ~(np.isfinite(low) & np.isfinite(high))
        return np.where(bad, -np.inf, low), np.where(bad, np.inf, high)


def up32(values: Array) -> Array:
    """float32 numbers that are at least as large."""
    with np.errstate(over="ignore"):
        near = values.astype(np.float32)
    return np.asarray(np.nextafter(near, np.float32(np.inf)))
