"""Linear maps as operators: what every analysis may ask of `h ↦ L h + c`.

There are three structures, and a new map is one file that derives from one of them: a `Mixing` map
sums over its inputs (dense, sparse, convolution), a `Diagonal` map scales and shifts each unit on
its own (norm, scaling), a `Select` picks units. The entries of a mixing map are floats, known
exactly; the factors of a diagonal map may be irrational and are known to within bounds.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from reconstruct.networks.operation import Operation
from reconstruct.numbers.arrays import Array, Range, Vector
from reconstruct.numbers.double_double import upward
from reconstruct.numbers.exact import Dyadic


@dataclass(frozen=True, eq=False)
class RoundingError:
    """What is lost when coefficients Λ of a map's value v are pulled back to its input h:

        |Λ·v − fl(pull(Λ))·h − Λ·plain| ≤ |Λ|·error + floor     for |h| ≤ reach.

    `plain` stands for the map's constant; arrays are (1 or boxes, size), `floor` (1 or boxes,).
    """

    plain: Array
    error: Array
    floor: Array


@dataclass(frozen=True, eq=False)
class AccumulatedSum:
    """Sums `W ĥ + b` whose terms meet `roundings` at most, their own products included: no |entry|
    of W exceeds `entry`, Σ|ĥ| ≤ `inputs`, and `gross` bounds |W||ĥ| + |b| row by row."""

    roundings: int
    entry: float
    inputs: float
    gross: Array


@dataclass(frozen=True, eq=False)
class InputBounds:
    """What a map that treats each unit on its own meets when it is evaluated in floats.

    `size` bounds |z|, `error` the error of the computed ẑ, `result` the value in real arithmetic.
    The map may be folded into one `before` it.
    """

    size: Array
    error: Array
    result: Array
    before: AccumulatedSum | None = None

    @property
    def computed(self) -> Array:
        """A bound of |ẑ|."""
        return upward(self.size + self.error)


@dataclass(frozen=True, eq=False)
class Rounding:
    """What evaluation in floats adds: its own `error`, and the `peak` of what is met on the way.

    An error that is infinite says that nothing is known.
    """

    error: Array
    peak: Array


class Map(Operation):
    """`h ↦ L h + c` from R^k to R^m."""

    @abstractmethod
    def image(self, lo: Array, hi: Array) -> Range:
        """Bounds of the value for `lo ≤ h ≤ hi`, each (boxes, k), rounded outward."""

    @abstractmethod
    def pull(self, form: Array, size: int) -> Array:
        """Coefficients of the value, (…, m), as coefficients of the input, (…, k = size): Λ L."""

    @abstractmethod
    def pull_error(self, reach: Array) -> RoundingError:
        """What `pull` loses for inputs with |h| ≤ reach, (boxes, k)."""

    @abstractmethod
    def absolute(self, reach: Array) -> Array:
        """`|L| reach`, (…, k) to (…, m), in plain floats: callers round it up."""

    @abstractmethod
    def exact(self, value: Dyadic, bits: int) -> Dyadic:
        """The value at a point in exact arithmetic; enclosed to `bits` where it is irrational."""

    @property
    @abstractmethod
    def shift(self) -> Vector:
        """The constant c, rounded to float64."""
