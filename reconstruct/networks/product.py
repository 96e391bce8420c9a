"""Products of two values, matrix by matrix: what an attention does beside its Softmax.

Neither factor is a constant, so this is no map: it stands in f as in g. With the errors δ and ε of
the factors, (A + δ)(B + ε) − AB = δB + Aε + δε.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TypeVar

import numpy as np

from reconstruct.errors import InputError
from reconstruct.networks.operation import ANY_POSITIONS, Operation, register
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import Enclosure, upward
from reconstruct.numbers.dyadic import Dyadic
from reconstruct.numbers.rounding import down, gamma, midpoint, up

Number = TypeVar("Number", Enclosure, Dyadic)


@dataclass(frozen=True)
class MatrixProduct(Operation):
    """`A B` for each of `stack` pairs of matrices, rows × inner and inner × columns."""

    kind = "MatrixProduct"

    stack: int
    rows: int
    inner: int
    columns: int

    def __post_init__(self) -> None:
        counts = tuple(asdict(self).values())
        if any(isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1 for n in counts):
            raise InputError(f"a product of matrices needs sizes of 1 or more, but got {counts}")

    @property
    def _shapes(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        return (self.stack, self.rows, self.inner), (self.stack, self.inner, self.columns)

    def size(self, *inputs: int) -> int:
        needed = tuple(int(np.prod(shape)) for shape in self._shapes)
        if inputs != needed:
            raise InputError(f"a product of values of sizes {needed} was given {inputs}")
        return self.stack * self.rows * self.columns

    def positions_for(self, *counts: int) -> int | None:
        return 1 if all(count in (ANY_POSITIONS, 1) for count in counts) else None

    def __call__(self, *values: Array) -> Array:
        left, right = self._split(*values)
        return np.asarray((left @ right).reshape(*values[0].shape[:-1], -1))

    def _split(self, a: Array, b: Array) -> tuple[Array, Array]:
        first, second = self._shapes
        return a.reshape(*a.shape[:-1], *first), b.reshape(*b.shape[:-1], *second)

    def pull(self, rows: Array, a: Array, b: Array) -> list[Array]:
        """The transposed derivative by each factor, times rows."""
        left, right = self._split(a, b)
        given = rows.reshape(*rows.shape[:-1], self.stack, self.rows, self.columns)
        made = given @ right.swapaxes(-1, -2), left.swapaxes(-1, -2) @ given
        return [part.reshape(value.shape) for part, value in zip(made, (a, b), strict=True)]

    def image(self, first: Range, second: Range) -> Range:
        """Bounds of the products of what lies in both ranges."""
        with np.errstate(all="ignore"):
            (a, r), (b, s) = midpoint(*first), midpoint(*second)
            size, centre = self(np.abs(a) + r, np.abs(b) + s), self(a, b)
            radius = self(r, np.abs(b)) + self(np.abs(a) + r, s) + gamma(self.inner + 4) * size
            lo, hi = down(centre - upward(radius)), up(centre + upward(radius))
        return np.where(np.isnan(lo), -np.inf, lo), np.where(np.isnan(hi), np.inf, hi)

    def summed(self, a: Number, b: Number) -> Number:
        """The same of numbers in any arithmetic, one summand after the other."""
        parts = iter(self._places())
        left, right = next(parts)
        total = a[left] * b[right]
        for left, right in parts:
            total = total + a[left] * b[right]
        return total

    def _places(self) -> Iterator[tuple[Array, Array]]:
        """Where the factors of each summand stand, for all entries of the product at once."""
        left, right = (np.arange(int(np.prod(shape))).reshape(shape) for shape in self._shapes)
        goal = (self.stack, self.rows, self.columns)
        for k in range(self.inner):
            yield (
                np.broadcast_to(left[:, :, k, None], goal).ravel(),
                np.broadcast_to(right[:, k, None, :], goal).ravel(),
            )


register(MatrixProduct)
