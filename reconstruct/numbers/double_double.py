"""Real arrays known to about 2⁻¹⁰⁰: an unevaluated sum of two floats and a radius.

`Enclosure(high, low, radius)` stands for any real array X with |X − (high + low)| ≤ radius entry
by entry. Sums and products use the error-free transformations of Knuth, Dekker and Veltkamp; what
they drop goes into the radius. Radii are computed in ordinary floats and then pushed up by
`upward`, which is enough for any expression of non-negative terms with fewer than 2²⁰ roundings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reconstruct.numbers.arrays import Array, everywhere
from reconstruct.numbers.rounding import UNIT, down, up

UNDERFLOW = 2.0**-1000  # above what an expression of 2²⁰ terms can lose below the normal floats
_SLACK = 1 + 2.0**-30  # (1 + u)^(2²⁰) < 1 + 2⁻³²: enough for 2²⁰ roundings and the product itself
_VELTKAMP = 2.0**27 + 1


def upward(values: ArrayLike) -> Array:
    """An upper bound of a non-negative expression that was evaluated in floats."""
    found = np.asarray(values, dtype=np.float64) * _SLACK
    found += UNDERFLOW
    return np.asarray(found)


def constant(values: Array) -> float | None:
    """The number that is `everywhere`; None for arrays of any other kind."""
    return float(values.flat[0]) if values.size and not any(values.strides) else None


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """`s + e = a + b` exactly, with s the rounded sum (Knuth)."""
    s = a + b
    part = s - a
    return s, (a - (s - part)) + (b - part)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """`p + e = a·b` exactly unless it underflows, with p the rounded product (Dekker)."""
    p = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(a: Array) -> tuple[Array, Array]:
    scaled = _VELTKAMP * a
    high = scaled - (scaled - a)
    return high, a - high


@dataclass(frozen=True, eq=False)
class Enclosure:
    """A real array X with |X − (high + low)| ≤ radius, entry by entry."""

    high: Array
    low: Array
    radius: Array

    @classmethod
    def exact(cls, values: ArrayLike) -> Enclosure:
        """The array of these floats, without doubt."""
        high = np.asarray(values, dtype=np.float64)
        none = everywhere(0.0, high.shape)
        return cls(high, none, none)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.high.shape

    @property
    def plain(self) -> bool:
        """Whether these are floats and known to be: told without a look at the entries."""
        return constant(self.low) == constant(self.radius) == 0.0

    def each(self, move: Callable[[Array], Array]) -> Enclosure:
        """The entries moved, repeated or left out, all parts alike."""
        return Enclosure(move(self.high), move(self.low), move(self.radius))

    def __getitem__(self, key: Any) -> Enclosure:
        return self.each(lambda part: part[key])

    def __add__(self, other: Enclosure) -> Enclosure:
        """The sum: high parts by TwoSum, low parts in floats with their roundings in the radius."""
        s, e = two_sum(self.high, other.high)
        lows = self.low + other.low
        dropped = 2 * UNIT * (np.abs(self.low) + np.abs(other.low) + np.abs(e))
        high, low = two_sum(s, e + lows)
        radius = self.radius + other.radius
        if not radius.any() and not dropped.any():  # exact numbers stay exact numbers
            return Enclosure(high, low, radius)
        return Enclosure(high, low, upward(radius + dropped))

    def __neg__(self) -> Enclosure:
        return Enclosure(-self.high, -self.low, self.radius)

    def __sub__(self, other: Enclosure) -> Enclosure:
        return self + (-other)

    def __mul__(self, other: Enclosure) -> Enclosure:
        """The product entry by entry (shapes broadcast).

        Of floats it is p + e but for underflow, and fl(p + e) = p: e is what rounding took.
        """
        p, e = two_product(self.high, other.high)
        if self.plain and other.plain:
            return Enclosure(p + e, e, everywhere(UNDERFLOW, p.shape))
        cross = self.high * other.low + self.low * other.high
        tail = np.abs(self.high * other.low) + np.abs(self.low * other.high)
        dropped = 4 * UNIT * (np.abs(e) + tail) + np.abs(self.low * other.low)
        middle = np.abs(self.high) + np.abs(self.low)  # |XY − xy| ≤ r_X |Y| + |x| r_Y
        doubt = self.radius * other.magnitude() + middle * other.radius
        high, low = two_sum(p, e + cross)
        return Enclosure(high, low, upward(dropped + doubt))

    def scaled(self, factor: float) -> Enclosure:
        """`factor` times the array; a factor of one costs nothing."""
        return self if factor == 1.0 else self * Enclosure.exact(np.full(1, factor))

    def near(self) -> Enclosure:
        """Itself: numbers of any kind are known by an enclosure."""
        return self

    def widened(self, radius: Array) -> Enclosure:
        """The same middle with `radius` added to the radius."""
        return Enclosure(self.high, self.low, upward(self.radius + radius))

    def ends(self) -> tuple[Array, Array]:
        """Floats around X, the float itself where it is one; what is not known is unbounded."""
        radius = upward(np.abs(self.low) + self.radius)
        exact = (self.low == 0) & (self.radius == 0)
        with np.errstate(all="ignore"):
            lo = np.where(exact, self.high, down(self.high - radius))
            hi = np.where(exact, self.high, up(self.high + radius))
        return np.where(np.isnan(lo), -np.inf, lo), np.where(np.isnan(hi), np.inf, hi)

    def is_zero(self) -> bool:
        """Whether X is known to be zero."""
        return not any(part.any() for part in (self.high, self.low, self.radius))

    def magnitude(self) -> Array:
        """An upper bound of |X|."""
        return upward(np.abs(self.high) + np.abs(self.low) + self.radius)


def square_root(value: Enclosure) -> Enclosure:
    """√X for X > 0, by one Newton step in doubled precision and its defect as the radius.

    |r − √X| = |r² − X| / (r + √X) ≤ |r² − X| / r, and the right side is computed as an enclosure.
    """
    start = Enclosure.exact(np.sqrt(value.high))
    step = (value - start * start).high / (2 * start.high)
    root = start + Enclosure.exact(step)
    middle = Enclosure(root.high, root.low, np.zeros_like(root.high))
    defect = (middle * middle - value).magnitude()
    # r is `middle` itself, whatever the sum that it came from was rounded by
    return middle.widened(defect / middle.high)


def quotient(above: Enclosure, below: Enclosure) -> Enclosure:
    """X / Y for Y > 0: |q − X/Y| = |qY − X| / Y, with the defect computed as an enclosure."""
    first = Enclosure.exact(above.high / below.high)
    step = (above - first * below).high / below.high
    guess = first + Enclosure.exact(step)
    middle = Enclosure(guess.high, guess.low, np.zeros_like(guess.high))
    defect = (middle * below - above).magnitude()
    # rounded once, as is the quotient by it: `widened` covers both
    least = below.high - upward(np.abs(below.low) + below.radius)
    with np.errstate(all="ignore"):  # a divisor that may be zero bounds nothing
        return middle.widened(np.where(least > 0, defect / least, np.inf))


def exponential(value: Enclosure) -> Enclosure:
    """e^X for X ≤ 0: Taylor's series of X/2^12, squared 12 times.

    For r ≤ 0 what is left behind r^17/17! is at most |r|^18/18! (Lagrange's remainder), below 2^-95
    as |r| < 3/16. Below −694 the power is less than 2^-1000: nothing but a radius.
    """
    deep = value.high + value.radius < -694.0
    flat = value.each(lambda part: np.where(deep, 0.0, part))
    small = flat.scaled(2.0**-12)
    one = Enclosure.exact(np.ones(value.shape))
    total = one
    for n in range(17, 0, -1):
        total = one + quotient(total * small, Enclosure.exact(np.full(value.shape, float(n))))
    with np.errstate(all="ignore"):
        total = total.widened(small.magnitude() ** 18 / factorial(18))
        for _ in range(12):
            total = total * total
    zero = np.where(deep, 0.0, 1.0)
    radius = np.where(deep, UNDERFLOW, np.where(np.isnan(total.radius), np.inf, total.radius))
    return Enclosure(total.high * zero, total.low * zero, radius)
