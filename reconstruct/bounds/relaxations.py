"""Activations over an interval: their range, and a line below and a line above them.

All activations here are monotone between their breakpoints, and all but Elu and Selu are straight
there. So the range is met at the vertices (the interval's ends and the breakpoints inside), and
a line with *any* slope becomes a bound once its intercept is taken from the vertices:

    lower intercept = min over vertices of f(z) − slope·z,   upper intercept = max of the same,

rounded outward. Soundness rests on the intercepts alone; the slopes only decide tightness.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from reconstruct.networks.activations import Activation, Array, Clip, Elu, LeakyRelu, Relu, Selu
from reconstruct.numbers.rounding import down, up

TIE = 2.0**-30  # lines must not depend on rounding: lattice networks have lo = −hi, and lo = 0
EXPM1_ERROR = 2.0**-48  # assumed of the platform's expm1, relative; real ones are within 2^-51


@dataclass(frozen=True, eq=False)
class Band:
    """`lower_slope·z + lower ≤ f(z) ≤ upper_slope·z + upper` on the interval, each (boxes, n)."""

    lower_slope: Array
    lower: Array
    upper_slope: Array
    upper: Array


def value_range(op: Activation, lo: Array, hi: Array) -> tuple[Array, Array]:
    """Bounds of f(z) for `lo ≤ z ≤ hi`; exact for ReLU and Clip."""
    pairs = [_value(op, z) for z in _vertices(op, lo, hi)]
    below = np.minimum.reduce([small for small, _ in pairs])
    above = np.maximum.reduce([large for _, large in pairs])
    return below, above


class Support(Enum):
    """Which slope the line opposite of the chord takes; neither is the better one everywhere."""

    AREA = "the one that leaves the smaller area"
    FLAT = "the smaller one"


def relax(op: Activation, lo: Array, hi: Array, support: Support = Support.AREA) -> Band:
    """A band around f on `[lo, hi]`: exact on a single straight piece, else chord and support.

    Where f is not straight between vertices (Elu and Selu below 0) both slopes are 0 and the
    intercepts are the range.
    """
    with np.errstate(all="ignore"):
        lower_slope, upper_slope = map(_finite, _slopes(op, lo, hi, support))
        lower, upper = value_range(op, lo, hi)
        below, above = np.full_like(lo, np.inf), np.full_like(lo, -np.inf)
        for z in _vertices(op, lo, hi):
            small, large = _value(op, z)
            below = np.minimum(below, _minus(small, lower_slope, z, above=False))
            above = np.maximum(above, _minus(large, upper_slope, z, above=True))
    flat_below, flat_above = lower_slope == 0, upper_slope == 0
    return Band(
        lower_slope,
        np.where(flat_below, lower, below),
        upper_slope,
        np.where(flat_above, upper, above),
    )


def decided(op: Activation, lo: Array, hi: Array) -> Array:
    """Whether f is one straight piece on `[lo, hi]`."""
    if isinstance(op, Elu | Selu):
        return np.asarray(lo >= 0)
    inside = [(lo < point) & (point < hi) for point in _breakpoints(op)]
    return np.asarray(~np.logical_or.reduce(inside))


def _finite(slope: Array) -> Array:
    """The slope where it is a finite number, else 0 (an interval end was infinite)."""
    return np.where(np.isfinite(slope), slope, 0.0)


def _breakpoints(op: Activation) -> tuple[float, ...]:
    return (op.lo, op.hi) if isinstance(op, Clip) else (0.0,)


def _vertices(op: Activation, lo: Array, hi: Array) -> list[Array]:
    """The ends, and each breakpoint moved to the nearest point of the interval."""
    return [lo, *(np.clip(point, lo, hi) for point in _breakpoints(op)), hi]


def _value(op: Activation, z: Array) -> tuple[Array, Array]:
    """f(z) in real arithmetic, between two floats."""
    if isinstance(op, Relu | Clip):
        exact = op(z)
        return exact, exact
    if isinstance(op, LeakyRelu):
        return _scaled(z, z, np.where(z >= 0, 1.0, op.slope))
    small, large = _expm1(np.minimum(z, 0.0))
    alpha, gain = (op.alpha, 1.0) if isinstance(op, Elu) else (op.alpha, op.gamma)
    small, large = _scaled(small, large, np.full_like(z, alpha))
    return _scaled(np.where(z >= 0, z, small), np.where(z >= 0, z, large), np.full_like(z, gain))


def _scaled(small: Array, large: Array, factor: Array) -> tuple[Array, Array]:
    """Bounds of factor·x for `small ≤ x ≤ large`; exact where the factor is 1 or x is 0."""
    with np.errstate(all="ignore"):
        ends = np.stack([small * factor, large * factor])
    exact = (factor == 1) | ((small == 0) & (large == 0))
    below, above = ends.min(axis=0), ends.max(axis=0)
    return np.where(exact, below, down(below)), np.where(exact, above, up(above))


def _expm1(z: Array) -> tuple[Array, Array]:
    """Bounds of exp(z) − 1 for z ≤ 0, within [−1, 0]."""
    with np.errstate(all="ignore"):
        value = np.expm1(z)
        slack = np.abs(value) * EXPM1_ERROR
        below = np.maximum(down(value - slack), -1.0)
        above = np.minimum(up(value + slack), 0.0)
    return np.where(z == 0, 0.0, below), np.where(z == 0, 0.0, above)


def _slopes(op: Activation, lo: Array, hi: Array, support: Support) -> tuple[Array, Array]:
    """Slopes of the line below and the line above; any numbers are sound."""
    if isinstance(op, Clip):
        return _clip_slopes(op, lo, hi, support)
    left, right = _side_slopes(op)
    bent = (lo < 0) & (hi > 0)
    straight = np.where(lo >= 0, right, left)
    if isinstance(op, Elu | Selu):
        flat = np.where(lo >= 0, right, 0.0)
        return flat, flat
    chord = (right * hi - left * lo) / (hi - lo)
    chord = np.clip(chord, min(left, right), max(left, right))
    touch = np.where(hi >= -lo * (1 - TIE), right, left)
    if support is Support.FLAT:
        touch = np.where(-lo <= TIE * hi, right, min(left, right, key=abs))
    chord_above = left <= right  # convex: the chord lies above
    lower = np.where(bent, touch if chord_above else chord, straight)
    upper = np.where(bent, chord if chord_above else touch, straight)
    return lower, upper


def _side_slopes(op: Activation) -> tuple[float, float]:
    """The slopes left and right of the breakpoint 0."""
    if isinstance(op, LeakyRelu):
        return op.slope, 1.0
    return 0.0, op.piece.slope


def _clip_slopes(op: Clip, lo: Array, hi: Array, support: Support) -> tuple[Array, Array]:
    """A chord where the graph bends away, and the support elsewhere.

    Bent at both ends: below, the line from (op.lo, op.lo) to (hi, op.hi); above, the line from
    (lo, op.lo) to (op.hi, op.hi).
    """
    rise = np.clip(hi, op.lo, op.hi) - np.clip(lo, op.lo, op.hi)
    foot, head = lo < op.lo, hi > op.hi
    inside = ((lo >= op.lo) & (hi <= op.hi)).astype(np.float64)
    lower = np.where(head, rise / (hi - np.maximum(lo, op.lo)), inside)
    area = support is Support.AREA
    lower = np.where(foot & ~head, area & (hi - op.lo > op.lo - lo), lower)
    upper = np.where(foot, rise / (np.minimum(hi, op.hi) - lo), inside)
    upper = np.where(head & ~foot, area & (op.hi - lo > hi - op.hi), upper)
    outside = (hi <= op.lo) | (lo >= op.hi)
    return np.where(outside, 0.0, lower), np.where(outside, 0.0, upper)


def _minus(value: Array, slope: Array, z: Array, *, above: bool) -> Array:
    """`value − slope·z` rounded outward; an exact product and a zero difference stay exact."""
    part = slope * z
    exact = (slope == 0) | (slope == 1) | (z == 0)
    part = np.where(slope == 0, 0.0, part)
    part = np.where(exact, part, down(part) if above else up(part))
    difference = value - part
    exact &= difference == 0
    return np.where(exact, difference, up(difference) if above else down(difference))
