"""The worst bounds of linear functionals over a batch of leaves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reconstruct.bounds.adaptive.zonotope import Zonotope
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.rounding import SLACK, TINY, gamma, up

FIRST = 8  # leaves that are bounded with every symbol where nothing was seen
PROBED, MOST = 64, 0.6  # rows that tell how many are beyond what was seen; too many for lengths
LEAST = 2.0**-100  # far below all that matters, far above what underflows in float32
MOST_ENTRIES = 2**17  # of a product with symbols in float32: half a MiB, so that it stays in cache


@dataclass(frozen=True, eq=False)
class Symbols:
    """A zonotope as functionals take it: on each leaf its symbols G in float32, without those that
    are zero there; `counts` says how many are left."""

    value: Zonotope
    short: tuple[Array, ...]
    counts: Array

    @classmethod
    def of(cls, value: Zonotope) -> Symbols:
        there = np.asarray(
            value.forms.any(axis=2)
        )  # leaves of one batch differ in how many units bend
        with np.errstate(all="ignore"):
            short = [f[some].astype(np.float32) for f, some in zip(value.forms, there, strict=True)]
        return cls(value, tuple(short), np.array([len(f) for f in short]))

    @cached_property
    def shapes(self) -> Range:
        """C (leaves, m, m) and S (leaves,) of `Worst`."""
        with np.errstate(all="ignore"):
            return shapes_of(self.value.forms)


@dataclass(frozen=True, eq=False)
class _Sums:
    """`A c`, `|A| T` and `|A| radius`, each (leaves, rows); T = |c| + Σ|G| + radius."""

    middle: Array
    total: Array
    radius: Array


class Worst:
    """The bounds of functionals `forms·v + offsets`, at least those that were `seen` before.

    A leaf's zonotope is first taken by its lengths: with w_e = ‖G_e‖ for the symbol e, S = Σ w_e,

        Σ_e |a·G_e| ≤ √S √(Σ_e (a·G_e)²/w_e) = ‖a‖ S √(u·C u),   C = Σ_e G_e G_eᵀ/(w_e S),

    and u = a/‖a‖, by Cauchy and Schwarz: one product with a matrix as small as the value itself,
    and for random rows a quarter too much. The rows for which that is not within what was seen, or
    the first leaves, are bounded again with every symbol; where there are no more symbols than
    units, all of them at once. Both in float32, whose errors are small beside the symbols' own
    sums.
    """

    def __init__(self, forms: Array, offsets: Array, seen: Array) -> None:
        self.forms, self.offsets, self.size = forms, offsets, np.abs(forms)
        self.most = float(np.max(self.size, initial=0.0))
        with np.errstate(all="ignore"):
            self.short = forms.astype(np.float32)
        self.seen = seen

    @cached_property
    def lengths(self) -> Array:
        return np.maximum(lengths_of(self.forms), LEAST)

    def over(self, value: Symbols) -> Range:
        """The bounds over the leaves of a zonotope, of which the widest come first."""
        count, seen = len(value.short), self.seen
        with np.errstate(all="ignore"):
            sums = self._sums(value.value)
            first = 0 if (seen[0] <= seen[1]).any() else FIRST
            first = min(first, count) if by_length_pays(value.value) else count
            low, high = self._worst(value, sums, np.arange(first))
            if first < count:
                seen = np.stack([np.minimum(seen[0], low), np.maximum(seen[1], high)])
                rest = self._worst(value, sums, np.arange(first, count), seen)
                low, high = np.minimum(low, rest[0]), np.maximum(high, rest[1])
        return low, high

    def on_each(self, zonotope: Zonotope) -> Range:
        """The bounds on every leaf by itself, (leaves, rows): by lengths where there are
        more symbols than units, else with every symbol."""
        value = Symbols.of(zonotope)
        with np.errstate(all="ignore"):
            sums, leaves = self._sums(zonotope), np.arange(len(value.short))
            if by_length_pays(zonotope):
                return self._by_length(value, sums, leaves)
            every = np.ones(sums.middle.shape, dtype=bool)
            low, high = self._fine(value, sums, every)
        return low.reshape(every.shape), high.reshape(every.shape)

    def _worst(
        self, value: Symbols, sums: _Sums, leaves: Array, seen: Array | None = None
    ) -> Range:
        """The bounds over some leaves, with every symbol where by lengths they are beyond what was
        seen: on leaves where a few rows tell that most will be, lengths are not looked at."""
        shape = sums.middle.shape
        low, high, there = np.full(shape, np.inf), np.full(shape, -np.inf), np.zeros(shape, bool)
        low[leaves], high[leaves], there[leaves] = -np.inf, np.inf, True
        if seen is not None:
            few = self._by_length(value, sums, leaves, PROBED)
            many = _beyond(few, seen[:, :PROBED]).sum(axis=1) > MOST * few[0].shape[1]
            apart = leaves[~many]
            low[apart], high[apart] = coarse = self._by_length(value, sums, apart)
            there[apart] = _beyond(coarse, seen)
        fine = self._fine(value, sums, there)
        low[there] = np.maximum(low[there], fine[0])
        high[there] = np.minimum(high[there], fine[1])
        return low.min(axis=0, initial=np.inf), high.max(axis=0, initial=-np.inf)

    def _by_length(
        self, value: Symbols, sums: _Sums, leaves: Array, count: int | None = None
    ) -> Range:
        """`a·c ± ‖a‖(S √(u·C u + ε) + ‖radius‖)` on some leaves, with what float32 loses, for the
        first `count` rows or all.

        The trace of C is at most 1, so that |u|·|C||u| ≤ 1: two sums of m products and three casts
        err by less than ε = (2m + 32)·2^-23 in all, underflow included.
        """
        shapes, spans = value.shapes
        units, lengths = shapes.shape[1], self.lengths[:count]
        squares = np.empty((len(leaves), len(lengths)), dtype=np.float32)
        step = max(1, MOST_ENTRIES // max(1, units))
        for start in range(0, len(lengths), step):
            part = slice(start, min(start + step, len(lengths)))
            rows = (self.forms[part] / lengths[part, None]).astype(np.float32)
            for place, leaf in enumerate(leaves):
                squares[place, part] = np.einsum("ij,ij->i", rows @ shapes[leaf], rows)
        lost = (2 * units + 32) * 2.0**-23
        spread = np.sqrt(np.maximum(squares.astype(np.float64), 0.0) + lost)
        spread *= spans[leaves, None]
        spread += lengths_of(value.value.radius[leaves])[:, None]
        spread *= lengths * SLACK
        spread += (gamma(units + 8) * SLACK) * sums.total[leaves, :count]
        return _ends(sums.middle[leaves, :count], spread, self.offsets[:count])

    def _sums(self, value: Zonotope) -> _Sums:
        ends = (value.reach, value.radius)
        return _Sums(value.centre @ self.forms.T, *(end @ self.size.T for end in ends))

    def _fine(self, value: Symbols, sums: _Sums, there: Array) -> Range:
        """The same with every symbol, one after the other for the leaves and rows that are `there`.

        With T = |c| + Σ|G| + radius the float64 sums err by at most γ_{m+s+8}·|A| T, s symbols.
        """
        leaves, rows = np.nonzero(there)
        terms = self.forms.shape[1] + value.counts
        relative, lost = self._short_error(terms, value.value.reach)
        error = (relative + gamma(int(terms.max(initial=0)) + 8)) * (SLACK * SLACK)
        spread = self._magnitudes(value, leaves, rows)
        spread += sums.radius[there] * SLACK + error[leaves] * sums.total[there] + lost[leaves]
        return _ends(sums.middle[there], spread, self.offsets[rows])

    def _magnitudes(self, value: Symbols, leaves: Array, rows: Array) -> Array:
        """`Σ_e |a·G_e|` for rows on leaves, these in order; in float64 where float32 overflows."""
        found = np.empty(len(rows))
        for leaf, symbols in enumerate(value.short):
            part = slice(*np.searchsorted(leaves, (leaf, leaf + 1)))
            some = found[part] = _summed(self.short[rows[part]], symbols)
            if not np.isfinite(some).all():
                forms = value.value.forms[leaf]
                found[part] = np.abs(self.forms[rows[part]] @ forms.T).sum(axis=1)
        return found

    def _short_error(self, terms: Array, reach: Array) -> Range:
        """What casts to float32 and sums of products there lose, per unit of |A| T, and at least.

        Two casts, a sum of m products and the sum of s magnitudes, `terms` = m + s, err by
        (terms + 3)·2^-24 relative to the sum of magnitudes, for fewer than 2^22 terms; what
        underflows, below 2^-126, is far less than `terms`·2^-120·(1 + max|A| + max T) for all
        symbols together.
        """
        most = 1.0 + self.most + reach.max(axis=1, initial=0.0)
        return (terms + 8) * (2.0**-23 * SLACK), terms * 2.0**-120 * most


def _summed(rows: Array, symbols: Array) -> Array:
    """`Σ_e |a·G_e|` for every row a, some rows at a time."""
    ones = np.ones(len(symbols), dtype=np.float32)
    found = np.empty(len(rows), dtype=np.float32)
    step = max(1, MOST_ENTRIES // max(1, len(symbols)))
    for start in range(0, len(rows), step):
        products = rows[start : start + step] @ symbols.T
        np.abs(products, out=products)
        found[start : start + step] = products @ ones
    return found


def _beyond(found: Range, seen: Array) -> Array:
    """Where bounds (leaves, rows) are not within what was seen."""
    return np.asarray(~(found[0] >= seen[0]) | ~(found[1] <= seen[1]))


def _ends(centre: Array, spread: Array, offsets: Array) -> Range:
    """`centre ± spread + offsets`, rounded outward; ±inf where that is no number.

    Two sums err by u(2|centre| + 2·spread + |offset|) and little more; subnormal ones not at all.
    """
    spread = spread * (1 + 2.0**-48) + 2.0**-50 * (np.abs(centre) + np.abs(offsets)) + 2 * TINY
    low, high = (centre - spread) + offsets, (centre + spread) + offsets
    bad = ~(np.isfinite(low) & np.isfinite(high))
    if bad.any():
        low[bad], high[bad] = -np.inf, np.inf
    return low, high


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


def shapes_of(forms: Array) -> Range:
    """C of every leaf in float32 (leaves, m, m), and S from above (leaves,)."""
    lengths = lengths_of(forms)
    span = up(lengths.sum(axis=1) * (1 + (forms.shape[1] + 4) * 2.0**-52))
    scaled = forms / np.sqrt(lengths * span[:, None])[:, :, None]
    return np.matmul(scaled.transpose(0, 2, 1), scaled).astype(np.float32), span
