"""Gemm and MatMul with a constant factor, read as affine maps of flattened tensors.

A product with a constant matrix, `x @ W` or `W @ x`, acts on a row-major flattened x as `I ⊗ Wᵀ`
or `I ⊗ W ⊗ I` (one of the identities has size 1 in ordinary networks). Stacks of matrices follow
NumPy's rules of matmul.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from reconstruct.formats.files import LIMITS, VALUE
from reconstruct.formats.onnx.elementwise import exact_multiple, safe, scaled_by, shifted_by
from reconstruct.formats.onnx.values import Builder, Call, Flow, Value, moved, placed
from reconstruct.networks import Add, Affine, Convolution, Geometry, MatrixProduct
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.double_double import two_product


def gemm(call: Call, build: Builder) -> Flow:
    """`alpha·A'B' + beta·C` with A' = A or Aᵀ, B' = B or Bᵀ."""
    a, b = (
        moved(build, call, np.transpose, call.value(i)) if call.attributes[key] else call.value(i)
        for i, key in enumerate(("transA", "transB"))
    )
    alpha, beta = (float(call.attributes[key]) for key in ("alpha", "beta"))
    flow, weight = _factors(call, build, a, b)
    multiple = exact_multiple(weight, alpha)
    if multiple is None:
        made = build.emit(f"{call.name}/product", Affine(weight), flow)
        made = scaled_by(build, call.name, made, alpha)
    else:
        made = build.emit(call.name, Affine(multiple), flow)
    return made if call.get(2) is None or beta == 0 else _with_term(call, build, made, beta)


def _with_term(call: Call, build: Builder, made: Flow, beta: float) -> Flow:
    """`made + beta·C`; a product beta·C that float64 cannot hold is two offsets, hi and lo."""
    term = call.spread(build, 2)
    if isinstance(term, Flow):
        return build.emit(call.name, Add(), made, scaled_by(build, f"{call.name}/C", term, beta))
    if (multiple := exact_multiple(term, beta)) is not None:
        return shifted_by(build, call.name, made, multiple)
    if not (safe(term) and safe(np.array(beta))):
        raise call.refuse(
            f"has a product of beta = {beta:g} and C that float64 cannot hold exactly"
        )
    hi, lo = two_product(term, np.asarray(beta))
    first = shifted_by(build, call.name, made, hi)
    return shifted_by(build, f"{call.name}/rest", first, lo)


def matmul(call: Call, build: Builder) -> Value:
    """`A @ B` of two values, or with a constant on either side; over many positions at once, of an
    image or of tokens, a 1×1 convolution."""
    a, b = call.value(0), call.value(1)
    if isinstance(a, Flow) and isinstance(b, Flow):
        return _multiplied(call, build, a, b)
    if isinstance(a, Flow) and len(a.shape) > 2 and len(b.shape) == 2 and a.shape[-1] < a.size:
        return _token_wise(call, build, a, np.asarray(b))
    if isinstance(b, Flow) and isinstance(a, np.ndarray) and _over_positions(a, b):
        groups, columns = a.shape[0] if a.ndim == 3 else 1, b.shape[-1]
        kernel = a.reshape(-1, a.shape[-1], 1, 1)
        geometry = Geometry(b.size // columns, 1, columns, (1, 1))
        return build.emit(call.name, Convolution(kernel, geometry, None, groups), b)
    flow, weight = _factors(call, build, a, b)
    return build.emit(call.name, Affine(weight), flow)


def _multiplied(call: Call, build: Builder, a: Flow, b: Flow) -> Flow:
    """The product of two values, for every pair of matrices in their stacks."""
    if min(len(a.shape), len(b.shape)) < 2:
        raise call.refuse("multiplies a vector by a value; products of matrices are read")
    (m, k), n, stack = a.shape[-2:], b.shape[-1], call.shape[:-2]
    factors = []
    for flow, last in ((a, (m, k)), (b, (k, n))):
        goal = (*stack, *last)
        spread = moved(build, call, partial(np.broadcast_to, shape=goal), flow)
        assert isinstance(spread, Flow)
        factors.append(spread)
    return build.emit(call.name, MatrixProduct(math.prod(stack), m, k, n), *factors)


def _token_wise(call: Call, build: Builder, flow: Flow, weight: Array) -> Flow:
    """The same map of each of several tokens: a convolution of them with their features as
    channels."""
    k, m = weight.shape
    tokens = flow.size // k
    channels = flow.places.reshape(1, tokens, k).swapaxes(1, 2)
    op = Convolution(weight.T[:, :, None, None], Geometry(k, 1, tokens, (1, 1)))
    turned = placed(build, f"{call.name}/channels", flow, channels)
    made = build.emit(call.name, op, turned)
    back = made.places.reshape(1, m, tokens).swapaxes(1, 2)
    made = placed(build, f"{call.name}/tokens", made, back)
    build.tokens.add(made.node)
    return made


def _over_positions(a: Array, b: Flow) -> bool:
    """Whether `A @ B` is one matrix (or one for each group) times many columns of one sample."""
    rank = len(b.shape)
    fits = (rank == 3 and a.ndim == 2) or (rank == 4 and a.ndim == 3 and a.shape[0] == b.shape[1])
    many = b.shape[-1] > 1 or a.ndim == 3  # groups of a single column stay apart, too
    return fits and b.shape[0] == 1 and many


def _factors(call: Call, build: Builder, a: Flow | Array, b: Flow | Array) -> tuple[Flow, Any]:
    """The flow among the factors, and the matrix that acts on it when flattened."""
    if isinstance(a, Flow) == isinstance(b, Flow):
        raise call.refuse(
            "multiplies two values that both depend on the network's input; only products with "
            "constants are affine maps"
            if isinstance(a, Flow)
            else "adds a value that depends on the network's input to a product of constants"
        )
    flow, w = (a, b) if isinstance(a, Flow) else (b, a)
    assert isinstance(flow, Flow) and isinstance(w, np.ndarray)
    inner = w.shape[-2] if flow is a and w.ndim > 1 else w.shape[-1]
    more = math.prod(call.shape) * inner - w.size  # entries beyond those that the file holds
    # value, row, column and copy of each entry are held while a map is spread
    build.budget.take(4 * VALUE * max(more, 0), f"the map of node {call.name!r}")
    matrix = w if w.dtype in (np.float32, np.float64) else w.astype(np.float64)
    return flow, _flat_map(flow.shape, matrix, from_right=flow is a)


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
