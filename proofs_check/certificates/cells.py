"""Where the target's values can be on the cells of a grid: what is told is the worst over them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from proofs_check.certificates.arithmetic import Floats
from proofs_check.certificates.bends import Bend
from proofs_check.certificates.form import Form
from proofs_check.certificates.lines import Lines
from proofs_check.certificates.reachable import SMALL, Hints
from proofs_check.certificates.rows import Block
from proofs_check.certificates.windows import Windows
from reconstruct.networks import Box, Convolution, Network
from reconstruct.networks.activations import MaxPool, Unitwise

Range = tuple[Floats, Floats]
BATCH = 512  # cells at once


def in_batches(source: str, cells: list[Box]) -> Iterator[Cells]:
    """The cells of a grid, some at a time."""
    for start in range(0, len(cells), BATCH):
        some = cells[start : start + BATCH]
        yield Cells(source, np.stack([c.lo for c in some]), np.stack([c.hi for c in some]))


def unit_by_unit(*networks: Network) -> bool:
    """Whether every row of every form is one unit: `Lines` knows no others."""
    ops = (node.op for network in networks for node in network.nodes)
    return not any(isinstance(op, Convolution | MaxPool) for op in ops)


class Cells:
    """Bounds of the target's values on some boxes, cut by cut; `ranges` and `taken` over all."""

    def __init__(self, source: str, lo: Floats, hi: Floats) -> None:
        self.lines = Lines(source, lo, hi)
        self.ranges: dict[str, Range] = {source: _worst((lo, hi))}
        self.taken: dict[str, Range] = {}

    def of_form(self, form: Block, floats: Range) -> Range:
        """Bounds of a form of the target's sources, its own error included: the worst cell's."""
        return _worst(self.lines.bounds(form.parts(), floats))

    def exactly(self, form: Form) -> Range:
        """The same by intervals without rounding on the way."""
        return _worst(self._exactly_on_each(form))

    def _exactly_on_each(self, form: Form) -> Range:
        """Intervals of integers: a cell is to a form what a position is."""
        sources = [self.lines.ranges[view.source] for view, _ in form.parts()]
        if not all(np.isfinite(end).all() for pair in sources for end in pair):
            full = np.full((self.lines.boxes, form.rows), np.inf)
            return -full, full
        empty = np.zeros((0, self.lines.boxes))
        lo, hi = (np.concatenate([empty, *(pair[i].T for pair in sources)]) for i in (0, 1))
        low, high = form.between(lo, hi)
        return low.T, high.T

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
        lo, hi = self.lines.bounds(form.parts(), floats)
        if form.rows * form.radius.shape[1] <= SMALL:
            low, high = self._exactly_on_each(form)
            lo, hi = np.maximum(lo, low), np.minimum(hi, high)
        self.lines.add(name, form.parts(), floats, op, bend, (lo, hi))
        self.taken[name], self.ranges[name] = _worst((lo, hi)), _worst(self.lines.ranges[name])


def _worst(each: Range) -> Range:
    """The least lower and the largest upper end over the cells."""
    return each[0].min(axis=0), each[1].max(axis=0)
