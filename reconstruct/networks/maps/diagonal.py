"""Maps that treat each unit on its own: `z ↦ s∘z + t`, with s and t perhaps irrational.

`Norm` is a norm layer with frozen statistics. `Scaling` has factors and divisors as a file states
them: never multiplied into weights, never rounded. `Cast` goes to a narrower float type in the
middle of a network, as quantised models do. Each says its s and t in every arithmetic.

Rests on proofs_check: norm-is-affine.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from reconstruct.errors import InputError
from reconstruct.networks.maps.map import InputBounds, Map, Rounding, RoundingError
from reconstruct.networks.operation import counted, one, set_once
from reconstruct.numbers import exact, rounding
from reconstruct.numbers.arrays import Array, Range, Vector, everywhere, frozen_array
from reconstruct.numbers.double_double import Enclosure, quotient, square_root, two_sum, upward
from reconstruct.numbers.exact import Dyadic, RationalInterval
from reconstruct.numbers.precision import Precision
from reconstruct.numbers.rounding import SLACK, TINY, UNIT, down, inflate, up

Intervals: TypeAlias = Sequence[RationalInterval]


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
    """`z ↦ s∘z + t`, s and t for each channel, which `positions` neighbouring units share.

    Derive from it and say s and t in each arithmetic, beside each other: rounded to float64, to
    double-double accuracy and as rationals; and what evaluation in floats costs (`rounding`).
    """

    positions: int = 1

    @property
    @abstractmethod
    def channels(self) -> int:
        """How many values s and t have."""

    @abstractmethod
    def per_channel(self) -> tuple[Vector, Vector]:
        """`(s, t)`, rounded to float64."""

    @abstractmethod
    def real_channels(self) -> tuple[Enclosure, Enclosure]:
        """`(s, t)` in real arithmetic, to about 2^-100."""

    @abstractmethod
    def rational_channels(self, bits: int) -> tuple[Intervals, Intervals]:
        """`(s, t)` as intervals of rationals, of no width where they are rational."""

    @abstractmethod
    def rounding(self, incoming: InputBounds, precision: Precision) -> Rounding:
        """|fl(s ẑ + t) − (s ẑ + t)| however a program computes it, casts included."""

    # --- what follows from that -----------------------------------------------------------------

    @property
    def units(self) -> int:
        """How many values it takes and gives."""
        return self.channels * self.positions

    def spread(self, values: Array) -> Array:
        """Numbers per channel as numbers per unit."""
        return values if self.positions == 1 else np.repeat(values, self.positions, axis=-1)

    def hidden(self, start: int, stop: int) -> Self:
        """The channels `start:stop` alone."""
        parts: dict[str, Any] = {name: getattr(self, name)[start:stop] for name in self.keys}
        return replace(self, **parts)  # type: ignore[type-var]

    def effective(self) -> tuple[Vector, Vector]:
        """`(s, t)` of each unit, rounded to float64."""
        s, t = self.per_channel()
        return self.spread(s), self.spread(t)

    def enclosed(self) -> tuple[Enclosure, Enclosure]:
        """`(s, t)` of each unit in real arithmetic."""
        scale, shift = (
            Enclosure(*(self.spread(part) for part in (e.high, e.low, e.radius)))
            for e in self.real_channels()
        )
        return scale, shift

    def rationals(self, bits: int) -> tuple[Intervals, Intervals]:
        """`(s, t)` of each unit as intervals of rationals."""
        scales, shifts = (
            [pair for pair in part for _ in range(self.positions)]
            for part in self.rational_channels(bits)
        )
        return scales, shifts

    def bounds(self) -> tuple[Range, Range]:
        """Floats below and above s, and below and above t; equal where they are floats."""
        with np.errstate(all="ignore"):  # what overflows is not known, and so not bounded
            ends = [part.ends() for part in self.real_channels()]
        scale, shift = ((self.spread(lo), self.spread(hi)) for lo, hi in ends)
        return scale, shift

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
        first, second = rounding.times(lo, hi, scale_lo), rounding.times(lo, hi, scale_hi)
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
            return rounding.midpoint(*self.bounds()[0])

    def pull(self, form: Array, size: int) -> Array:
        return np.asarray(form * self._centre[0].astype(form.dtype, copy=False))

    def pull_error(self, reach: Array) -> RoundingError:
        """u·|s||z| + rad(s)|z| + rad(t) per unit of |Λ|, with the middle of s's bounds for s."""
        scale, scale_error = self._centre
        shift, shift_error = rounding.midpoint(*self.bounds()[1])
        # u·|s| of a factor near the smallest normal number underflows, and |z| may make it large
        error = (inflate(np.abs(scale), UNIT) + scale_error) * SLACK * reach + shift_error + TINY
        floor = TINY * reach.sum(axis=1) * SLACK
        return RoundingError(shift[None], error, floor)

    def absolute(self, reach: Array) -> Array:
        with np.errstate(all="ignore"):
            scale = rounding.magnitude(*self.real_channels()[0].ends())
        return np.asarray(reach * self.spread(scale))

    def exact(self, value: Dyadic, bits: int) -> Dyadic:
        scale, shift = self._dyadic(bits)
        return value * scale + shift

    def _dyadic(self, bits: int) -> tuple[Dyadic, Dyadic]:
        held: dict[int, tuple[Dyadic, Dyadic]] = self.__dict__.setdefault("_held", {})
        if bits not in held:
            scale, shift = self.rationals(bits)
            held[bits] = Dyadic.around(scale, bits), Dyadic.around(shift, bits)
        return held[bits]


def _divided(top: Vector, plain: Array, divisor: Callable[[], Enclosure]) -> Enclosure:
    """`top/divisor`, which is `top` itself, without doubt, where the divisor is plainly 1."""
    found = Enclosure.exact(top)
    if plain.all():
        return found
    found = quotient(found, divisor())
    low, radius = (np.where(plain, 0.0, part) for part in (found.low, found.radius))
    return Enclosure(np.where(plain, top, found.high), low, radius)


# --- norm ----------------------------------------------------------------------------------------


UNIT_EPS = 2.0**-17  # close to the customary 1e-5, and a float32 number
KEYS = ("weight", "bias", "running_mean", "running_var")  # as state dicts call them


@dataclass(frozen=True, eq=False)
class Norm(Diagonal):
    """`z ↦ gamma ∘ (z − mean)/√(var + eps) + beta`, a norm layer with frozen statistics.

    In effective form it is `s∘z + t` with `s = gamma/√(var + eps)` and `t = beta − s∘mean`. The
    parameters are per channel; `positions` neighbouring units share a channel (an image's pixels).
    """

    kind = "Norm"
    keys: ClassVar[dict[str, str]] = dict(zip(("gamma", "beta", "mean", "var"), KEYS, strict=True))

    gamma: Vector
    beta: Vector
    mean: Vector
    var: Vector
    eps: float
    positions: int

    def __init__(
        self,
        gamma: ArrayLike,
        beta: ArrayLike,
        mean: ArrayLike,
        var: ArrayLike,
        eps: float = UNIT_EPS,
        positions: int = 1,
    ) -> None:
        arrays = [frozen_array(a) for a in (gamma, beta, mean, var)]
        shapes = {a.shape for a in arrays}
        if len(shapes) != 1 or arrays[0].ndim != 1 or not arrays[0].size:
            raise InputError(
                f"a norm layer needs gamma, beta, mean and var of one length, but got {shapes}"
            )
        least = arrays[3].min()
        if not (least >= 0 and 0 <= eps < np.inf and least + eps > 0):
            raise InputError(
                "a norm layer needs var ≥ 0, eps ≥ 0 and var + eps > 0, but the smallest var is "
                f"{least:g} with eps = {eps:g}"
            )
        count = counted(positions, "a norm layer needs positions")
        known = dict(zip(("gamma", "beta", "mean", "var"), arrays, strict=True))
        set_once(self, **known, eps=float(eps), positions=count)

    @classmethod
    def neutral(cls, channels: int, positions: int = 1) -> Norm:
        """gamma 1, beta 0, mean 0 and √(var + eps) = 1, so that gamma is the effective scale."""
        one, zero, rest = (everywhere(number, (channels,)) for number in (1.0, 0.0, 1.0 - UNIT_EPS))
        return cls(one, zero, zero, rest, UNIT_EPS, positions)

    @property
    def channels(self) -> int:
        return len(self.gamma)

    def _by_channels(self, values: Array) -> Array:
        return values.reshape(*values.shape[:-1], self.channels, self.positions)

    def __call__(self, *values: Array) -> Array:
        (z,) = values
        kind = z.dtype
        parts = (self.gamma, self.beta, self.mean, self.var)
        gamma, beta, mean, var = (part.astype(kind, copy=False)[:, None] for part in parts)
        value = self._by_channels(z)
        deviation = np.sqrt(var + kind.type(self.eps))
        # Hidden layers are wide, so each pass over them counts; drawn norms are 0 and 1 here.
        if mean.any() or (deviation != 1).any():
            value = (value - mean) / deviation
        value = value * gamma
        value += beta
        return np.asarray(value.reshape(z.shape))

    def with_effective(self, s: Vector, t: Vector) -> Norm:
        """The same statistics with the gamma and beta that make `N(z) = s∘z + t`, per channel.

        gamma is rounded first and beta is computed from the scale that gamma then really gives,
        so that a large mean does not turn the rounding of gamma into an error of t.
        """
        gamma = s * self.deviation
        beta = t + (gamma / self.deviation) * self.mean
        return self.tuned(gamma, beta)

    def tuned(self, gamma: ArrayLike, beta: ArrayLike) -> Norm:
        """The same statistics with these gammas and betas."""
        return Norm(gamma, beta, self.mean, self.var, self.eps, self.positions)

    # --- s = gamma/√(var + eps) and t = beta − s·mean, in each arithmetic ------------------------

    @property
    def deviation(self) -> Vector:
        """`√(var + eps)` per channel, rounded to float64."""
        return np.sqrt(self.var + self.eps)

    def per_channel(self) -> tuple[Vector, Vector]:
        s = self.gamma / self.deviation
        return s, self.beta - s * self.mean

    def real_channels(self) -> tuple[Enclosure, Enclosure]:
        """Where var + eps is exactly 1, as in drawn networks, s is gamma itself, without doubt."""
        total, rest = two_sum(self.var, np.full_like(self.var, self.eps))
        variance = Enclosure(total, rest, np.zeros_like(self.var))
        plain = (total == 1) & (rest == 0)
        scale = _divided(self.gamma, plain, lambda: square_root(variance))
        shift = Enclosure.exact(self.beta)
        if self.mean.any():
            shift = shift - scale * Enclosure.exact(self.mean)
        return scale, shift

    def rational_channels(self, bits: int) -> tuple[Intervals, Intervals]:
        scales, shifts = [], []
        for g, b, mean, var in zip(self.gamma, self.beta, self.mean, self.var, strict=True):
            roots = exact.root_bounds(Fraction(float(var)) + Fraction(self.eps), bits)
            low, high = sorted(Fraction(float(g)) / root for root in roots)
            centre = -Fraction(float(mean))
            below, above = exact.times((low, high), (centre, centre))
            scales.append((low, high))
            shifts.append((Fraction(float(b)) + below, Fraction(float(b)) + above))
        return scales, shifts

    def _dyadic(self, bits: int) -> tuple[Dyadic, Dyadic]:
        if self._unscaled_in(Precision(np.float64)):  # as drawn: fractions of each take a minute
            return Dyadic.exact(self.spread(self.gamma)), Dyadic.exact(self.spread(self.beta))
        return super()._dyadic(bits)

    def rational_deviations(self) -> list[Fraction | None]:
        """√(var + eps) of each channel as a rational, None where it is irrational."""
        return [exact.rational_root(Fraction(float(v)) + Fraction(self.eps)) for v in self.var]

    def rounding(self, incoming: InputBounds, precision: Precision) -> Rounding:
        """By the formula, as a scale and a shift computed first, or folded into the map before.

        |s z| ≤ |result| + |t| too, which is far less once z is correlated; and what underflow costs
        on any of the three ways.
        """
        scale, shift = (part.magnitude() for part in self.enclosed())
        mean, beta, gamma = (np.abs(self.spread(p)) for p in (self.mean, self.beta, self.gamma))
        scaled = np.minimum(scale * incoming.size, incoming.result + shift)
        scaled = upward(scaled + upward(scale * incoming.error))
        parts = Parts(scale, scaled, upward(scale * mean), beta)
        inverse = np.maximum(1.0, 1.0 / self.spread(self.deviation))
        centred = upward(incoming.computed + mean)
        del mean, shift  # of millions of units each takes its part of the memory
        entry, inputs = (
            (0.0, 0.0)
            if incoming.before is None
            else (incoming.before.entry, incoming.before.inputs)
        )
        lost = 8 * precision.tiny * (1 + scale + gamma + centred * inverse + inputs)
        error = upward(parts.error(incoming, self._roundings(precision), precision) + lost)
        if not self._representable(upward(scale * max(1.0, entry)), precision):
            error = np.full_like(error, np.inf)
        peak = np.maximum(parts.peak(incoming), centred * np.maximum(gamma, 1.0) * inverse)
        return Rounding(error, upward(peak))

    def _roundings(self, precision: Precision) -> Roundings:
        """Those that its parts meet in a format, of which fewer numbers need a cast or an operation
        the plainer they are: casts, v + ε, √, 1/√ and products; a cast and a product; a product,
        and none to spare."""
        if not self._unscaled_in(precision):
            return Roundings(scaled=9, centre=10, shift=3, folded=9)
        held = all(np.array_equal(precision.cast(p), p) for p in (self.gamma, self.beta))
        if held:
            return Roundings(scaled=1, centre=0, shift=0, folded=1)
        return Roundings(scaled=3, centre=0, shift=2, folded=3)

    def _unscaled_in(self, precision: Precision) -> bool:
        """Whether the mean is 0 and var + eps exactly 1 in the format, so that s is gamma and no
        operation but `gamma·z + beta` rounds."""
        total, rest = two_sum(self.var, np.full_like(self.var, self.eps))
        held = np.array_equal(precision.cast(self.var), self.var) and not precision.moved(self.eps)
        return bool(held and not self.mean.any() and np.all(total == 1) and not rest.any())

    def _representable(self, folded: Array, precision: Precision) -> bool:
        """No parameter, nor a weight that it is folded into, leaves the range of the format."""
        spread = self.var + self.eps
        high = max(float(np.max(part, initial=0.0)) for part in (spread, abs(self.gamma), folded))
        least = float(np.min(spread, initial=1.0))
        return least >= 2.0**20 * precision.tiny and high < precision.largest / 4

    @property
    def tunable(self) -> int:
        return 2 * self.channels


# --- scaling --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Scaling(Diagonal):
    """`z ↦ z∘factor/divisor + offset`, unit by unit, for Mul, Div, Sub, alpha and file headers.

    In real arithmetic the factor is the rational factor/divisor, which need not be a float.
    """

    kind = "Scaling"
    keys: ClassVar[dict[str, str]] = {name: name for name in ("factor", "divisor", "offset")}

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
    def channels(self) -> int:
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

    def __call__(self, *values: Array) -> Array:
        (z,) = values
        kind = z.dtype
        value = z * self.factor.astype(kind)
        value /= self.divisor.astype(kind)
        value += self.offset.astype(kind)
        return np.asarray(value)

    # --- s = factor/divisor and t = offset, in each arithmetic ----------------------------------

    def per_channel(self) -> tuple[Vector, Vector]:
        return self.factor / self.divisor, self.offset

    def real_channels(self) -> tuple[Enclosure, Enclosure]:
        size = np.abs(self.divisor)
        scale = _divided(
            self.factor * np.sign(self.divisor), size == 1, lambda: Enclosure.exact(size)
        )
        return scale, Enclosure.exact(self.offset)

    def rational_channels(self, bits: int) -> tuple[Intervals, Intervals]:
        factors, divisors, offsets = (
            [Fraction(float(number)) for number in part] for part in self.arrays().values()
        )
        scales = [a / b for a, b in zip(factors, divisors, strict=True)]
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
    def channels(self) -> int:
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

    def rounding(self, incoming: InputBounds, precision: Precision) -> Rounding:
        moved = self.moved(incoming.computed)
        return Rounding(moved, upward(incoming.computed + moved))

    # --- the identity, in each arithmetic -------------------------------------------------------

    def per_channel(self) -> tuple[Vector, Vector]:
        return np.ones(self.count), np.zeros(self.count)

    def real_channels(self) -> tuple[Enclosure, Enclosure]:
        scale, shift = (Enclosure.exact(part) for part in self.per_channel())
        return scale, shift

    def rational_channels(self, bits: int) -> tuple[Intervals, Intervals]:
        one, zero = Fraction(1), Fraction(0)
        return [(one, one)] * self.count, [(zero, zero)] * self.count
