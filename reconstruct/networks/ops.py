"""The operations a network is made of, besides its activations.

Every operation maps a batch to a batch: values have shape (samples, size). Parameters are stored
read-only in the precision in which they came (drawn weights are float32 numbers) and are cast to
the precision of the values when they are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from reconstruct.errors import InputError
from reconstruct.networks.activations import ACTIVATIONS, Activation, Array

Matrix: TypeAlias = Any  # NDArray or scipy.sparse.csr_array: both know .shape, .dtype, @ and .T
Vector: TypeAlias = NDArray[np.float64]


def frozen_array(values: ArrayLike, dtype: Any = np.float64) -> Array:
    """A read-only array of `dtype`; the caller's array is left as it is."""
    array = np.array(values, dtype=dtype)
    array.setflags(write=False)
    return array


def as_matrix(weight: Any) -> Matrix:
    """A read-only float32 or float64 matrix, dense or CSR, from whatever came.

    Entries that a sparse matrix holds twice are added once and for all: added later, they would
    be rounded in one place and not in another.
    """
    if sparse.issparse(weight):
        kept = sparse.csr_array(weight)
        if not kept.has_canonical_format:
            kept = kept.copy()
            kept.sum_duplicates()
        return kept if kept.dtype in (np.float32, np.float64) else kept.astype(np.float64)
    array = np.asarray(weight)
    return frozen_array(array, array.dtype if array.dtype == np.float32 else np.float64)


def dense(matrix: Matrix) -> NDArray[np.float64]:
    """The matrix as a dense float64 array."""
    if sparse.issparse(matrix):
        return np.asarray(matrix.toarray(), dtype=np.float64)
    return np.asarray(matrix, dtype=np.float64)


def nonzeros(matrix: Matrix) -> int:
    """How many entries of the matrix are not zero."""
    return int(matrix.count_nonzero() if sparse.issparse(matrix) else np.count_nonzero(matrix))


@dataclass(frozen=True, eq=False)
class Affine:
    """`h ↦ W h + b`: `weight` W of shape m × k (dense or CSR), `bias` b of shape m."""

    weight: Matrix
    bias: Vector

    def __init__(self, weight: Any, bias: ArrayLike | None = None) -> None:
        matrix = as_matrix(weight)
        if matrix.ndim != 2:
            raise InputError(f"an affine map needs a weight matrix, but got shape {matrix.shape}")
        offset = frozen_array(np.zeros(matrix.shape[0]) if bias is None else bias)
        if offset.shape != (matrix.shape[0],):
            raise InputError(
                f"an affine map with weight of shape {matrix.shape} needs {matrix.shape[0]} "
                f"biases, but got shape {offset.shape}"
            )
        object.__setattr__(self, "weight", matrix)
        object.__setattr__(self, "bias", offset)

    def size(self, *inputs: int) -> int:
        (k,) = inputs
        if self.weight.shape[1] != k:
            raise InputError(
                f"an affine map with {self.weight.shape[1]} inputs was given {k} values"
            )
        return int(self.weight.shape[0])

    def __call__(self, h: Array) -> Array:
        weight = self.weight.astype(h.dtype, copy=False)
        product = (weight @ h.T).T if sparse.issparse(weight) else h @ weight.T
        product += self.bias.astype(h.dtype)
        return np.asarray(product)


@dataclass(frozen=True, eq=False)
class Norm:
    """`z ↦ gamma ∘ (z − mean)/√(var + eps) + beta`, a norm layer with frozen statistics.

    In effective form it is `s∘z + t` with `s = gamma/√(var + eps)` and `t = beta − s∘mean`.
    `eps` is always a float32 number: ONNX stores it so, and a solve with any other value would
    be off by 1e-6 once exported.
    """

    gamma: Vector
    beta: Vector
    mean: Vector
    var: Vector
    eps: float

    def __init__(
        self,
        gamma: ArrayLike,
        beta: ArrayLike,
        mean: ArrayLike,
        var: ArrayLike,
        eps: float = 2.0**-17,
    ) -> None:
        arrays = [frozen_array(a) for a in (gamma, beta, mean, var)]
        shapes = {a.shape for a in arrays}
        if len(shapes) != 1 or arrays[0].ndim != 1:
            raise InputError(
                f"a norm layer needs gamma, beta, mean and var of one length, but got {shapes}"
            )
        rounded = float(np.float32(eps))
        if not (np.all(arrays[3] >= 0) and rounded >= 0 and np.all(arrays[3] + rounded > 0)):
            raise InputError(
                "a norm layer needs var ≥ 0, eps ≥ 0 and var + eps > 0, but the smallest var is "
                f"{arrays[3].min():g} with eps = {rounded:g}"
            )
        for name, value in zip(("gamma", "beta", "mean", "var"), arrays, strict=True):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "eps", rounded)

    def size(self, *inputs: int) -> int:
        (k,) = inputs
        if self.gamma.shape[0] != k:
            raise InputError(f"a norm layer of size {self.gamma.shape[0]} was given {k} values")
        return k

    def __call__(self, z: Array) -> Array:
        kind = z.dtype
        scale = np.sqrt(self.var.astype(kind) + kind.type(self.eps))
        value = z - self.mean.astype(kind)  # then in place: hidden layers are wide
        value /= scale
        value *= self.gamma.astype(kind)
        value += self.beta.astype(kind)
        return np.asarray(value)

    @property
    def deviation(self) -> Vector:
        """`√(var + eps)`, rounded to float64."""
        return np.sqrt(self.var + self.eps)

    def effective(self) -> tuple[Vector, Vector]:
        """`(s, t)` with `N(z) = s∘z + t`, rounded to float64."""
        s = self.gamma / self.deviation
        return s, self.beta - s * self.mean

    def with_effective(self, s: Vector, t: Vector) -> Norm:
        """The same statistics with the gamma and beta that make `N(z) = s∘z + t`.

        gamma is rounded first and beta is computed from the scale that gamma then really gives,
        so that a large mean does not turn the rounding of gamma into an error of t.
        """
        gamma = s * self.deviation
        beta = t + (gamma / self.deviation) * self.mean
        return Norm(gamma, beta, self.mean, self.var, self.eps)


@dataclass(frozen=True)
class Add:
    """The sum of two or more values of one size: a skip connection, or two branches that meet."""

    def size(self, *inputs: int) -> int:
        if len(inputs) < 2 or len(set(inputs)) != 1:
            raise InputError(f"Add needs two or more values of one size, but got sizes {inputs}")
        return inputs[0]

    def __call__(self, *values: Array) -> Array:
        total = values[0]
        for value in values[1:]:
            total = total + value
        return total


@dataclass(frozen=True)
class Select:
    """`h ↦ h[start:stop]`: a block of the input, for the deep construction's skip connections."""

    start: int
    stop: int

    def size(self, *inputs: int) -> int:
        (k,) = inputs
        if not 0 <= self.start < self.stop <= k:
            raise InputError(f"cannot select [{self.start}:{self.stop}] of {k} values")
        return self.stop - self.start

    def __call__(self, h: Array) -> Array:
        return h[:, self.start : self.stop]


Op: TypeAlias = Affine | Norm | Add | Select | Activation


def size_of(op: Op, inputs: tuple[int, ...]) -> int:
    """The size of what `op` gives on inputs of these sizes; raises InputError if they misfit."""
    if isinstance(op, ACTIVATIONS):
        if len(inputs) != 1:
            raise InputError(f"{type(op).__name__} needs one input, but got {len(inputs)}")
        return inputs[0]
    return op.size(*inputs)
