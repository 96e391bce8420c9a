"""Norm layers with frozen statistics, and their one formula in every arithmetic.

Rests on proofs_check: norm-is-affine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reconstruct.errors import InputError
from reconstruct.networks.maps.diagonal import Diagonal, Parts, Roundings
from reconstruct.networks.maps.map import InputBounds, Rounding
from reconstruct.networks.operation import Operation, Part, counted, register, set_once
from reconstruct.numbers.arrays import Array, Range, Vector, everywhere, frozen_array
from reconstruct.numbers.double_double import Enclosure, quotient, square_root, two_sum, upward
from reconstruct.numbers.dyadic import Dyadic
from reconstruct.numbers.precision import Precision
from reconstruct.numbers.rationals import RationalInterval, rational_root, root_bounds, times
from reconstruct.numbers.rounding import magnitude

UNIT_EPS = 2.0**-17  # close to the customary 1e-5, and a float32 number
KEYS = ("weight", "bias", "running_mean", "running_var")  # as state dicts call them


@dataclass(frozen=True, eq=False)
class Norm(Diagonal):
    """`z ↦ gamma ∘ (z − mean)/√(var + eps) + beta`, a norm layer with frozen statistics.

    In effective form it is `s∘z + t` with `s = gamma/√(var + eps)` and `t = beta − s∘mean`. The
    parameters are per channel; `positions` neighbouring units share a channel (an image's pixels).
    """

    kind = "Norm"

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

    @property
    def units(self) -> int:
        return self.channels * self.positions

    def spread(self, values: Array) -> Array:
        """Numbers per channel as numbers per unit."""
        return values if self.positions == 1 else np.repeat(values, self.positions, axis=-1)

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

    def hidden(self, start: int, stop: int) -> Norm:
        part = slice(start, stop)
        parts = (self.gamma[part], self.beta[part], self.mean[part], self.var[part])
        return Norm(*parts, self.eps, self.positions)

    # --- s = gamma/√(var + eps) and t = beta − s·mean, in each arithmetic ------------------------

    @property
    def deviation(self) -> Vector:
        """`√(var + eps)` per channel, rounded to float64."""
        return np.sqrt(self.var + self.eps)

    def effective(self) -> tuple[Vector, Vector]:
        s, t = self.per_channel()
        return self.spread(s), self.spread(t)

    def per_channel(self) -> tuple[Vector, Vector]:
        """s and t, one for each channel."""
        s = self.gamma / self.deviation
        return s, self.beta - s * self.mean

    def enclosed(self) -> tuple[Enclosure, Enclosure]:
        scale, shift = self._enclosed_channels()
        return self._spread_enclosure(scale), self._spread_enclosure(shift)

    def _enclosed_channels(self) -> tuple[Enclosure, Enclosure]:
        """Where var + eps is exactly 1, as in drawn networks, s is gamma itself, without doubt."""
        variance = Enclosure(
            *two_sum(self.var, np.full_like(self.var, self.eps)), np.zeros_like(self.var)
        )
        plain = (variance.high == 1) & (variance.low == 0)
        scale = Enclosure.exact(self.gamma)
        if not plain.all():
            divided = quotient(scale, square_root(variance))
            scale = Enclosure(
                np.where(plain, self.gamma, divided.high),
                np.where(plain, 0.0, divided.low),
                np.where(plain, 0.0, divided.radius),
            )
        shift = Enclosure.exact(self.beta)
        if self.mean.any():
            shift = shift - scale * Enclosure.exact(self.mean)
        return scale, shift

    def bounds(self) -> tuple[Range, Range]:
        """Channel by channel, and then spread: hidden layers of convolutions are wide."""
        with np.errstate(all="ignore"):  # what overflows is not known, and so not bounded
            parts = [part.ends() for part in self._enclosed_channels()]
        scale, shift = ((self.spread(lo), self.spread(hi)) for lo, hi in parts)
        return scale, shift

    def absolute(self, reach: Array) -> Array:
        with np.errstate(all="ignore"):
            scale = magnitude(*self._enclosed_channels()[0].ends())
        return np.asarray(reach * self.spread(scale))

    def _spread_enclosure(self, part: Enclosure) -> Enclosure:
        return Enclosure(self.spread(part.high), self.spread(part.low), self.spread(part.radius))

    def rationals(self, bits: int) -> tuple[Sequence[RationalInterval], Sequence[RationalInterval]]:
        scales, shifts = [], []
        for g, b, mean, var in zip(self.gamma, self.beta, self.mean, self.var, strict=True):
            low, high = root_bounds(Fraction(float(var)) + Fraction(self.eps), bits)
            ends = sorted((Fraction(float(g)) / low, Fraction(float(g)) / high))
            centre = -Fraction(float(mean))
            below, above = times((ends[0], ends[1]), (centre, centre))
            beta = Fraction(float(b))
            scales += [(ends[0], ends[1])] * self.positions
            shifts += [(beta + below, beta + above)] * self.positions
        return scales, shifts

    def _dyadic(self, bits: int) -> tuple[Dyadic, Dyadic]:
        if self._unscaled_in(Precision(np.float64)):  # as drawn: fractions of each take a minute
            return Dyadic.exact(self.spread(self.gamma)), Dyadic.exact(self.spread(self.beta))
        return super()._dyadic(bits)

    def rational_deviations(self) -> list[Fraction | None]:
        """√(var + eps) of each channel as a rational, None where it is irrational."""
        return [rational_root(Fraction(float(v)) + Fraction(self.eps)) for v in self.var]

    def rounding(self, incoming: InputBounds, precision: Precision) -> Rounding:
        """By the formula, as a scale and a shift computed first, or folded into the map before.

        |s z| ≤ |result| + |t| too, which is far less once z is correlated; and what underflow costs
        on any of the three ways.
        """
        scale, shift = (part.magnitude() for part in self.enclosed())
        mean, beta, gamma = (np.abs(self.spread(p)) for p in (self.mean, self.beta, self.gamma))
        moved = upward(scale * incoming.error)
        scaled = upward(np.minimum(scale * incoming.size, incoming.result + shift) + moved)
        parts = Parts(scale, scaled, upward(scale * mean), beta)
        inverse = np.maximum(1.0, 1.0 / self.spread(self.deviation))
        centred = upward(incoming.computed + mean)
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

    # --- files ----------------------------------------------------------------------------------

    def arrays(self) -> dict[str, Array]:
        return dict(zip(KEYS, (self.gamma, self.beta, self.mean, self.var), strict=True))

    def settings(self) -> dict[str, Any]:
        return {"eps": self.eps} | ({"positions": self.positions} if self.positions > 1 else {})

    @property
    def tunable(self) -> int:
        return 2 * self.channels


def _restored(part: Part, settings: Any) -> Operation:
    gamma, beta, mean, var = (part(key) for key in KEYS)
    return Norm(gamma, beta, mean, var, float(settings["eps"]), settings.get("positions", 1))


register("Norm", _restored)
