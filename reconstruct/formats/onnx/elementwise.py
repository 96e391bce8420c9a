"""Add, Sub, Mul, Div, Neg and Sum: branches that meet, and constants that shift or scale.

Neutral constants (0 added, 1 multiplied) leave nothing behind. A constant added to a product that
has no bias yet becomes its bias, exactly. Any other shift, factor or divisor is an operation of its
own, as the file states it: `x/3` is not `x·fl(1/3)`, and `alpha·W` is rarely a float64 matrix. What
float64 holds exactly becomes a weight or a bias; a second offset carries what the first one lost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reconstruct.formats.onnx.steps import recognised
from reconstruct.formats.onnx.values import (
    Builder,
    Call,
    Flow,
    Value,
    broadcast_shape,
    expanded,
)
from reconstruct.networks import (
    Add,
    Affine,
    Convolution,
    Dense,
    LiveNorm,
    Placement,
    Scaling,
    Sparse,
)
from reconstruct.numbers.double_double import two_product

Array = NDArray[Any]
SAFE = (2.0**-480, 2.0**480)  # magnitudes whose products and remainders neither over- nor underflow


def arithmetic(call: Call, build: Builder) -> Value:
    """Add, Sub, Mul or Div of two tensors, with ONNX's broadcasting."""
    if (made := recognised(call, build, call.kind, call.inputs)) is not None:
        return made
    a, b = call.value(0), call.value(1)
    if call.kind == "Add":
        return add_values(call, build, a, b)
    if call.kind == "Sub":
        return _subtracted(call, build, a, b)
    if call.kind == "Mul":
        return _multiplied(call, build, a, b)
    return _divided(call, build, a, b)


def negate(call: Call, build: Builder) -> Flow:
    return scaled_by(build, call.name, call.flow(), -1.0)


def total(call: Call, build: Builder) -> Flow:
    """Sum of any number of tensors: the ones that depend on the input first, then the constants."""
    values = [call.value(i) for i in range(len(call.inputs))]
    shape = broadcast_shape(call, *(tuple(v.shape) for v in values))
    flows = [expanded(build, call, v, shape) for v in values if isinstance(v, Flow)]
    made = flows[0] if len(flows) == 1 else build.emit(call.name, Add(), tuple(flows), shape)
    for value in values:
        if isinstance(value, np.ndarray):
            made = shifted(call, build, made, value)
    return made


def add_values(call: Call, build: Builder, a: Flow | Array, b: Flow | Array) -> Flow:
    """`a + b` where at least one depends on the input."""
    if isinstance(a, Flow) and isinstance(b, Flow):
        shape = broadcast_shape(call, a.shape, b.shape)
        both = expanded(build, call, a, shape), expanded(build, call, b, shape)
        return build.emit(call.name, Add(), both, shape)
    if isinstance(a, Flow):
        return shifted(call, build, a, np.asarray(b))
    assert isinstance(b, Flow)
    return shifted(call, build, b, a)


def _subtracted(call: Call, build: Builder, a: Flow | Array, b: Flow | Array) -> Flow:
    if isinstance(b, Flow):
        return add_values(call, build, a, scaled_by(build, f"{call.name}/negated", b, -1.0))
    assert isinstance(a, Flow)
    return shifted(call, build, a, -real(call, b))


def shifted(call: Call, build: Builder, flow: Flow, constant: Array) -> Flow:
    """`flow + constant` with broadcasting."""
    shape = broadcast_shape(call, flow.shape, tuple(constant.shape))
    flow = expanded(build, call, flow, shape)
    offset = np.broadcast_to(real(call, constant), shape).ravel()
    return shifted_by(build, call.name, flow, offset)


def _multiplied(call: Call, build: Builder, a: Flow | Array, b: Flow | Array) -> Value:
    if isinstance(a, Flow) and isinstance(b, np.ndarray):
        return _scaled(call, build, a, b)
    if isinstance(a, np.ndarray) and isinstance(b, Flow):
        return _scaled(call, build, b, a)
    raise call.refuse(
        "multiplies two values that both depend on the network's input; only a constant factor "
        "is an affine map"
    )


def _scaled(call: Call, build: Builder, flow: Flow, constant: Array) -> Flow:
    """`constant ∘ flow`."""
    shape = broadcast_shape(call, flow.shape, tuple(constant.shape))
    factor = real(call, constant)
    flow = expanded(build, call, flow, shape)
    return scaled_by(build, call.name, flow, np.broadcast_to(factor, shape).ravel())


def _divided(call: Call, build: Builder, a: Flow | Array, b: Flow | Array) -> Flow:
    if not isinstance(a, Flow) or not isinstance(b, np.ndarray):
        raise call.refuse("divides by a value that depends on the network's input")
    divisor = real(call, b)
    if not np.all(divisor):
        raise call.fault("divides by zero")
    shape = broadcast_shape(call, a.shape, tuple(b.shape))
    flow = expanded(build, call, a, shape)
    return scaled_by(build, call.name, flow, 1.0, np.broadcast_to(divisor, shape).ravel())


def real(call: Call, constant: Array) -> Array:
    """The constant in float64, which holds every smaller type; its numbers must be finite."""
    values = np.asarray(constant.astype(np.float64))
    bad = int(np.count_nonzero(~np.isfinite(values)))
    if bad:
        raise call.fault(
            f"has a constant that must be finite numbers, but {bad} of {values.size} entries are "
            "NaN or infinite"
        )
    return values


# --- factors, divisors and offsets ---


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
    hi, lo = two_product(entries, np.asarray(factor))
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
    if np.all(bottom == 1) and (made := _tuned(build, flow, name, gamma=top)) is not None:
        return made
    op = build.op(flow)
    plain = isinstance(op, Scaling) and not np.any(op.offset) and np.all(op.divisor == 1)
    if isinstance(op, Scaling) and plain and not flow.shared and np.all(top == 1):
        return build.exchange(flow, Scaling(op.factor, bottom), name)
    return build.emit(name, Scaling(top, bottom), (flow,), flow.shape)


def shifted_by(build: Builder, name: str, flow: Flow, offset: Array) -> Flow:
    """`flow + offset`: the bias of a map that has none yet and that nothing else uses, else new."""
    if not np.any(offset):
        return flow
    if (norm := _tuned(build, flow, name, beta=offset)) is not None:
        return norm
    op = build.op(flow)
    if isinstance(op, Dense | Sparse) and not flow.shared and not np.any(op.bias):
        return build.exchange(flow, Affine(op.weight, offset))
    if isinstance(op, Convolution) and not (flow.shared or op.fixed or np.any(op.offsets)):
        pixels = offset.reshape(op.channels, op.positions)
        if np.all(pixels == pixels[:, :1]):
            made = Convolution(op.kernel, op.geometry, pixels[:, 0], op.groups)
            return build.exchange(flow, made)
    if isinstance(op, Placement) and not flow.shared and _joined(build, flow, op, offset):
        return flow
    if isinstance(op, Scaling) and not flow.shared and not np.any(op.offset):
        return build.exchange(flow, Scaling(op.factor, op.divisor, offset), name)
    return build.emit(name, Scaling(np.ones(flow.size), offset=offset), (flow,), flow.shape)


def _joined(build: Builder, flow: Flow, op: Placement, offset: Array) -> bool:
    """Whether an offset became the bias of the token-wise map whose units are only moved here:
    nothing else can use the map itself, as it might use a convolution that the file transposes."""
    source = Flow(build.inputs(flow)[0], (op.inputs,))
    inner = build.op(source)
    if flow.node not in build.tokens or not isinstance(inner, Convolution) or inner.offsets.any():
        return False
    pixels = np.empty_like(offset)
    pixels[op.index] = offset
    pixels = pixels.reshape(inner.channels, inner.positions)
    if np.any(pixels != pixels[:, :1]):
        return False
    build.exchange(source, Convolution(inner.kernel, inner.geometry, pixels[:, 0], inner.groups))
    build.exchange(flow, op)  # what stands here has changed with it
    return True


def _tuned(
    build: Builder, flow: Flow, name: str, *, gamma: Array | None = None, beta: Array | None = None
) -> Flow | None:
    """The norm that a value is, with its factor or offset as gamma or beta, where it has none yet
    and they are the same at all positions; else None."""
    op = build.op(flow)
    if not isinstance(op, LiveNorm) or flow.shared or np.any(op.beta):
        return None
    if gamma is not None and np.any(op.gamma != 1):
        return None
    given = gamma if gamma is not None else beta
    assert given is not None
    rows = given.reshape(op.positions, op.channels)
    if not np.all(rows == rows[0]):
        return None
    made = op.tuned(rows[0], op.beta) if gamma is not None else op.tuned(op.gamma, rows[0])
    return build.exchange(flow, made, name)
