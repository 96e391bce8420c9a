"""A weight matrix kept as compressed rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from reconstruct.errors import InputError
from reconstruct.networks.maps.dense import Dense, set_affine
from reconstruct.networks.maps.mixing import Mixing
from reconstruct.networks.operation import Operation, Part, register
from reconstruct.numbers.arrays import Array, Matrix, Vector, as_matrix, dense, nonzeros
from reconstruct.numbers.rounding import smallest


@dataclass(frozen=True, eq=False)
class Sparse(Mixing):
    """`h ↦ W h + b`: `weight` W of shape m × k in CSR, `bias` b of shape m."""

    kind = "Affine"

    weight: Matrix
    bias: Vector

    def __init__(self, weight: Any, bias: ArrayLike | None = None) -> None:
        set_affine(self, as_matrix(sparse.csr_array(weight)), bias)

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.weight.shape[0]), int(self.weight.shape[1])

    def linear(self, rows: Array) -> Array:
        return np.asarray((self.weight.astype(rows.dtype, copy=False) @ rows.T).T)

    def pull(self, form: Array, size: int) -> Array:
        rows = form.reshape(-1, form.shape[-1])
        product = (self.weight.astype(form.dtype, copy=False).T @ rows.T).T
        return np.asarray(product).reshape(*form.shape[:-1], -1)

    def tile(self, start: int, stop: int) -> Array:
        return dense(self.weight[start:stop])

    def columns(self, start: int, stop: int) -> Array:
        return dense(self._by_columns[:, start:stop])

    @cached_property
    def _by_columns(self) -> Matrix:
        return self.weight.tocsc()

    def signs(self) -> tuple[Sparse, Sparse]:
        wide = self.weight.astype(np.float64, copy=False)
        return Sparse(wide.maximum(0)), Sparse(wide.minimum(0))

    def absolute(self, reach: Array) -> Array:
        return np.asarray((abs(self.weight.astype(np.float64, copy=False)) @ reach.T).T)

    @cached_property
    def least(self) -> float:
        return smallest(self.weight)

    @cached_property
    def largest(self) -> float:
        return float(np.max(np.abs(self.weight.data), initial=0.0))

    @property
    def matrix(self) -> Matrix:
        return self.weight

    @property
    def nonzeros(self) -> int:
        return nonzeros(self.weight)

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
