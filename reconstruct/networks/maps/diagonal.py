"""Maps that treat each unit on its own: `z ↦ s∘z + t`, with s and t perhaps irrational.

`Scaling` has factors and divisors as a file states them: never multiplied into weights, never
rounded. `Cast` goes to a narrower float type in the middle of a network, as quantised models do;
the third one, `Norm`, has a file of its own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reconstruct.errors import InputError
from reconstruct.networks.maps.map import InputBounds, Map, Rounding, RoundingError
from reconstruct.networks.operation import one, register, set_once
from reconstruct.numbers.arrays import Array, Range, Vector, frozen_array
from reconstruct.numbers.double_double import Enclosure, quotient, upward
from reconstruct.numbers.dyadic import Dyadic
from reconstruct.numbers.precision import Precision
from reconstruct.numbers.rationals import RationalInterval
from reconstruct.numbers.rounding import (
    SLACK,
    TINY,
    UNIT,
    down,
    inflate,
    magnitude,
    midpoint,
    times,
    up,
)


@dataclass(frozen=True)
class Roundings:
    """How many roundings the parts of `s∘(z − c) + t` meet, casts included, one each to spare.

    `scaled`, `centre` and `shift` count those of s z, of s c and of t before the last sum; `folded`
    those of s W and s b beyond what W and b meet themselves.
    """

    scaled: int
    centre: int
    shift: int
    folded: int


@dataclass(frozen=True, eq=False)
class Parts:
    """Bounds of |s|, of |s ẑ|, of |s c| and of |t|."""

    scale: Array
    scaled: Array
    centre: Array
    shift: Array

    def error(self, incoming: InputBounds, count: Roundings, precision: Precision) -> Array:
        """What the map adds, evaluated by itself or folded into the sums before it.

        By itself the last sum rounds once what then is there. Folded, t is one more term of a sum
        of n products, in any place, so that it meets all of its n roundings.
        Rests on proofs_check: norm-rounding.
        """
        gamma = precision.gamma
        apart = gamma(count.scaled) * self.scaled + gamma(count.centre) * self.centre
        apart = upward(apart + gamma(count.shift) * self.shift)
        there = upward(incoming.result + self.scale * incoming.error + apart)
        apart = upward(apart + gamma(1) * there)
        if incoming.before is None:
            return apart
        summed = incoming.before.roundings
        folded = precision.more(summed, count.folded) * upward(self.scale * incoming.before.gross)
        folded = folded + gamma(summed + count.shift) * self.shift
        folded = folded + gamma(summed + count.centre) * self.centre
        return np.maximum(apart, upward(folded))

    def peak(self, incoming: InputBounds) -> Array:
        """Of every partial result."""
        terms = self.scaled if incoming.before is None else self.scale * incoming.before.gross
        return upward(np.maximum(self.scaled, terms) + 2 * self.centre + self.shift)


class Diagonal(Map):
    """`z ↦ s∘z + t` on `units` values.

    Derive from it and say s and t in each arithmetic, beside each other: rounded to float64
    (`effective`), to double-double accuracy (`enclosed`) and as rationals (`rationals`); and what
    evaluation in floats costs (`rounding`).
    """

    positions: int = 1  # units that share a channel

    @property
    @abstractmethod
    def units(self) -> int:
        """How many values it takes and gives."""

    @abstractmethod
    def effective(self) -> tuple[Vector, Vector]:
        """`(s, t)`, rounded to float64."""

    @abstractmethod
    def enclosed(self) -> tuple[Enclosure, Enclosure]:
        """`(s, t)` in real arithmetic, to about 2^-100."""

    @abstractmethod
    def rationals(self, bits: int) -> tuple[Sequence[RationalInterval], Sequence[RationalInterval]]:
        """`(s, t)` as intervals of rationals, of no width where they are rational."""

    @abstractmethod
    def rounding(self, incoming: InputBounds, precision: Precision) -> Rounding:
        """|fl(s ẑ + t) − (s ẑ + t)| however a program computes it, casts included."""

    # --- what follows from that -----------------------------------------------------------------

    def bounds(self) -> tuple[Range, Range]:
        """Floats below and above s, and below and above t; equal where they are floats."""
        with np.errstate(all="ignore"):  # what overflows is not known, and so not bounded
            scale, shift = self.enclosed()
        return scale.ends(), shift.ends()

    def size(self, *inputs: int) -> int:
        return one(inputs, f"a {self.kind.lower()} layer", self.units)

    def positions_for(self, *counts: int) -> int | None:
        """Where its input does, if the units of a channel are scaled and shifted alike."""
        count = counts[0] or 1
        parts = [part.reshape(-1, count) for part in self.effective()]
        return count if all(np.all(part == part[:, :1]) for part in parts) else None

    @property
    def shift(self) -> Vector:
        return self.effective()[1]

    def image(self, lo: Array, hi: Array) -> Range:
        """`s∘z + t` with both s and t known to within their own bounds."""
        (scale_lo, scale_hi), (shift_lo, shift_hi) = self.bounds()
        first, second = times(lo, hi, scale_lo), times(lo, hi, scale_hi)
        plain = (shift_lo == 0) & (shift_hi == 0)
        with np.errstate(all="ignore"):
            below = np.minimum(first[0], second[0])
            above = np.maximum(first[1], second[1])
            lower = np.where(plain, below, down(below + shift_lo))
            upper = np.where(plain, above, up(above + shift_hi))
        return np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper)

    @cached_property
    def _centre(self) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            return midpoint(*self.bounds()[0])

    def pull(self, form: Array, size: int) -> Array:
        return np.asarray(form * self._centre[0].astype(form.dtype, copy=False))

    def pull_error(self, reach: Array) -> RoundingError:
        """u·|s||z| + rad(s)|z| + rad(t) per unit of |Λ|, with the middle of s's bounds for s."""
        scale, scale_error = self._centre
        shift, shift_error = midpoint(*self.bounds()[1])
        # u·|s| of a factor near the smallest normal number underflows, and |z| may make it large
        error = (inflate(np.abs(scale), UNIT) + scale_error) * SLACK * reach + shift_error + TINY
        floor = TINY * reach.sum(axis=1) * SLACK
        return RoundingError(shift[None], error, floor)

    def absolute(self, reach: Array) -> Array:
        return np.asarray(reach * magnitude(*self.bounds()[0]))

    def exact(self, value: Dyadic, bits: int) -> Dyadic:
        scale, shift = self._dyadic(bits)
        return value * scale + shift

    def _dyadic(self, bits: int) -> tuple[Dyadic, Dyadic]:
        held: dict[int, tuple[Dyadic, Dyadic]] = self.__dict__.setdefault("_held", {})
        if bits not in held:
            scale, shift = self.rationals(bits)
            held[bits] = Dyadic.around(scale, bits), Dyadic.around(shift, bits)
        return held[bits]


# --- scaling --------------------------------------------------------------------------------------


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


# --- cast -----------------------------------------------------------------------------------------


# by the digits of the significand: the name, the exponent of the smallest normal number, and that
# of the largest power of two
FORMATS = {11: ("float16", -14, 15), 8: ("bfloat16", -126, 127), 24: ("float32", -126, 127)}
BY_FLOAT32 = 1 + 2.0**-12  # programs cast float64 to 16 bits by way of float32, and round twice


@dataclass(frozen=True)
class Cast(Diagonal):
    """`count` values, rounded to the nearest number of `digits` binary digits, ties to even.

    In real arithmetic a cast is the identity, and claims in real arithmetic name it. An evaluation
    in floats rounds there: |cast(z) − z| ≤ u·|z| + ½·(the smallest subnormal), u = 2^−digits. Of
    what may exceed the largest number nothing is known.
    """

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
