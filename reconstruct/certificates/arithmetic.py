"""The numbers that forms are made of: rigorous (double-double with a radius) or exact (rational).

A form asks for five verbs and does not know which numbers it holds. So the layered bound and the
exact identity are proved over one and the same composition of maps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from reconstruct.networks import Diagonal, Norm
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.double_double import Enclosure, upward
from reconstruct.numbers.exact import RationalMatrix
from reconstruct.numbers.rounding import UNIT
from reconstruct.numbers.splitting import product

N = TypeVar("N", Enclosure, RationalMatrix)


class Arithmetic(Protocol[N]):
    """How floats become numbers of this kind, and how such numbers make matrices."""

    def exact(self, values: ArrayLike, /) -> N:
        """The array of these floats."""

    def factors(self, name: str, op: Diagonal, /) -> tuple[N, N]:
        """`(s, t)` of a map `z ↦ s∘z + t`, the node being called `name`."""

    def product(self, left: Array, right: N, /) -> N:
        """The matrix product of floats and numbers."""

    def beside(self, blocks: Sequence[N], axis: int = 1, /) -> N:
        """Blocks of columns as one matrix, or of rows with axis 0."""

    def doubted(self, values: N, doubt: Array, /) -> N:
        """The same numbers, each known to within `doubt` only."""


class Rigorous:
    """Enclosures: about 2^-100, with every loss in the radius."""

    def exact(self, values: ArrayLike, /) -> Enclosure:
        return Enclosure.exact(values)

    def factors(self, name: str, op: Diagonal, /) -> tuple[Enclosure, Enclosure]:
        return op.enclosed()

    def product(self, left: Array, right: Enclosure, /) -> Enclosure:
        return product(left, right)

    def times(self, left: Enclosure, right: Enclosure, /) -> Enclosure:
        """The matrix product: what is small beside the high parts is multiplied in floats."""
        small, size = np.abs(left.low), np.abs(right.high)
        doubt = small @ (np.abs(right.low) + right.radius)
        doubt = doubt + (left.shape[-1] + 4) * 2 * UNIT * (small @ size)
        if left.radius.any():
            doubt = doubt + left.radius @ right.magnitude()
        tail = left.low @ right.high
        return product(left.high, right) + Enclosure(tail, np.zeros_like(tail), upward(doubt))

    def beside(self, blocks: Sequence[Enclosure], axis: int = 1, /) -> Enclosure:
        high, low, radius = (
            np.concatenate([getattr(b, part) for b in blocks], axis=axis)
            for part in ("high", "low", "radius")
        )
        return Enclosure(high, low, radius)

    def doubted(self, values: Enclosure, doubt: Array, /) -> Enclosure:
        return values.widened(doubt) if doubt.any() else values


class NotRational(ArithmeticError):
    """A number that exact arithmetic would need is not a rational one."""


class RationalNorm(Protocol):
    """The gammas and betas of a norm layer as rational numbers."""

    @property
    def gamma(self) -> tuple[Fraction, ...]: ...

    @property
    def beta(self) -> tuple[Fraction, ...]: ...


class Rational:
    """Rationals, with the solver's gammas and betas in place of the floats of a norm."""

    def __init__(self, norms: Mapping[str, RationalNorm] | None = None) -> None:
        self.norms = dict(norms or {})

    def exact(self, values: ArrayLike, /) -> RationalMatrix:
        return RationalMatrix.exact(values)

    def factors(self, name: str, op: Diagonal, /) -> tuple[RationalMatrix, RationalMatrix]:
        rational = self.norms.get(name)
        if rational is not None and isinstance(op, Norm):
            scales, shifts = _with_norm(name, op, rational)
        else:
            scale, shift = op.rationals(64)
            if any(lo != hi for lo, hi in (*scale, *shift)):
                raise NotRational(_irrational(name))
            scales, shifts = [s for s, _ in scale], [t for t, _ in shift]
        return RationalMatrix.of(scales), RationalMatrix.of(shifts)

    def product(self, left: Array, right: RationalMatrix, /) -> RationalMatrix:
        return RationalMatrix.exact(left) @ right

    def beside(self, blocks: Sequence[RationalMatrix], axis: int = 1, /) -> RationalMatrix:
        common = lcm(*(block.denominator for block in blocks))
        return RationalMatrix(np.concatenate([b.over(common) for b in blocks], axis=axis), common)

    def doubted(self, values: RationalMatrix, doubt: Array, /) -> RationalMatrix:
        if doubt.any():
            raise NotRational(f"a unit may leave its line by {float(np.max(doubt)):.3g}")
        return values


def _with_norm(name: str, op: Norm, norm: RationalNorm) -> tuple[list[Fraction], list[Fraction]]:
    scales, shifts = [], []
    parts = zip(norm.gamma, norm.beta, op.mean, op.rational_deviations(), strict=True)
    for gamma, beta, mean, root in parts:
        if root is None:
            raise NotRational(_irrational(name))
        scales += [gamma / root] * op.positions
        shifts += [beta - gamma / root * Fraction(float(mean))] * op.positions
    return scales, shifts


def _irrational(name: str) -> str:
    return (
        f"norm {name!r} has a √(var + eps) that is not rational, so that its map cannot be "
        "compared exactly; use statistics with var + eps = 1"
    )
