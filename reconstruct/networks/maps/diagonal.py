"""Maps that treat each unit on its own: `z ↦ s∘z + t`, with s and t perhaps irrational."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reconstruct.networks.maps.map import InputBounds, Map, Rounding, RoundingError
from reconstruct.networks.operation import one
from reconstruct.numbers.arrays import Array, Range, Vector
from reconstruct.numbers.double_double import Enclosure, upward
from reconstruct.numbers.dyadic import Dyadic
from reconstruct.numbers.precision import Precision
from reconstruct.numbers.rationals import RationalInterval
from reconstruct.numbers.rounding import SLACK, TINY, UNIT, down, magnitude, midpoint, times, up


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
        error = (UNIT * np.abs(scale) + scale_error) * SLACK * reach + shift_error
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
