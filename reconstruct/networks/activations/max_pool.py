"""The maximum over windows of an image: both networks share it, and it moves no further than z.

Rests on proofs_check: window-maximum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from reconstruct.errors import InputError
from reconstruct.networks.activations.activation import TIE, Activation, Band, Support
from reconstruct.networks.maps.convolution import Geometry
from reconstruct.networks.operation import ANY_POSITIONS, Operation, Part, one
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.exact import Dyadic
from reconstruct.numbers.precision import Precision


@dataclass(frozen=True)
class MaxPool(Activation):
    """`y_i = max over window i of z`, channel by channel; pads take no part."""

    kind = "MaxPool"
    lipschitz = 1.0

    geometry: Geometry

    def __post_init__(self) -> None:
        if np.any(np.all(self.windows < 0, axis=0)):
            raise InputError("a window of MaxPool lies on pads alone; make its pads smaller")

    @cached_property
    def windows(self) -> Array:
        """Places of the window's pixels, (kernel size, outputs); −1 stands for a pad."""
        places = self.geometry.windows().reshape(
            self.geometry.channels, -1, self.geometry.positions
        )
        return np.asarray(places.swapaxes(0, 1).reshape(places.shape[1], -1))

    @property
    def out_shape(self) -> tuple[int, int, int]:
        return self.geometry.channels, *self.geometry.output

    def size(self, *inputs: int) -> int:
        one(inputs, self.kind, self.geometry.size)
        return int(self.windows.shape[1])

    def positions_for(self, *counts: int) -> int | None:
        pixels = self.geometry.height * self.geometry.width
        return 1 if counts[0] in (ANY_POSITIONS, pixels) else None

    def _windows_of(self, values: Array, pad: Any) -> Array:
        """(…, kernel size, outputs), pads filled with `pad`."""
        return np.where(self.windows >= 0, values[..., self.windows], pad)

    def __call__(self, *values: Array) -> Array:
        (z,) = values
        result = z[..., np.maximum(self.windows[0], 0)]
        result = np.where(self.windows[0] >= 0, result, z.dtype.type(-np.inf))
        for places in self.windows[1:]:
            other = np.where(places >= 0, z[..., places], z.dtype.type(-np.inf))
            np.maximum(result, other, out=result)
        return np.asarray(result)

    def image(self, lo: Array, hi: Array) -> Range:
        return self(lo), self(hi)

    def chosen(self, lo: Array, hi: Array) -> Array:
        """The pixel of each window with the largest lower bound, the first of those that are so but
        for rounding: the maximum is at least that."""
        found = self._windows_of(lo, -np.inf)
        scale = self._windows_of(np.maximum(np.abs(lo), np.abs(hi)), 0.0).max(axis=1, keepdims=True)
        near = ~(found < found.max(axis=1, keepdims=True) - TIE * scale)
        best = np.argmax(near & (self.windows >= 0), axis=1)
        return np.asarray(self.windows[best, np.arange(self.windows.shape[1])])

    def band(self, lo: Array, hi: Array, support: Support = Support.AREA) -> Band:
        """`z_j ≤ max ≤ largest hi`, j the chosen pixel; `max = z_j` where no other exceeds it."""
        chosen = self.chosen(lo, hi)
        floor = np.take_along_axis(lo, chosen, axis=1)
        others = np.where(
            self.windows == chosen[:, None, :], -np.inf, self._windows_of(hi, -np.inf)
        )
        settled = others.max(axis=1) <= floor
        ones = np.ones_like(floor)
        top = self(hi)
        return Band(
            ones, np.zeros_like(floor), np.where(settled, 1.0, 0.0), np.where(settled, 0.0, top)
        )

    def pull(self, rows: Array, z: Array) -> Array:
        best = np.argmax(self._windows_of(z, -np.inf), axis=1)
        places = self.windows[best, np.arange(self.windows.shape[1])]
        out = np.zeros_like(z)
        np.add.at(out, (np.arange(len(z))[:, None], places), rows)
        return out

    def carried(self, error: Array) -> Array:
        return self(error)

    def magnitude(self, size: Array) -> Array:
        return self(size)

    def exact(self, value: Dyadic, bits: int) -> Dyadic:
        return value.rising(self._exact)

    def _exact(self, numbers: Array) -> Array:
        """The same on Python integers; a pad repeats a pixel of its window that is there."""
        present = self.windows.max(axis=0)
        places = np.where(self.windows >= 0, self.windows, present)
        result = numbers[places[0]]
        for row in places[1:]:
            result = np.maximum(result, numbers[row])
        return np.asarray(result)

    def rounding(self, computed: Array, precision: Precision) -> Array:
        """A maximum of floats is exact."""
        return np.zeros(self.windows.shape[1])

    def settings(self) -> dict[str, Any]:
        return self.geometry.settings()

    @classmethod
    def restored(cls, part: Part, settings: Any) -> Operation:
        return cls(Geometry.of(settings))
