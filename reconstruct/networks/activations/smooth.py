"""Smooth activations: Sigmoid, Tanh, Softplus, SiLU, HardSwish and GELU.

They stand in f as in g; a certificate needs their values, ranges and Lipschitz constants. All but
Sigmoid may stand inside a site, too, where they are the identity up to `rest`: far from 0,

    |GELU(z) − z| = z·Q(z) ≤ φ(z),   |SiLU(z) − z| ≤ z·e^-z,   softplus(z) − z ≤ e^-z,

all of which fall from 1 on, and close to 0, where |tanh(z) − z| ≤ |z|³/3.
 All of
them rise, but SiLU and GELU fall to one minimum first, between `dip`'s two ends, and are nowhere
below its floor. Their largest slopes, 1.0998 and 1.1289, are at ±2.3994 and √2.

In floats the platform's functions are taken to err by no more than 2^-44 of the value (real ones
are within 2^-50); exact arithmetic is Python's decimal, whose exp and ln are correctly rounded, and
the series of the normal distribution. A checker has its own rational arithmetic for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from math import inf
from typing import Any, ClassVar

import numpy as np
from scipy import special

from reconstruct.networks.activations.activation import Curve, Piece, Support, Unitwise
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import upward
from reconstruct.numbers.exact import Dyadic, RationalInterval
from reconstruct.numbers.precision import Precision
from reconstruct.numbers.rounding import down, up

PLATFORM = 2.0**-44  # assumed of the platform's functions, relative to the value
ULPS = 64  # units in the last place that an evaluation in floats may be off by


@dataclass(frozen=True)
class Formula:
    """The function and its derivative in floats, and in decimal numbers unless it is rational."""

    value: Callable[[Any], Any]
    slope: Callable[[Any], Any]
    exact: Callable[[Decimal], Decimal] | None = None


@dataclass(frozen=True)
class Smooth(Unitwise):
    """A smooth function of one number with a Lipschitz constant."""

    lipschitz: ClassVar[float]
    formula: ClassVar[Formula]
    dip: ClassVar[tuple[float, float, float] | None] = None
    near: ClassVar[tuple[Piece, float] | None] = None  # where it is nearly z, and how nearly
    limits: ClassVar[tuple[int, int | None]] = (0, None)  # far left and right; None: z itself
    far: ClassVar[int] = 60  # beyond, e^-|z| is below 2^-86 and the limits tell the value

    @property
    def pieces(self) -> tuple[Curve, ...]:
        return (Curve(-inf, inf, self.kind),)

    @property
    def piece(self) -> Piece:
        return super().piece if self.near is None else self.near[0]

    @property
    def rest(self) -> float:
        return 0.0 if self.near is None else self.near[1]

    def __call__(self, *values: Array) -> Array:
        (z,) = values
        with np.errstate(all="ignore"):
            return np.asarray(self.formula.value(z), dtype=z.dtype)

    def derivative(self, z: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(self.formula.slope(z), dtype=z.dtype)

    def enclose(self, z: Array) -> Range:
        value = self(z)
        slack = PLATFORM * np.abs(value) + 2.0**-1000
        return down(value - slack), up(value + slack)

    def image(self, lo: Array, hi: Array) -> Range:
        ends = self.enclose(lo), self.enclose(hi)
        low, high = np.minimum(ends[0][0], ends[1][0]), np.maximum(ends[0][1], ends[1][1])
        if self.dip is not None:
            left, right, floor = self.dip
            low = np.where((lo <= right) & (hi >= left), floor, low)
        unknown = ~(np.isfinite(low) & np.isfinite(high))
        return np.where(unknown, -inf, low), np.where(unknown, inf, high)

    def slopes(self, lo: Array, hi: Array, support: Support) -> tuple[Array, Array]:
        return np.zeros_like(lo), np.zeros_like(hi)

    def exact(self, value: Dyadic, bits: int) -> Dyadic:
        pairs: list[RationalInterval] = []
        for lo, hi in value.fractions():
            ends = [self.enclosed(z, bits) for z in {lo, hi}]
            low, high = min(a for a, _ in ends), max(b for _, b in ends)
            if self.dip is not None and lo != hi and lo <= self.dip[1] and hi >= self.dip[0]:
                low = min(low, Fraction(self.dip[2]))
            pairs.append((low, high))
        return Dyadic.around(pairs, bits)

    def enclosed(self, z: Fraction, bits: int) -> RationalInterval:
        """Rationals around the value, about 2^-bits apart."""
        if abs(z) > self.far:
            tiny = Fraction(1, 1 << 80)
            low, high = (z if end is None else Fraction(end) for end in self.limits)
            limit = high if z > 0 else low
            return limit - tiny, limit + tiny
        assert self.formula.exact is not None
        digits = int(bits * 0.302) + 40
        with localcontext(Context(prec=digits)):
            value = Fraction(self.formula.exact(Decimal(z.numerator) / Decimal(z.denominator)))
        slack = Fraction(1, 10 ** (digits - 30))  # |z| ≤ 60 takes 27 digits at most, of Φ's series
        return value - slack, value + slack

    def rounding(self, computed: Array, precision: Precision) -> Array:
        """Assumed of exp, erf and tanh of the machine: a few units in the last place."""
        return upward(ULPS * precision.unit * (1 + self.lipschitz * computed) + precision.tiny)


class Sigmoid(Smooth):
    """1/(1 + e^-z)."""

    kind, lipschitz, limits = "Sigmoid", 0.25, (0, 1)
    formula = Formula(
        special.expit,
        lambda z: special.expit(z) * special.expit(-z),
        lambda z: 1 / (1 + (-z).exp()),
    )


class Tanh(Smooth):
    """(e^z − e^-z)/(e^z + e^-z)."""

    kind, lipschitz, limits = "Tanh", 1.0, (-1, 1)
    formula = Formula(np.tanh, lambda z: 1 - np.tanh(z) ** 2, lambda z: 1 - 2 / (1 + (2 * z).exp()))
    near = Piece(-(2.0**-28), 2.0**-28, 1.0), 2.0**-85  # z³/3; relative to z below 2^-57


class Softplus(Smooth):
    """log(1 + e^z)."""

    kind, lipschitz = "Softplus", 1.0
    formula = Formula(
        lambda z: np.logaddexp(z.dtype.type(0), z), special.expit, lambda z: (1 + z.exp()).ln()
    )
    near = Piece(42.0, inf, 1.0), 2.0**-60  # e^-42 < 2^-60.5


class Silu(Smooth):
    """z/(1 + e^-z)."""

    kind, lipschitz = "Silu", 1.1
    formula = Formula(
        lambda z: z * special.expit(z),
        lambda z: special.expit(z) * (1 + z * (1 - special.expit(z))),
        lambda z: z / (1 + (-z).exp()),
    )
    near = Piece(46.0, inf, 1.0), 2.0**-60  # 46·e^-46 < 2^-60.8
    dip = (-1.2785, -1.2784, -0.2784645428)


class HardSwish(Smooth):
    """z·min(max(z/6 + 1/2, 0), 1): z itself from 3 on, and 0 up to −3."""

    kind, lipschitz = "HardSwish", 1.5
    formula = Formula(
        lambda z: z * np.clip(z / 6 + z.dtype.type(0.5), 0, 1),
        lambda z: np.where(np.abs(z) < 3, z / 3 + 0.5, z > 0),
    )
    dip = (-1.5001, -1.4999, -0.3750000001)
    near = Piece(3.0, inf, 1.0), 0.0

    def enclosed(self, z: Fraction, bits: int) -> RationalInterval:
        """A rational function is known as it is."""
        value = z * min(max(z / 6 + Fraction(1, 2), Fraction(0)), Fraction(1))
        return value, value

    def enclose(self, z: Array) -> Range:
        """Near −3 the factor is what is left of a difference."""
        value, slack = self(z), np.where(np.abs(z) < 4, 2 * PLATFORM, PLATFORM * np.abs(z))
        return down(value - slack), up(value + slack)


class Gelu(Smooth):
    """z·Φ(z), Φ the normal distribution (without the approximation by tanh)."""

    kind, lipschitz, far = "Gelu", 1.13, 12  # 13·Φ(−12) < 10^-30 < 2^-80
    formula = Formula(
        lambda z: z * _normal(z), lambda z: _normal(z) + z * _density(z), lambda z: z * _phi(z)
    )
    near = Piece(9.0, inf, 1.0), 2.0**-59  # φ(9) < 2^-59.7
    dip = (-0.7518, -0.7517, -0.1699712075)


SMOOTH: dict[str, type[Smooth]] = {
    k.kind: k for k in (Sigmoid, Tanh, Softplus, Silu, HardSwish, Gelu)
}


# --- the normal distribution ---------------------------------------------------------------------


def _normal(z: Any) -> Any:
    """Φ, accurate on both sides."""
    return 0.5 * special.erfc(-z * np.sqrt(0.5).astype(z.dtype))


def _density(z: Any) -> Any:
    return np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)


def _phi(z: Decimal) -> Decimal:
    """Φ(z) = 1/2 + φ(z)·(z + z³/3 + z⁵/15 + …), all terms of one sign."""
    term = total = z
    n = 1
    while total + term * z * z / (n + 2) != total:
        n += 2
        term = term * z * z / n
        total += term
    return Decimal("0.5") + (-z * z / 2).exp() / (2 * _pi()).sqrt() * total


def _pi() -> Decimal:
    """Machin: π = 16·arctan(1/5) − 4·arctan(1/239)."""

    def arctan(x: int) -> Decimal:
        power = total = Decimal(1) / x
        n, sign = 1, 1
        while total + power / (n + 2) != total:
            power, n, sign = power / (x * x), n + 2, -sign
            total += sign * power / n
        return total

    return 16 * arctan(5) - 4 * arctan(239)
