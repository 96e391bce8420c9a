"""Where the target's values can be: intervals and back-substitution on the cut network.

Between the cuts the target is `z_i = Σ_j A_ij h_j + c_i`, `h_i = f(z_i)`, `h_0 = x` in the box. To
bound a·h_i from below, f is replaced by a line below it where a ≥ 0 and a line above it where
a < 0, then z_i by its form, until only x is left. Coefficients are floats and
taken as they are; what is lost on the way (products rounded, forms known to within their error,
underflow) is bounded by values, `|Δ coefficient|·max|h|`, and taken off in the end.

Rests on proofs_check: back-substitution, accumulated-rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proofs_check.certificates.arithmetic import (
    TINY,
    UNIT,
    Floats,
    Marks,
    Tally,
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
from proofs_check.certificates.rows import Block
from proofs_check.certificates.views import Places, View
from proofs_check.certificates.windows import Windows
from reconstruct.networks.activations import Line, Support, Unitwise

Range = tuple[Floats, Floats]
SMALL = 2**16  # entries of a form that is bounded without rounding too
IMAGES = 128  # forms of images that are pulled at once: their patches stay in cache
TILE = 2**21  # coefficients that are carried back at once


@dataclass(frozen=True, eq=False)
class _Part:
    """What of a form belongs to one view of a source of `size` units."""

    view: View
    matrix: Floats
    size: int

    def pulled(self, d: Floats) -> Floats:
        """`d A`: coefficients of the form's units as those of the source's."""
        if self.view.index is None:
            return d @ self.matrix
        pulled = np.empty((len(d), self.size))
        for start in range(0, len(d), IMAGES):
            part = slice(start, start + IMAGES)
            channels = np.ascontiguousarray(d[part].T).reshape(len(self.matrix), -1)
            columns = (self.matrix.T @ channels).reshape(*self.view.index.shape, -1)
            pulled[part] = self.view.collected(columns, self.size)
        return pulled


@dataclass(frozen=True, eq=False)
class _Cut:
    """A cut as lines above its form: z = Σ A h + c, one band around f(z) per kind of line.

    `loss` bounds what one unit of |coefficient of z| loses when it goes over to the sources,
    `floor` what underflow loses whatever the coefficients, `reach` is max|z|. The bands are
    around functions of z itself, or, for a maximum over windows, of its `chosen` places.
    """

    name: str
    parts: tuple[_Part, ...]
    constant: Floats
    bands: tuple[Band, ...]
    loss: Floats
    floor: float
    reach: Floats
    chosen: Places | None


class Ranges:
    """Bounds of the target's values on one box, cut by cut."""

    def __init__(self, source: str, lo: Floats, hi: Floats) -> None:
        self.source = source
        self.ranges: dict[str, Range] = {source: (lo, hi)}
        self.taken: dict[str, Range] = {}  # what cuts take, in front of their activations
        self.cuts: list[_Cut] = []
        self.point = bool((lo == hi).all())  # then intervals say all that there is to say

    def largest(self, name: str) -> Floats:
        lo, hi = self.ranges[name]
        return np.maximum(np.abs(lo), np.abs(hi))

    def of_form(self, form: Block, floats: Range) -> Range:
        """Bounds of a form of the target's sources, its own error included: one for each unit."""
        middle, error = floats
        constant, doubt = (_at_positions(part[:, -1], form.positions) for part in (middle, error))
        low, high = Tally.start(constant, doubt), Tally.start(-constant, doubt)
        for view, part in form.parts():
            if self.point and view.index is not None and form.positions > 1:
                near, room = self._nearly(view, middle[:, part], error[:, part])
                low, high = low.add(near, room), high.add(-near, room)
                continue
            missed = dot(error[:, part], view.met(self.largest(view.source)))
            low = low.add(self.least(view, middle[:, part]), missed)
            high = high.add(self.least(view, -middle[:, part]), missed)
        below, above = low.lowest().ravel(), -high.lowest().ravel()
        if self.point or len(form.layout) < 2 or any(v.index is not None for v, _ in form.parts()):
            return below, above
        return (
            np.maximum(below, self._together(form, middle, error)),
            np.minimum(above, -self._together(form, -middle, error)),
        )

    def _together(self, form: Block, middle: Floats, error: Floats) -> Floats:
        """A lower bound of a form of several sources, carried back at once: branches that come
        from one value may cancel each other."""
        found = np.full(len(middle), -np.inf)
        if not self.cuts:
            return found
        missed = [
            dot(error[:, part], view.met(self.largest(view.source))) for view, part in form.parts()
        ]
        for kind in range(len(Support)):
            starts = {view.source: middle[:, part] for view, part in form.parts()}
            tally = self._carried_back(starts, kind).add(middle[:, -1], error[:, -1], *missed)
            found = np.maximum(found, tally.lowest())
        return found

    def exactly(self, form: Form) -> Range:
        """Interval bounds without rounding on the way: for units at the very edge of a piece."""
        sources = [tuple(v.met(end) for end in self.ranges[v.source]) for v, _ in form.parts()]
        if not all(np.isfinite(end).all() for pair in sources for end in pair):
            count = form.rows * form.positions
            return np.full(count, -np.inf), np.full(count, np.inf)
        empty = np.zeros((0, form.positions))
        lo, hi = (
            np.concatenate([empty, *(pair[i].reshape(-1, form.positions) for pair in sources)])
            for i in (0, 1)
        )
        low, high = form.between(lo, hi)
        return low.ravel(), high.ravel()

    def least(self, view: View, a: Floats) -> Floats:
        """A lower bound of a·h (a: rows × columns) for what a view sees, the best of all ways."""
        found = self._interval(view, a)
        if view.source == self.source or self.point or not view.injective:
            return found
        positions = 1 if view.index is None else view.index.shape[1]
        size = len(self.ranges[view.source][0])
        step = max(1, TILE // (positions * size))
        for start in range(0, len(a), step):
            rows = slice(start, start + step)
            forms = view.forms(a[rows], size)
            for kind in range(len(Support)):
                low = self._carried_back({view.source: forms}, kind).lowest()
                found[rows] = np.maximum(found[rows], low.reshape(found[rows].shape))
        return found

    def _nearly(self, view: View, a: Floats, error: Floats) -> Range:
        """`a·h` and how far off it may be, where h is known but for what rounding gave it.

        With c ± r around what the view meets, |a'·h − fl(a·c)| ≤ ‖a‖(‖r‖ + γ‖c‖) + ‖a' − a‖‖h‖ by
        Cauchy and Schwarz: one product, where intervals take many.
        """
        lo, hi = self.ranges[view.source]
        with np.errstate(all="ignore"):
            centre = 0.5 * lo + 0.5 * hi
            radius = np.where(lo == hi, 0.0, above(np.maximum(hi - centre, centre - lo)))
            value = a @ view.met(centre)
        far, wide = norms(view.met(np.maximum(np.abs(lo), np.abs(hi)))), norms(view.met(radius))
        slip = plus(wide, times(far, np.full(far.shape, gamma(a.shape[1] + 1))))
        room = plus(
            times(norms(a.T)[:, None], slip[None]), times(norms(error.T)[:, None], far[None])
        )
        return value, above(room + a.shape[1] * TINY)

    def _interval(self, view: View, a: Floats) -> Floats:
        """a⁺·lo + a⁻·hi, less its rounding: n products that are not zero, and one sum more. Rows
        that only look at one unit are exact: what is never negative stays so."""
        lo, hi = (view.met(end) for end in self.ranges[view.source])
        size = dot(np.abs(a), view.met(self.largest(view.source)))
        with np.errstate(all="ignore"):
            value = np.maximum(a, 0.0) @ lo + np.minimum(a, 0.0) @ hi
        rounding = product_error(size, a.shape[1] + 1, 1.0)
        single = (np.count_nonzero(a, axis=1) <= 1) & np.isin(
            np.abs(a).max(axis=1, initial=0.0), (0, 1)
        )
        rounding = np.where(single if rounding.ndim == 1 else single[:, None], 0.0, rounding)
        return Tally.start(value, rounding).lowest()

    def _carried_back(self, forms: dict[str, Floats], kind: int) -> Tally:
        """A lower bound of Σ a·h over some sources, carried back along lines of one kind."""
        waiting = dict(forms)
        rows = len(next(iter(forms.values())))
        tally = Tally.start(np.zeros(rows), np.zeros(rows))
        for cut in reversed(self.cuts):
            if cut.name in waiting:
                a = waiting.pop(cut.name)
                tally, slopes = _onto_lines(tally, a, cut, cut.bands[kind])
                tally = self._onto_sources(tally, slopes, cut, waiting)
        if self.source in waiting:
            everything = View(self.source, len(self.ranges[self.source][0]))
            tally = tally.add(self._interval(everything, waiting[self.source]))
        return tally

    def _onto_sources(
        self, tally: Tally, d: Floats, cut: _Cut, waiting: dict[str, Floats]
    ) -> Tally:
        """d·z = d·c + Σ (d A_j)·h_j: coefficients go to the sources, d·c into the tally."""
        n = d.shape[1]
        with np.errstate(all="ignore"):
            plain = d @ cut.constant
        rounding = product_error(dot(np.abs(d), np.abs(cut.constant)), n + 1, 1.0)
        floor = np.full(len(d), cut.floor)
        tally = tally.add(plain, rounding, dot(np.abs(d), cut.loss), floor)
        for part in cut.parts:
            source = part.view.source
            with np.errstate(all="ignore"):
                more = part.pulled(d)
                if source in waiting:
                    more = waiting[source] + more
            if source in waiting:
                lost = times(dot(np.abs(more), self.largest(source)), np.full(len(d), 2 * UNIT))
                tally = tally.add(np.zeros(len(d)), lost)
            waiting[source] = more
        return tally

    def add_cut(
        self,
        name: str,
        form: Form,
        floats: Range,
        op: Unitwise | None,
        bend: Bend | Windows | None,
        marks: Marks | None = None,
        places: Places | None = None,
    ) -> None:
        """Bounds at a cut: z by its form, h = f(z), or h = z for a sum of branches (no bend).

        `marks` say which units take the steeper line below, `places` which entry of a window
        stands for its maximum, as the certificate wants it; any are sound.
        """
        lo, hi = self.of_form(form, floats)
        if form.rows * form.radius.shape[1] * form.positions <= SMALL:
            lo, hi = meet([(lo, hi), self.exactly(form)], 1)
        reach = np.maximum(np.abs(lo), np.abs(hi))
        self.taken[name] = lo, hi
        chosen = None
        if isinstance(bend, Windows):
            chosen = bend.chosen(lo) if places is None else places
            bands = tuple(bend.band(lo, hi, chosen) for _ in Support)
            self.ranges[name] = bend.range(lo, hi)
        elif op is None or bend is None:
            one, zero = np.ones_like(lo), np.zeros_like(lo)
            bands = tuple(Band(one, one, zero, zero) for _ in Support)
            self.ranges[name] = lo, hi
        else:
            slopes = [_slopes(op, bend, lo, hi, kind, marks) for kind in Support]
            bands = tuple(bend.band(lo, hi, pair) for pair in slopes)
            self.ranges[name] = bend.range(lo, hi)
        if not self.point:
            self.cuts.append(self._cut(name, form, floats, bands, reach, chosen))

    def _cut(
        self,
        name: str,
        form: Form,
        floats: Range,
        bands: tuple[Band, ...],
        reach: Floats,
        chosen: Places | None,
    ) -> _Cut:
        """What is needed to carry coefficients through the cut.

        A coefficient of a source's unit is a sum of rows, and on images of those sums at the
        columns that meet the unit: no more than n roundings one after the other, and n products.
        """
        middle, error = floats
        loss, floor = _at_positions(error[:, -1], form.positions), 0.0
        for view, part in form.parts():
            n = form.rows + (0 if view.index is None else view.columns)
            terms = form.rows * (1 if view.index is None else view.columns)
            far = self.largest(view.source)
            size = dot(np.abs(middle[:, part]), view.met(far))
            moved = times(size, np.full(size.shape, gamma(n)))
            loss = plus(loss, moved, dot(error[:, part], view.met(far)))
            more = float(above(far.sum() * (1 + 2.0**-20)))
            floor = float(above(floor + above(terms * TINY * more)))
        units = len(reach)
        loss = plus(loss.ravel(), times(reach, np.full(units, 2 * UNIT)))  # the product a·slope
        floor = float(above(floor + above(units * TINY * (1 + float(above(reach.sum() * 1.001))))))
        parts = tuple(
            _Part(view, middle[:, part], len(self.ranges[view.source][0]))
            for view, part in form.parts()
        )
        constant = _at_positions(middle[:, -1], form.positions).ravel()
        return _Cut(name, parts, constant, bands, loss, floor, reach, chosen)


def _at_positions(values: Floats, positions: int) -> Floats:
    """Numbers of rows at every position; as they are where a row is one unit."""
    return values if positions == 1 else np.repeat(values[:, None], positions, axis=1)


def _onto_lines(tally: Tally, a: Floats, cut: _Cut, band: Band) -> tuple[Tally, Floats]:
    """a·f(z) ≥ d·z + const with d = a·slope: the line below where a ≥ 0, above where a < 0.

    What rounding d loses is charged to the cut: 2u|d||z| per unit in its loss, η|z| in its floor.
    """
    rising = a >= 0
    with np.errstate(all="ignore"):
        d = np.where(a == 0, 0.0, a * np.where(rising, band.below, band.above))
        plain = np.where(rising, np.maximum(a, 0.0) * band.low, np.minimum(a, 0.0) * band.high)
        rise = np.where(a == 0, 0.0, plain).sum(axis=1)
    most = np.maximum(np.abs(band.low), np.abs(band.high))
    size = dot(np.abs(a), most)
    tally = tally.add(rise, product_error(size, a.shape[1] + 1, 1.0))
    if cut.chosen is None:
        return tally, d
    moved = np.zeros((len(cut.reach), len(d)))
    with np.errstate(all="ignore"):
        np.add.at(moved, cut.chosen, d.T)
    copies = int(np.bincount(cut.chosen).max())
    rounding = product_error(dot(np.abs(d), cut.reach[cut.chosen]), copies)
    return tally.add(np.zeros(len(d)), rounding), moved.T


def _slopes(
    op: Unitwise, bend: Bend, lo: Floats, hi: Floats, kind: Support, marks: Marks | None
) -> Range:
    """Slopes for the lines: the activation's own choice, or the certificate's; any are sound."""
    with np.errstate(all="ignore"):
        first, second = op.slopes(lo[None], hi[None], kind)
    lower, upper = (np.array(np.broadcast_to(s, (1, len(lo)))[0]) for s in (first, second))
    lines = [piece for piece in bend.pieces if isinstance(piece, Line)]
    if marks is not None and kind is Support.AREA and len(lines) == len(bend.pieces) == 2:
        left, right = lines
        bent = (lo < left.hi) & (hi > left.hi)
        if left.slope <= right.slope:
            lower = np.where(bent, np.where(marks, right.slope, left.slope), lower)
    return lower, upper


def meet(ranges: list[Range], whole: int) -> Range:
    """The worst over all parts of the domain, met with the bounds on the whole (if it has any).

    The first `whole` of the ranges (0 or 1) are of the whole domain, the others of its parts.
    """
    pieces = ranges[whole:] or ranges
    lo = np.min([piece[0] for piece in pieces], axis=0)
    hi = np.max([piece[1] for piece in pieces], axis=0)
    for low, high in ranges[:whole]:
        lo, hi = np.maximum(lo, low), np.minimum(hi, high)
    return lo, hi


def widened(lo: Floats, hi: Floats, by: Floats) -> Range:
    """`[lo − by, hi + by]`, outward; as it was where there is nothing to add."""
    with np.errstate(all="ignore"):
        low = np.where(by == 0, lo, below(lo - by))
        high = np.where(by == 0, hi, above(hi + by))
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
