"""The worst bounds of linear functionals over a batch of leaves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reconstruct.bounds.adaptive.zonotope import Zonotope
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.rounding import SLACK, down, gamma, up

TINY = 2.0**-100  # far below all that matters, far above what underflows in float32


class Worst:
    """The bounds of functionals `forms·v + offsets`, at least those that were `seen` before.

    A leaf's zonotope is first taken by its lengths: with w_e = ‖G_e‖ for the symbol e, S = Σ w_e,

        Σ_e |a·G_e| ≤ √S √(Σ_e (a·G_e)²/w_e) = ‖a‖ S √(u·C u),   C = Σ_e G_e G_eᵀ/(w_e S),

    and u = a/‖a‖, by Cauchy and Schwarz: one product with a matrix as small as the value itself,
    and for random rows a quarter too much. The rows for which that is neither within what was seen
    nor within the worst of the batch so far are bounded again with every symbol; where there are
    no more symbols than units, all of them at once. Both in float32, whose errors are small beside
    the symbols' own sums.
    """

    def __init__(self, forms: Array, offsets: Array, seen: Array) -> None:
        self.forms, self.offsets, self.size = forms, offsets, np.abs(forms)
        self.lengths = np.maximum(lengths_of(forms), TINY)
        with np.errstate(all="ignore"):
            self.short = forms.astype(np.float32)
            self.directions = (forms / self.lengths[:, None]).astype(np.float32)
        self.seen = seen

    def over(self, value: Zonotope) -> Range:
        """The bounds over the leaves of a zonotope."""
        low, high = np.full(len(self.forms), np.inf), np.full(len(self.forms), -np.inf)
        with np.errstate(all="ignore"):
            shapes = _shapes(value.forms) if by_length_pays(value) else None
            sums = self._sums(value, slice(None), slice(None)) if shapes is None else ()
            for box in range(len(value.forms)):
                if shapes is None:
                    lows, highs = self._fine(value, box, slice(None), [s[:, box] for s in sums])
                else:
                    known = np.minimum(self.seen[0], low), np.maximum(self.seen[1], high)
                    lows, highs = self._beyond(known, value, box, shapes[0][box], shapes[1][box])
                low, high = np.minimum(low, lows), np.maximum(high, highs)
        return low, high

    def on_each(self, value: Zonotope) -> Range:
        """The bounds on every leaf by itself, (leaves, rows): by lengths where there are
        more symbols than units, else with every symbol."""
        boxes = range(len(value.forms))
        with np.errstate(all="ignore"):
            if by_length_pays(value):
                shapes, spans = _shapes(value.forms)
                found = [self._by_length(value, i, shapes[i], spans[i]) for i in boxes]
            else:
                sums = self._sums(value, slice(None), slice(None))
                every = slice(None)
                found = [self._fine(value, i, every, [s[:, i] for s in sums]) for i in boxes]
        return np.stack([low for low, _ in found]), np.stack([high for _, high in found])

    def _beyond(self, known: Range, value: Zonotope, box: int, shape: Array, span: float) -> Range:
        """By its lengths on one leaf, and with every symbol for the rows that then are not within
        what is known."""
        lows, highs = self._by_length(value, box, shape, span)
        rows = np.flatnonzero(~(lows >= known[0]) | ~(highs <= known[1]))
        if len(rows):
            fine = self._fine(value, box, rows, self._sums(value, box, rows))
            lows[rows] = np.maximum(lows[rows], fine[0])
            highs[rows] = np.minimum(highs[rows], fine[1])
        return lows, highs

    def _by_length(self, value: Zonotope, box: int, shape: Array, span: float) -> Range:
        """`a·c ± ‖a‖(S √(u·C u + ε) + ‖radius‖)` on one leaf, with what float32 loses.

        The trace of C is at most 1, so that |u|·|C||u| ≤ 1: two sums of m products and three casts
        err by less than ε = (2m + 32)·2^-23 in all, underflow included, and the cosine of a and c
        by less than that.
        """
        lost = (2 * len(shape) + 32) * 2.0**-23
        square = np.einsum("ij,ij->i", self.directions @ shape, self.directions)
        square = np.maximum(square.astype(np.float64), 0.0) + lost
        far, radius = (float(lengths_of(end[box])) for end in (value.centre, value.radius))
        cosine = self.directions @ (value.centre[box] / far).astype(np.float32)
        spread = self.lengths * (span * np.sqrt(square) + radius + lost * far) * SLACK
        return self._ends(self.lengths * far * cosine, spread, self.offsets)

    def _sums(
        self, value: Zonotope, boxes: int | slice, rows: Array | slice
    ) -> tuple[Array, Array, Array]:
        """`A c`, `|A| T` and `|A| radius` of some rows, on one leaf or on all at once."""
        ends = (value.centre[boxes].T, value.reach[boxes].T, value.radius[boxes].T)
        size = self.size[rows]
        return self.forms[rows] @ ends[0], size @ ends[1], size @ ends[2]

    def _fine(self, value: Zonotope, box: int, rows: Array | slice, sums: Sequence[Array]) -> Range:
        """The same with every symbol, for some rows on one leaf; in float64 if float32 overflows.

        With T = |c| + Σ|G| + radius the float64 sums err by at most γ_{m+s+8}·|A| T, s symbols.
        """
        forms = value.forms[box]
        forms = forms[forms.any(axis=1)]  # leaves of one batch differ in how many units bend
        symbols, units = forms.shape
        middle, total, radius = sums
        products = np.abs(self.short[rows] @ forms.T.astype(np.float32))
        spread = products.sum(axis=1, dtype=np.float64)
        relative, lost = self._short_error(units + symbols, value.reach[box][None])
        if not np.isfinite(spread).all():
            spread = np.abs(self.forms[rows] @ forms.T).sum(axis=1)
            relative = 0.0
        error = (relative + gamma(units + symbols + 8)) * total * (SLACK * SLACK)
        spread = spread + radius * SLACK + error + lost
        return self._ends(middle, spread, self.offsets[rows])

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


def by_length_pays(value: Zonotope) -> bool:
    """Whether there are more symbols than units, so that lengths take fewer products."""
    _, symbols, units = value.forms.shape
    return bool(symbols > units)


def lengths_of(rows: Array) -> Array:
    """Euclidean lengths of rows, from above and never 0; squares that underflow are made up for."""
    terms = rows.shape[-1]
    with np.errstate(all="ignore"):
        squares = np.einsum("...i,...i->...", rows, rows) + terms * 2.0**-1022
        return np.asarray(up(np.sqrt(squares) * (1 + (terms + 8) * 2.0**-52)))


def _shapes(forms: Array) -> tuple[Array, Array]:
    """C of every leaf in float32 (leaves, m, m), and S from above (leaves,)."""
    lengths = lengths_of(forms)
    span = up(lengths.sum(axis=1) * (1 + (forms.shape[1] + 4) * 2.0**-52))
    scaled = forms / np.sqrt(lengths * span[:, None])[:, :, None]
    return np.matmul(scaled.transpose(0, 2, 1), scaled).astype(np.float32), span
