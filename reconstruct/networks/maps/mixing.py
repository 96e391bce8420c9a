"""Maps that sum over their inputs; every entry is a float, so nothing about L is uncertain.

Rests on proofs_check: accumulated-rounding, active-relu-is-identity.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import ClassVar

import numpy as np

from reconstruct.networks.maps.map import Map, RoundingError
from reconstruct.networks.operation import one
from reconstruct.numbers.arrays import Array, Matrix, Range, Vector
from reconstruct.numbers.dyadic import Dyadic, Integers, integers
from reconstruct.numbers.rounding import (
    SLACK,
    TINY,
    gamma,
    inflate,
    midpoint,
    smallest,
    underflow,
    up,
    widen,
)


class Mixing(Map):
    """`h ↦ L h + bias` with L of `shape` m × k, its entries floats.

    Derive from it, say `shape`, `bias`, `linear`, `absolute`, `pull`, `tile` and `least`, and every
    analysis follows.
    """

    bias: Vector
    own_entries: ClassVar[bool] = True  # whether every entry of L is a weight of its own
    fixed: ClassVar[bool] = False  # whether it stands in f as it stands in g, not to be rebuilt

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """`(m, k)`."""

    @abstractmethod
    def linear(self, rows: Array) -> Array:
        """`L h` for every row h of a batch, in the precision of the batch."""

    @abstractmethod
    def tile(self, start: int, stop: int) -> Array:
        """Rows `start:stop` of L as a small dense float64 matrix."""

    @abstractmethod
    def columns(self, start: int, stop: int) -> Array:
        """Columns `start:stop` of L as a small dense float64 matrix."""

    @property
    @abstractmethod
    def least(self) -> float:
        """The smallest magnitude of an entry that is not zero (+inf if there is none)."""

    @property
    def row_signs(self) -> Array:
        """1 for rows without a negative entry, −1 for those without a positive one; else 0."""
        return np.zeros(self.shape[0], dtype=int)

    @property
    @abstractmethod
    def largest(self) -> float:
        """The largest magnitude of an entry."""

    @property
    def summands(self) -> int:
        """How many products a row sums at most."""
        return self.shape[1]

    @property
    def fan_out(self) -> int:
        """How many products a column sums at most: the terms of a pull."""
        return self.shape[0]

    @property
    def channels(self) -> int:
        """Rows that differ by more than their position: what a norm has a gamma for."""
        return self.shape[0]

    @property
    def positions(self) -> int:
        """Units that share a channel."""
        return 1

    def positions_for(self, *counts: int) -> int | None:
        return self.positions if counts[0] <= 1 else None

    @property
    def kernels(self) -> tuple[Matrix, ...]:
        """The matrices that a construction rebuilds, one for each group."""
        return (self.matrix,)

    @property
    def matrix(self) -> Matrix:
        """L as one matrix, dense unless the map keeps it sparse: for maps that are solved for."""
        return self.tile(0, self.shape[0])

    @property
    def channel_bias(self) -> Vector:
        """The constant of each channel."""
        return self.bias

    def patch_maxima(self, values: Array) -> Array:
        """The largest of the values, one for each unit of the input, that a kernel entry meets."""
        return values

    def patch_rows(self, values: Array) -> Array:
        """What the kernels are applied to when the input is `values`: one row per position."""
        return values

    def with_kernel(self, kernel: Matrix) -> Mixing:
        """A map of the same geometry with another kernel: how the frozen site of a map begins."""
        from reconstruct.networks.maps.dense import Affine

        return Affine(kernel)

    def behind(self, kernel: Matrix) -> Mixing:
        """A map that mixes the channels of such a map, unit by unit: how its site goes on."""
        from reconstruct.networks.maps.dense import Affine

        return Affine(kernel)

    def spans(self, entries: int) -> list[tuple[int, int]]:
        """`(start, stop)` over all rows, about `entries` numbers at a time."""
        m, k = self.shape
        step = max(1, entries // max(1, k))
        return [(start, min(m, start + step)) for start in range(0, m, step)]

    # --- what follows from that -----------------------------------------------------------------

    def size(self, *inputs: int) -> int:
        one(inputs, "an affine map", self.shape[1])
        return self.shape[0]

    def __call__(self, *values: Array) -> Array:
        (h,) = values
        product = self.linear(h)
        if self.channel_bias.any():
            product += self.bias.astype(h.dtype, copy=False)
        return np.asarray(product)

    @property
    def shift(self) -> Vector:
        return self.bias

    def image(self, lo: Array, hi: Array) -> Range:
        """`L m + b` ± `|L| r`, m the middle of the range and r its radius, with all rounding.

        The middle errs by γ_{k+1} (|L||m| + |b|), and its part γ|m| is carried along with r: so
        two products do. A coordinate without finite bounds makes every row that uses it unbounded,
        and no other. Where all entries and all inputs have one sign the ends are no hair beyond 0:
        units that touch 0 count as active.
        """
        unbounded = ~(np.isfinite(lo) & np.isfinite(hi))
        if unbounded.any():
            lo, hi = np.where(unbounded, 0.0, lo), np.where(unbounded, 0.0, hi)
        with np.errstate(all="ignore"):
            factor = gamma(self.summands + 8) * SLACK  # with the few roundings of the radius itself
            middle, radius = midpoint(lo, hi)
            doubt = inflate(np.abs(middle), factor)
            reach = np.where(doubt == 0, radius, up(radius + doubt))
            lost = sum(
                underflow(self.summands, self.least, smallest(part)) for part in (middle, reach)
            )
            centre = self.linear(middle) + self.bias
            size = self.absolute(reach) + inflate(np.abs(self.bias), factor)
            below, above = widen(centre, inflate(size, float(up(1 + factor)), 2 * lost))
        unknown = ~np.isfinite(centre)
        if unbounded.any():
            unknown |= self.touched(unbounded)
        above_0, below_0 = (part.all(axis=-1, keepdims=True) for part in (lo >= 0, hi <= 0))
        signs = self.row_signs * (above_0.astype(int) - below_0)
        below = np.where((signs > 0) & (self.bias >= 0), np.maximum(below, 0.0), below)
        above = np.where((signs < 0) & (self.bias <= 0), np.minimum(above, 0.0), above)
        return np.where(unknown, -np.inf, below), np.where(unknown, np.inf, above)

    def touched(self, marked: Array) -> Array:
        """Which rows have an entry that is not zero at a marked coordinate."""
        with np.errstate(all="ignore"):
            return np.asarray(self.absolute(marked.astype(np.float64)) > 0)

    def pull_error(self, reach: Array) -> RoundingError:
        """γ_n·|L||h| per unit of |Λ|, because |fl(ΛL) − ΛL||h| ≤ γ_n |Λ|(|L||h|); underflow n·η."""
        terms = self.fan_out
        size = self.absolute(reach)
        error = (gamma(terms) * SLACK) * (size + self.summands * TINY)
        floor = (terms * TINY) * reach.sum(axis=1) * SLACK
        return RoundingError(self.bias[None], error, floor)

    def exact(self, value: Dyadic, bits: int) -> Dyadic:
        return value.times(*self._integers) + Dyadic.exact(self.bias)

    @cached_property
    def _integers(self) -> tuple[Integers, int]:
        return integers(self.tile(0, self.shape[0]))

    @property
    def weights(self) -> int:
        m, k = self.shape
        return m * k

    @property
    def parameters(self) -> int:
        return self.weights + len(self.bias)
