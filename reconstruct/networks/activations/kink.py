"""Activations with one kink, at 0: a line through the origin on either side.

Rests on proofs_check: back-substitution.

The rectifier.

The rectifier that lets some of the negative side through.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import inf, isfinite

import numpy as np

from reconstruct.errors import InputError
from reconstruct.networks.activations.activation import (
    TIE,
    Line,
    Piece,
    Support,
    Unitwise,
    scaled,
)
from reconstruct.networks.operation import register
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import upward
from reconstruct.numbers.dyadic import Dyadic, integers
from reconstruct.numbers.given import number
from reconstruct.numbers.precision import Precision


class Kink(Unitwise):
    """`right·z` for z ≥ 0 and `left·z` below: say the two slopes, and the rest follows."""

    @property
    @abstractmethod
    def sides(self) -> tuple[float, float]:
        """The slopes left and right of 0; the right one must not be 0."""

    @property
    def pieces(self) -> tuple[Line, ...]:
        left, right = self.sides
        return Line(-inf, 0.0, left, 0.0), Line(0.0, inf, right, 0.0)

    @property
    def piece(self) -> Piece:
        return Piece(0.0, inf, self.sides[1])

    @property
    def lipschitz(self) -> float:
        return max(abs(slope) for slope in self.sides)

    @property
    def steepness(self) -> float:
        """f(z) − right·z is (left − right)·z below 0 and 0 above."""
        left, right = self.sides
        return float(upward(abs(right - left))) if left else abs(right)

    def __call__(self, *values: Array) -> Array:
        (z,) = values
        left, right = (z.dtype.type(slope) for slope in self.sides)
        return np.asarray(np.where(z >= 0, z if right == 1 else right * z, left * z))

    def derivative(self, z: Array) -> Array:
        left, right = (z.dtype.type(slope) for slope in self.sides)
        return np.asarray(np.where(z >= 0, right, left))

    def enclose(self, z: Array) -> Range:
        left, right = self.sides
        return scaled(z, z, np.where(z >= 0, right, left))

    def slopes(self, lo: Array, hi: Array, support: Support) -> tuple[Array, Array]:
        """The chord on the side where the graph bends away from it, a support on the other."""
        left, right = self.sides
        bent = (lo < 0) & (hi > 0)
        straight = np.where(lo >= 0, right, left)
        chord = (right * hi - left * lo) / (hi - lo)
        chord = np.clip(chord, min(left, right), max(left, right))
        touch = np.where(hi >= -lo * (1 - TIE), right, left)
        if support is Support.FLAT:
            touch = np.where(-lo <= TIE * hi, right, min(left, right, key=abs))
        chord_above = left <= right  # convex: the chord lies above
        lower = np.where(bent, touch if chord_above else chord, straight)
        upper = np.where(bent, chord if chord_above else touch, straight)
        return lower, upper

    def exact(self, value: Dyadic, bits: int) -> Dyadic:
        """Both ends, and the kink where it lies between them: there may be the extreme."""
        (left, right), shift = integers(np.array(self.sides))
        ends = [
            np.where(end >= 0, end * int(right), end * int(left))
            for end in ([value.low] if value.low is value.high else [value.low, value.high])
        ]
        if len(ends) == 1:
            return Dyadic(ends[0], ends[0], value.shift + shift)
        low, high = np.minimum(*ends), np.maximum(*ends)
        inside = (value.low < 0) & (value.high > 0)
        low = np.where(inside, np.minimum(low, 0), low)
        high = np.where(inside, np.maximum(high, 0), high)
        return Dyadic(low, high, value.shift + shift)

    def rounding(self, computed: Array, precision: Precision) -> Array:
        """The casts of the slopes and one product."""
        moved = max(precision.moved(slope) for slope in self.sides)
        slope = max(1.0, self.lipschitz)
        return upward((moved + 2 * precision.unit * slope) * computed + precision.tiny)


# --- relu ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Relu(Kink):
    """`max(z, 0)`: exact in every arithmetic."""

    kind = "Relu"

    @property
    def sides(self) -> tuple[float, float]:
        return 0.0, 1.0

    def __call__(self, *values: Array) -> Array:
        (z,) = values
        return np.asarray(np.maximum(z, z.dtype.type(0)))

    def derivative(self, z: Array) -> Array:
        return (z > 0).astype(z.dtype)

    def enclose(self, z: Array) -> Range:
        value = self(z)
        return value, value

    def exact(self, value: Dyadic, bits: int) -> Dyadic:
        return value.rising(lambda ends: np.maximum(ends, 0))

    def rounding(self, computed: Array, precision: Precision) -> Array:
        return np.zeros_like(computed)


register("Relu", lambda part, settings: Relu())


# --- leaky relu ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeakyRelu(Kink):
    """`z` for z ≥ 0 and `slope·z` below; usually 0 < slope < 1."""

    kind = "LeakyRelu"

    slope: float = 0.01

    def __post_init__(self) -> None:
        if not isfinite(number(self.slope, "the slope")):
            raise InputError(f"LeakyRelu needs a finite slope, but got {self.slope}")

    @property
    def sides(self) -> tuple[float, float]:
        return self.slope, 1.0


register("LeakyRelu", lambda part, settings: LeakyRelu(**settings))
