"""Gemm, MatMul and arithmetic with constants, read as affine maps of flattened tensors.

A product with a constant, `x @ W` or `W @ x`, acts on a row-major flattened x as
`I ⊗ Wᵀ` or `I ⊗ W ⊗ I` (one of the identities has size 1 in ordinary networks).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reconstruct.formats.onnx.elementwise import add_values
from reconstruct.formats.onnx.values import (
    ENTRIES,
    Builder,
    Call,
    Flow,
    broadcast_shape,
    positions,
    rearranged,
)
from reconstruct.networks import Affine

Array = NDArray[Any]
KRON_DENSE = 2**22  # entries up to which a flattened product is stored dense


def gemm(call: Call, build: Builder) -> Flow | Array:
    """`alpha·A'B' + beta·C` with A' = A or Aᵀ, B' = B or Bᵀ."""
    a = _transposed(call, build, call.value(0), "transA")
    b = _transposed(call, build, call.value(1), "transB")
    alpha = float(call.attributes.get("alpha", 1.0))
    beta = float(call.attributes.get("beta", 1.0))
    c = call.get(2)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and not isinstance(c, Flow):
        return _folded_gemm(alpha, a, b, beta, call.constant(2, "terms C"))
    flow, weight, shape = _product(call, a, b)
    if isinstance(c, Flow):
        if beta != 1:
            raise call.refuse("scales a C that depends on the network's input; use beta = 1")
        made = build.emit(call.name, Affine(_scaled(weight, alpha)), (flow,), shape)
        return add_values(call, build, made, c)
    bias = None
    if (term := call.constant(2, "terms C")) is not None:
        broadcast_shape(call, shape, tuple(term.shape))
        bias = np.broadcast_to(_scaled(term, beta), shape).ravel()
    return build.emit(call.name, Affine(_scaled(weight, alpha), bias), (flow,), shape)


def matmul(call: Call, build: Builder) -> Flow | Array:
    """`A @ B` with a constant on either side."""
    a, b = call.value(0), call.value(1)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.asarray(_real(a) @ _real(b))
    flow, weight, shape = _product(call, a, b)
    return build.emit(call.name, Affine(weight), (flow,), shape)


def _product(call: Call, a: Flow | Array, b: Flow | Array) -> tuple[Flow, Any, tuple[int, ...]]:
    """The flow among the factors, the matrix that acts on it when flattened, the real shape."""
    if isinstance(a, Flow) and isinstance(b, np.ndarray):
        weight, shape = _from_right(call, a.shape, _matrix(call, b))
        return a, weight, shape
    if isinstance(a, np.ndarray) and isinstance(b, Flow):
        weight, shape = _from_left(call, _matrix(call, a), b.shape)
        return b, weight, shape
    raise call.refuse(
        "multiplies two values that both depend on the network's input; only products with "
        "constants are affine maps"
    )


def _from_right(call: Call, x: tuple[int, ...], w: Array) -> tuple[Any, tuple[int, ...]]:
    """The matrix and the shape of `x @ w`."""
    if not x or x[-1] != w.shape[0]:
        raise call.fault(f"multiplies shape {x} by a constant of shape {w.shape}")
    columns = w if w.ndim == 2 else w[:, None]
    weight = _spread(call, math.prod(x[:-1]), columns.T, 1)
    return weight, (*x[:-1], *w.shape[1:])


def _from_left(call: Call, w: Array, x: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """The matrix and the shape of `w @ x`."""
    inner, lead, trail = (x[-2], x[:-2], x[-1:]) if len(x) > 1 else (x[0] if x else 0, (), ())
    if inner != w.shape[-1]:
        raise call.fault(f"multiplies a constant of shape {w.shape} by shape {x}")
    rows = w if w.ndim == 2 else w[None, :]
    weight = _spread(call, math.prod(lead), rows, math.prod(trail))
    return weight, (*lead, *w.shape[:-1], *trail)


def _spread(call: Call, left: int, w: Array, right: int) -> Any:
    """`I_left ⊗ w ⊗ I_right`, CSR when large."""
    copies = left * right
    if copies == 1:
        return w
    if copies * w.size > ENTRIES:
        raise call.refuse(f"would need a map with {copies * w.size} entries, which is too large")
    if copies * copies * w.size <= KRON_DENSE:
        return np.kron(np.kron(np.eye(left, dtype=w.dtype), w), np.eye(right, dtype=w.dtype))
    inner = sparse.kron(sparse.csr_array(w), sparse.eye_array(right), format="csr")
    return sparse.csr_array(sparse.kron(sparse.eye_array(left), inner, format="csr"))


def _matrix(call: Call, w: Array) -> Array:
    """A constant factor as a matrix or a vector: leading dimensions of size 1 are dropped."""
    while w.ndim > 2 and w.shape[0] == 1:
        w = w[0]
    if w.ndim not in (1, 2):
        raise call.refuse(f"multiplies by a constant of shape {w.shape}; a matrix is supported")
    return w if w.dtype in (np.float32, np.float64) else _real(w)


def _transposed(call: Call, build: Builder, value: Flow | Array, attribute: str) -> Flow | Array:
    shape = tuple(value.shape)
    if len(shape) != 2:
        raise call.fault(f"needs matrices, but was given shape {shape}")
    if not call.attributes.get(attribute, 0):
        return value
    if isinstance(value, np.ndarray):
        return value.T
    return rearranged(build, call, value, positions(value).T)


def _folded_gemm(alpha: float, a: Array, b: Array, beta: float, c: Array | None) -> Array:
    product = alpha * (_real(a) @ _real(b))
    return product if c is None else product + beta * _real(c)


def _scaled(values: Any, factor: float) -> Any:
    """`factor · values` in float64; unchanged, in its own precision, when the factor is 1."""
    return values if factor == 1 else factor * values.astype(np.float64)


def _real(values: Array) -> Array:
    return values if values.dtype.kind in "iub" else values.astype(np.float64)
