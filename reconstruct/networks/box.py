"""The domain of a claim: a bounded box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reconstruct.errors import InputError
from reconstruct.numbers.arrays import Vector, frozen_array
from reconstruct.numbers.given import numbers


@dataclass(frozen=True, eq=False)
class Box:
    """`{x : lo ≤ x ≤ hi}`; numbers stand for a cube of whatever size the network needs."""

    lo: Vector
    hi: Vector

    def __init__(self, lo: ArrayLike, hi: ArrayLike) -> None:
        lower, upper = (frozen_array(numbers(end, "the ends of a domain")) for end in (lo, hi))
        if lower.ndim > 1 or upper.ndim > 1:
            raise InputError(
                f"the domain needs lo and hi as numbers or lists, but got shapes "
                f"{lower.shape} and {upper.shape}"
            )
        if lower.ndim and upper.ndim and lower.shape != upper.shape:
            raise InputError(
                f"the domain needs lo and hi of one length, but got {lower.size} and {upper.size}"
            )
        if not (np.all(np.isfinite(lower)) and np.all(np.isfinite(upper))):
            raise InputError(
                "the domain must be bounded: every lo and hi has to be a finite number, because "
                "the construction keeps ReLUs active and cannot do so on an unbounded set"
            )
        both = np.broadcast_arrays(lower, upper)
        crossed = np.flatnonzero(both[0] > both[1])
        if crossed.size:
            i = int(crossed[0])
            raise InputError(
                f"the domain needs lo ≤ hi, but coordinate {i} has lo = {both[0].flat[i]:g} and "
                f"hi = {both[1].flat[i]:g}; swap them"
            )
        object.__setattr__(self, "lo", frozen_array(both[0]))
        object.__setattr__(self, "hi", frozen_array(both[1]))

    def of_size(self, size: int, shape: tuple[int, ...] = ()) -> Box:
        """This box for `size` inputs (`shape`: of one): a cube is spread, a list must fit."""
        if self.lo.ndim == 0:
            return Box(np.full(size, float(self.lo)), np.full(size, float(self.hi)))
        if self.lo.size != size:
            raise InputError(
                f"the network has {size} inputs, but the domain has {self.lo.size}; "
                f"give one lo and hi for all inputs, or {size} of each"
            )
        return self

    @property
    def boxes(self) -> tuple[Vector, Vector]:
        """The box as the only row of two arrays: domains made of data have several."""
        return self.lo[None], self.hi[None]

    def same(self, other: object) -> bool:
        """Whether the other domain is this box."""
        if not isinstance(other, Box):
            return False
        return np.array_equal(self.lo, other.lo) and np.array_equal(self.hi, other.hi)

    @property
    def kind(self) -> str:
        """The word that reports use."""
        return "box"

    @property
    def size(self) -> int:
        return int(self.lo.size)

    def contains(self, x: Vector) -> bool:
        return bool(np.all(x >= self.lo) and np.all(x <= self.hi))

    def sample(self, count: int, rng: np.random.Generator) -> Vector:
        """`count` points drawn uniformly, as rows, never outside of the box."""
        weight = rng.random((count, self.size))
        return np.clip(self.lo + weight * (self.hi - self.lo), self.lo, self.hi)

    def corners(self, limit: int, rng: np.random.Generator) -> Vector:
        """All corners when there are at most `limit`, else `limit` of them drawn at random."""
        if self.size < 63 and 2**self.size <= limit:
            codes = np.arange(2**self.size)[:, None] >> np.arange(self.size) & 1
        else:
            codes = rng.integers(0, 2, size=(limit, self.size))
        return np.where(codes == 1, self.hi, self.lo)

    def __repr__(self) -> str:
        if self.lo.ndim == 0:
            return f"Box({float(self.lo):g}, {float(self.hi):g})"
        if np.ptp(self.lo) == 0 and np.ptp(self.hi) == 0:
            return f"Box([{self.lo[0]:g}, {self.hi[0]:g}]^{self.size})"
        return f"Box({self.size} inputs, {self.lo.min():g} to {self.hi.max():g})"
