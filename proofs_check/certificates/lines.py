"""Lines that are carried back on many boxes at once: the leaves of a tree, the cells of a grid.

As `reachable` on one box, on each by itself: where a coefficient of f(z) is positive f is replaced
by a line below it, elsewhere by a line above it, then z by its form, until only the inputs are
left, of which the box is known. Ends of values are arrays (boxes, units), coefficients (boxes,
rows, units): lines and what they lose differ from box to box, maps do not. Coefficients are floats
and taken as they are; what is lost on the way is bounded by values, `|Δ coefficient|·max|h|` on the
box, and taken off in the end. Images, whose rows stand at many positions, are bounded one by one.

Rests on proofs_check: back-substitution, accumulated-rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from proofs_check.certificates.arithmetic import (
    TINY,
    UNIT,
    Floats,
    Tally,
    above,
    dot,
    gamma,
    plus,
    product_error,
    times,
)
from proofs_check.certificates.bends import Band, Bend
from proofs_check.certificates.views import View
from reconstruct.networks.activations import Support, Unitwise

Range = tuple[Floats, Floats]
Parts = list[tuple[View, slice]]
TILE = 2**21  # coefficients that are carried back at once


@dataclass(frozen=True, eq=False)
class Cut:
    """A cut between lines: z = Σ A h + c, one band around f(z) per kind of line, (boxes, m) each.

    `loss` bounds what one unit of |coefficient of z| loses when it goes over to the sources, and
    `floor` (boxes, 1) what underflow loses whatever the coefficients.
    """

    name: str
    maps: tuple[tuple[str, Floats], ...]
    constant: Floats
    bands: tuple[Band, ...]
    loss: Floats
    floor: Floats

    def take(self, boxes: slice) -> Cut:
        """The same on some of the boxes."""
        bands = tuple(
            Band(*(getattr(band, end)[boxes] for end in ("below", "above", "low", "high")))
            for band in self.bands
        )
        return replace(self, bands=bands, loss=self.loss[boxes], floor=self.floor[boxes])


class Lines:
    """The cuts so far on some boxes, and bounds of forms of their values."""

    def __init__(self, source: str, lo: Floats, hi: Floats) -> None:
        self.source = source
        self.ranges: dict[str, Range] = {source: (lo, hi)}
        self.cuts: list[Cut] = []

    def add(
        self,
        name: str,
        parts: Parts,
        floats: Range,
        op: Unitwise | None,
        bend: Bend | None,
        taken: Range,
    ) -> None:
        """One more cut: its form over the sources, what it does (None: nothing), what it takes."""
        lo, hi = taken
        if op is None or bend is None:
            one, zero = np.ones_like(lo), np.zeros_like(lo)
            bands = tuple(Band(one, one, zero, zero) for _ in Support)
            self.ranges[name] = lo, hi
        else:
            with np.errstate(all="ignore"):
                slopes = [op.slopes(lo, hi, kind) for kind in Support]
            bands = tuple(bend.band(lo, hi, pair) for pair in slopes)
            self.ranges[name] = bend.range(lo, hi)
        maps = tuple((view.source, floats[0][:, part]) for view, part in parts)
        loss, floor = self._loss(parts, floats, np.maximum(np.abs(lo), np.abs(hi)))
        self.cuts.append(Cut(name, maps, floats[0][:, -1], bands, loss, floor))

    def take(self, box: int) -> Lines:
        """The same on one of the boxes."""
        one = slice(box, box + 1)
        lines = Lines(self.source, *(end[one] for end in self.ranges[self.source]))
        lines.ranges = {name: (lo[one], hi[one]) for name, (lo, hi) in self.ranges.items()}
        lines.cuts = [cut.take(one) for cut in self.cuts]
        return lines

    def below(self, parts: Parts, floats: Range, enough: Floats, kind: int) -> Floats:
        """Lower bounds of the rows of a form on a single box, by lines of one kind.

        In front of every cut the ranges of what is left are put in, which bounds a row already; a
        row that reaches `enough` so is not followed any further.
        """
        middle, error = floats
        missed = [dot(self._largest(view.source), error[:, part].T) for view, part in parts]
        tally = Tally.start(middle[:, -1][None], plus(error[:, -1][None], *missed))
        waiting = {view.source: middle[None, :, part] for view, part in parts}
        found, rows = self._put_in(tally, waiting), np.arange(len(middle))
        for cut in reversed(self.cuts):
            if cut.name not in waiting:
                continue
            going = ~(found[rows] >= enough[rows])
            if not going.any():
                break
            if not going.all():
                rows = rows[going]
                tally = Tally(tally.value[:, going], tally.slack[:, going])
                waiting = {name: a[:, going] for name, a in waiting.items()}
            tally, d = onto_lines(tally, waiting.pop(cut.name), cut.bands[kind])
            tally = self._onto_sources(tally, d, cut, waiting)
            found[rows] = np.maximum(found[rows], self._put_in(tally, waiting))
        return found

    def _put_in(self, tally: Tally, waiting: dict[str, Floats]) -> Floats:
        """The least value of what is left by the ranges of its sources, on a single box."""
        for source, a in waiting.items():
            tally = onto_box(tally, a, self.ranges[source])
        return np.array(tally.lowest()[0])

    def bounds(self, parts: Parts, floats: Range) -> Range:
        """Bounds of the rows of a form on every box, its own error included: (boxes, rows) each."""
        widest = max(lo.shape[1] for lo, _ in self.ranges.values())
        step = max(1, TILE // (2 * self.boxes * widest))
        found = [
            self._of_rows(parts, (floats[0][i : i + step], floats[1][i : i + step]))
            for i in range(0, len(floats[0]), step)
        ]
        low, high = (np.concatenate(side, axis=1) for side in zip(*found, strict=True))
        return low, high

    def _of_rows(self, parts: Parts, floats: Range) -> Range:
        """The same of a few rows: each source by itself in the best way, and all together, for
        branches that come from one value may cancel each other."""
        middle, error = floats
        rows, doubt = np.concatenate([middle, -middle]), np.concatenate([error, error])
        shape = self.boxes, len(rows)
        tally = Tally.start(*(np.broadcast_to(end[:, -1], shape) for end in (rows, doubt)))
        missed = [dot(self._largest(view.source), doubt[:, part].T) for view, part in parts]
        for (view, part), lost in zip(parts, missed, strict=True):
            tally = tally.add(self._least(view.source, rows[None, :, part]), lost)
        low = tally.lowest()
        if len(parts) > 1:
            forms = {view.source: rows[None, :, part] for view, part in parts}
            for kind in range(len(Support)):
                tally = self._carried_back(forms, kind).add(rows[:, -1], doubt[:, -1], *missed)
                low = np.maximum(low, tally.lowest())
        return low[:, : len(middle)], -low[:, len(middle) :]

    def _least(self, source: str, a: Floats) -> Floats:
        """A lower bound of a·h on every box, the best of all ways."""
        nothing = Tally.start(*(np.zeros((self.boxes, a.shape[1])) for _ in range(2)))
        found = onto_box(nothing, a, self.ranges[source]).lowest()
        if source != self.source:
            for kind in range(len(Support)):
                found = np.maximum(found, self._carried_back({source: a}, kind).lowest())
        return found

    @property
    def boxes(self) -> int:
        return len(self.ranges[self.source][0])

    def _largest(self, name: str) -> Floats:
        lo, hi = self.ranges[name]
        return np.maximum(np.abs(lo), np.abs(hi))

    def _loss(self, parts: Parts, floats: Range, reach: Floats) -> Range:
        """What one unit of |coefficient of z| loses: the form's own error, m products and sums for
        every coefficient of a source, and the product of coefficient and slope."""
        middle, error = floats
        units = len(middle)
        loss = plus(times(reach, np.full(reach.shape, 2 * UNIT)), error[:, -1])
        constant = times(np.abs(middle[:, -1]), np.full(units, gamma(units + 1)))
        loss = plus(loss, constant)
        far = plus(np.ones(len(reach)), total(reach))
        for view, part in parts:
            most = self._largest(view.source)
            size = dot(most, np.abs(middle[:, part]).T)
            loss = plus(loss, times(size, np.full(size.shape, gamma(units))))
            if error[:, part].any():
                loss = plus(loss, dot(most, error[:, part].T))
            far = plus(far, total(most))
        return loss, above(above(far * (2 * units * TINY)))[:, None]

    def _carried_back(self, forms: dict[str, Floats], kind: int) -> Tally:
        """A lower bound of Σ a·h over some sources, carried back along lines of one kind."""
        waiting = dict(forms)
        shape = self.boxes, next(iter(forms.values())).shape[1]
        tally = Tally.start(np.zeros(shape), np.zeros(shape))
        for cut in reversed(self.cuts):
            if cut.name in waiting:
                tally, d = onto_lines(tally, waiting.pop(cut.name), cut.bands[kind])
                tally = self._onto_sources(tally, d, cut, waiting)
        if self.source in waiting:
            tally = onto_box(tally, waiting[self.source], self.ranges[self.source])
        return tally

    def _onto_sources(self, tally: Tally, d: Floats, cut: Cut, waiting: dict[str, Floats]) -> Tally:
        """d·z = d·c + Σ (d A_j)·h_j: coefficients go to the sources, d·c into the tally."""
        with np.errstate(all="ignore"):
            plain = d @ cut.constant
        tally = tally.add(plain, weighted(np.abs(d), cut.loss), cut.floor)
        for source, matrix in cut.maps:
            with np.errstate(all="ignore"):
                more = (d.reshape(-1, d.shape[2]) @ matrix).reshape(*d.shape[:2], -1)
                if source in waiting:
                    more = waiting[source] + more
            if source in waiting:
                lost = weighted(np.abs(more), self._largest(source))
                tally = tally.add(np.zeros(lost.shape), times(lost, np.full(lost.shape, 2 * UNIT)))
            waiting[source] = more
        return tally


def onto_lines(tally: Tally, a: Floats, band: Band) -> tuple[Tally, Floats]:
    """a·f(z) ≥ d·z + const with d = a·slope: the line below where a ≥ 0, above where a < 0."""
    rising = np.maximum(a, 0.0)
    falling = np.minimum(a, 0.0)
    with np.errstate(all="ignore"):
        d = rising * band.below[:, None] + falling * band.above[:, None]
        const = _product(rising, band.low) + _product(falling, band.high)
    size = weighted(np.abs(a), np.maximum(np.abs(band.low), np.abs(band.high)))
    return tally.add(const, product_error(size, 2 * a.shape[2] + 2, 1.0)), d


def onto_box(tally: Tally, a: Floats, box: Range) -> Tally:
    """a·h ≥ a⁺·lo + a⁻·hi."""
    lo, hi = box
    with np.errstate(all="ignore"):
        value = _product(np.maximum(a, 0.0), lo) + _product(np.minimum(a, 0.0), hi)
    size = weighted(np.abs(a), np.maximum(np.abs(lo), np.abs(hi)))
    return tally.add(value, product_error(size, 2 * a.shape[2] + 2, 1.0))


def _product(a: Floats, values: Floats) -> Floats:
    """`a·values` for every row on every box."""
    return np.asarray(np.matmul(a, values[:, :, None])[..., 0])


def weighted(size: Floats, values: Floats) -> Floats:
    """The same for numbers that are not negative, from above; infinity where nothing is known."""
    n = size.shape[2]
    with np.errstate(all="ignore"):
        return above(above(_product(size, values) + n * TINY) * (1 + n * 2.0**-51))


def total(values: Floats) -> Floats:
    """The sum over all units on every box, from above."""
    with np.errstate(all="ignore"):
        return above(values.sum(axis=1) * (1 + values.shape[1] * 2.0**-51))
