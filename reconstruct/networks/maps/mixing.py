"""Maps that sum over their inputs; every entry is a float, so nothing about L is uncertain.

The plain one is a weight matrix, kept in full or as compressed rows; the other is a convolution.

Rests on proofs_check: accumulated-rounding, active-relu-is-identity.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from reconstruct.errors import InputError
from reconstruct.networks.maps.map import Map, RoundingError
from reconstruct.networks.operation import LIMITS, Operation, Part, one, set_once
from reconstruct.numbers import arrays, rounding
from reconstruct.numbers.arrays import Array, Matrix, Range, Vector
from reconstruct.numbers.exact import Dyadic, Integers, integers
from reconstruct.numbers.rounding import SLACK, TINY, gamma, inflate, midpoint, underflow, up


class Mixing(Map):
    """`h ↦ L h + bias` with L of `shape` m × k, its entries floats.

    Derive from it, say `shape`, `bias`, `linear`, `absolute`, `pull`, `tile` and `least`, and every
    analysis follows.
    """

    bias: Vector
    own_entries: ClassVar[bool] = True  # whether every entry of L is a weight of its own
    fixed: ClassVar[bool] = False  # whether it stands in f as it stands in g, not to be rebuilt

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """`(m, k)`."""

    @abstractmethod
    def linear(self, rows: Array) -> Array:
        """`L h` for every row h of a batch, in the precision of the batch."""

    @abstractmethod
    def tile(self, start: int, stop: int) -> Array:
        """Rows `start:stop` of L as a small dense float64 matrix."""

    @abstractmethod
    def columns(self, start: int, stop: int) -> Array:
        """Columns `start:stop` of L as a small dense float64 matrix."""

    @property
    @abstractmethod
    def least(self) -> float:
        """The smallest magnitude of an entry that is not zero (+inf if there is none)."""

    @property
    def row_signs(self) -> Array:
        """1 for rows without a negative entry, −1 for those without a positive one; else 0."""
        return np.zeros(self.shape[0], dtype=int)

    @property
    @abstractmethod
    def largest(self) -> float:
        """The largest magnitude of an entry."""

    @property
    def summands(self) -> int:
        """How many products a row sums at most."""
        return self.shape[1]

    @property
    def fan_out(self) -> int:
        """How many products a column sums at most: the terms of a pull."""
        return self.shape[0]

    @property
    def channels(self) -> int:
        """Rows that differ by more than their position: what a norm has a gamma for."""
        return self.shape[0]

    @property
    def positions(self) -> int:
        """Units that share a channel."""
        return 1

    def positions_for(self, *counts: int) -> int | None:
        return self.positions if counts[0] <= 1 else None

    @property
    def kernels(self) -> tuple[Matrix, ...]:
        """The matrices that a construction rebuilds, one for each group."""
        return (self.matrix,)

    @property
    def matrix(self) -> Matrix:
        """L as one matrix, dense unless the map keeps it sparse: for maps that are solved for."""
        return self.tile(0, self.shape[0])

    @property
    def channel_bias(self) -> Vector:
        """The constant of each channel."""
        return self.bias

    def patch_maxima(self, values: Array) -> Array:
        """The largest of the values, one for each unit of the input, that a kernel entry meets."""
        return values

    def patch_rows(self, values: Array) -> Array:
        """What the kernels are applied to when the input is `values`: one row per position."""
        return values

    def with_kernel(self, kernel: Matrix) -> Mixing:
        """A map of the same geometry with another kernel: how the frozen site of a map begins."""
        return Affine(kernel)

    def behind(self, kernel: Matrix) -> Mixing:
        """A map that mixes the channels of such a map, unit by unit: how its site goes on."""
        return Affine(kernel)

    # --- what follows from that -----------------------------------------------------------------

    def size(self, *inputs: int) -> int:
        one(inputs, "an affine map", self.shape[1])
        return self.shape[0]

    def __call__(self, *values: Array) -> Array:
        (h,) = values
        product = self.linear(h)
        if self.channel_bias.any():
            product += self.bias.astype(h.dtype, copy=False)
        return np.asarray(product)

    @property
    def shift(self) -> Vector:
        return self.bias

    def image(self, lo: Array, hi: Array) -> Range:
        """`L m + b` ± `|L| r`, m the middle of the range and r its radius, with all rounding.

        The middle errs by γ_{k+1} (|L||m| + |b|), and its part γ|m| is carried along with r: so
        two products do. A coordinate without finite bounds makes every row that uses it unbounded,
        and no other. Where all entries and all inputs have one sign the ends are no hair beyond 0:
        units that touch 0 count as active.
        """
        unbounded = ~(np.isfinite(lo) & np.isfinite(hi))
        if unbounded.any():
            lo, hi = np.where(unbounded, 0.0, lo), np.where(unbounded, 0.0, hi)
        with np.errstate(all="ignore"):
            factor = gamma(self.summands + 8) * SLACK  # with the few roundings of the radius itself
            middle, radius = midpoint(lo, hi)
            doubt = inflate(np.abs(middle), factor)
            reach = np.where(doubt == 0, radius, up(radius + doubt))
            least = [rounding.smallest(part) for part in (middle, reach)]
            lost = sum(underflow(self.summands, self.least, part) for part in least)
            centre = self.linear(middle) + self.bias
            size = self.absolute(reach) + inflate(np.abs(self.bias), factor)
            below, above = rounding.widen(centre, inflate(size, float(up(1 + factor)), 2 * lost))
        unknown = ~np.isfinite(centre)
        if unbounded.any():
            unknown |= self.touched(unbounded)
        above_0, below_0 = (part.all(axis=-1, keepdims=True) for part in (lo >= 0, hi <= 0))
        signs = self.row_signs * (above_0.astype(int) - below_0)
        below = np.where((signs > 0) & (self.bias >= 0), np.maximum(below, 0.0), below)
        above = np.where((signs < 0) & (self.bias <= 0), np.minimum(above, 0.0), above)
        return np.where(unknown, -np.inf, below), np.where(unknown, np.inf, above)

    def touched(self, marked: Array) -> Array:
        """Which rows have an entry that is not zero at a marked coordinate."""
        with np.errstate(all="ignore"):
            return np.asarray(self.absolute(marked.astype(np.float64)) > 0)

    def pull_error(self, reach: Array) -> RoundingError:
        """γ_n·|L||h| per unit of |Λ|, because |fl(ΛL) − ΛL||h| ≤ γ_n |Λ|(|L||h|); underflow n·η.

        Never 0, which would say that nothing is lost: γ_n|L||h| may underflow, and Λ be large.
        """
        terms = self.fan_out
        size = self.absolute(reach)
        error = (gamma(terms) * SLACK) * (size + self.summands * TINY) + TINY
        floor = (terms * TINY) * reach.sum(axis=1) * SLACK
        return RoundingError(self.bias[None], error, floor)

    def exact(self, value: Dyadic, bits: int) -> Dyadic:
        return value.times(*self._integers) + Dyadic.exact(self.bias)

    @cached_property
    def _integers(self) -> tuple[Integers, int]:
        return integers(self.tile(0, self.shape[0]))

    @property
    def weights(self) -> int:
        m, k = self.shape
        return m * k

    @property
    def parameters(self) -> int:
        return self.weights + len(self.bias)


# --- dense ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class MatrixMap(Mixing):
    """`h ↦ W h + b`: `weight` W of shape m × k, dense or CSR, `bias` b of shape m."""

    kind = "Affine"
    keys: ClassVar[dict[str, str]] = {"weight": "weight", "bias": "bias"}
    stored: ClassVar[Any]  # how the weight is kept: a function of one

    weight: Matrix
    bias: Vector

    @classmethod
    def restored(cls, part: Part, settings: Any) -> Operation:
        """Dense or sparse, as the file has it."""
        if "shape" not in settings:
            return Dense(part("weight"), part("bias"))
        triplet = (part("weight.data"), part("weight.indices"), part("weight.indptr"))
        if any(array.dtype.kind not in "iu" or array.ndim != 1 for array in triplet[1:]):
            raise InputError("the indices of a sparse matrix must be rows of whole numbers")
        matrix = sparse.csr_array(triplet, shape=tuple(settings["shape"]))
        matrix.check_format(full_check=True)
        return Sparse(matrix, part("bias"))

    def __init__(self, weight: Any, bias: ArrayLike | None = None) -> None:
        matrix = arrays.as_matrix(self.stored(weight))
        if matrix.ndim != 2:
            raise InputError(f"an affine map needs a weight matrix, but got shape {matrix.shape}")
        if 0 in matrix.shape:
            raise InputError(
                f"an affine map needs at least one input and one output, but got a weight of shape "
                f"{matrix.shape}"
            )
        offset = arrays.frozen_array(np.zeros(matrix.shape[0]) if bias is None else bias)
        if offset.shape != (matrix.shape[0],):
            raise InputError(
                f"an affine map with weight of shape {matrix.shape} needs {matrix.shape[0]} "
                f"biases, but got shape {offset.shape}"
            )
        set_once(self, weight=matrix, bias=offset)

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.weight.shape[0]), int(self.weight.shape[1])

    def linear(self, rows: Array) -> Array:
        return self._times(rows, lambda tile: tile)

    def absolute(self, reach: Array) -> Array:
        return self._times(reach, abs)

    def _times(self, rows: Array, part: Callable[[Matrix], Matrix]) -> Array:
        """`part(W) h` for every row h; no copy of a large W in another precision is made.

        A sparse W is taken at once: tiles of it may be a row each, and each would copy all inputs.
        """
        kind, (m, k) = rows.dtype, self.shape
        step = max(1, LIMITS.tile // k)
        if step >= m or sparse.issparse(self.weight):
            return np.asarray(rows @ part(self.weight.astype(kind, copy=False)).T)
        out = np.empty((*rows.shape[:-1], m), kind)
        for start in range(0, m, step):
            tile = part(self.weight[start : start + step].astype(kind, copy=False))
            out[..., start : start + step] = rows @ tile.T
        return out

    def pull(self, form: Array, size: int) -> Array:
        rows = form.reshape(-1, form.shape[-1])
        product = rows @ self.weight.astype(form.dtype, copy=False)
        return np.asarray(product).reshape(*form.shape[:-1], -1)

    def tile(self, start: int, stop: int) -> Array:
        return arrays.dense(self.weight[start:stop])

    def columns(self, start: int, stop: int) -> Array:
        return arrays.dense(self.weight[:, start:stop])

    @cached_property
    def least(self) -> float:
        return rounding.smallest(self.weight)

    @cached_property
    def largest(self) -> float:
        return float(abs(self.weight).max())

    @cached_property
    def row_signs(self) -> Array:
        low, high = (
            arrays.dense(end).ravel() for end in (self.weight.min(axis=1), self.weight.max(axis=1))
        )
        return (low >= 0).astype(int) - (high <= 0)

    @property
    def matrix(self) -> Matrix:
        return self.weight

    @property
    def nonzeros(self) -> int:
        return arrays.nonzeros(self.weight)


class Dense(MatrixMap):
    """A weight matrix kept in full."""

    stored = staticmethod(np.asarray)

    @classmethod
    def over(cls, weight: Array, bias: Array | None = None) -> Dense:
        """The map of an array that nobody else will change: it is not copied."""
        op = object.__new__(cls)
        set_once(op, weight=weight, bias=np.zeros(len(weight)) if bias is None else bias)
        return op

    def on_blocks(self, width: int) -> tuple[tuple[int, int, Dense], ...]:
        found = []
        for start in range(0, self.shape[1], width):
            part = self.weight[:, start : start + width]
            block = Dense.over(part, None if start else self.bias)
            found.append((start, start + part.shape[1], block))
        return tuple(found)


class Sparse(MatrixMap):
    """A weight matrix kept as compressed rows."""

    stored = sparse.csr_array

    def arrays(self) -> dict[str, Array]:
        parts = {
            f"weight.{key}": getattr(self.weight, key) for key in ("data", "indices", "indptr")
        }
        return parts | {"bias": self.bias}

    def settings(self) -> dict[str, Any]:
        return {"shape": list(self.shape)}


def Affine(weight: Any, bias: ArrayLike | None = None) -> Dense | Sparse:
    """`h ↦ W h + b`, dense or sparse as the weight comes."""
    return Sparse(weight, bias) if sparse.issparse(weight) else Dense(weight, bias)
