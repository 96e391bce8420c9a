"""Convolutions as operators: never unrolled, but for a small tile of rows that is asked for.

A value on images is flat, channel by channel: unit = channel·positions + position, positions row
by row. With the patches of h as columns, (c_in/G·kh·kw) × positions for each group, the map is one
matrix product with the kernel, and the transposed map is the product with its transpose followed by
adding every patch back to where it came from.

Sums over windows: average pooling is one, followed by a division that a `Scaling` keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from reconstruct.errors import InputError
from reconstruct.networks.maps.mixing import Mixing
from reconstruct.networks.operation import ANY_POSITIONS, LIMITS, Operation, Part, set_once
from reconstruct.numbers import arrays
from reconstruct.numbers.arrays import Array, Matrix, Vector
from reconstruct.numbers.exact import Dyadic, Integers, integers
from reconstruct.numbers.rounding import smallest

WINDOW = ("kernel", "strides", "pads", "dilations")


@dataclass(frozen=True)
class Geometry:
    """How a kernel moves over an image of `channels` × `height` × `width`.

    `pads` are zeros added at (top, left, bottom, right); `kernel`, `strides` and `dilations` are
    (vertical, horizontal).
    """

    channels: int
    height: int
    width: int
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        numbers = (self.channels, self.height, self.width, *self.kernel, *self.strides)
        if min(*numbers, *self.dilations) < 1 or min(self.pads) < 0:
            raise InputError(
                f"a convolution needs positive sizes and pads of 0 or more, but got {self}; cut "
                f"the image by a Slice in place of negative pads"
            )
        if min(self.output) < 1:
            raise InputError(
                f"a kernel of {self.kernel} with dilations {self.dilations} does not fit into an "
                f"image of {self.height}×{self.width} with pads {self.pads}"
            )
        top, left, bottom, right = self.pads
        pixels = (self.height + top + bottom) * (self.width + left + right)
        entries = max(pixels, self.kernel[0] * self.kernel[1] * self.positions)
        if self.channels * entries > LIMITS.image:
            raise InputError(
                f"{self} asks for {self.channels * entries:.2g} numbers, more than the "
                f"{LIMITS.image} that can be worked with; use smaller images, kernels or pads"
            )

    def __str__(self) -> str:
        pairs = (self.kernel, self.strides, self.dilations)
        kernel, strides, dilations = (f"{down}×{across}" for down, across in pairs)
        return (
            f"a {kernel} kernel on {self.channels}×{self.height}×{self.width} with strides "
            f"{strides}, pads {self.pads} and dilations {dilations}"
        )

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Geometry:
        """The geometry that `settings` describe."""
        channels, height, width = (int(n) for n in settings["image"])
        rest: Any = {key: tuple(int(n) for n in settings[key]) for key in WINDOW}
        return cls(channels, height, width, **rest)

    def settings(self) -> dict[str, Any]:
        """The plain numbers that files keep."""
        window = {key: list(getattr(self, key)) for key in WINDOW}
        return {"image": [self.channels, self.height, self.width], **window}

    @property
    def reach(self) -> tuple[int, int]:
        """How many rows and columns the kernel spans."""
        (tall, wide), (down, across) = self.kernel, self.dilations
        return down * (tall - 1) + 1, across * (wide - 1) + 1

    @property
    def output(self) -> tuple[int, int]:
        """Height and width of the result."""
        top, left, bottom, right = self.pads
        tall, wide = self.reach
        down = (self.height + top + bottom - tall) // self.strides[0] + 1
        across = (self.width + left + right - wide) // self.strides[1] + 1
        return down, across

    @property
    def positions(self) -> int:
        return self.output[0] * self.output[1]

    @property
    def size(self) -> int:
        return self.channels * self.height * self.width

    def patches(self, images: Array) -> Array:
        """(N, channels·height·width) to (N, channels, kh, kw, positions): a copy, in its dtype."""
        top, left, bottom, right = self.pads
        shaped = images.reshape(-1, self.channels, self.height, self.width)
        padded = np.pad(shaped, ((0, 0), (0, 0), (top, bottom), (left, right)))
        windows = sliding_window_view(padded, self.reach, axis=(2, 3))
        down, across = self.output
        seen = windows[
            :, :, :: self.strides[0], :: self.strides[1], :: self.dilations[0], :: self.dilations[1]
        ][:, :, :down, :across]
        turned = seen.transpose(0, 1, 4, 5, 2, 3)
        return np.ascontiguousarray(turned).reshape(*turned.shape[:4], down * across)

    def gathered(self, patches: Array) -> Array:
        """The transpose of `patches`: every entry is added to the pixel that it came from."""
        count = len(patches)
        top, left, bottom, right = self.pads
        tall, wide = self.height + top + bottom, self.width + left + right
        down, across = self.output
        shaped = patches.reshape(count, self.channels, *self.kernel, down, across)
        total = np.zeros((count, self.channels, tall, wide), dtype=patches.dtype)
        for i, j in np.ndindex(*self.kernel):
            first, second = i * self.dilations[0], j * self.dilations[1]
            rows = slice(first, first + self.strides[0] * (down - 1) + 1, self.strides[0])
            columns = slice(second, second + self.strides[1] * (across - 1) + 1, self.strides[1])
            total[:, :, rows, columns] += shaped[:, :, i, j]
        inner = total[:, :, top : top + self.height, left : left + self.width]
        return np.ascontiguousarray(inner).reshape(count, self.size)

    def windows(self) -> Array:
        """Where each kernel entry looks, (channels·kh·kw, positions); −1 stands for a pad."""
        places = np.arange(1, self.size + 1, dtype=np.int64)[None]
        return np.asarray(self.patches(places)[0].reshape(-1, self.positions) - 1)

    @property
    def padded(self) -> bool:
        return any(self.pads)

    @property
    def plain(self) -> bool:
        """Whether every patch is one pixel, in order: a 1×1 kernel without strides or pads."""
        return self.kernel == self.strides == (1, 1) and not any(self.pads)


@dataclass(frozen=True, eq=False)
class Convolution(Mixing):
    """`h ↦ K ∗ h + b`: `kernel` of shape c_out × c_in/groups × kh × kw, `offsets` b per channel."""

    kind = "Convolution"
    windowed = True
    own_entries = False
    keys: ClassVar[dict[str, str]] = {"kernel": "weight", "offsets": "bias"}

    kernel: Array
    offsets: Vector
    geometry: Geometry
    groups: int

    def __init__(
        self,
        kernel: ArrayLike,
        geometry: Geometry,
        offsets: ArrayLike | None = None,
        groups: int = 1,
    ) -> None:
        array = np.asarray(kernel)
        if array.ndim != 4:
            raise InputError(f"a convolution needs a kernel of rank 4, but got shape {array.shape}")
        if 0 in array.shape:
            raise InputError(
                f"a convolution needs a kernel with at least one channel and one pixel, but got "
                f"shape {array.shape}; leave it out"
            )
        c_out, per_group, *window = array.shape
        if geometry.channels != per_group * groups:
            raise InputError(
                f"a convolution with {groups} groups and a kernel of shape {array.shape} needs "
                f"{per_group * groups} input channels, but the image has {geometry.channels}"
            )
        if c_out % groups:
            raise InputError(
                f"a convolution with {groups} groups needs as many output channels in each, but "
                f"its kernel of shape {array.shape} has {c_out} in all; give it a multiple of "
                f"{groups}"
            )
        if tuple(window) != geometry.kernel:
            raise InputError(f"the kernel is {window}, but the geometry says {geometry.kernel}")
        bias = arrays.everywhere(0.0, (c_out,)) if offsets is None else arrays.frozen_array(offsets)
        if bias.shape != (c_out,):
            raise InputError(f"a convolution needs {c_out} biases, but got shape {bias.shape}")
        kernel = arrays.as_matrix(array)
        set_once(self, kernel=kernel, offsets=bias, geometry=geometry, groups=int(groups))

    # --- sizes ----------------------------------------------------------------------------------

    @property
    def channels(self) -> int:
        return int(self.kernel.shape[0])

    @property
    def positions(self) -> int:
        return self.geometry.positions

    def positions_for(self, *counts: int) -> int | None:
        """A kernel of one pixel acts on channels; a larger one needs the pixels themselves."""
        alike = self.geometry.plain and counts[0] == self.positions
        return self.positions if counts[0] == ANY_POSITIONS or alike else None

    @property
    def shape(self) -> tuple[int, int]:
        return self.channels * self.positions, self.geometry.size

    @property
    def out_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of the result."""
        return self.channels, *self.geometry.output

    @property
    def summands(self) -> int:
        return int(np.prod(self.kernel.shape[1:]))

    @property
    def fan_out(self) -> int:
        tall, wide = self.geometry.kernel
        return self.channels // self.groups * tall * wide

    @property
    def bias(self) -> Vector:  # type: ignore[override]
        return np.repeat(self.offsets, self.positions)

    def spread_rows(self, start: int, stop: int) -> Array:
        """Rows of the kernels of all groups as one matrix, zeros between: … × c_in·kh·kw."""
        rows = self.kernel[start:stop].reshape(stop - start, -1).astype(np.float64)
        if self.groups == 1:
            return np.asarray(rows)
        group = np.arange(start, stop) // (self.channels // self.groups)
        whole = np.zeros((len(rows), self.groups, rows.shape[1]))
        whole[np.arange(len(rows)), group] = rows
        return whole.reshape(len(rows), -1)

    def spread_columns(self, start: int, stop: int) -> Array:
        """Columns of the same matrix: c_out × …."""
        if self.groups == 1:
            rows = self.kernel.reshape(self.channels, -1)
            return np.asarray(rows[:, start:stop], dtype=np.float64)
        return self.spread_rows(0, self.channels)[:, start:stop]

    @property
    def kernels(self) -> tuple[Array, ...]:
        """One matrix for each group, (c_out/groups) × (c_in/groups·kh·kw): what is solved for."""
        rows = self.kernel.reshape(self.groups, self.channels // self.groups, -1)
        return tuple(rows)

    @property
    def channel_bias(self) -> Vector:
        return self.offsets

    def patch_maxima(self, values: Array) -> Array:
        """For each kernel entry, the largest value at any position; groups one below the other."""
        patches = self.geometry.patches(values[None])[0]
        return np.asarray(patches.max(axis=-1).ravel())

    def patch_rows(self, values: Array) -> Array:
        """Its patches, position by position; groups one beside the other."""
        patches = self.geometry.patches(values).reshape(len(values), -1, self.positions)
        return np.asarray(patches.transpose(0, 2, 1).reshape(-1, patches.shape[1]))

    def with_kernel(self, kernel: Matrix) -> Convolution:
        rows = arrays.to_dense(kernel)
        shaped = rows.reshape(len(rows), *self.kernel.shape[1:])
        return Convolution(shaped, self.geometry, None, self.groups)

    def behind(self, kernel: Matrix) -> Convolution:
        rows = arrays.to_dense(kernel)
        pixels = Geometry(rows.shape[1] * self.groups, *self.geometry.output, (1, 1))
        return Convolution(rows[:, :, None, None], pixels, None, self.groups)

    # --- the map and its transpose --------------------------------------------------------------

    def linear(self, rows: Array) -> Array:
        return self._times(rows, lambda kernel: kernel)

    def _times(self, rows: Array, changed: Callable[[Array], Array]) -> Array:
        """`changed(L) h` for every row h."""
        if self.vector:
            return self._by_groups(rows, lambda kernel: changed(kernel).transpose(0, 2, 1))
        kernel = changed(self._matrix(rows.dtype))
        out = np.empty((len(rows), self.groups, kernel.shape[1], self.positions), rows.dtype)
        for part in self._batches(len(rows)):
            np.matmul(kernel, self._columns(rows[part]), out=out[part])
        return out.reshape(len(rows), -1)

    def pull(self, form: Array, size: int) -> Array:
        if self.vector:
            rows = form.reshape(-1, form.shape[-1])
            return self._by_groups(rows, lambda kernel: kernel).reshape(*form.shape[:-1], size)
        flat = form.reshape(-1, self.groups, self.channels // self.groups, self.positions)
        kernel = self._matrix(form.dtype).transpose(0, 2, 1)
        out = np.empty((len(flat), size), form.dtype)
        for part in self._batches(len(flat)):
            columns = np.matmul(kernel, flat[part])
            if self.geometry.plain:
                out[part] = columns.reshape(len(columns), -1)
            else:
                out[part] = self.geometry.gathered(columns)
        return out.reshape(*form.shape[:-1], size)

    @property
    def vector(self) -> bool:
        """Whether it is a grouped linear layer: a kernel of one pixel on an image of one."""
        return self.geometry.plain and self.positions == 1

    def _by_groups(self, rows: Array, turned: Callable[[Array], Array]) -> Array:
        """Each group of the entries times its matrix: one product for each group and all rows. No
        copy of a large kernel in another precision is made."""
        kernel = self.kernel.reshape(self.groups, self.channels // self.groups, -1)
        parts = rows.reshape(len(rows), self.groups, -1)
        out = np.empty((len(rows), self.groups, kernel[0].size // parts.shape[2]), rows.dtype)
        step = max(1, LIMITS.tile // kernel[0].size)
        for start in range(0, self.groups, step):
            part = slice(start, start + step)
            matrices = turned(kernel[part].astype(rows.dtype, copy=False))
            goal = out[:, part].transpose(1, 0, 2)
            np.matmul(parts[:, part].transpose(1, 0, 2), matrices, out=goal)
        return out.reshape(len(rows), -1)

    def _matrix(self, dtype: Any) -> Array:
        """groups × (c_out/groups) × (c_in/groups·kh·kw)."""
        kernel = self.kernel.astype(dtype, copy=False)
        return np.asarray(kernel.reshape(self.groups, self.channels // self.groups, -1))

    def _columns(self, rows: Array) -> Array:
        """Patches as N × groups × (c_in/groups·kh·kw) × positions."""
        count = len(rows)
        if self.geometry.plain:
            return rows.reshape(count, self.groups, -1, self.positions)
        return self.geometry.patches(rows).reshape(count, self.groups, -1, self.positions)

    def _batches(self, count: int) -> Iterator[slice]:
        each = max(1, self.summands * self.groups * self.positions)
        step = max(1, LIMITS.patches // each)
        return (slice(i, i + step) for i in range(0, count, step))

    # --- parts and entries ----------------------------------------------------------------------

    def absolute(self, reach: Array) -> Array:
        return self._times(reach, np.abs)

    def exact(self, value: Dyadic, bits: int) -> Dyadic:
        places = self.geometry.windows().reshape(self.groups, -1, self.positions)
        patches = value.rising(lambda ends: np.append(ends, 0)[places])  # −1, a pad, is the last
        return patches.times(*self._integers).rising(np.ravel) + Dyadic.exact(self.bias)

    @cached_property
    def _integers(self) -> tuple[Integers, int]:
        """Those of each group: a grouped layer as one matrix is mostly zeros."""
        return integers(self._matrix(np.float64))

    def tile(self, start: int, stop: int) -> Array:
        rows = np.zeros((stop - start, self.shape[0]))
        rows[np.arange(stop - start), np.arange(start, stop)] = 1.0
        return self.pull(rows, self.shape[1])  # 0·w and 1·w are exact, and so are their sums

    def columns(self, start: int, stop: int) -> Array:
        rows = np.zeros((stop - start, self.shape[1]))
        rows[np.arange(stop - start), np.arange(start, stop)] = 1.0
        return np.ascontiguousarray(self.linear(rows).T)

    @cached_property
    def least(self) -> float:
        return smallest(self.kernel)

    @cached_property
    def largest(self) -> float:
        return float(max(self.kernel.max(), -self.kernel.min()))

    @cached_property
    def row_signs(self) -> Array:
        rows = self.kernel.reshape(self.channels, -1)
        return np.repeat(
            np.all(rows >= 0, axis=1).astype(int) - np.all(rows <= 0, axis=1), self.positions
        )

    # --- counting and files ---------------------------------------------------------------------

    @property
    def weights(self) -> int:
        return 0 if self.fixed else int(self.kernel.size)

    @property
    def nonzeros(self) -> int:
        return 0 if self.fixed else arrays.nonzeros(self.kernel)

    @property
    def parameters(self) -> int:
        return 0 if self.fixed else self.weights + self.channels

    def settings(self) -> dict[str, Any]:
        return self.geometry.settings() | {"groups": self.groups}

    @classmethod
    def restored(cls, part: Part, settings: Any) -> Operation:
        return cls(part("weight"), Geometry.of(settings), part("bias"), settings["groups"])


# --- pooling ------------------------------------------------------------------------------------


class SumPool(Convolution):
    """The sum over each window of each channel: a convolution with ones, each channel alone.

    Inside a frozen network it stands where it stands in the target: there is nothing to rebuild.
    """

    kind = "SumPool"
    fixed = True
    keys: ClassVar[dict[str, str]] = {}

    def __init__(self, geometry: Geometry) -> None:
        kernel = np.ones((geometry.channels, 1, *geometry.kernel), dtype=np.float32)
        super().__init__(kernel, geometry, None, geometry.channels)

    def counts(self) -> Array:
        """How many pixels of the image, pads apart, each window sums: (positions,)."""
        ones = np.ones((1, self.geometry.size))
        return np.asarray(self.linear(ones)[0][: self.positions])

    def settings(self) -> dict[str, Any]:
        return self.geometry.settings()

    @classmethod
    def restored(cls, part: Part, settings: Any) -> Operation:
        return cls(Geometry.of(settings))
