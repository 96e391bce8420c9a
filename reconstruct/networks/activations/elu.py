"""Exponential linear units: a line above 0, an exponential that levels off below.

The scaled exponential linear unit.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite

import numpy as np

from reconstruct.errors import InputError
from reconstruct.networks.activations.activation import (
    Exponential,
    Line,
    Piece,
    Support,
    Unitwise,
    scaled,
)
from reconstruct.networks.operation import register
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import upward
from reconstruct.numbers.dyadic import Dyadic
from reconstruct.numbers.given import number
from reconstruct.numbers.precision import Precision
from reconstruct.numbers.rationals import RationalInterval, exp_bounds
from reconstruct.numbers.rounding import down, up

EXPM1_ERROR = 2.0**-48  # assumed of the platform's expm1, relative; real ones are within 2^-51
ULPS = 32  # units in the last place that exp or expm1 and the products around it may be off by


class ExponentialUnit(Unitwise):
    """`gain·z` for z ≥ 0 and `gain·alpha·(exp(z) − 1)` below."""

    @property
    @abstractmethod
    def numbers(self) -> tuple[float, float]:
        """`(alpha, gain)`."""

    def __post_init__(self) -> None:
        alpha, gain = (number(n, f"the numbers of {self.kind}") for n in self.numbers)
        if not (isfinite(alpha) and isfinite(gain) and isfinite(alpha * gain)):
            raise InputError(f"{self.kind} needs finite numbers, but got {alpha} and {gain}")

    @property
    def pieces(self) -> tuple[Line | Exponential, ...]:
        alpha, gain = self.numbers
        return Exponential(-inf, 0.0, alpha, gain), Line(0.0, inf, gain, 0.0)

    @property
    def piece(self) -> Piece:
        return Piece(0.0, inf, self.numbers[1])

    @property
    def lipschitz(self) -> float:
        alpha, gain = self.numbers
        return abs(gain) * max(1.0, abs(alpha))

    def __call__(self, *values: Array) -> Array:
        (z,) = values
        alpha, gain = (z.dtype.type(number) for number in self.numbers)
        below = alpha * np.expm1(np.minimum(z, 0))
        bent = np.where(z >= 0, z, below)
        return np.asarray(bent if gain == 1 else gain * bent)

    def derivative(self, z: Array) -> Array:
        alpha, gain = (z.dtype.type(number) for number in self.numbers)
        below = alpha * np.exp(np.minimum(z, 0))
        return np.asarray(gain * np.where(z >= 0, z.dtype.type(1), below))

    def enclose(self, z: Array) -> Range:
        alpha, gain = self.numbers
        small, large = _expm1(np.minimum(z, 0.0))
        small, large = scaled(small, large, np.full_like(z, alpha))
        ends = np.where(z >= 0, z, small), np.where(z >= 0, z, large)
        return scaled(*ends, np.full_like(z, gain))

    def slopes(self, lo: Array, hi: Array, support: Support) -> tuple[Array, Array]:
        """Flat wherever the exponential takes part: it is not straight between vertices."""
        flat = np.where(lo >= 0, self.numbers[1], 0.0)
        return flat, flat

    def exact(self, value: Dyadic, bits: int) -> Dyadic:
        """Each side rises or falls as a whole, so its extremes are at the ends of its part."""
        alpha, gain = (Fraction(number) for number in self.numbers)
        pairs: list[RationalInterval] = []
        for lo, hi in value.fractions():
            below = [
                alpha * (e - 1) for z in (lo, hi) for e in exp_bounds(min(z, Fraction(0)), bits)
            ]
            above = [max(z, Fraction(0)) for z in (lo, hi)]
            ends = ([] if lo >= 0 else below) + (above if hi >= 0 else [])
            pairs.append((min(gain * e for e in ends), max(gain * e for e in ends)))
        return Dyadic.around(pairs, bits)

    def rounding(self, computed: Array, precision: Precision) -> Array:
        """Of exp and expm1 the model assumes 8 units in the last place; casts as they are: below
        the smallest normal number they err by more than a unit roundoff."""
        alpha, gain = self.numbers
        scale, bend = precision.moved(gain), precision.moved(alpha)
        cast = scale * (computed + abs(alpha) + bend) + abs(gain) * bend
        tiny = 4 * precision.tiny * (1 + abs(gain))
        return upward(ULPS * precision.unit * (self.lipschitz * (1 + computed)) + cast + tiny)


@dataclass(frozen=True)
class Elu(ExponentialUnit):
    """`z` for z ≥ 0 and `alpha·(exp(z) − 1)` below."""

    kind = "Elu"

    alpha: float = 1.0

    @property
    def numbers(self) -> tuple[float, float]:
        return self.alpha, 1.0


def _expm1(z: Array) -> Range:
    """Bounds of exp(z) − 1 for z ≤ 0, within [−1, 0]."""
    with np.errstate(all="ignore"):
        value = np.expm1(z)
        slack = np.abs(value) * EXPM1_ERROR
        below = np.maximum(down(value - slack), -1.0)
        above = np.minimum(up(value + slack), 0.0)
    return np.where(z == 0, 0.0, below), np.where(z == 0, 0.0, above)


register("Elu", lambda part, settings: Elu(**settings))


# --- selu ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Selu(ExponentialUnit):
    """`gamma·z` for z ≥ 0 and `gamma·alpha·(exp(z) − 1)` below (ONNX's constants, in float32)."""

    kind = "Selu"

    alpha: float = float(np.float32(1.67326319217681884765625))
    gamma: float = float(np.float32(1.05070102214813232421875))

    @property
    def numbers(self) -> tuple[float, float]:
        return self.alpha, self.gamma


register("Selu", lambda part, settings: Selu(**settings))
