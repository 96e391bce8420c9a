"""Casts to a narrower float type in the middle of a network, as quantised models have them.

In real arithmetic a cast is the identity, and claims in real arithmetic name it. An evaluation in
floats rounds there: |cast(z) − z| ≤ u·|z| + ½·(the smallest subnormal number), u = 2^−digits. Of
what may exceed the largest number nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from reconstruct.errors import InputError
from reconstruct.networks.maps.diagonal import Diagonal
from reconstruct.networks.maps.map import InputBounds, Rounding
from reconstruct.networks.operation import register
from reconstruct.numbers.arrays import Array, Vector
from reconstruct.numbers.double_double import Enclosure, upward
from reconstruct.numbers.rationals import RationalInterval

# by the digits of the significand: the name, the exponent of the smallest normal number, and that
# of the largest power of two
FORMATS = {11: ("float16", -14, 15), 8: ("bfloat16", -126, 127), 24: ("float32", -126, 127)}
BY_FLOAT32 = 1 + 2.0**-12  # programs cast float64 to 16 bits by way of float32, and round twice


@dataclass(frozen=True)
class Cast(Diagonal):
    """`count` values, rounded to the nearest number of `digits` binary digits, ties to even."""

    kind = "Cast"

    count: int
    digits: int

    def __post_init__(self) -> None:
        whole = all(type(number) is int for number in (self.count, self.digits))
        if not whole or self.digits not in FORMATS or self.count < 1:
            raise InputError(
                "a cast needs a number of values and the digits of a float type (11, 8 or 24), but "
                f"got {self.count!r} values and {self.digits!r} digits"
            )

    @property
    def units(self) -> int:
        return self.count

    @property
    def to(self) -> str:
        """The name of the type."""
        return FORMATS[self.digits][0]

    @property
    def largest(self) -> float:
        return (2 - 2.0 ** (1 - self.digits)) * 2.0 ** FORMATS[self.digits][2]

    def __call__(self, *values: Array) -> Array:
        """Scaled by a power of two, values of the type are whole numbers."""
        wide = values[0].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            exponent = np.maximum(np.frexp(wide)[1], FORMATS[self.digits][1] + 1) - self.digits
            near = np.ldexp(np.rint(np.ldexp(wide, -exponent)), exponent)
            near = np.where(np.abs(near) > self.largest, np.copysign(np.inf, wide), near)
            return np.asarray(np.where(np.isfinite(wide), near, wide).astype(values[0].dtype))

    def moved(self, size: Array) -> Array:
        """How far a cast moves values of at most that size; ∞ where they may be too large."""
        least = 2.0 ** (FORMATS[self.digits][1] - self.digits)
        moved = upward(BY_FLOAT32 * (2.0**-self.digits * size + least))
        return np.where(size < self.largest, moved, np.inf)

    def rounding(self, incoming: InputBounds, precision: Any) -> Rounding:
        moved = self.moved(incoming.computed)
        return Rounding(moved, upward(incoming.computed + moved))

    # --- the identity, in each arithmetic -------------------------------------------------------

    def effective(self) -> tuple[Vector, Vector]:
        return np.ones(self.units), np.zeros(self.units)

    def enclosed(self) -> tuple[Enclosure, Enclosure]:
        return Enclosure.exact(np.ones(self.units)), Enclosure.exact(np.zeros(self.units))

    def rationals(self, bits: int) -> tuple[Sequence[RationalInterval], Sequence[RationalInterval]]:
        one, zero = Fraction(1), Fraction(0)
        return [(one, one)] * self.units, [(zero, zero)] * self.units

    def settings(self) -> dict[str, Any]:
        return {"count": self.count, "digits": self.digits}


register("Cast", lambda part, settings: Cast(**settings))
