"""Factors and divisors as a file states them: never multiplied into weights, never rounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from reconstruct.errors import InputError
from reconstruct.networks.maps.diagonal import Diagonal, Parts, Roundings
from reconstruct.networks.maps.map import InputBounds, Rounding
from reconstruct.networks.operation import register, set_once
from reconstruct.numbers.arrays import Array, Vector, frozen_array
from reconstruct.numbers.double_double import Enclosure, quotient, upward
from reconstruct.numbers.precision import Precision
from reconstruct.numbers.rationals import RationalInterval


@dataclass(frozen=True, eq=False)
class Scaling(Diagonal):
    """`z ↦ z∘factor/divisor + offset`, unit by unit, for Mul, Div, Sub, alpha and file headers.

    In real arithmetic the factor is the rational factor/divisor, which need not be a float.
    """

    kind = "Scaling"

    factor: Vector
    divisor: Vector
    offset: Vector

    def __init__(
        self,
        factor: ArrayLike,
        divisor: ArrayLike | None = None,
        offset: ArrayLike | None = None,
    ) -> None:
        first = frozen_array(factor)
        second = frozen_array(np.ones_like(first) if divisor is None else divisor)
        third = frozen_array(np.zeros_like(first) if offset is None else offset)
        shapes = {first.shape, second.shape, third.shape}
        if len(shapes) != 1 or first.ndim != 1 or not first.size:
            raise InputError(
                f"a scaling needs factors, divisors and offsets of one length, but got {shapes}"
            )
        if not np.all(second != 0):
            raise InputError("a scaling cannot divide by zero; check the divisors")
        set_once(self, factor=first, divisor=second, offset=third)

    @property
    def units(self) -> int:
        return len(self.factor)

    @cached_property
    def repeats(self) -> int:
        """How many neighbours are scaled alike, all along: the pixels of a channel, or 1."""
        parts = np.stack([self.factor, self.divisor, self.offset])
        changes = np.flatnonzero(np.any(parts != parts[:, :1], axis=0))
        length = int(changes[0]) if len(changes) else self.units
        if self.units % length:
            return 1
        blocks = parts.reshape(3, -1, length)
        return length if bool(np.all(blocks == blocks[:, :, :1])) else 1

    def hidden(self, start: int, stop: int) -> Scaling:
        part = slice(start, stop)
        return Scaling(self.factor[part], self.divisor[part], self.offset[part])

    def __call__(self, *values: Array) -> Array:
        (z,) = values
        kind = z.dtype
        value = z * self.factor.astype(kind)
        value /= self.divisor.astype(kind)
        value += self.offset.astype(kind)
        return np.asarray(value)

    # --- s = factor/divisor and t = offset, in each arithmetic ----------------------------------

    def effective(self) -> tuple[Vector, Vector]:
        return self.factor / self.divisor, self.offset

    def enclosed(self) -> tuple[Enclosure, Enclosure]:
        plain = np.abs(self.divisor) == 1
        signed = Enclosure.exact(self.factor * np.sign(self.divisor))
        scale = signed
        if not plain.all():
            found = quotient(signed, Enclosure.exact(np.abs(self.divisor)))
            scale = Enclosure(
                np.where(plain, signed.high, found.high),
                np.where(plain, 0.0, found.low),
                np.where(plain, 0.0, found.radius),
            )
        return scale, Enclosure.exact(self.offset)

    def rationals(self, bits: int) -> tuple[Sequence[RationalInterval], Sequence[RationalInterval]]:
        scales = [
            Fraction(float(a)) / Fraction(float(b))
            for a, b in zip(self.factor, self.divisor, strict=True)
        ]
        offsets = [Fraction(float(c)) for c in self.offset]
        return [(s, s) for s in scales], [(t, t) for t in offsets]

    def rounding(self, incoming: InputBounds, precision: Precision) -> Rounding:
        """A product, a quotient and a sum with numbers that are cast first, or folded into the map
        before. |z·factor| and |z·factor/divisor| may lie far apart, so the peak takes both.
        """
        scale, shift = (part.magnitude() for part in self.enclosed())
        parts = Parts(scale, upward(scale * incoming.computed), np.zeros_like(shift), shift)
        numbers = [np.abs(part) for part in self.arrays().values()]
        least = min(float(np.min(part[part > 0], initial=1.0)) for part in numbers)
        inputs = 0.0 if incoming.before is None else incoming.before.inputs
        lost = 8 * precision.tiny * (1 + scale + 1 / least + inputs)
        error = upward(parts.error(incoming, self._roundings(precision), precision) + lost)
        if not all(precision.normal(part).all() for part in numbers):
            error = np.full_like(error, np.inf)
        peak = parts.peak(incoming) + incoming.computed * np.maximum(1.0, np.max(numbers, axis=0))
        return Rounding(error, upward(peak))

    def _roundings(self, precision: Precision) -> Roundings:
        """None but the sum's, where all factors are 1 and offsets are numbers of the format; else
        two casts, a quotient and products."""
        plain = bool(np.all(self.factor == 1) and np.all(self.divisor == 1))
        held = np.array_equal(precision.cast(self.offset), self.offset)
        if plain and held:
            return Roundings(scaled=0, centre=0, shift=0, folded=0)
        return Roundings(scaled=6, centre=0, shift=2, folded=6)

    def arrays(self) -> dict[str, Array]:
        return {"factor": self.factor, "divisor": self.divisor, "offset": self.offset}


register(
    "Scaling",
    lambda part, settings: Scaling(part("factor"), part("divisor"), part("offset")),
)
