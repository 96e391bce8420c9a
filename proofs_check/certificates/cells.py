"""Where the target's values can be on the cells of a grid: `reachable` on many boxes at once.

Ends of values are arrays (cells × units), coefficients that are carried back (cells × rows ×
units): lines and what they lose differ from cell to cell, maps do not. What is told of a value is
its worst over the cells. Images, whose rows stand at many positions, are bounded box by box.

Rests on proofs_check: back-substitution, accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
from proofs_check.certificates.form import Form
from proofs_check.certificates.reachable import SMALL, TILE, Hints
from proofs_check.certificates.rows import Block
from proofs_check.certificates.windows import Windows
from reconstruct.networks import Box, Convolution, Network
from reconstruct.networks.activations import MaxPool, Support, Unitwise

Range = tuple[Floats, Floats]
BATCH = 512  # cells at once


def in_batches(source: str, cells: list[Box]) -> Iterator[Cells]:
    """The cells of a grid, some at a time."""
    for start in range(0, len(cells), BATCH):
        some = cells[start : start + BATCH]
        yield Cells(source, np.stack([c.lo for c in some]), np.stack([c.hi for c in some]))


def unit_by_unit(*networks: Network) -> bool:
    """Whether every row of every form is one unit: `Cells` knows no others."""
    ops = (node.op for network in networks for node in network.nodes)
    return not any(isinstance(op, Convolution | MaxPool) for op in ops)


@dataclass(frozen=True, eq=False)
class _Cut:
    """A cut as in `reachable`: z = Σ A h + c; bands, loss and floor on each cell."""

    name: str
    parts: tuple[tuple[str, Floats], ...]
    constant: Floats
    bands: tuple[Band, ...]
    loss: Floats
    floor: Floats


class Cells:
    """Bounds of the target's values on some boxes, cut by cut; `ranges` and `taken` over all."""

    def __init__(self, source: str, lo: Floats, hi: Floats) -> None:
        self.source, self.count = source, len(lo)
        self.ends: dict[str, Range] = {source: (lo, hi)}
        self.ranges: dict[str, Range] = {source: _worst((lo, hi))}
        self.taken: dict[str, Range] = {}
        self.cuts: list[_Cut] = []

    def of_form(self, form: Block, floats: Range) -> Range:
        """Bounds of a form of the target's sources, its own error included: the worst cell's."""
        return _worst(self._on_each(form, floats))

    def exactly(self, form: Form) -> Range:
        """The same by intervals without rounding on the way."""
        return _worst(self._exactly_on_each(form))

    def _largest(self, name: str) -> Floats:
        lo, hi = self.ends[name]
        return np.maximum(np.abs(lo), np.abs(hi))

    def _on_each(self, form: Block, floats: Range) -> Range:
        middle, error = floats
        shape = self.count, form.rows
        start = np.broadcast_to(middle[:, -1], shape), np.broadcast_to(error[:, -1], shape)
        low, high = Tally.start(*start), Tally.start(-start[0], start[1])
        for view, part in form.parts():
            missed = dot(self._largest(view.source), error[:, part].T)
            low = low.add(self._least(view.source, middle[:, part]), missed)
            high = high.add(self._least(view.source, -middle[:, part]), missed)
        least, most = low.lowest(), -high.lowest()
        if len(form.layout) < 2:
            return least, most
        return (
            np.maximum(least, self._together(form, middle, error)),
            np.minimum(most, -self._together(form, -middle, error)),
        )

    def _together(self, form: Block, middle: Floats, error: Floats) -> Floats:
        """A lower bound of a form of several sources, carried back at once."""
        found = np.full((self.count, form.rows), -np.inf)
        if not self.cuts:
            return found
        missed = [dot(self._largest(v.source), error[:, part].T) for v, part in form.parts()]
        for kind in range(len(self.cuts[0].bands)):
            starts = {view.source: middle[None, :, part] for view, part in form.parts()}
            tally = self._carried_back(starts, kind).add(middle[:, -1], error[:, -1], *missed)
            found = np.maximum(found, tally.lowest())
        return found

    def _exactly_on_each(self, form: Form) -> Range:
        """Intervals of integers: a cell is to a form what a position is."""
        sources = [self.ends[view.source] for view, _ in form.parts()]
        if not all(np.isfinite(end).all() for pair in sources for end in pair):
            full = np.full((self.count, form.rows), np.inf)
            return -full, full
        empty = np.zeros((0, self.count))
        lo, hi = (np.concatenate([empty, *(pair[i].T for pair in sources)]) for i in (0, 1))
        low, high = form.between(lo, hi)
        return low.T, high.T

    def _least(self, source: str, a: Floats) -> Floats:
        """A lower bound of a·h (a: rows × units) on each cell, the best of all ways."""
        found = self._interval(source, a[None])
        if source == self.source:
            return found
        step = max(1, TILE // (self.count * a.shape[1]))
        for start in range(0, len(a), step):
            rows = slice(start, start + step)
            for kind in range(len(self.cuts[0].bands)):
                low = self._carried_back({source: a[None, rows]}, kind).lowest()
                found[:, rows] = np.maximum(found[:, rows], low)
        return found

    def _interval(self, source: str, a: Floats) -> Floats:
        """a⁺·lo + a⁻·hi, less its rounding; a: (1 or cells) × rows × units."""
        lo, hi = self.ends[source]
        size = _dots(np.abs(a), self._largest(source))
        with np.errstate(all="ignore"):
            rising = np.maximum(a, 0.0) @ lo[:, :, None]
            value = (rising + np.minimum(a, 0.0) @ hi[:, :, None])[:, :, 0]
        return Tally.start(value, product_error(size, a.shape[2] + 1, 1.0)).lowest()

    def _carried_back(self, forms: dict[str, Floats], kind: int) -> Tally:
        """A lower bound of Σ a·h over some sources, carried back along lines of one kind."""
        waiting = dict(forms)
        zero = np.zeros((self.count, next(iter(forms.values())).shape[1]))
        tally = Tally.start(zero, zero)
        for cut in reversed(self.cuts):
            if cut.name in waiting:
                tally, slopes = _onto_lines(tally, waiting.pop(cut.name), cut.bands[kind])
                tally = self._onto_sources(tally, slopes, cut, waiting)
        if self.source in waiting:
            tally = tally.add(self._interval(self.source, waiting[self.source]))
        return tally

    def _onto_sources(
        self, tally: Tally, d: Floats, cut: _Cut, waiting: dict[str, Floats]
    ) -> Tally:
        """d·z = d·c + Σ (d A_j)·h_j: coefficients go to the sources, d·c into the tally."""
        with np.errstate(all="ignore"):
            plain = d @ cut.constant
        size = _dots(np.abs(d), np.abs(cut.constant)[None])
        rounding = product_error(size, d.shape[2] + 1, 1.0)
        tally = tally.add(plain, rounding, _dots(np.abs(d), cut.loss), cut.floor[:, None])
        for source, matrix in cut.parts:
            with np.errstate(all="ignore"):
                more = d @ matrix
                if source in waiting:
                    more = waiting[source] + more
            if source in waiting:
                lost = _dots(np.abs(more), self._largest(source))
                lost = times(lost, np.full(lost.shape, 2 * UNIT))
                tally = tally.add(np.zeros(lost.shape), lost)
            waiting[source] = more
        return tally

    def add_cut(
        self,
        name: str,
        form: Form,
        floats: Range,
        op: Unitwise | None,
        bend: Bend | Windows | None,
        hints: Hints | None = None,
    ) -> None:
        """Bounds at a cut: z by its form, h = f(z), or h = z for a sum of branches (no bend).

        `hints` choose lines on the whole box and say nothing of its cells.
        """
        assert not isinstance(bend, Windows)
        lo, hi = self._on_each(form, floats)
        if form.rows * form.radius.shape[1] <= SMALL:
            low, high = self._exactly_on_each(form)
            lo, hi = np.maximum(lo, low), np.minimum(hi, high)
        if op is None or bend is None:
            one, zero = np.ones_like(lo), np.zeros_like(lo)
            bands = tuple(Band(one, one, zero, zero) for _ in Support)
            self.ends[name] = lo, hi
        else:
            bands = tuple(bend.band(lo, hi, _slopes(op, lo, hi, kind)) for kind in Support)
            self.ends[name] = bend.range(lo, hi)
        self.taken[name], self.ranges[name] = _worst((lo, hi)), _worst(self.ends[name])
        reach = np.maximum(np.abs(lo), np.abs(hi))
        self.cuts.append(self._cut(name, form, floats, bands, reach))

    def _cut(
        self, name: str, form: Form, floats: Range, bands: tuple[Band, ...], reach: Floats
    ) -> _Cut:
        """What is needed to carry coefficients through the cut; a coefficient of a source's unit
        is a sum over the rows, so it takes as many roundings."""
        middle, error = floats
        loss, floor = np.broadcast_to(error[:, -1], reach.shape), np.zeros(self.count)
        for view, part in form.parts():
            far = self._largest(view.source)
            size = dot(far, np.abs(middle[:, part]).T)
            moved = times(size, np.full(size.shape, gamma(form.rows)))
            loss = plus(loss, moved, dot(far, error[:, part].T))
            more = above(far.sum(axis=1) * (1 + 2.0**-20))
            floor = above(floor + above(form.rows * TINY * more))
        loss = plus(loss, times(reach, np.full(reach.shape, 2 * UNIT)))  # the product a·slope
        most = above(reach.sum(axis=1) * 1.001)
        floor = above(floor + above(reach.shape[1] * TINY * above(1 + most)))
        parts = tuple((view.source, middle[:, part]) for view, part in form.parts())
        return _Cut(name, parts, middle[:, -1], bands, loss, floor)


def _worst(each: Range) -> Range:
    """The least lower and the largest upper end over the cells."""
    return each[0].min(axis=0), each[1].max(axis=0)


def _dots(rows: Floats, values: Floats) -> Floats:
    """`rows · values` of non-negative floats, from above: (cells × rows × n) by (cells × n)."""
    return dot(rows, values[:, :, None])[:, :, 0]


def _onto_lines(tally: Tally, a: Floats, band: Band) -> tuple[Tally, Floats]:
    """a·f(z) ≥ d·z + const with d = a·slope: the line below where a ≥ 0, above where a < 0.

    What rounding d loses is charged to the cut: 2u|d||z| per unit in its loss, η|z| in its floor.
    """
    rising = a >= 0
    below, high = band.below[:, None], band.high[:, None]
    with np.errstate(all="ignore"):
        d = np.where(a == 0, 0.0, a * np.where(rising, below, band.above[:, None]))
        up, down = np.maximum(a, 0.0) * band.low[:, None], np.minimum(a, 0.0) * high
        rise = np.where(a == 0, 0.0, np.where(rising, up, down)).sum(axis=2)
    most = np.maximum(np.abs(band.low), np.abs(band.high))
    size = _dots(np.abs(a), most)
    return tally.add(rise, product_error(size, a.shape[2] + 1, 1.0)), d


def _slopes(op: Unitwise, lo: Floats, hi: Floats, kind: Support) -> Range:
    """Slopes for the lines: the activation's own choice, and any are sound."""
    with np.errstate(all="ignore"):
        first, second = op.slopes(lo, hi, kind)
    return np.array(np.broadcast_to(first, lo.shape)), np.array(np.broadcast_to(second, lo.shape))
