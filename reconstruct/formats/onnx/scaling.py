"""Factors, divisors and offsets that a file states, kept as stated.

`x/3` is not `x·fl(1/3)`, and `alpha·W` is rarely a float64 matrix. What float64 can hold exactly
becomes a weight or a bias; the rest stays an operation of its own, `x·factor/divisor`, or a
second offset that carries what the first one lost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reconstruct.formats.onnx.values import Builder, Flow
from reconstruct.networks import Affine, Convolution, Dense, Scaling, Sparse, Tiled

Array = NDArray[Any]
SPLIT = 2.0**27 + 1  # Veltkamp's constant for float64
SAFE = (2.0**-480, 2.0**480)  # magnitudes whose products and remainders neither over- nor underflow


def product(a: Any, b: Any) -> tuple[Array, Array]:
    """`(hi, lo)` with hi + lo = a·b exactly (Dekker), for magnitudes in `SAFE` or zero."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    hi = np.asarray(a * b)
    a_hi, a_lo = _split(a)
    b_hi, b_lo = _split(b)
    lo = ((a_hi * b_hi - hi) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo
    return hi, np.asarray(lo)


def _split(a: Array) -> tuple[Array, Array]:
    scaled = SPLIT * a
    high = scaled - (scaled - a)
    return high, a - high


def safe(values: Array) -> bool:
    """Whether products of these numbers are exact as hi + lo."""
    size = np.abs(values)
    return bool(np.all((size == 0) | ((size >= SAFE[0]) & (size <= SAFE[1]))))


def exact_multiple(values: Any, factor: float) -> Any | None:
    """`factor·values` when float64 holds all of it exactly, else None; any matrix or vector."""
    if factor == 1:
        return values
    entries = values.data if sparse.issparse(values) else np.asarray(values)
    entries = np.asarray(entries, dtype=np.float64)
    if not (safe(entries) and safe(np.array(factor))):
        return None
    hi, lo = product(entries, factor)
    if np.any(lo):
        return None
    if not sparse.issparse(values):
        return hi
    return sparse.csr_array((hi, values.indices, values.indptr), shape=values.shape)


def scaled_by(build: Builder, name: str, flow: Flow, factor: Any, divisor: Any = 1.0) -> Flow:
    """`flow·factor/divisor`, exactly; nothing where that is the flow itself.

    A division of what was multiplied just before is one scaling with it.
    """
    top, bottom = (
        np.broadcast_to(np.asarray(v, dtype=np.float64), (flow.size,)) for v in (factor, divisor)
    )
    if np.array_equal(top, bottom):
        return flow
    op = build.op(flow)
    plain = isinstance(op, Scaling) and not np.any(op.offset) and np.all(op.divisor == 1)
    if isinstance(op, Scaling) and plain and not flow.shared and np.all(top == 1):
        return build.exchange(flow, Scaling(op.factor, bottom), name)
    return build.emit(name, Scaling(top, bottom), (flow,), flow.shape)


def shifted_by(build: Builder, name: str, flow: Flow, offset: Array) -> Flow:
    """`flow + offset`: the bias of a map that has none yet and that nothing else uses, else new."""
    if not np.any(offset):
        return flow
    op = build.op(flow)
    if isinstance(op, Dense | Sparse | Tiled) and not flow.shared and not np.any(op.bias):
        return build.exchange(flow, Affine(op.weight, offset))
    if isinstance(op, Convolution) and not (flow.shared or op.fixed or np.any(op.offsets)):
        pixels = offset.reshape(op.channels, op.positions)
        if np.all(pixels == pixels[:, :1]):
            made = Convolution(op.kernel, op.geometry, pixels[:, 0], op.groups)
            return build.exchange(flow, made)
    if isinstance(op, Scaling) and not flow.shared and not np.any(op.offset):
        return build.exchange(flow, Scaling(op.factor, op.divisor, offset), name)
    return build.emit(name, Scaling(np.ones(flow.size), offset=offset), (flow,), flow.shape)
