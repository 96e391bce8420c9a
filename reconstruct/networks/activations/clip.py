"""The identity between two ends."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, isnan

import numpy as np

from reconstruct.errors import InputError
from reconstruct.networks.activations.activation import Line, Piece, Support, Unitwise
from reconstruct.networks.operation import register
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import upward
from reconstruct.numbers.dyadic import Dyadic, integers
from reconstruct.numbers.given import number
from reconstruct.numbers.precision import Precision


@dataclass(frozen=True)
class Clip(Unitwise):
    """`min(max(z, lo), hi)`: Hardtanh is Clip(−1, 1), ReLU6 is Clip(0, 6).

    An end at infinity clips nothing; ends that leave no finite value are refused.
    """

    kind = "Clip"

    lo: float = -1.0
    hi: float = 1.0

    def __post_init__(self) -> None:
        lo, hi = (number(end, "an end of Clip") for end in (self.lo, self.hi))
        if isnan(lo) or isnan(hi) or not lo <= hi:
            raise InputError(f"Clip needs lo ≤ hi, but got [{self.lo}, {self.hi}]")
        if self.lo == inf or self.hi == -inf:
            raise InputError(
                f"Clip to [{self.lo}, {self.hi}] leaves no finite value; give it finite ends, or "
                "ends at infinity that clip nothing"
            )

    @property
    def pieces(self) -> tuple[Line, ...]:
        found = [Line(self.lo, self.hi, 1.0, 0.0)]
        if isfinite(self.lo):
            found.insert(0, Line(-inf, self.lo, 0.0, self.lo))
        if isfinite(self.hi):
            found.append(Line(self.hi, inf, 0.0, self.hi))
        return tuple(found)

    @property
    def breakpoints(self) -> tuple[float, ...]:
        return self.lo, self.hi

    @property
    def piece(self) -> Piece:
        return Piece(self.lo, self.hi, 1.0)

    @property
    def lipschitz(self) -> float:
        return 1.0

    def __call__(self, *values: Array) -> Array:
        (z,) = values
        return np.clip(z, z.dtype.type(self.lo), z.dtype.type(self.hi))

    def derivative(self, z: Array) -> Array:
        return ((z > self.lo) & (z < self.hi)).astype(z.dtype)

    def enclose(self, z: Array) -> Range:
        value = self(z)
        return value, value

    def slopes(self, lo: Array, hi: Array, support: Support) -> tuple[Array, Array]:
        """A chord where the graph bends away, and the support elsewhere.

        Bent at both ends: below, the line from (self.lo, self.lo) to (hi, self.hi); above, the
        line from (lo, self.lo) to (self.hi, self.hi).
        """
        rise = np.clip(hi, self.lo, self.hi) - np.clip(lo, self.lo, self.hi)
        foot, head = lo < self.lo, hi > self.hi
        inside = ((lo >= self.lo) & (hi <= self.hi)).astype(np.float64)
        lower = np.where(head, rise / (hi - np.maximum(lo, self.lo)), inside)
        area = support is Support.AREA
        lower = np.where(foot & ~head, area & (hi - self.lo > self.lo - lo), lower)
        upper = np.where(foot, rise / (np.minimum(hi, self.hi) - lo), inside)
        upper = np.where(head & ~foot, area & (self.hi - lo > hi - self.hi), upper)
        outside = (hi <= self.lo) | (lo >= self.hi)
        return np.where(outside, 0.0, lower), np.where(outside, 0.0, upper)

    def magnitude(self, size: Array) -> Array:
        """Never beyond the ends, and never below the end that lies on the other side of 0."""
        start = max(self.lo, -self.hi, 0.0)
        return np.maximum(np.minimum(size, max(abs(self.lo), abs(self.hi))), start)

    def exact(self, value: Dyadic, bits: int) -> Dyadic:
        """Both ends applied in turn."""
        for end, pick in ((self.lo, np.maximum), (self.hi, np.minimum)):
            if isfinite(end):
                whole, shift = integers(np.array([end]))
                value = value.at(max(shift, value.shift))
                limit = int(whole[0]) << (value.shift - shift)
                value = value.rising(lambda ends, pick=pick, limit=limit: pick(ends, limit))  # type: ignore[misc]
        return value

    def rounding(self, computed: Array, precision: Precision) -> Array:
        """The casts of the ends, and nothing else."""
        ends = [end for end in (self.lo, self.hi) if isfinite(end)]
        moved = max((precision.moved(end) for end in ends), default=0.0)
        return np.full_like(computed, float(upward(moved)) if moved else 0.0)


register("Clip", lambda part, settings: Clip(**settings))
