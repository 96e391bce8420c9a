"""The maximum over windows, from the places that it declares: what it does to ranges and errors.

y_i = max of z over window i, pads left out. It is monotone, so ranges go through it end by end; and
|max z − max z'| ≤ max|z − z'|, so errors do. For linear bounds let j be the place of the window
with the largest lower bound: y_i ≥ z_j always, y_i = z_j where no other place can exceed it, and
y_i ≤ the largest upper bound otherwise.

Rests on proofs_check: window-maximum.
"""

from __future__ import annotations

import numpy as np

from proofs_check.certificates.arithmetic import Floats, Marks
from proofs_check.certificates.bends import Band
from proofs_check.certificates.rationals import Places
from proofs_check.certificates.report import NotCheckable
from reconstruct.networks.activations import MaxPool

TIE = 2.0**-30  # of the largest end in a window


class Windows:
    """Places of each window, (places, outputs), −1 for a pad."""

    def __init__(self, op: MaxPool, inputs: int) -> None:
        self.places: Places = np.asarray(op.windows, dtype=np.int64)
        self.there: Marks = self.places >= 0
        fits = self.places.ndim == 2 and bool((self.places < inputs).all())
        if not fits or not self.there.any(axis=0).all():
            raise NotCheckable("a maximum over windows that hold nothing, or more than there is")

    def held(self) -> list[list[int]]:
        """The places of each window, pads left out."""
        pairs = zip(self.places.T, self.there.T, strict=True)
        return [places[there].tolist() for places, there in pairs]

    def largest(self, values: Floats) -> Floats:
        """The maximum over each window, (…, windows); NaN is infinite."""
        known = np.where(np.isnan(values), np.inf, values)
        return np.asarray(np.where(self.there, known[..., self.places], -np.inf).max(axis=-2))

    def range(self, lo: Floats, hi: Floats) -> tuple[Floats, Floats]:
        return self.largest(np.where(np.isnan(lo), -np.inf, lo)), self.largest(hi)

    def chosen(self, lo: Floats, hi: Floats) -> Places:
        """For each window the place with the largest lower bound, the first of those that are so
        but for rounding, (boxes, windows): then no choice hangs on who computes. Any is sound."""
        known = np.where(self.there, lo[:, self.places], -np.inf)
        size = np.where(self.there, np.maximum(np.abs(lo), np.abs(hi))[:, self.places], 0.0)
        with np.errstate(all="ignore"):
            far = known < (known.max(axis=1) - TIE * size.max(axis=1))[:, None]
        row = np.argmax(self.there & ~far, axis=1)
        return np.asarray(self.places[row, np.arange(self.places.shape[1])])

    def band(self, lo: Floats, hi: Floats, chosen: Places) -> Band:
        """Lines around y as functions of the chosen place, (boxes, windows)."""
        rivals = self.there & (self.places != chosen[:, None])
        others = np.where(rivals, hi[:, self.places], -np.inf).max(axis=1)
        settled = others <= np.take_along_axis(lo, chosen, axis=1)  # False for what is no number
        one, zero = np.ones(chosen.shape), np.zeros(chosen.shape)
        top = self.largest(hi)
        return Band(one, np.where(settled, one, zero), zero, np.where(settled, zero, top))
