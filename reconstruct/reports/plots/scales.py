"""Scales: from values to shares of an axis, 0 at its start and 1 at its end.

Each scale says which values it can show, how far a range is widened so that marks do not touch its
ends, where a value lies in it, and which of its places are named.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from reconstruct.numbers.arrays import Array, Vector
from reconstruct.reports.plots.ticks import (
    Ticks,
    doubling_ticks,
    even_ticks,
    power_ticks,
    signed_ticks,
)

LARGEST = sys.float_info.max
LEAST = math.ulp(0.0)
MARGIN = 0.05  # of the range, at an end that is not given
ALONE = 0.1  # of a value, on both sides, where all values are the same
BEYOND = 1.3  # times the ends of a signed logarithmic range
DECADE = 0.5  # half a decade on both sides, where a logarithmic scale has one value


class Scale(Protocol):
    """What an axis needs to know."""

    def usable(self, values: Array) -> Array:
        """Which of the values have a place on this scale."""

    def widened(self, low: float, high: float) -> tuple[float, float]:
        """A range around low ≤ high that is not empty."""

    def share(self, values: Array, low: float, high: float) -> Vector:
        """Where the values lie; NaN for those that have no place."""

    def ticks(self, low: float, high: float, most: int) -> Ticks:
        """At most `most` named places."""


def _part(values: Array, first: float, last: float) -> Vector:
    with np.errstate(all="ignore"):
        return np.asarray((values - first) / (last - first))


@dataclass(frozen=True)
class Linear:
    """Equal steps; `whole` names whole numbers alone."""

    whole: bool = False

    def usable(self, values: Array) -> Array:
        return np.isfinite(values)

    def widened(self, low: float, high: float) -> tuple[float, float]:
        if low == high:
            pad = ALONE * abs(low) or 1.0
        else:
            pad = high * MARGIN - low * MARGIN
        return max(low - pad, -LARGEST), min(high + pad, LARGEST)

    def share(self, values: Array, low: float, high: float) -> Vector:
        unit = 0.25 if max(abs(low), abs(high)) > 1e300 else 1.0  # differences must not overflow
        with np.errstate(all="ignore"):
            known = np.where(self.usable(values), values * unit, np.nan)
        return _part(known, low * unit, high * unit)

    def ticks(self, low: float, high: float, most: int) -> Ticks:
        return even_ticks(low, high, most, self.whole)


@dataclass(frozen=True)
class Logarithmic:
    """Equal steps for equal ratios; ticks are powers of `base`, 10 or 2."""

    base: int = 10

    def usable(self, values: Array) -> Array:
        return np.isfinite(values) & (values > 0)

    def widened(self, low: float, high: float) -> tuple[float, float]:
        first, last = math.log10(low), math.log10(high)
        pad = (last - first) * MARGIN if last - first > 1e-9 else DECADE
        start, end = 10.0 ** (first - pad), 10.0 ** min(last + pad, 308.25)
        return min(max(start, LEAST), low), max(end, high)

    def share(self, values: Array, low: float, high: float) -> Vector:
        known = np.where(self.usable(values), values, np.nan)
        first, last = math.log10(low), math.log10(high)
        return _part(np.log10(known), first, last)

    def ticks(self, low: float, high: float, most: int) -> Ticks:
        return (doubling_ticks if self.base == 2 else power_ticks)(low, high, most)


@dataclass(frozen=True)
class SignedLogarithmic:
    """Logarithmic on both sides of 0, linear within `near` of it: sign(v)·log(1 + |v|/near)."""

    near: float

    def usable(self, values: Array) -> Array:
        return np.isfinite(values)

    def widened(self, low: float, high: float) -> tuple[float, float]:
        start = low * BEYOND if low < 0 else low / BEYOND
        end = high * BEYOND if high > 0 else high / BEYOND
        if low == high:
            start, end = Linear().widened(low, high)
        first, last = self._bent(np.array([start, end]))
        if not first < last:  # both are 0 on this scale
            start, end = start - self.near, end + self.near
        return max(start, -LARGEST), min(end, LARGEST)

    def share(self, values: Array, low: float, high: float) -> Vector:
        first, last = self._bent(np.array([low, high]))
        known = np.where(self.usable(values), values, np.nan)
        return _part(self._bent(known), float(first), float(last))

    def _bent(self, values: Array) -> Vector:
        with np.errstate(all="ignore"):
            sizes = np.logaddexp(0.0, np.log(np.abs(values)) - math.log(self.near))
        return np.asarray(np.copysign(sizes, values))

    def ticks(self, low: float, high: float, most: int) -> Ticks:
        return signed_ticks(low, high, self.near, most)
