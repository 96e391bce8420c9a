"""The rectifier."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.networks.activations.kink import Kink
from reconstruct.networks.operation import register
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.dyadic import Dyadic
from reconstruct.numbers.precision import Precision


@dataclass(frozen=True)
class Relu(Kink):
    """`max(z, 0)`: exact in every arithmetic."""

    kind = "Relu"

    @property
    def sides(self) -> tuple[float, float]:
        return 0.0, 1.0

    def __call__(self, *values: Array) -> Array:
        (z,) = values
        return np.asarray(np.maximum(z, z.dtype.type(0)))

    def derivative(self, z: Array) -> Array:
        return (z > 0).astype(z.dtype)

    def enclose(self, z: Array) -> Range:
        value = self(z)
        return value, value

    def exact(self, value: Dyadic, bits: int) -> Dyadic:
        return value.rising(lambda ends: np.maximum(ends, 0))

    def rounding(self, computed: Array, precision: Precision) -> Array:
        return np.zeros_like(computed)


register("Relu", lambda part, settings: Relu())
