"""Random frozen weights, reproducible from (seed, layer, matrix, tile).

Every matrix is drawn in tiles of 1024 along its hidden dimension, each from its own counter range
of Philox, so that a tile can be drawn alone, in any order, by whoever needs it. Raw bits are
turned into numbers here: the bit streams of NumPy's generators are fixed for good, its
distributions are not. All weights are float32 numbers, so that the frozen network is the same
network in float32 and in float64.

Rests on proofs_check: polynomial-zero-set, khatri-rao-full-rank, finite-precision,
sparse-exact-probability, sparse-choice-of-p.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtri

from reconstruct.errors import InputError
from reconstruct.networks.maps import Norm
from reconstruct.numbers.arrays import Matrix, frozen_array
from reconstruct.numbers.given import number, whole
from reconstruct.numbers.parallel import parallel_map

TILE = 1024  # hidden units in a tile: part of what a seed means, as the order of the bits is
SPARSE_BELOW = 0.25  # density under which compressed rows take less memory and time than dense


class Weights(Enum):
    """The distribution of the frozen weights; variance 1/fan-in unless it says otherwise."""

    GAUSSIAN = "gaussian"
    UNIFORM = "uniform"
    KAIMING = "kaiming"  # gaussian with variance 2/fan-in
    RADEMACHER = "rademacher"  # ±1, unscaled: the discrete case, which may be singular
    INT8 = "int8"  # −128 … 127, all alike, times a power of two

    @classmethod
    def named(cls, weights: Weights | str) -> Weights:
        """The distribution, given as it is or by its name."""
        try:
            return cls(weights)
        except ValueError:
            names = ", ".join(w.value for w in cls)
            raise InputError(f"the weights must be one of {names}, but are {weights!r}") from None


@dataclass(frozen=True)
class Sampler:
    """Draws the matrices and norms of a frozen network.

    `density` p keeps each entry with probability p (None keeps all). `statistics` gives the norm
    layers means and variances as training would have left them, instead of the neutral ones.
    """

    seed: int = 0
    weights: Weights = Weights.GAUSSIAN
    density: float | None = None
    statistics: bool = False
    beat: Callable[[int], object] = int  # hears how many weights a tile had; may end the draw

    def __post_init__(self) -> None:
        if isinstance(self.seed, float):
            raise InputError(f"the seed must be a whole number, but is {self.seed!r}")
        if not 0 <= whole(self.seed, "the seed") < 2**63:
            raise InputError(f"the seed must be between 0 and 2^63 − 1, but is {self.seed}")
        if not isinstance(self.statistics, bool | np.bool_):
            raise InputError(f"statistics must be True or False, but is {self.statistics!r}")
        if self.density is not None and not 0 < number(self.density, "the density") <= 1:
            raise InputError(
                f"the density is the probability that a weight is kept and must lie "
                f"in (0, 1], but is {self.density}"
            )

    def matrix(self, layer: int, label: int, rows: int, cols: int, *, hidden: int = 0) -> Matrix:
        """A rows × cols matrix; `hidden` is the axis along which it is tiled."""
        length, across = (rows, cols) if hidden == 0 else (cols, rows)

        def tile(index: int) -> NDArray[np.float32]:
            size = min(TILE, length - index * TILE)
            return self.tile(layer, label, index, size, across, fan_in=cols)

        tiles = []
        for made in parallel_map(tile, range(-(-length // TILE))):
            tiles.append(made)
            self.beat(made.size)
        if self.density is not None and self.density < SPARSE_BELOW:
            stacked = sparse.vstack([sparse.csr_array(t) for t in tiles])
            return sparse.csr_array(stacked if hidden == 0 else stacked.T)
        whole = np.concatenate(tiles)
        return frozen_array(whole if hidden == 0 else whole.T, np.float32)

    def tile(
        self, layer: int, label: int, index: int, length: int, across: int, *, fan_in: int
    ) -> NDArray[np.float32]:
        """Tile `index` of a matrix: `length` slices along the hidden axis, `across` wide."""
        bits = self._bits(layer, 2 * label, index, length * across)
        values = _shape(bits, self.weights, fan_in).astype(np.float32)
        if self.density is not None:
            kept = _uniform(self._bits(layer, 2 * label + 1, index, length * across))
            values = np.where(kept < self.density, values, np.float32(0))
        return values.reshape(length, across)

    def norm(self, layer: int, label: int, size: int, positions: int = 1) -> Norm:
        """A norm layer with gamma 1 and beta 0.

        The neutral statistics are mean 0 and var = 1 − eps, so that √(var + eps) is exactly 1 and
        gamma is the effective scale, in real arithmetic and in every precision.
        """
        if not self.statistics:
            return Norm.neutral(size, positions)
        bits = self._bits(layer, 2 * label, 2**32, 2 * size)
        mean = ndtri(_uniform(bits[:size])).astype(np.float32)
        var = np.exp(2 * ndtri(_uniform(bits[size:]))).astype(np.float32)
        eps = float(np.float32(1e-3))
        return Norm(np.ones(size), np.zeros(size), mean, var, eps, positions)

    def _bits(self, layer: int, stream: int, tile: int, count: int) -> NDArray[np.uint64]:
        key = np.array([self.seed, (layer << 16) + stream], dtype=np.uint64)
        counter = np.array([0, 0, 0, tile], dtype=np.uint64)
        return np.random.Philox(key=key, counter=counter).random_raw(count)


def _uniform(bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Numbers strictly between 0 and 1, from the upper 52 bits."""
    return np.asarray(((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52)


def _shape(bits: NDArray[np.uint64], weights: Weights, fan_in: int) -> NDArray[np.float64]:
    if weights is Weights.RADEMACHER:
        return np.asarray(np.where(bits >> np.uint64(63), 1.0, -1.0))
    if weights is Weights.INT8:
        # their standard deviation is 73.9; times a power of two they are still integers of 8 bits
        scale = 2.0 ** round(-np.log2(73.9 * np.sqrt(fan_in)))
        return np.asarray(((bits >> np.uint64(56)).astype(np.float64) - 128) * scale)
    if weights is Weights.UNIFORM:
        return np.asarray((2 * _uniform(bits) - 1) * np.sqrt(3 / fan_in))
    variance = 2 / fan_in if weights is Weights.KAIMING else 1 / fan_in
    return np.asarray(ndtri(_uniform(bits)) * np.sqrt(variance))
