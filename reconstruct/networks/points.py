"""Domains made of data: a finite set of inputs, or a box around each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from reconstruct.errors import InputError
from reconstruct.networks.box import Box
from reconstruct.numbers.arrays import Array, Vector, frozen_array
from reconstruct.numbers.given import at_least, number, representable
from reconstruct.numbers.rounding import sum_error

Domain: TypeAlias = "Box | Points"  # where a claim holds
DomainLike: TypeAlias = "Box | Points | tuple[ArrayLike, ArrayLike]"


def as_domain(domain: DomainLike) -> Domain:
    """The domain that is meant: a pair (lo, hi) is a box."""
    if isinstance(domain, Box | Points):
        return domain
    if isinstance(domain, tuple) and len(domain) == 2:
        return Box(*domain)
    raise InputError(
        f"the domain must be a Box, Points or a pair (lo, hi), but is {domain!r:.80}; "
        f"rc.load_domain reads what the command line takes"
    )


def sized(shape: tuple[int, ...]) -> str:
    """`3×8×8` for an image."""
    return "×".join(map(str, shape))


def _array(x: ArrayLike) -> Array:
    """The inputs along the first axis, at least one of at least one number."""
    try:
        array = np.asarray(x)
    except ValueError:
        raise InputError(
            "points need as many numbers in every row, but the rows have different lengths"
            f"{_lengths(x)}; bring inputs of one shape"
        ) from None
    if array.dtype.kind not in "fiu":
        raise InputError(
            f"points must be real numbers, but have the type {array.dtype}; give float64"
        )
    representable(array, "x")
    if array.ndim < 2:
        raise InputError(
            f"points need one row for each input, at least one, but the array has shape "
            f"{array.shape}; put a single input into a list"
        )
    if 0 in array.shape:
        what = "inputs" if len(array) == 0 else "numbers"
        raise InputError(
            f"points need one row for each input, at least one, but x holds no {what}: it has "
            f"shape {array.shape}; bring at least one input"
        )
    return array


def _lengths(x: Any) -> str:
    """The first two lengths that differ, where rows are plain lists."""
    lengths = [len(row) for row in x if hasattr(row, "__len__")] if hasattr(x, "__iter__") else []
    other = next((n for n in lengths if n != lengths[0]), None)
    return "" if other is None else f" ({lengths[0]} and {other})"


@dataclass(frozen=True, eq=False)
class Points:
    """`{x_1 … x_N}`, or with a radius R the union of the boxes `|x − x_i| ≤ R`.

    `x` holds the points as rows (an array of images is flattened, `shape` is that of one); `lo` and
    `hi` bound all of them. A claim on such a domain is a claim about these inputs and about no
    others.
    """

    x: Vector
    radius: float
    lo: Vector
    hi: Vector
    shape: tuple[int, ...]

    def __init__(self, x: ArrayLike, radius: float = 0.0) -> None:
        array = _array(x)
        rows = frozen_array(array.reshape(len(array), -1))
        bad = int(np.count_nonzero(~np.isfinite(rows)))
        if bad:
            raise InputError(
                f"points must be finite numbers, but {bad} of {rows.size} entries are NaN or "
                "infinite"
            )
        number(radius, "the radius")
        at_least(radius, "the radius", 0)
        object.__setattr__(self, "x", rows)
        object.__setattr__(self, "radius", float(radius))
        object.__setattr__(self, "shape", tuple(int(n) for n in array.shape[1:]))
        lo, hi = self.boxes
        object.__setattr__(self, "lo", frozen_array(lo.min(axis=0)))
        object.__setattr__(self, "hi", frozen_array(hi.max(axis=0)))

    @property
    def boxes(self) -> tuple[Array, Array]:
        """The boxes as rows of `lo` and `hi`; a point is a box without width."""
        if self.radius == 0:
            return self.x, self.x
        # The nearest float64 may lie inside of the radius that is claimed: one step outward there.
        lo, hi = self.x - self.radius, self.x + self.radius
        inside = sum_error(self.x, np.full_like(self.x, -self.radius), lo) < 0
        outside = sum_error(self.x, np.full_like(self.x, self.radius), hi) > 0
        return np.where(inside, np.nextafter(lo, -np.inf), lo), np.where(
            outside, np.nextafter(hi, np.inf), hi
        )

    def same(self, other: object) -> bool:
        """Whether the other domain is made of the same points with the same radius."""
        return (
            isinstance(other, Points)
            and self.radius == other.radius
            and np.array_equal(self.x, other.x)
        )

    @property
    def kind(self) -> str:
        """The word that reports use."""
        return "points" if self.radius == 0 else "boxes"

    @property
    def size(self) -> int:
        return int(self.x.shape[1])

    def __len__(self) -> int:
        return len(self.x)

    def of_size(self, size: int, shape: tuple[int, ...] = ()) -> Points:
        """The same points, which must have as many coordinates as the network has inputs.

        Images (`shape` is that of the network's) must have its axes: flat, others would be taken.
        """
        same_axes = len(self.shape) == len(shape) > 1
        if self.size == size and (self.shape == shape or not same_axes):
            return self
        takes = f"takes images of {sized(shape)} (channels first)" if len(shape) > 1 else ""
        if len(self.shape) > 1:
            came = f"x holds images of {sized(self.shape)}, {self.size} numbers each"
        else:
            came = f"the points have {self.size} coordinates each"
        raise InputError(
            f"the network {takes or f'has {size} inputs'}, but {came}; bring data of the shape "
            f"that the network takes"
        )

    def contains(self, x: Vector) -> bool:
        lo, hi = self.boxes
        return bool(np.any(np.all((x >= lo) & (x <= hi), axis=1)))

    def sample(self, count: int, rng: np.random.Generator) -> Vector:
        """`count` inputs: of each box in turn its centre and random inputs, never outside."""
        lo, hi = self.boxes
        chosen = np.arange(count) % len(self)
        if self.radius == 0:
            return np.asarray(self.x[chosen[: len(self)]])
        weight = rng.random((count, self.size))
        weight[: len(self)] = 0.5
        low, high = lo[chosen], hi[chosen]
        return np.asarray(np.clip(low + weight * (high - low), low, high))

    def corners(self, limit: int, rng: np.random.Generator) -> Vector:
        """`limit` corners of the boxes drawn at random; a point has none besides itself."""
        lo, hi = self.boxes
        if self.radius == 0:
            return np.empty((0, self.size))
        chosen = rng.integers(0, len(self), size=limit)
        codes = rng.integers(0, 2, size=(limit, self.size))
        return np.where(codes == 1, hi[chosen], lo[chosen])

    def each(self) -> Iterator[Box]:
        """The boxes one by one."""
        for lo, hi in zip(*self.boxes, strict=True):
            yield Box(lo, hi)

    def __repr__(self) -> str:
        around = f", radius {self.radius:g}" if self.radius else ""
        return f"Points({len(self)} inputs of {self.size} numbers{around})"
