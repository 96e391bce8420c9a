"""Picking a block of units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reconstruct.errors import InputError
from reconstruct.networks.maps.map import Loss, Map
from reconstruct.networks.operation import one, register
from reconstruct.numbers.arrays import Array, Range, Vector
from reconstruct.numbers.dyadic import Dyadic


@dataclass(frozen=True)
class Select(Map):
    """`h ↦ h[start:stop]`: a block of the input, for the deep construction's skip connections."""

    kind = "Select"

    start: int
    stop: int

    def __post_init__(self) -> None:
        for end in (self.start, self.stop):
            if isinstance(end, bool) or not isinstance(end, int | np.integer):
                raise InputError(f"a selection needs whole numbers as its ends, but got {end!r}")

    @property
    def block(self) -> slice:
        return slice(self.start, self.stop)

    def size(self, *inputs: int) -> int:
        k = one(inputs, "a selection")
        if not 0 <= self.start < self.stop <= k:
            raise InputError(f"cannot select [{self.start}:{self.stop}] of {k} values")
        return self.stop - self.start

    def __call__(self, *values: Array) -> Array:
        return values[0][:, self.block]

    def image(self, lo: Array, hi: Array) -> Range:
        return lo[:, self.block], hi[:, self.block]

    def pull(self, form: Array, size: int) -> Array:
        out = np.zeros((*form.shape[:-1], size), dtype=form.dtype)
        out[..., self.block] = form
        return out

    def loss(self, reach: Array) -> Loss:
        none = np.zeros((1, self.stop - self.start))
        return Loss(none, none, np.zeros(1))

    def absolute(self, reach: Array) -> Array:
        return reach[..., self.block]

    def exact(self, value: Dyadic, bits: int) -> Dyadic:
        return value[self.block]

    @property
    def shift(self) -> Vector:
        return np.zeros(self.stop - self.start)

    def settings(self) -> dict[str, Any]:
        return {"start": int(self.start), "stop": int(self.stop)}


register("Select", lambda part, settings: Select(**settings))
