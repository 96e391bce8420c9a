"""Activations that are linear on a piece of the line: what the theorem needs of them.

The construction pushes every hidden value of the frozen network into a piece where the activation
is a line through the origin, `act(z) = slope·z` for `lo ≤ z ≤ hi`. ReLU has the piece [0, ∞) with
slope 1. Whatever has such a piece can take ReLU's place inside the frozen network.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class Piece:
    """`act(z) = slope·z` exactly (in real arithmetic) for `lo ≤ z ≤ hi`."""

    lo: float
    hi: float
    slope: float


@dataclass(frozen=True)
class Relu:
    """`max(z, 0)`."""

    @property
    def piece(self) -> Piece:
        return Piece(0.0, inf, 1.0)

    @property
    def lipschitz(self) -> float:
        return 1.0

    def __call__(self, z: Array) -> Array:
        return np.asarray(np.maximum(z, z.dtype.type(0)))

    def derivative(self, z: Array) -> Array:
        return (z > 0).astype(z.dtype)


@dataclass(frozen=True)
class LeakyRelu:
    """`z` for z ≥ 0 and `slope·z` below, with 0 < slope < 1."""

    slope: float = 0.01

    @property
    def piece(self) -> Piece:
        return Piece(0.0, inf, 1.0)

    @property
    def lipschitz(self) -> float:
        return max(1.0, abs(self.slope))

    def __call__(self, z: Array) -> Array:
        return np.where(z >= 0, z, z.dtype.type(self.slope) * z)

    def derivative(self, z: Array) -> Array:
        return np.asarray(np.where(z >= 0, z.dtype.type(1), z.dtype.type(self.slope)))


@dataclass(frozen=True)
class Elu:
    """`z` for z ≥ 0 and `alpha·(exp(z) − 1)` below."""

    alpha: float = 1.0

    @property
    def piece(self) -> Piece:
        return Piece(0.0, inf, 1.0)

    @property
    def lipschitz(self) -> float:
        return max(1.0, abs(self.alpha))

    def __call__(self, z: Array) -> Array:
        return np.where(z >= 0, z, z.dtype.type(self.alpha) * np.expm1(np.minimum(z, 0)))

    def derivative(self, z: Array) -> Array:
        below = z.dtype.type(self.alpha) * np.exp(np.minimum(z, 0))
        return np.asarray(np.where(z >= 0, z.dtype.type(1), below))


@dataclass(frozen=True)
class Selu:
    """`gamma·z` for z ≥ 0 and `gamma·alpha·(exp(z) − 1)` below (ONNX's constants, in float32)."""

    alpha: float = float(np.float32(1.67326319217681884765625))
    gamma: float = float(np.float32(1.05070102214813232421875))

    @property
    def piece(self) -> Piece:
        return Piece(0.0, inf, self.gamma)

    @property
    def lipschitz(self) -> float:
        return abs(self.gamma) * max(1.0, abs(self.alpha))

    def __call__(self, z: Array) -> Array:
        kind = z.dtype.type
        below = kind(self.alpha) * np.expm1(np.minimum(z, 0))
        return np.asarray(kind(self.gamma) * np.where(z >= 0, z, below))

    def derivative(self, z: Array) -> Array:
        kind = z.dtype.type
        below = kind(self.alpha) * np.exp(np.minimum(z, 0))
        return np.asarray(kind(self.gamma) * np.where(z >= 0, kind(1), below))


@dataclass(frozen=True)
class Clip:
    """`min(max(z, lo), hi)`: Hardtanh is Clip(−1, 1), ReLU6 is Clip(0, 6)."""

    lo: float = -1.0
    hi: float = 1.0

    @property
    def piece(self) -> Piece:
        return Piece(self.lo, self.hi, 1.0)

    @property
    def lipschitz(self) -> float:
        return 1.0

    def __call__(self, z: Array) -> Array:
        return np.clip(z, z.dtype.type(self.lo), z.dtype.type(self.hi))

    def derivative(self, z: Array) -> Array:
        return ((z > self.lo) & (z < self.hi)).astype(z.dtype)


Activation: TypeAlias = Relu | LeakyRelu | Elu | Selu | Clip
ACTIVATIONS = (Relu, LeakyRelu, Elu, Selu, Clip)
