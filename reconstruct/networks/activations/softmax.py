"""Softmax over rows of units: the weights of an attention, which stand in f as in g.

    p_i = e^(z_i) / Σ_j e^(z_j)   over the n units of each row.

p_i rises with z_i and falls with every other. Its derivative along δ is p_i (δ_i − Σ_j p_j δ_j),
in size at most 2 p_i (1 − p_i) max|δ| ≤ max|δ|/2.

Rests on proofs_check: softmax-errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.networks.activations.activation import Activation
from reconstruct.networks.activations.smooth import PLATFORM, ULPS
from reconstruct.networks.operation import ANY_POSITIONS, counted, one
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import upward
from reconstruct.numbers.exact import Dyadic, RationalInterval, exp_bounds
from reconstruct.numbers.precision import Precision
from reconstruct.numbers.rounding import down, gamma, up


@dataclass(frozen=True)
class Softmax(Activation):
    """Unit `r·width + i` is entry i of row r, of `rows` rows."""

    kind = "Softmax"
    lipschitz = 0.5

    width: int
    rows: int = 1

    def __post_init__(self) -> None:
        for what, count in (("width", self.width), ("rows", self.rows)):
            counted(count, f"Softmax needs {what}")

    def size(self, *inputs: int) -> int:
        return one(inputs, f"Softmax of {self.rows} rows", self.width * self.rows)

    def positions_for(self, *counts: int) -> int | None:
        return 1 if counts[0] in (ANY_POSITIONS, 1) else None

    def _rows(self, values: Array) -> Array:
        return values.reshape(*values.shape[:-1], self.rows, self.width)

    def __call__(self, *values: Array) -> Array:
        (z,) = values
        rows = self._rows(z)
        with np.errstate(all="ignore"):
            e = np.exp(rows - rows.max(axis=-1, keepdims=True))
            return np.asarray((e / e.sum(axis=-1, keepdims=True)).reshape(z.shape))

    def pull(self, rows: Array, z: Array) -> Array:
        p, r = self._rows(self(z)), self._rows(rows)
        return np.asarray((p * (r - (p * r).sum(axis=-1, keepdims=True))).reshape(z.shape))

    # --- bounds ---------------------------------------------------------------------------------

    def image(self, lo: Array, hi: Array) -> Range:
        """e^lo over the sum of e^hi, and e^hi over the sum of e^lo: as narrow as the box is."""
        low, high = self._rows(lo), self._rows(hi)
        with np.errstate(all="ignore"):
            top = high.max(axis=-1, keepdims=True)
            below, above = np.exp(down(low - top)), np.exp(up(high - top))
            below, above = down(below * (1 - PLATFORM)), up(above * (1 + PLATFORM))
            below = np.maximum(below, 0.0)
            wide = gamma(self.width + 4)
            least = below / up(above.sum(axis=-1, keepdims=True) * (1 + wide))
            most = above / down(below.sum(axis=-1, keepdims=True) * (1 - wide))
            least, most = np.maximum(down(least), 0.0), np.minimum(up(most), 1.0)
        least = np.where(np.isnan(least), 0.0, least).reshape(lo.shape)
        return least, np.where(np.isnan(most), 1.0, most).reshape(hi.shape)

    def carried(self, error: Array) -> Array:
        rows = self._rows(error)
        most = np.minimum(rows.max(axis=-1, keepdims=True), 2.0)  # p is in [0, 1]
        return upward(0.5 * np.broadcast_to(most, rows.shape).reshape(error.shape))

    def magnitude(self, size: Array) -> Array:
        return np.ones_like(size)

    def sizes(self, z: Array) -> Array:
        """What roundings move: p itself, and the exponent on its way."""
        size = 1 + 2 * np.abs(self._rows(z)).max(axis=-1, keepdims=True)
        return np.broadcast_to(size, self._rows(z).shape).reshape(z.shape)

    def rounding(self, computed: Array, precision: Precision) -> Array:
        """Of exp the model assumes a few units in the last place."""
        steps = (self.width + ULPS) * precision.unit
        return upward(steps * self.sizes(computed) + self.width * precision.tiny)

    def exact(self, value: Dyadic, bits: int) -> Dyadic:
        """The same quotients of rational bounds of the exponentials, each its own in both sums."""
        pairs: list[RationalInterval] = []
        numbers = value.fractions()
        for start in range(0, len(numbers), self.width):
            row = numbers[start : start + self.width]
            top = max(high for _, high in row)
            ends = [(exp_bounds(a - top, bits)[0], exp_bounds(b - top, bits)[1]) for a, b in row]
            least, most = (sum(end[i] for end in ends) for i in (0, 1))
            pairs += [(a / (most - b + a), b / (least - a + b)) for a, b in ends]
        return Dyadic.around(pairs, bits)
