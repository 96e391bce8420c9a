"""Gemm and MatMul with a constant factor, read as affine maps of flattened tensors.

A product with a constant matrix, `x @ W` or `W @ x`, acts on a row-major flattened x as `I ⊗ Wᵀ`
or `I ⊗ W ⊗ I` (one of the identities has size 1 in ordinary networks). Stacks of matrices follow
NumPy's rules of matmul.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from reconstruct.formats.files import LIMITS, VALUE
from reconstruct.formats.onnx.elementwise import (
    add_values,
    exact_multiple,
    real,
    safe,
    scaled_by,
    shifted_by,
)
from reconstruct.formats.onnx.values import (
    Builder,
    Call,
    Flow,
    broadcast_shape,
    expanded,
    moved,
    placed,
    positions,
)
from reconstruct.networks import Affine, Convolution, Geometry, MatrixProduct
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.double_double import two_product


def gemm(call: Call, build: Builder) -> Flow:
    """`alpha·A'B' + beta·C` with A' = A or Aᵀ, B' = B or Bᵀ."""
    a = _transposed(call, build, call.value(0), "transA")
    b = _transposed(call, build, call.value(1), "transB")
    alpha, beta = call.number("alpha"), call.number("beta")
    flow, weight, shape = _product(call, build, a, b)
    multiple = exact_multiple(weight, alpha)
    if multiple is None:
        made = build.emit(f"{call.name}/product", Affine(weight), (flow,), shape)
        made = scaled_by(build, call.name, made, alpha)
    else:
        made = build.emit(call.name, Affine(multiple), (flow,), shape)
    return _with_term(call, build, made, beta)


def _with_term(call: Call, build: Builder, made: Flow, beta: float) -> Flow:
    """`made + beta·C`; a product beta·C that float64 cannot hold is two offsets, hi and lo."""
    c = call.get(2)
    if c is None or beta == 0:
        return made
    if broadcast_shape(call, made.shape, tuple(c.shape)) != made.shape:
        raise call.fault(f"adds a C of shape {tuple(c.shape)} to a product of shape {made.shape}")
    if isinstance(c, Flow):
        return add_values(call, build, made, scaled_by(build, f"{call.name}/C", c, beta))
    term = np.broadcast_to(real(call, np.asarray(call.constant(2, "terms C"))), made.shape).ravel()
    if (multiple := exact_multiple(term, beta)) is not None:
        return shifted_by(build, call.name, made, multiple)
    if not (safe(term) and safe(np.array(beta))):
        raise call.refuse(
            f"has a product of beta = {beta:g} and C that float64 cannot hold exactly"
        )
    hi, lo = two_product(term, np.asarray(beta))
    first = shifted_by(build, call.name, made, hi)
    return shifted_by(build, f"{call.name}/rest", first, lo)


def matmul(call: Call, build: Builder) -> Flow:
    """`A @ B` of two values, or with a constant on either side; over many positions at once, of an
    image or of tokens, a 1×1 convolution."""
    a, b = call.value(0), call.value(1)
    if isinstance(a, Flow) and isinstance(b, Flow):
        return _multiplied(call, build, a, b)
    if isinstance(a, Flow) and isinstance(b, np.ndarray) and _over_tokens(a, b):
        return _token_wise(call, build, a, b)
    if isinstance(a, np.ndarray) and isinstance(b, Flow) and _over_positions(a, b):
        return _convolved(call, build, a, b)
    flow, weight, shape = _product(call, build, a, b)
    return build.emit(call.name, Affine(weight), (flow,), shape)


def _multiplied(call: Call, build: Builder, a: Flow, b: Flow) -> Flow:
    """The product of two values, for every pair of matrices in their stacks."""
    shape = _shape(call, a.shape, b.shape)
    if min(len(a.shape), len(b.shape)) < 2:
        raise call.refuse("multiplies a vector by a value; products of matrices are read")
    (m, k), n, stack = a.shape[-2:], b.shape[-1], shape[:-2]
    left = expanded(build, call, a, (*stack, m, k))
    right = expanded(build, call, b, (*stack, k, n))
    return build.emit(call.name, MatrixProduct(math.prod(stack), m, k, n), (left, right), shape)


def _over_tokens(a: Flow, b: Array) -> bool:
    """Whether one matrix acts on each of several tokens."""
    return len(a.shape) > 2 and b.ndim == 2 and a.shape[-1] == len(b) < a.size


def _token_wise(call: Call, build: Builder, flow: Flow, weight: Array) -> Flow:
    """The same map of every token: a convolution of them with their features as channels."""
    k, m = weight.shape
    tokens = flow.size // k
    channels = positions(flow).reshape(1, tokens, k).swapaxes(1, 2)
    entries = weight if weight.dtype == np.float32 else real(call, weight)
    op = Convolution(entries.T[:, :, None, None], Geometry(k, 1, tokens, (1, 1)))
    turned = placed(build, f"{call.name}/channels", flow, channels)
    made = build.emit(call.name, op, (turned,), (1, m, tokens))
    back = positions(made).swapaxes(1, 2)
    made = placed(build, f"{call.name}/tokens", made, back)
    build.tokens.add(made.node)
    return replace(made, shape=(*flow.shape[:-1], m))


def _over_positions(a: Array, b: Flow) -> bool:
    """Whether `A @ B` is one matrix (or one for each group) times many columns of one sample."""
    rank = len(b.shape)
    fits = (rank == 3 and a.ndim == 2) or (rank == 4 and a.ndim == 3 and a.shape[0] == b.shape[1])
    many = b.shape[-1] > 1 or a.ndim == 3  # groups of a single column stay apart, too
    return fits and b.shape[0] == 1 and many and a.shape[-1] == b.shape[-2]


def _convolved(call: Call, build: Builder, a: Array, b: Flow) -> Flow:
    groups = a.shape[0] if a.ndim == 3 else 1
    positions = b.shape[-1]
    entries = a if a.dtype == np.float32 else real(call, a)
    kernel = entries.reshape(-1, a.shape[-1], 1, 1)
    geometry = Geometry(b.size // positions, 1, positions, (1, 1))
    shape = (*b.shape[:-2], a.shape[-2], positions)
    return build.emit(call.name, Convolution(kernel, geometry, None, groups), (b,), shape)


def _product(
    call: Call, build: Builder, a: Flow | Array, b: Flow | Array
) -> tuple[Flow, Any, tuple[int, ...]]:
    """The flow among the factors, the matrix that acts on it when flattened, the real shape."""
    if isinstance(a, Flow) == isinstance(b, Flow):
        raise call.refuse(
            "multiplies two values that both depend on the network's input; only products with "
            "constants are affine maps"
            if isinstance(a, Flow)
            else "adds a value that depends on the network's input to a product of constants"
        )
    shape = _shape(call, tuple(a.shape), tuple(b.shape))
    flow, w = (a, b) if isinstance(a, Flow) else (b, a)
    assert isinstance(flow, Flow) and isinstance(w, np.ndarray)
    inner = w.shape[-2] if flow is a and w.ndim > 1 else w.shape[-1]
    more = math.prod(shape) * inner - w.size  # entries beyond those that the file holds
    # value, row, column and copy of each entry are held while a map is spread
    build.budget.take(4 * VALUE * max(more, 0), f"the map of node {call.name!r}")
    matrix = w if w.dtype in (np.float32, np.float64) else w.astype(np.float64)
    weight = _flat_map(flow.shape, matrix, from_right=flow is a)
    return flow, weight, shape


def _shape(call: Call, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a @ b by NumPy's rules."""
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    if not a or not b or left[-1] != right[-2]:
        raise call.fault(f"multiplies shape {a} by shape {b}")
    stack = broadcast_shape(call, left[:-2], right[:-2])
    rows = left[-2:-1] if len(a) > 1 else ()
    columns = right[-1:] if len(b) > 1 else ()
    return (*stack, *rows, *columns)


def _flat_map(x: tuple[int, ...], w: Array, *, from_right: bool) -> Any:
    """The matrix that takes a flattened tensor of shape `x` to `x @ w` or `w @ x`, flattened:
    out[…,i,j] = Σ_k a[…,i,k]·b[…,k,j], entry by entry; w itself where x is a single row."""
    single = math.prod(x) == (x[-1] if from_right or len(x) == 1 else x[-2])
    if single and math.prod(w.shape[:-2]) == 1:
        matrix = w.reshape(w.shape[-2:]) if w.ndim > 1 else w[:, None] if from_right else w[None]
        return matrix.T if from_right else matrix
    place = np.arange(math.prod(x)).reshape(x)
    a, b = (place, w) if from_right else (w, place)
    a = a if a.ndim > 1 else a[None, :]
    b = b if b.ndim > 1 else b[:, None]
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    (m, k), n = a.shape[-2:], b.shape[-1]
    a = np.broadcast_to(a[..., :, None, :], (*stack, m, n, k))
    b = np.broadcast_to(np.swapaxes(b, -1, -2)[..., None, :, :], (*stack, m, n, k))
    columns, entries = (a, b) if from_right else (b, a)
    rows = np.broadcast_to(np.arange(a.size // k).reshape((*stack, m, n, 1)), a.shape)
    shape = (a.size // k, place.size)
    matrix = sparse.csr_array((entries.ravel(), (rows.ravel(), columns.ravel())), shape=shape)
    return matrix.toarray() if math.prod(shape) <= LIMITS.spread else matrix


def _transposed(call: Call, build: Builder, value: Flow | Array, attribute: str) -> Flow | Array:
    shape = tuple(value.shape)
    if len(shape) != 2:
        raise call.fault(f"needs matrices, but was given shape {shape}")
    if not call.attributes[attribute]:
        return value
    return moved(build, call, value, np.transpose)
