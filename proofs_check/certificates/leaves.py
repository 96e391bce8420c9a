"""Where the target's values can be, on the boxes of a partition (`reachable` on one box).

The certificate names a tree: bytes in preorder, 0 for a box, i + 1 for a box that is halved along
coordinate i. Its boxes cover the domain whatever the bytes are, so the tree needs no proof. On each
of them values are bounded by lines that are carried back to it (see `lines`). What an activation
takes there is met with what is certain on the whole domain.

Rests on proofs_check: partition-covers, back-substitution.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from proofs_check.certificates.arithmetic import Tally, above, dot, product_error
from proofs_check.certificates.bends import Bend
from proofs_check.certificates.form import Form
from proofs_check.certificates.lines import Lines, Parts, Range
from proofs_check.certificates.report import CheckFailed
from proofs_check.certificates.rows import Block
from proofs_check.certificates.threads import side_by_side
from reconstruct.networks import Box
from reconstruct.networks.activations import Support, Unitwise

BATCH = 64  # boxes at once


class LeafBounds:
    """Bounds of the target's values over all boxes, cut by cut, as `Reachable` gives them."""

    def __init__(self, source: str, domain: Box, code: bytes) -> None:
        self.source = source
        self.lo, self.hi = leaves_of(domain, code)
        self.ranges: dict[str, Range] = {source: (domain.lo, domain.hi)}
        self.values: dict[str, Range] = {source: (self.lo, self.hi)}  # on each box, (boxes, m)
        self.taken: dict[str, Range] = {}  # what cuts take on each box
        parts = [slice(start, start + BATCH) for start in range(0, len(self.lo), BATCH)]
        self.batches = [Lines(source, self.lo[part], self.hi[part]) for part in parts]

    def add_cut(
        self,
        name: str,
        form: Form,
        floats: Range,
        op: Unitwise | None,
        bend: Bend | None,
        certain: Range,
    ) -> None:
        """The range of a cut over all boxes, from those of the cuts before it.

        `certain` bounds the form on the whole domain.
        """

        def one(lines: Lines) -> Range:
            low, high = lines.bounds(form.parts(), floats)
            low, high = np.maximum(low, certain[0]), np.minimum(high, certain[1])
            lines.add(name, form.parts(), floats, op, bend, (low, high))
            return low, high

        lows, highs = zip(*side_by_side(one, self.batches), strict=True)
        self.taken[name] = np.concatenate(lows), np.concatenate(highs)
        pairs = zip(*(lines.ranges[name] for lines in self.batches), strict=True)
        low, high = (np.concatenate(ends) for ends in pairs)
        self.values[name] = low, high
        self.ranges[name] = low.min(axis=0), high.max(axis=0)

    def union(self, name: str) -> Range:
        """What a cut takes, over all boxes."""
        lo, hi = self.taken[name]
        return lo.min(axis=0), hi.max(axis=0)

    def of_form(self, form: Block, floats: Range) -> Range:
        """Bounds of a form of the sources over all boxes, the widest of them first: the least of
        their lower bounds counts, so that most rows need no second look on most boxes."""
        rows = np.concatenate([floats[0], -floats[0]])
        errors = np.concatenate([floats[1], floats[1]])
        best = np.full(len(rows), np.inf)
        for number in self._widest_first(form.parts()):
            lines = self.batches[number // BATCH].take(number % BATCH)
            low, some = np.full(len(rows), -np.inf), np.arange(len(rows))
            for kind in range(len(Support)):
                given = (rows[some], errors[some]), best[some], kind
                low[some] = np.maximum(low[some], lines.below(form.parts(), *given))
                some = np.flatnonzero(~(low >= best))
            best = np.minimum(best, low)
        return best[: form.rows], -best[form.rows :]

    def _widest_first(self, parts: Parts) -> list[int]:
        width = np.zeros(len(self.lo))
        with np.errstate(all="ignore"):
            for view, _ in parts:
                lo, hi = self.values[view.source]
                width = width + np.nan_to_num(hi - lo).sum(axis=1)
        return [int(number) for number in np.argsort(-width, kind="stable")]

    def on_each(self, parts: Parts, floats: Range, boxes: npt.NDArray[np.intp]) -> Range:
        """Bounds of a form of the sources on each of some boxes, by intervals: (boxes, rows)."""
        middle, error = floats
        low = Tally.start(middle[:, -1][None], error[:, -1][None])
        high = Tally.start(-middle[:, -1][None], error[:, -1][None])
        for view, part in parts:
            lo, hi = (end[boxes] for end in self.values[view.source])
            matrix, most = middle[:, part], np.maximum(np.abs(lo), np.abs(hi))
            with np.errstate(all="ignore"):
                centre = 0.5 * lo + 0.5 * hi
                half = above(np.maximum(hi - centre, centre - lo))
                value = centre @ matrix.T
            size = np.abs(matrix).T
            spread = dot(half, size), dot(most, error[:, part].T)
            rounding = product_error(dot(most, size), matrix.shape[1] + 1, 1.0)
            low, high = low.add(value, *spread, rounding), high.add(-value, *spread, rounding)
        return low.lowest(), -high.lowest()


def leaves_of(domain: Box, code: Sequence[int]) -> Range:
    """The boxes of a tree of halves, in its order."""
    lows, highs, stack = [], [], [(domain.lo.copy(), domain.hi.copy())]
    for byte in code:
        if not stack or byte > domain.size:
            raise CheckFailed("tree", "the bytes are not a partition of this domain")
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
    return np.array(lows), np.array(highs)
