"""Arrays of rational numbers over one denominator: sums and products without any rounding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reconstruct.numbers.arrays import Array, dense
from reconstruct.numbers.double_double import Enclosure
from reconstruct.numbers.dyadic import Integers, integers


def rationals(values: Any) -> Array:
    """Floats as an array of Fractions, each the same number; what holds Fractions stays."""
    array = values if isinstance(values, np.ndarray) else dense(values)
    if array.dtype == object:
        return array
    flat = [Fraction(float(value)) for value in array.ravel()]
    return np.array(flat, dtype=object).reshape(array.shape)


@dataclass(frozen=True, eq=False)
class RationalMatrix:
    """`numbers`/`denominator`, entry by entry: Python integers in an object array."""

    numbers: Integers
    denominator: int

    @classmethod
    def exact(cls, values: ArrayLike) -> RationalMatrix:
        """The array of these floats: every float is an integer over a power of two."""
        numbers, shift = integers(values)
        return cls(numbers, 1 << shift)

    @classmethod
    def of(cls, values: Sequence[Fraction]) -> RationalMatrix:
        """A vector of fractions over their least common denominator."""
        common = lcm(*(value.denominator for value in values))
        whole = [value.numerator * (common // value.denominator) for value in values]
        return cls(np.array(whole, dtype=object), common)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.numbers.shape

    def __getitem__(self, key: Any) -> RationalMatrix:
        return RationalMatrix(self.numbers[key], self.denominator)

    def __add__(self, other: RationalMatrix) -> RationalMatrix:
        common = lcm(self.denominator, other.denominator)
        return RationalMatrix(self.over(common) + other.over(common), common)

    def __neg__(self) -> RationalMatrix:
        return RationalMatrix(-self.numbers, self.denominator)

    def __sub__(self, other: RationalMatrix) -> RationalMatrix:
        return self + (-other)

    def __mul__(self, other: RationalMatrix) -> RationalMatrix:
        """The product entry by entry (shapes broadcast)."""
        product = self.numbers * other.numbers
        return RationalMatrix(product, self.denominator * other.denominator)

    def __matmul__(self, other: RationalMatrix) -> RationalMatrix:
        product = self.numbers @ other.numbers
        return RationalMatrix(product, self.denominator * other.denominator)

    def scaled(self, factor: float) -> RationalMatrix:
        return self if factor == 1.0 else self * RationalMatrix.exact(np.full(1, factor))

    def over(self, denominator: int) -> Integers:
        """The numerators over a multiple of the denominator."""
        factor = denominator // self.denominator
        return self.numbers if factor == 1 else self.numbers * factor

    def is_zero(self) -> bool:
        return not self.numbers.any()

    def near(self) -> Enclosure:
        """The rounded quotients, each with its distance to the next float as a radius.

        Python rounds the quotient of two integers correctly, and says so where it overflows.
        """
        flat = [_near(int(number), self.denominator) for number in self.numbers.ravel()]
        near: Array = np.array(flat, dtype=np.float64).reshape(self.numbers.shape)
        return Enclosure(near, np.zeros_like(near), np.spacing(np.abs(near)))


def _near(number: int, denominator: int) -> float:
    try:
        return number / denominator
    except OverflowError:
        return np.inf if number > 0 else -np.inf
