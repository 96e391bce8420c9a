"""The numbers that a deep chain is computed in: float64, extended precision, rationals, residues.

The induction and the composition are the same whatever the numbers are; each arithmetic says how
it holds a matrix of floats and how it multiplies. `numpy.longdouble` has 64 bits of mantissa on x86
and more elsewhere; where it is no wider than float64 all still works, with float64's rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconstruct.networks import Matrix, Norm, dense
from reconstruct.numbers.arrays import Array, Vector

Extended: TypeAlias = NDArray[np.longdouble]
Reals: TypeAlias = NDArray[Any]  # float64 or longdouble

PRODUCT_LIMIT = 1 << 28  # multiplications, about a second, up to which a product is extended
ROWS = 256  # rows converted to extended precision at once


class ChainArithmetic(Protocol):
    """How matrices of floats are held, scaled and multiplied."""

    def lift(self, values: Matrix) -> Array:
        """Floats as numbers of this arithmetic; what already is stays."""
        ...

    def times(self, left: Array, right: Array) -> Array:
        """Entry by entry, shapes as NumPy broadcasts them."""
        ...

    def product(self, left: Matrix, right: Matrix) -> Array:
        """`left @ right`; either may still be floats."""
        ...


class Double:
    """float64 by BLAS."""

    def lift(self, values: Matrix) -> Array:
        return dense(values)

    def times(self, left: Array, right: Array) -> Array:
        return np.asarray(left * right)

    def product(self, left: Matrix, right: Matrix) -> Array:
        return np.asarray(dense(left) @ dense(right))


class LongDouble:
    """Extended precision, plain sums: where the last digits matter and the product is not large."""

    def lift(self, values: Matrix) -> Extended:
        return extended(dense(values))

    def times(self, left: Array, right: Array) -> Array:
        return np.asarray(left * right)

    def product(self, left: Reals, right: Matrix) -> Reals:
        """Extended when the product is small enough and float64 otherwise."""
        if left.shape[0] * right.shape[0] * right.shape[1] > PRODUCT_LIMIT:
            return np.asarray(left, np.float64) @ dense(right)
        return np.asarray(extended(left) @ extended(dense(right)))


class Rationals:
    """Fractions: every float is a dyadic rational, so nothing is lost."""

    def lift(self, values: Matrix) -> Array:
        if isinstance(values, np.ndarray) and values.dtype == object:
            return values
        array = dense(values)
        flat = [Fraction(float(value)) for value in array.ravel()]
        return np.array(flat, dtype=object).reshape(array.shape)

    def times(self, left: Array, right: Array) -> Array:
        return np.asarray(left * right)

    def product(self, left: Matrix, right: Matrix) -> Array:
        """In integers: each row and each column over one denominator."""
        top, rows = _over_common(self.lift(left))
        side, columns = _over_common(self.lift(right).T)
        found = top.dot(side.T)
        return np.array(
            [
                [Fraction(v, d * e) for v, e in zip(row, columns, strict=True)]
                for row, d in zip(found, rows, strict=True)
            ],
            dtype=object,
        ).reshape(found.shape)


@dataclass(frozen=True)
class Residues:
    """Integers modulo a prime: `a/2^b ↦ a·2^−b mod p`, a ring homomorphism on the dyadics."""

    prime: int

    def lift(self, values: Matrix) -> Array:
        if isinstance(values, np.ndarray) and values.dtype == object:
            return values
        half = pow(2, -1, self.prime)
        found = []
        for value in dense(values).ravel():
            top, bottom = float(value).as_integer_ratio()
            found.append(top * pow(half, bottom.bit_length() - 1, self.prime) % self.prime)
        return np.array(found, dtype=object).reshape(np.shape(values))

    def times(self, left: Array, right: Array) -> Array:
        return np.asarray(left * right % self.prime)

    def product(self, left: Matrix, right: Matrix) -> Array:
        return np.asarray(self.lift(left).dot(self.lift(right)) % self.prime)


def _over_common(rows: Array) -> tuple[Array, list[int]]:
    """Integer rows and the denominator of each."""
    common = [lcm(*(int(v.denominator) for v in row)) for row in rows]
    integers = [
        [v.numerator * (d // v.denominator) for v in row]
        for row, d in zip(rows, common, strict=True)
    ]
    return np.array(integers, dtype=object).reshape(rows.shape), common


# --- extended precision beyond products ---------------------------------------------------------


def extended(values: Any) -> Extended:
    """The same numbers in extended precision."""
    return np.asarray(values, dtype=np.longdouble)


def dot(matrix: Matrix, vector: Extended) -> Extended:
    """`matrix @ vector` in extended precision, a few rows at a time."""
    rows = matrix.shape[0]
    parts = [extended(dense(matrix[i : i + ROWS])) @ vector for i in range(0, rows, ROWS)]
    return np.concatenate(parts)


def real_effective(norm: Norm) -> tuple[Extended, Extended]:
    """`(s, t)` of `N(z) = s∘z + t` as the stored gamma, beta and statistics really give it."""
    deviation = np.sqrt(extended(norm.var) + extended(norm.eps))
    s = extended(norm.gamma) / deviation
    return s, extended(norm.beta) - s * extended(norm.mean)


def real_scale(norm: Norm, s: Vector) -> Extended:
    """The scale that the norm really has once gamma is rounded for the scale s."""
    return real_effective(norm.with_effective(s, np.zeros_like(s)))[0]
