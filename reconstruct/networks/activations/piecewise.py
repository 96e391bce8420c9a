"""Activations in pieces: lines that meet in kinks, and lines that an exponential goes on from.

With one kink, at 0, a line through the origin on either side: ReLU and leaky ReLU. With two kinks,
the identity between two ends: Clip. A line above 0 and below it an exponential that levels off: ELU
and SELU.

Rests on proofs_check: back-substitution.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite, isnan

import numpy as np

from reconstruct.errors import InputError
from reconstruct.networks.activations import activation
from reconstruct.networks.activations.activation import Exponential, Line, Piece, Support, Unitwise
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import upward
from reconstruct.numbers.exact import Dyadic, RationalInterval, exp_bounds, integers
from reconstruct.numbers.given import number
from reconstruct.numbers.precision import Precision
from reconstruct.numbers.rounding import down, up


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
        return activation.scaled(z, z, np.where(z >= 0, right, left))

    def slopes(self, lo: Array, hi: Array, support: Support) -> tuple[Array, Array]:
        """The chord on the side where the graph bends away from it, a support on the other."""
        left, right = self.sides
        bent = (lo < 0) & (hi > 0)
        straight = np.where(lo >= 0, right, left)
        chord = (right * hi - left * lo) / (hi - lo)
        chord = np.clip(chord, min(left, right), max(left, right))
        touch = np.where(hi >= -lo * (1 - activation.TIE), right, left)
        if support is Support.FLAT:
            touch = np.where(-lo <= activation.TIE * hi, right, min(left, right, key=abs))
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
    sides = (0.0, 1.0)

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


# --- clip -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Clip(Unitwise):
    """`min(max(z, lo), hi)`: Hardtanh is Clip(−1, 1), ReLU6 is Clip(0, 6).

    An end at infinity clips nothing; ends that leave no finite value are refused.
    """

    kind = "Clip"
    lipschitz = 1.0

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


# --- elu ------------------------------------------------------------------------------------------


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

    @property
    def steepness(self) -> float:
        return self.lipschitz + abs(self.piece.slope)

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
        small, large = activation.scaled(small, large, np.full_like(z, alpha))
        ends = np.where(z >= 0, z, small), np.where(z >= 0, z, large)
        return activation.scaled(*ends, np.full_like(z, gain))

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
