"""Where the target's values can be, on the leaves of a tree of cuts (`reachable` on one box).

The certificate names a tree: bytes in preorder, 0 for a leaf, i + 1 for a cut at the middle of
coordinate i. Its leaves cover the domain whatever the bytes are, so the tree needs no proof. On
every leaf a value is enclosed by linear forms in shared symbols,

    v_j = centre_j + Σ_e forms[e, j]·ε_e + δ_j,    |ε_e| ≤ 1,  |δ_j| ≤ radius_j:

one symbol for each input, and one for each unit that bends. With T = |centre| + Σ|forms| + radius,
a map known as middle ± error costs |middle| radius + error T + γ|middle| T, all of it added to the
radius. What an activation takes on a leaf is met with what is certain on the whole domain, and,
where the certificate asks for it, with lines carried back to the leaf's own box (see `lines`).

Rests on proofs_check: shared-symbols, accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from proofs_check.certificates.arithmetic import (
    TINY,
    UNIT,
    Floats,
    above,
    below,
    dot,
    gamma,
    norms,
    plus,
    product_error,
    times,
)
from proofs_check.certificates.bends import Band, Bend
from proofs_check.certificates.form import Form
from proofs_check.certificates.lines import Lines
from proofs_check.certificates.report import CheckFailed
from proofs_check.certificates.rows import Block
from proofs_check.certificates.threads import side_by_side
from proofs_check.certificates.views import View
from reconstruct.networks import Box
from reconstruct.networks.activations import Support, Unitwise

Range = tuple[Floats, Floats]
Parts = list[tuple[View, slice]]
BATCH = 64  # leaves at once
LONG = 128  # units from which on a product with a square of them is not next to nothing
KEPT = 2**26  # numbers of zonotopes that are kept
MOST_SYMBOLS = 384  # further ones go into the radius
SEEN = 2.0**-30  # of the widest: what bends by less goes there, too
ALIKE = 2.0**-20  # units that differ by less get a symbol all or none


@dataclass(frozen=True, eq=False)
class Zonotope:
    """`centre` (leaves, m), `forms` (leaves, symbols, m), `radius` (leaves, m)."""

    centre: Floats
    forms: Floats
    radius: Floats

    def leaf(self, number: int) -> Zonotope:
        """The same on one leaf."""
        return Zonotope(*(a[number][None] for a in (self.centre, self.forms, self.radius)))

    @cached_property
    def spread(self) -> Floats:
        """Σ|forms| + radius, from above."""
        with np.errstate(all="ignore"):
            total = np.abs(self.forms).sum(axis=1)
        room = np.full(total.shape, 1 + 2 * gamma(self.forms.shape[1] + 1))
        return plus(times(total, room), self.radius)

    @cached_property
    def shapes(self) -> Range:
        """C = Σ_e G_e G_eᵀ/(w_e S) of every leaf (leaves, m, m), and S: see `by_lengths`.

        w_e ≥ ‖G_e‖ and S ≥ Σ w_e, so that the trace of C is at most 1.
        """
        leaves, symbols, units = self.forms.shape
        columns = self.forms.transpose(2, 0, 1).reshape(units, -1)
        lengths = np.maximum(norms(columns), 2.0**-400).reshape(leaves, symbols)
        with np.errstate(all="ignore"):
            span = above(lengths.sum(axis=1) * (1 + symbols * 2.0**-51))
            scaled = self.forms / np.sqrt(lengths * span[:, None])[:, :, None]
            return np.matmul(scaled.transpose(0, 2, 1), scaled), span

    def bounds(self) -> Range:
        spread = self.spread
        with np.errstate(all="ignore"):
            low = np.where(spread == 0, self.centre, below(self.centre - spread))
            high = np.where(spread == 0, self.centre, above(self.centre + spread))
        return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


Passes = list[dict[str, Zonotope]]


@dataclass(frozen=True, eq=False)
class _Cut:
    """A cut: its form over the sources, its activation (None for a sum)."""

    name: str
    parts: Parts
    floats: Range
    op: Unitwise | None
    bend: Bend | None


class LeafBounds:
    """Bounds of the target's values over all leaves, cut by cut, as `Reachable` gives them."""

    def __init__(self, source: str, domain: Box, code: bytes, lines: bool) -> None:
        self.source, self.lines = source, lines
        self.lo, self.hi = leaves_of(domain, code)
        self.ranges: dict[str, Range] = {source: (domain.lo, domain.hi)}
        self.taken: dict[str, Range] = {}  # what cuts take on each leaf, (leaves, m)
        self.cuts: list[_Cut] = []
        self._kept: tuple[frozenset[str], int, Passes] = frozenset(), 0, []

    def add_cut(
        self,
        name: str,
        form: Form,
        floats: Range,
        op: Unitwise | None,
        bend: Bend | None,
        certain: Range,
    ) -> None:
        """The range of a cut over all leaves, from those of the cuts before it.

        `certain` bounds the form on the whole domain.
        """
        kept = self._kept[2] if self._kept[:2] == (self._sources_of(form), len(self.cuts)) else []

        def one(number: int) -> Range:
            part = self._batches()[number]
            values = kept[number] if kept else self._sources(part)
            found = _meet(image(form.parts(), floats, values).bounds(), certain)
            if self.lines:
                found = _meet(found, self._lines(part).bounds(form.parts(), floats))
            return found

        lows, highs = zip(*side_by_side(one, range(len(self._batches()))), strict=True)
        self.taken[name] = np.concatenate(lows), np.concatenate(highs)
        lo, hi = self.union(name)
        self.cuts.append(_Cut(name, form.parts(), floats, op, bend))
        self.ranges[name] = (lo, hi) if bend is None else bend.range(lo, hi)

    def union(self, name: str) -> Range:
        """What a cut takes, over all leaves."""
        lo, hi = self.taken[name]
        return lo.min(axis=0), hi.max(axis=0)

    def of_form(self, form: Block, floats: Range) -> Range:
        """Bounds of a form of the sources over all leaves."""
        low, high = np.full(form.rows, np.inf), np.full(form.rows, -np.inf)
        for _, values in self._passes(form):
            low, high = _joined((low, high), form.parts(), floats, values)
        return low, high

    def _passes(self, form: Block) -> Iterator[tuple[slice, dict[str, Zonotope]]]:
        """The sources of a form as zonotopes, a batch of leaves at a time; kept, where they are
        small, for the next rows of the same sources."""
        names = self._sources_of(form)
        if self._kept[2] and self._kept[:2] == (names, len(self.cuts)):
            yield from zip(self._batches(), self._kept[2], strict=True)
            return
        found: Passes = []
        room = KEPT
        for part in self._batches():
            values = self._sources(part)
            values = {name: values[name] for name in names}
            room -= sum(value.forms.size for value in values.values())
            if room >= 0:
                found.append(values)
            yield part, values
        self._kept = names, len(self.cuts), found if room >= 0 else []

    def _sources_of(self, form: Block) -> frozenset[str]:
        return frozenset({self.source, *(view.source for view, _ in form.parts())})

    def _batches(self) -> list[slice]:
        return [slice(start, start + BATCH) for start in range(0, len(self.lo), BATCH)]

    def _lines(self, part: slice) -> Lines:
        """The cuts so far between lines, on some of the leaves."""
        lines = Lines(self.source, self.lo[part], self.hi[part])
        for cut in self.cuts:
            lo, hi = self.taken[cut.name]
            lines.add(cut.name, cut.parts, cut.floats, cut.op, cut.bend, (lo[part], hi[part]))
        return lines

    def values_on(self, leaves: npt.NDArray[np.intp]) -> dict[str, Zonotope]:
        """The sources as zonotopes on the leaves of these numbers."""
        return self._sources(leaves)

    def _sources(self, part: slice | npt.NDArray[np.intp]) -> dict[str, Zonotope]:
        lo, hi = self.lo[part], self.hi[part]
        inputs = lo.shape[1]
        with np.errstate(all="ignore"):
            centre = 0.5 * lo + 0.5 * hi
            half = above(np.maximum(hi - centre, centre - lo))
        half = np.where(lo == hi, 0.0, half)
        forms = np.zeros((len(lo), inputs, inputs))
        forms[:, np.arange(inputs), np.arange(inputs)] = half
        values = {self.source: Zonotope(centre, forms, np.zeros_like(centre))}
        symbols = inputs
        for cut in self.cuts:
            value = image(cut.parts, cut.floats, values)
            if cut.op is not None and cut.bend is not None:
                low, high = self.taken[cut.name]
                value = _bent(cut.op, cut.bend, value, (low[part], high[part]), symbols)
                symbols = value.forms.shape[1]
            values[cut.name] = value
        return values


def _meet(first: Range, second: Range) -> Range:
    return np.maximum(first[0], second[0]), np.minimum(first[1], second[1])


def leaves_of(domain: Box, code: bytes) -> Range:
    """The leaves of a tree of cuts, the widest ones first."""
    lows, highs, stack = [], [], [(domain.lo.copy(), domain.hi.copy())]
    for byte in code:
        if not stack or byte > domain.size:
            raise CheckFailed("tree", "the bytes are not a tree of cuts of this domain")
        lo, hi = stack.pop()
        if byte == 0:
            lows.append(lo)
            highs.append(hi)
            continue
        middle = 0.5 * lo[byte - 1] + 0.5 * hi[byte - 1]
        upper, lower = lo.copy(), hi.copy()
        upper[byte - 1] = lower[byte - 1] = middle
        stack += [(upper, hi), (lo, lower)]
    if stack or not lows:
        raise CheckFailed("tree", f"the tree lacks {len(stack)} of its leaves")
    lo, hi = np.array(lows), np.array(highs)
    with np.errstate(all="ignore"):
        order = np.argsort(-np.log2(np.maximum(hi - lo, 1e-300)).sum(axis=1), kind="stable")
    return lo[order], hi[order]


def image(parts: Parts, floats: Range, values: dict[str, Zonotope]) -> Zonotope:
    """The zonotope of a form of the sources, `parts` its columns, known as middle ± error."""
    middle, error = floats
    symbols = max([values[view.source].forms.shape[1] for view, _ in parts], default=1)
    batch = len(next(iter(values.values())).centre)
    centre = np.broadcast_to(middle[:, -1], (batch, len(middle)))
    forms = np.zeros((batch, symbols, len(middle)))
    sizes = np.broadcast_to(np.abs(middle[:, -1]), centre.shape)
    radius, terms = np.broadcast_to(error[:, -1], centre.shape), 2
    for view, part in parts:
        value, matrix = values[view.source], middle[:, part]
        own, width = value.forms.shape[1], matrix.shape[1]
        with np.errstate(all="ignore"):
            centre = centre + value.centre @ matrix.T
            rows = value.forms.reshape(-1, width) @ matrix.T
            forms[:, :own] += rows.reshape(batch, own, -1)
        most = plus(np.abs(value.centre), value.spread)
        sizes = plus(sizes, dot(most, np.abs(matrix).T))
        lost = dot(most, error[:, part].T) if error[:, part].any() else np.zeros(centre.shape)
        radius = plus(radius, dot(value.radius, np.abs(matrix).T), lost)
        terms += width + 2
    return Zonotope(centre, forms, plus(radius, product_error(sizes, terms, symbols + 2.0)))


def _bent(op: Unitwise, bend: Bend, value: Zonotope, known: Range, first: int) -> Zonotope:
    """f(v): slope·v + [low, high], half of the gap in a new symbol, or in the radius."""
    lo, hi = value.bounds()
    lo, hi = np.maximum(lo, known[0]), np.minimum(hi, known[1])
    band = _tube(op, bend, lo, hi)
    slope = band.below
    with np.errstate(all="ignore"):
        offset = 0.5 * band.low + 0.5 * band.high
        half = above(np.maximum(band.high - offset, offset - band.low))
        half = np.where(band.low == band.high, 0.0, half)
        centre = np.where(slope == 0, offset, slope * value.centre + offset)
        kept = np.where(slope[:, None] == 0, 0.0, slope[:, None] * value.forms)
    size = times(np.abs(slope), plus(np.abs(value.centre), value.spread))
    size = plus(size, np.abs(offset))
    floor = above(np.full(size.shape, 8 * (value.forms.shape[1] + 2) * TINY))
    rounding = plus(times(size, np.full(size.shape, 8 * UNIT)), floor)
    plain = (slope == 0) | ((slope == 1) & (offset == 0))
    radius = plus(times(np.abs(slope), value.radius), np.where(plain, 0.0, rounding))
    widest = np.where(np.isfinite(half), half, 0.0).max(axis=1, keepdims=True, initial=0.0)
    bends = (half > SEEN * widest) & np.isfinite(half)
    room = max(0, MOST_SYMBOLS - first)
    if half.shape[1] > room:
        without = np.sort(np.where(bends, half, 0.0), axis=1)[:, -room - 1, None]
        bends &= half > without * (1 + ALIKE)
    leaves, units = np.nonzero(bends)
    slots = (np.cumsum(bends, axis=1) - 1)[leaves, units]
    count = int(slots.max()) + 1 if len(slots) else 0
    forms = np.zeros((len(centre), first + count, centre.shape[1]))
    forms[:, : kept.shape[1]] = kept
    forms[leaves, first + slots, units] = half[leaves, units]
    return Zonotope(centre, forms, plus(radius, np.where(bends, 0.0, half)))


def _tube(op: Unitwise, bend: Bend, lo: Floats, hi: Floats) -> Band:
    """Lines of one slope below and above f: of the two that are offered, the closer pair."""
    with np.errstate(all="ignore"):
        offered = op.slopes(lo, hi, Support.AREA)
        pairs = [bend.band(lo, hi, (slope, slope)) for slope in offered]
        closer = pairs[0].high - pairs[0].low <= pairs[1].high - pairs[1].low
    fields = ("below", "above", "low", "high")
    return Band(*(np.where(closer, *(getattr(p, f) for p in pairs)) for f in fields))


def _joined(found: Range, parts: Parts, floats: Range, values: dict[str, Zonotope]) -> Range:
    """The bounds over the leaves so far, joined with those of one more batch.

    A form of one source is bounded by lengths first, and again with every symbol where that would
    be worse than what is known; but not where a length takes as many products as the symbols do.
    """
    low, high = found
    if len(parts) != 1:
        lows, highs = image(parts, floats, values).bounds()
        return np.minimum(low, lows.min(axis=0)), np.maximum(high, highs.max(axis=0))
    name = parts[0][0].source
    value = values[name]
    leaves, symbols, units = value.forms.shape
    if symbols <= units and units >= LONG:
        for leaf in range(leaves):
            ends = image(parts, floats, {name: value.leaf(leaf)}).bounds()
            low, high = np.minimum(low, ends[0][0]), np.maximum(high, ends[1][0])
        return low, high
    lows, highs = by_lengths(parts[0][1], floats, value)
    for leaf in range(leaves):
        rows = np.flatnonzero((lows[leaf] < low) | (highs[leaf] > high))
        if len(rows):
            fine = image(
                parts, (floats[0][rows], floats[1][rows]), {name: value.leaf(leaf)}
            ).bounds()
            low[rows] = np.minimum(low[rows], np.maximum(lows[leaf, rows], fine[0][0]))
            high[rows] = np.maximum(high[rows], np.minimum(highs[leaf, rows], fine[1][0]))
    return low, high


def by_lengths(part: slice, floats: Range, value: Zonotope) -> Range:
    """Bounds of a form of one source by Cauchy and Schwarz:

        Σ_e |a·G_e| ≤ √S √(Σ_e (a·G_e)²/w_e) = S √(a·C a),    and |a·radius| ≤ ‖a‖ ‖radius‖.

    Since the trace of C is at most 1, a·C a is known to ‖a‖² times 2^-50 for each of the terms of
    its three sums, and to 2^-1000 for what underflows.
    """
    middle, error = floats
    matrix, constant = middle[:, part], middle[:, -1]
    symbols, units = value.forms.shape[1:]
    (shapes, span), sizes = value.shapes, norms(matrix.T)
    terms = np.full(sizes.shape, (2 * units + symbols + 32) * 2.0**-50)
    room = plus(times(times(sizes, sizes), terms), np.full(sizes.shape, 2.0**-1000))
    with np.errstate(all="ignore"):
        squares = np.array([((matrix @ shape) * matrix).sum(axis=1) for shape in shapes])
        roots = above(np.sqrt(plus(np.maximum(squares, 0.0), room)) * (1 + 2.0**-50))
        centre = value.centre @ matrix.T + constant
    spread = plus(times(roots, span[:, None]), times(norms(value.radius.T)[:, None], sizes))
    most = plus(np.abs(value.centre), value.spread)
    spread = plus(spread, error[:, -1], dot(most, error[:, part].T))
    reach = plus(dot(np.abs(value.centre), np.abs(matrix).T), np.abs(constant))
    spread = plus(spread, product_error(reach, units + 2, 2.0))
    with np.errstate(all="ignore"):
        low, high = below(centre - spread), above(centre + spread)
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
