"""What every analysis may ask of an activation; each activation answers in a file of its own.

The construction pushes every hidden value of the frozen network into a piece where the activation
is a line through the origin, `act(z) = slope·z` for `lo ≤ z ≤ hi`. ReLU has the piece [0, ∞) with
slope 1. Whatever has such a piece can take ReLU's place inside the frozen network.

Activations are monotone between their breakpoints. So the range over an interval is met at the
vertices (the interval's ends and the breakpoints inside), and where the function is straight
between them a line with *any* slope becomes a bound once its intercept is taken from the vertices:

    lower intercept = min over vertices of f(z) − slope·z,   upper intercept = max of the same,

rounded outward. Soundness rests on the intercepts alone; the slopes only decide tightness.

Rests on proofs_check: back-substitution.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from enum import Enum

import numpy as np

from reconstruct.errors import UnsupportedError
from reconstruct.networks.operation import Operation, one
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import upward
from reconstruct.numbers.exact import Dyadic
from reconstruct.numbers.precision import Precision
from reconstruct.numbers.rounding import down, up

TIE = 2.0**-30  # lines must not depend on rounding: lattice networks have lo = −hi, and lo = 0


@dataclass(frozen=True)
class Piece:
    """`act(z) = slope·z` in real arithmetic for `lo ≤ z ≤ hi`, up to the activation's `rest`."""

    lo: float
    hi: float
    slope: float


@dataclass(frozen=True)
class Line:
    """`act(z) = slope·z + intercept` for `lo ≤ z ≤ hi`; the numbers are exact."""

    lo: float
    hi: float
    slope: float
    intercept: float


@dataclass(frozen=True)
class Exponential:
    """`act(z) = gain·alpha·(exp(z) − 1)` for `lo ≤ z ≤ hi ≤ 0`; the numbers are exact."""

    lo: float
    hi: float
    alpha: float
    gain: float


@dataclass(frozen=True)
class Curve:
    """`act(z)` is the function of this name for `lo ≤ z ≤ hi`."""

    lo: float
    hi: float
    rule: str


class Support(Enum):
    """Which slope the line opposite of the chord takes; neither is the better one everywhere."""

    AREA = "the one that leaves the smaller area"
    FLAT = "the smaller one"


@dataclass(frozen=True, eq=False)
class Band:
    """`lower_slope·z + lower ≤ f(z) ≤ upper_slope·z + upper` on the interval, each (boxes, n)."""

    lower_slope: Array
    lower: Array
    upper_slope: Array
    upper: Array


class Activation(Operation):
    """What stands in both networks: not linear, monotone, with a Lipschitz constant.

    Compared by its kind and settings. Most activations are functions of one number (`Unitwise`);
    a maximum over windows is one too.
    """

    unitwise = False

    @property
    def lines(self) -> tuple[Line, ...]:
        """The pieces, where the function is made of lines alone; else none."""
        return ()

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """A Lipschitz constant in the maximum norm."""

    @property
    def piece(self) -> Piece:
        """The line through the origin that the construction uses; refused where there is none."""
        raise UnsupportedError(
            f"{self.kind} has no linear piece through 0, so it cannot stand inside a site; it has "
            f"to stand where the other network has it too"
        )

    @property
    def rest(self) -> float:
        """How far f may be from slope·z on its piece: 0 where the piece is a line."""
        return 0.0

    @property
    def steepness(self) -> float:
        """A Lipschitz constant of f(z) − slope·z, slope that of the construction's piece."""
        return 2 * self.lipschitz

    @abstractmethod
    def image(self, lo: Array, hi: Array) -> Range:
        """Bounds of f(z) for `lo ≤ z ≤ hi`, each (boxes, size)."""

    def band(self, lo: Array, hi: Array, support: Support = Support.AREA) -> Band:
        """Lines below and above f on `[lo, hi]`, in the units that `chosen` names: the range, where
        each unit depends on others and no line in one of them says more."""
        low, high = self.image(lo, hi)
        return Band(np.zeros_like(low), low, np.zeros_like(high), high)

    def chosen(self, lo: Array, hi: Array) -> Array | None:
        """Which input each line of `band` speaks of, (boxes, size); None: each its own."""
        return None

    def straight(self, lo: Array, hi: Array) -> Array:
        """Whether f is one line on `[lo, hi]`, unit by unit of the input."""
        return np.zeros(np.shape(lo), dtype=bool)

    @abstractmethod
    def pull(self, rows: Array, z: Array) -> Array:
        """The transposed derivative at z, times rows: (points, size out) to (points, size in)."""

    @abstractmethod
    def carried(self, error: Array) -> Array:
        """How far f(z) moves at most, unit by unit, when z moves by `error`."""

    @abstractmethod
    def magnitude(self, size: Array) -> Array:
        """A bound of |f(z)| for |z| ≤ size."""

    @abstractmethod
    def exact(self, value: Dyadic, bits: int) -> Dyadic:
        """f(value) in exact arithmetic; enclosed to `bits` where it is irrational."""

    @abstractmethod
    def rounding(self, computed: Array, precision: Precision) -> Array:
        """|fl(f)(ẑ) − f(ẑ)| for |ẑ| ≤ computed, casts of f's own numbers included."""


class Unitwise(Activation):
    """A function of one number, applied to every unit.

    `pieces` declares the function once, as plain numbers from left to right: whoever proves
    something about it independently starts from there.
    """

    unitwise = True

    @property
    def lines(self) -> tuple[Line, ...]:
        found = tuple(piece for piece in self.pieces if isinstance(piece, Line))
        return found if len(found) == len(self.pieces) else ()

    @property
    @abstractmethod
    def pieces(self) -> tuple[Line | Exponential | Curve, ...]:
        """The function, piece by piece, from −∞ to ∞."""

    @abstractmethod
    def derivative(self, z: Array) -> Array:
        """The slope at z, and some slope of a neighbouring piece at a breakpoint."""

    @abstractmethod
    def enclose(self, z: Array) -> Range:
        """f(z) in real arithmetic, between two floats."""

    @abstractmethod
    def slopes(self, lo: Array, hi: Array, support: Support) -> tuple[Array, Array]:
        """Slopes of a line below and a line above on `[lo, hi]`; any numbers are sound."""

    # --- what follows from that -----------------------------------------------------------------

    def size(self, *inputs: int) -> int:
        return one(inputs, type(self).__name__)

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Where one piece meets the next."""
        return tuple(piece.hi for piece in self.pieces[:-1])

    def pull(self, rows: Array, z: Array) -> Array:
        return np.asarray(rows * self.derivative(z))

    def carried(self, error: Array) -> Array:
        return upward(self.lipschitz * error)

    def magnitude(self, size: Array) -> Array:
        """A bound of |f(z)| for |z| ≤ size: |f(0)| + Lip·|z|."""
        below, above = self.enclose(np.zeros(1))
        start = float(max(abs(below[0]), abs(above[0])))
        return upward(start + self.lipschitz * size)

    def image(self, lo: Array, hi: Array) -> Range:
        """Bounds of f(z) for `lo ≤ z ≤ hi`; exact where `enclose` is."""
        pairs = [self.enclose(z) for z in self._vertices(lo, hi)]
        below = np.minimum.reduce([small for small, _ in pairs])
        above = np.maximum.reduce([large for _, large in pairs])
        return below, above

    def straight(self, lo: Array, hi: Array) -> Array:
        """Whether f is one line on `[lo, hi]`."""
        inside = [(lo < point) & (point < hi) for point in self.breakpoints]
        bent = np.logical_or.reduce(inside) if inside else np.zeros(np.shape(lo), dtype=bool)
        for piece in self.pieces:
            if not isinstance(piece, Line):
                bent = bent | (lo < piece.hi)
        return np.asarray(~bent)

    def band(self, lo: Array, hi: Array, support: Support = Support.AREA) -> Band:
        """A band around f on `[lo, hi]`: exact on a single straight piece, else chord and support.

        Where f is not straight between vertices both slopes must be 0: the intercepts are then
        the range.
        """
        with np.errstate(all="ignore"):
            lower_slope, upper_slope = map(_finite, self.slopes(lo, hi, support))
            lower, upper = self.image(lo, hi)
            below, above = np.full_like(lo, np.inf), np.full_like(lo, -np.inf)
            for z in self._vertices(lo, hi):
                small, large = self.enclose(z)
                below = np.minimum(below, _minus(small, lower_slope, z, above=False))
                above = np.maximum(above, _minus(large, upper_slope, z, above=True))
        flat_below, flat_above = lower_slope == 0, upper_slope == 0
        return Band(
            lower_slope,
            np.where(flat_below, lower, below),
            upper_slope,
            np.where(flat_above, upper, above),
        )

    def _vertices(self, lo: Array, hi: Array) -> list[Array]:
        """The ends, and each breakpoint moved to the nearest point of the interval."""
        return [lo, *(np.clip(point, lo, hi) for point in self.breakpoints), hi]


def scaled(small: Array, large: Array, factor: Array) -> Range:
    """Bounds of factor·x for `small ≤ x ≤ large`; exact where the factor is 1 or x is 0."""
    with np.errstate(all="ignore"):
        ends = np.stack([small * factor, large * factor])
    exact = (factor == 1) | ((small == 0) & (large == 0))
    below, above = ends.min(axis=0), ends.max(axis=0)
    return np.where(exact, below, down(below)), np.where(exact, above, up(above))


def _finite(slope: Array) -> Array:
    """The slope where it is a finite number, else 0 (an interval end was infinite)."""
    return np.where(np.isfinite(slope), slope, 0.0)


def _minus(value: Array, slope: Array, z: Array, *, above: bool) -> Array:
    """`value − slope·z` rounded outward; an exact product and a zero difference stay exact."""
    part = slope * z
    exact = (slope == 0) | (slope == 1) | (z == 0)
    part = np.where(slope == 0, 0.0, part)
    part = np.where(exact, part, down(part) if above else up(part))
    difference = value - part
    exact &= difference == 0
    return np.where(exact, difference, up(difference) if above else down(difference))
