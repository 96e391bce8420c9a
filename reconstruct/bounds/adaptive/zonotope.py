"""Zonotopes: values as linear forms in few symbols, on many boxes at once, rounded outward.

A value v of size m is enclosed, on each box, by

    v_j = centre_j + Σ_e forms[e, j]·ε_e + δ_j,    |ε_e| ≤ 1,  |δ_j| ≤ radius_j.

The first symbols are the inputs' own coordinates; each unit of an activation that may bend adds
one. Symbols are shared by all values, so what cancels in a sum cancels here. Everything that
rounding does goes into `radius`: with T = |centre| + Σ|forms| + radius and u = 2^-53,

    affine:      radius' = |L| radius + γ_{k+2}(|L| T + |b|) + underflow,
    activation:  radius' = |λ| radius + 4u(|λ| T + |offset|) + underflow  (nothing for λ = 0, 1).

What is not finite bounds nothing: such a radius is +inf, and `bounds` then says ±inf.

Rests on proofs_check: shared-symbols, accumulated-rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reconstruct.networks.activations import Activation, Support, Unitwise
from reconstruct.networks.maps import Diagonal, Map, Mixing
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.rounding import SLACK, TINY, UNIT, down, gamma, midpoint, up

SEEN = 2.0**-30  # of the widest: what bends by less goes into the radius
ALIKE = 2.0**-20  # units that differ by less are equally wide
MOST_SYMBOLS = 384  # further ones go into the radius: wide layers would fill the memory


@dataclass(frozen=True, eq=False)
class Zonotope:
    """`centre` (boxes, m), `forms` (boxes, symbols, m), `radius` (boxes, m)."""

    centre: Array
    forms: Array
    radius: Array

    @property
    def symbols(self) -> int:
        return int(self.forms.shape[1])

    @cached_property
    def spread(self) -> Array:
        """At least Σ|forms| + radius; +inf where that is not a number."""
        with np.errstate(all="ignore"):
            total = _magnitudes(self.forms) * (1 + gamma(self.symbols + 4)) + self.radius
        return np.where(np.isnan(total), np.inf, up(up(total)))

    @cached_property
    def reach(self) -> Array:
        """At least the largest |v|, but for one rounding: |centre| + spread."""
        with np.errstate(all="ignore"):
            return np.asarray(np.abs(self.centre) + self.spread)

    def bounds(self) -> Range:
        """Bounds of every unit, (boxes, m)."""
        spread = self.spread
        with np.errstate(all="ignore"):
            lo, hi = down(self.centre - spread), up(self.centre + spread)
        exact = spread == 0
        lo, hi = np.where(exact, self.centre, lo), np.where(exact, self.centre, hi)
        return np.where(np.isnan(lo), -np.inf, lo), np.where(np.isnan(hi), np.inf, hi)


def of_boxes(lo: Array, hi: Array) -> Zonotope:
    """The inputs in the boxes `lo ≤ x ≤ hi`, (boxes, inputs): one symbol for each coordinate."""
    centre, half = midpoint(lo, hi)
    inputs = lo.shape[1]
    forms = np.zeros((len(lo), inputs, inputs))
    forms[:, np.arange(inputs), np.arange(inputs)] = half
    return Zonotope(centre, forms, np.zeros_like(centre))


def of_range(found: Range, symbols: int) -> Zonotope:
    """A range without any form: for what nothing more is known of."""
    with np.errstate(all="ignore"):
        centre, half = midpoint(*found)
    return Zonotope(centre, np.zeros((len(centre), symbols, centre.shape[1])), _number(half))


def image(op: Map, value: Zonotope) -> Zonotope:
    """The zonotope of `L v + c`."""
    if isinstance(op, Diagonal):
        return _scaled(op, value)
    if not isinstance(op, Mixing):
        return of_range(op.image(*value.bounds()), value.symbols)
    boxes, symbols, inputs = value.forms.shape
    centre = op.linear(value.centre) + op.bias
    forms = op.linear(value.forms.reshape(-1, inputs)).reshape(boxes, symbols, -1)
    total = value.reach
    terms = op.summands
    lost = 4 * (symbols + 2) * terms * TINY
    rounding = gamma(terms + 2) * (op.absolute(total) + np.abs(op.bias))
    radius = (op.absolute(value.radius) + rounding) * (SLACK * SLACK) + lost
    return Zonotope(centre, forms, _number(radius))


def _scaled(op: Diagonal, value: Zonotope) -> Zonotope:
    """`s∘v + t` with s and t known to within their bounds."""
    scale, scale_error = midpoint(*op.scale_bounds())
    shift, shift_error = midpoint(*op.shift_bounds())
    size = np.abs(scale)
    total = value.reach
    rounding = (4 * UNIT * size + scale_error) * total + 2 * UNIT * np.abs(shift) + shift_error
    lost = 4 * (value.symbols + 2) * TINY
    radius = (size * value.radius + rounding) * SLACK + lost
    return Zonotope(value.centre * scale + shift, value.forms * scale, _number(radius))


def total(values: list[Zonotope]) -> Zonotope:
    """The sum of values; those made earlier know fewer symbols."""
    symbols = max(value.symbols for value in values)
    centre, radius = values[0].centre, values[0].radius
    forms = padded(values[0].forms, symbols)
    for value in values[1:]:
        centre = centre + value.centre
        forms = forms + padded(value.forms, symbols)
        size = np.abs(centre) + np.abs(forms).sum(axis=1)
        radius = (radius + value.radius + 2 * UNIT * size) * SLACK
    return Zonotope(centre, forms, _number(radius))


def padded(forms: Array, symbols: int) -> Array:
    """The same forms with zeros for the symbols that came later."""
    boxes, own, size = forms.shape
    if own == symbols:
        return forms
    out = np.zeros((boxes, symbols, size))
    out[:, :own] = forms
    return out


@dataclass(frozen=True, eq=False)
class Bent:
    """An activation's zonotope, and which units of which boxes got the new symbols.

    Symbol `first + slots[i]` of box `boxes[i]` belongs to unit `units[i]`.
    """

    value: Zonotope
    first: int
    boxes: Array
    units: Array
    slots: Array


def activate(op: Activation, value: Zonotope, lo: Array, hi: Array, first: int) -> Bent:
    """The zonotope of f(v), v in `[lo, hi]` too; new symbols are numbered from `first`.

    On each unit f(z) ∈ slope·z + [below, above]: the middle goes to the centre, half of the gap
    to a new symbol, or to the radius when there are too many.
    """
    if not isinstance(op, Unitwise):
        return _boxed(op, value, lo, hi, first)
    slope, below, above = tube(op, lo, hi)
    offset, half = midpoint(below, above)
    plain = (slope == 0) | (slope == 1)
    with np.errstate(all="ignore"):
        centre = np.where(slope == 0, offset, slope * value.centre + offset)
        size = np.abs(slope) * (value.reach) + np.abs(offset)
        lost = 4 * (value.symbols + 2) * TINY
        rounding = np.where(plain & (offset == 0), 0.0, 4 * UNIT * size + lost)
        radius = np.where(slope == 0, 0.0, np.abs(slope) * value.radius)
        radius = np.where(
            plain & (offset == 0), radius, np.where(slope == 0, 0.0, (radius + rounding) * SLACK)
        )
    boxes, units, slots = _new_symbols(half, first)
    count = int(slots.max()) + 1 if len(slots) else 0
    forms = _sloped(slope, value, first + count)
    forms[boxes, first + slots, units] = half[boxes, units]
    rest = half.copy()
    rest[boxes, units] = 0.0
    radius = np.where(rest > 0, up(radius + rest), radius)
    return Bent(Zonotope(centre, forms, _number(radius)), first, boxes, units, slots)


def _sloped(slope: Array, value: Zonotope, symbols: int) -> Array:
    """`slope∘forms`, with room for more symbols; 0 where the slope is, whatever the form."""
    boxes, own, size = value.forms.shape
    forms = np.empty((boxes, symbols, size))
    with np.errstate(all="ignore"):
        np.multiply(slope[:, None, :], value.forms, out=forms[:, :own])
    forms[:, own:] = 0.0
    if not np.isfinite(value.spread).all():
        box, unit = np.nonzero(slope == 0)
        forms[box, :own, unit] = 0.0
    return forms


def _boxed(op: Activation, value: Zonotope, lo: Array, hi: Array, first: int) -> Bent:
    """The range alone, for what is not a function of one number."""
    none = np.zeros(0, dtype=np.int64)
    return Bent(of_range(op.image(lo, hi), first), first, none, none, none)


def tube(op: Unitwise, lo: Array, hi: Array) -> tuple[Array, Array, Array]:
    """`(slope, below, above)`: slope·z + below ≤ f(z) ≤ slope·z + above on `[lo, hi]`.

    Of the two slopes that a band takes, the one with the smaller gap.
    """
    band = op.band(lo, hi, Support.AREA)
    slopes = np.stack([band.lower_slope, band.upper_slope])
    below, above = _intercepts(op, lo, hi, slopes)
    with np.errstate(all="ignore"):
        gaps = above - below
        first = gaps[0] <= gaps[1]
    slope, low, high = (np.where(first, both[0], both[1]) for both in (slopes, below, above))
    return slope, low, high


def _intercepts(op: Unitwise, lo: Array, hi: Array, slopes: Array) -> Range:
    """The least and the largest f(z) − slope·z for each of some slopes, (slopes, boxes, m); f is
    straight between vertices or the slope is 0."""
    below, above = np.full_like(slopes, np.inf), np.full_like(slopes, -np.inf)
    flat = slopes == 0
    exact = flat | (slopes == 1)
    with np.errstate(all="ignore"):
        for z in [lo, *(np.clip(point, lo, hi) for point in op.breakpoints), hi]:
            small, large = op.enclose(z)
            part = np.where(flat, 0.0, slopes * z)
            least = small - np.where(exact, part, up(part))
            most = large - np.where(exact, part, down(part))
            below = np.minimum(below, np.where(exact & (least == 0), 0.0, down(least)))
            above = np.maximum(above, np.where(exact & (most == 0), 0.0, up(most)))
    flat_below, flat_above = op.image(lo, hi)
    return np.where(flat, flat_below, below), np.where(flat, flat_above, above)


def _new_symbols(half: Array, first: int) -> tuple[Array, Array, Array]:
    """Which units get a symbol, and which one: all that bend, or the widest if there is no room.

    Rounding must not decide, for who repeats this with maps composed otherwise rounds otherwise.
    Units that bend by next to nothing get no symbol (where functions are equal, their difference
    does), and of units that are equally wide all or none.
    """
    top = np.max(np.where(np.isfinite(half), half, 0.0), axis=1, keepdims=True, initial=0.0)
    bent = (half > SEEN * top) & np.isfinite(half)
    room = max(0, MOST_SYMBOLS - first)
    if half.shape[1] > room:
        without = np.sort(np.where(bent, half, 0.0), axis=1)[:, -room - 1, None]
        bent &= half > without * (1 + ALIKE)
    boxes, units = np.nonzero(bent)
    return boxes, units, (np.cumsum(bent, axis=1) - 1)[boxes, units]


def _magnitudes(forms: Array) -> Array:
    """`Σ|forms|`, (boxes, m), summed in some order."""
    return np.asarray(np.matmul(np.ones(forms.shape[1]), np.abs(forms)))


def _number(radius: Array) -> Array:
    """The radius rounded up; +inf where it is not a number."""
    return np.where(np.isnan(radius), np.inf, np.where(radius == 0, 0.0, up(radius)))
