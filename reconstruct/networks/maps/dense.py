"""A weight matrix, kept in full or as compressed rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from reconstruct.errors import InputError
from reconstruct.networks.maps.mixing import Mixing
from reconstruct.networks.operation import LIMITS, Operation, Part, register, set_once
from reconstruct.numbers.arrays import (
    Array,
    Matrix,
    Vector,
    as_matrix,
    dense,
    frozen_array,
    nonzeros,
)
from reconstruct.numbers.rounding import smallest


class MatrixMap(Mixing):
    """`h ↦ W h + b`: `weight` W of shape m × k, dense or CSR, `bias` b of shape m."""

    kind = "Affine"

    weight: Matrix
    bias: Vector

    def _set(self, matrix: Matrix, bias: ArrayLike | None) -> None:
        if matrix.ndim != 2:
            raise InputError(f"an affine map needs a weight matrix, but got shape {matrix.shape}")
        if 0 in matrix.shape:
            raise InputError(
                f"an affine map needs at least one input and one output, but got a weight of shape "
                f"{matrix.shape}"
            )
        offset = frozen_array(np.zeros(matrix.shape[0]) if bias is None else bias)
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
        """`part(W) h` for every row h; no copy of a large W in another precision is made."""
        kind, tiles = rows.dtype, self.spans(LIMITS.tile)
        if len(tiles) == 1:
            return np.asarray(rows @ part(self.weight.astype(kind, copy=False)).T)
        out = np.empty((*rows.shape[:-1], self.shape[0]), kind)
        for start, stop in tiles:
            out[..., start:stop] = rows @ part(self.weight[start:stop].astype(kind, copy=False)).T
        return out

    def pull(self, form: Array, size: int) -> Array:
        rows = form.reshape(-1, form.shape[-1])
        product = rows @ self.weight.astype(form.dtype, copy=False)
        return np.asarray(product).reshape(*form.shape[:-1], -1)

    def tile(self, start: int, stop: int) -> Array:
        return dense(self.weight[start:stop])

    def columns(self, start: int, stop: int) -> Array:
        return dense(self.weight[:, start:stop])

    @cached_property
    def least(self) -> float:
        return smallest(self.weight)

    @cached_property
    def largest(self) -> float:
        return float(abs(self.weight).max())

    @cached_property
    def row_signs(self) -> Array:
        low, high = (
            dense(end).ravel() for end in (self.weight.min(axis=1), self.weight.max(axis=1))
        )
        return (low >= 0).astype(int) - (high <= 0)

    @property
    def matrix(self) -> Matrix:
        return self.weight

    @property
    def nonzeros(self) -> int:
        return nonzeros(self.weight)


@dataclass(frozen=True, eq=False)
class Dense(MatrixMap):
    """A weight matrix kept in full."""

    weight: Matrix
    bias: Vector

    def __init__(self, weight: Any, bias: ArrayLike | None = None) -> None:
        self._set(as_matrix(np.asarray(weight)), bias)

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

    def arrays(self) -> dict[str, Array]:
        return {"weight": self.weight, "bias": self.bias}


@dataclass(frozen=True, eq=False)
class Sparse(MatrixMap):
    """A weight matrix kept as compressed rows."""

    weight: Matrix
    bias: Vector

    def __init__(self, weight: Any, bias: ArrayLike | None = None) -> None:
        self._set(as_matrix(sparse.csr_array(weight)), bias)

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


def _restored(part: Part, settings: Any) -> Operation:
    if "shape" not in settings:
        return Dense(part("weight"), part("bias"))
    triplet = (part("weight.data"), part("weight.indices"), part("weight.indptr"))
    if any(array.dtype.kind not in "iu" or array.ndim != 1 for array in triplet[1:]):
        raise InputError("the indices of a sparse matrix must be rows of whole numbers")
    matrix = sparse.csr_array(triplet, shape=tuple(settings["shape"]))
    matrix.check_format(full_check=True)
    return Sparse(matrix, part("bias"))


register("Affine", _restored)
