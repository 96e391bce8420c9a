"""The domain of a claim: a bounded box, or data, a finite set of inputs or a box around each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from reconstruct.errors import InputError
from reconstruct.networks.operation import set_once
from reconstruct.numbers.arrays import Array, Vector, frozen_array
from reconstruct.numbers.given import at_least, number, numbers, representable
from reconstruct.numbers.rounding import sum_error


@dataclass(frozen=True, eq=False)
class Box:
    """`{x : lo ≤ x ≤ hi}`; numbers stand for a cube of whatever size the network needs."""

    kind: ClassVar[str] = "box"  # the word that reports use

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
        set_once(self, lo=frozen_array(both[0]), hi=frozen_array(both[1]))

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


# --- points ---------------------------------------------------------------------------------------


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
        set_once(self, x=rows, radius=float(radius), shape=tuple(int(n) for n in array.shape[1:]))
        lo, hi = self.boxes
        set_once(self, lo=frozen_array(lo.min(axis=0)), hi=frozen_array(hi.max(axis=0)))

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

    def __repr__(self) -> str:
        around = f", radius {self.radius:g}" if self.radius else ""
        return f"Points({len(self)} inputs of {self.size} numbers{around})"
