"""The maximum over windows, from the places that it declares: what it does to ranges and errors.

y_i = max of z over window i, pads left out. It is monotone, so ranges go through it end by end; and
|max z − max z'| ≤ max|z − z'|, so errors do. For linear bounds let j be the place of the window
with the largest lower bound: y_i ≥ z_j always, y_i = z_j where no other place can exceed it, and
y_i ≤ the largest upper bound otherwise.

Rests on proofs_check: window-maximum.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from proofs_check.certificates.arithmetic import Floats, Marks
from proofs_check.certificates.bends import Band
from proofs_check.certificates.report import CheckFailed, NotCheckable
from reconstruct.networks.activations import MaxPool

Places = npt.NDArray[np.int64]


class Windows:
    """Places of each window, (places, outputs), −1 for a pad."""

    def __init__(self, op: MaxPool, inputs: int) -> None:
        self.places: Places = np.asarray(op.windows, dtype=np.int64)
        self.there: Marks = self.places >= 0
        fits = self.places.ndim == 2 and bool((self.places < inputs).all())
        if not fits or not self.there.any(axis=0).all():
            raise NotCheckable("a maximum over windows that hold nothing, or more than there is")

    def largest(self, values: Floats) -> Floats:
        """The maximum over each window; NaN is infinite."""
        known = np.where(np.isnan(values), np.inf, values)
        return np.asarray(np.where(self.there, known[self.places], -np.inf).max(axis=0))

    def range(self, lo: Floats, hi: Floats) -> tuple[Floats, Floats]:
        low = self.largest(np.where(np.isnan(lo), -np.inf, lo))
        return low, self.largest(hi)

    def at(self, rows: tuple[int, ...]) -> Places:
        """For each output the place of the entry of its window that a certificate names."""
        count = self.places.shape[1]
        if len(rows) != count or max(rows, default=0) >= len(self.places):
            raise CheckFailed("places", f"an entry for each of {count} windows is needed")
        columns = np.arange(count)
        if not self.there[np.array(rows, dtype=np.intp), columns].all():
            raise CheckFailed("places", "an entry of a window lies on a pad")
        return np.asarray(self.places[np.array(rows, dtype=np.intp), columns])

    def chosen(self, lo: Floats) -> Places:
        """For each output the place with the largest lower bound, where nothing is named."""
        best = np.where(self.there, lo[self.places], -np.inf)
        best = np.where(np.isnan(best), -np.inf, best)
        row = np.argmax(best, axis=0)
        first = np.argmax(self.there, axis=0)  # a pad never wins, not even over −∞
        columns = np.arange(self.places.shape[1])
        row = np.where(self.there[row, columns], row, first)
        return np.asarray(self.places[row, columns])

    def band(self, lo: Floats, hi: Floats, chosen: Places) -> Band:
        """Lines around y as functions of the chosen place."""
        others = np.where(self.there & (self.places != chosen), hi[self.places], -np.inf).max(
            axis=0
        )
        settled = others <= lo[chosen]  # False where anything is not a number
        one, zero = np.ones(len(chosen)), np.zeros(len(chosen))
        _, top = self.range(lo, hi)
        return Band(one, np.where(settled, one, zero), zero, np.where(settled, zero, top))
