"""The least and the largest value of a channel at a given input, over all positions at once.

With c ± r around what a row a ± e meets, |(a ± e)·h − fl(a·c)| ≤ ‖a‖(‖r‖ + γ‖h‖) + ‖e‖‖h‖ by Cauchy
and Schwarz, of which the worst position is taken: one product, and nothing else that is as large as
rows × positions.

Rests on proofs_check: accumulated-rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proofs_check.certificates.arithmetic import TINY, Floats, above, gamma, norms, plus, times
from proofs_check.certificates.form import Form
from proofs_check.certificates.reachable import Range, Ranges, widened
from proofs_check.certificates.views import View


class Seen:
    """What views meet at one input: c, and the largest ‖h‖ and ‖r‖ of all positions."""

    def __init__(self, near: Ranges) -> None:
        self.near = near
        self._met: dict[View, tuple[Floats, float, float]] = {}

    def __call__(self, view: View) -> tuple[Floats, float, float]:
        if view not in self._met:
            ends = self.near.ranges[view.source]
            lo, hi = (view.met(end).reshape(view.columns, -1) for end in ends)
            with np.errstate(all="ignore"):
                centre = np.where(lo == hi, lo, 0.5 * lo + 0.5 * hi)
                radius = np.where(lo == hi, 0.0, above(np.maximum(hi - centre, centre - lo)))
            far, wide = norms(np.maximum(np.abs(lo), np.abs(hi))), norms(radius)
            self._met[view] = centre, float(far.max()), float(wide.max())
        return self._met[view]

    def forget(self, source: str) -> None:
        self._met = {view: met for view, met in self._met.items() if view.source != source}


@dataclass(frozen=True, eq=False)
class Channels:
    """Rows of a form as floats, with the lengths that all inputs share."""

    form: Form
    middle: Floats
    error: Floats
    lengths: tuple[tuple[Floats, Floats], ...]  # ‖a‖ and ‖e‖ of the rows, view by view

    @classmethod
    def of(cls, form: Form) -> Channels:
        middle, error = form.floats()
        pairs = ((middle[:, part], error[:, part]) for _, part in form.parts())
        return cls(form, middle, error, tuple((norms(a.T), norms(e.T)) for a, e in pairs))

    def at(self, seen: Seen) -> Range:
        """Bounds of each row at one input."""
        form, middle = self.form, self.middle
        total = np.repeat(middle[:, -1:], form.positions, axis=1)
        size, room = np.abs(middle[:, -1]), self.error[:, -1]
        for (view, part), (length, off) in zip(form.parts(), self.lengths, strict=True):
            centre, far, wide = seen(view)
            with np.errstate(all="ignore"):
                total += middle[:, part] @ centre
            reached = _by(length, far)
            size = plus(size, reached)
            room = plus(room, _by(length, wide), _by(reached, gamma(view.columns + 1)))
            room = above(plus(room, _by(off, far)) + view.columns * TINY)
        room = plus(room, _by(size, gamma(len(form.layout) + 1)))  # these sums' own rounding
        return widened(total.min(axis=1), total.max(axis=1), room)


def _by(values: Floats, factor: float) -> Floats:
    return times(values, np.full(len(values), factor))
