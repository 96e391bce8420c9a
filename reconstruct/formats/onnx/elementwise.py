"""Add, Sub, Mul, Div, Neg and Sum: branches that meet, and constants that shift or scale.

Neutral constants (0 added, 1 multiplied) leave nothing behind. A constant added to a product that
has no bias yet becomes its bias, exactly. Any other becomes an affine map of its own with a
diagonal weight, which merging later joins to its neighbour.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.formats.onnx import elu
from reconstruct.formats.onnx.values import (
    Builder,
    Call,
    Flow,
    Tail,
    Value,
    broadcast_shape,
    diagonal,
    expanded,
)
from reconstruct.networks import Add, Affine, Dense, Sparse

Array = NDArray[Any]


def arithmetic(call: Call, build: Builder) -> Value:
    """Add, Sub, Mul or Div of two tensors, with ONNX's broadcasting."""
    if any(isinstance(value, Tail) for value in call.inputs):
        return elu.arithmetic(call, build)
    a, b = call.value(0), call.value(1)
    _check_old_broadcast(call)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return _folded(call, a, b)
    if call.kind == "Add":
        return add_values(call, build, a, b)
    if call.kind == "Sub":
        return add_values(call, build, a, negated(call, build, b))
    if call.kind == "Mul":
        return _multiplied(call, build, a, b)
    return _divided(call, build, a, b)


def negate(call: Call, build: Builder) -> Flow | Array:
    return negated(call, build, call.value())


def total(call: Call, build: Builder) -> Flow | Array:
    """Sum of any number of tensors: the ones that depend on the input first, then the constants."""
    values = [call.value(i) for i in range(len(call.inputs))]
    flows = [v for v in values if isinstance(v, Flow)]
    constants = [v for v in values if isinstance(v, np.ndarray)]
    if not values:
        raise call.fault("has no inputs")
    if not flows:
        return reduce(np.add, [c.astype(np.float64) for c in constants])
    shape = broadcast_shape(call, *(tuple(v.shape) for v in values))
    flows = [expanded(build, call, flow, shape) for flow in flows]
    made = flows[0] if len(flows) == 1 else build.emit(call.name, Add(), tuple(flows), shape)
    return reduce(lambda flow, c: _shifted(call, build, flow, c), constants, made)


def add_values(call: Call, build: Builder, a: Flow | Array, b: Flow | Array) -> Flow:
    """`a + b` where at least one depends on the input."""
    if isinstance(a, Flow) and isinstance(b, Flow):
        shape = broadcast_shape(call, a.shape, b.shape)
        both = expanded(build, call, a, shape), expanded(build, call, b, shape)
        return build.emit(call.name, Add(), both, shape)
    if isinstance(a, Flow) and isinstance(b, np.ndarray):
        return _shifted(call, build, a, b)
    assert isinstance(a, np.ndarray) and isinstance(b, Flow)
    return _shifted(call, build, b, a)


def _shifted(call: Call, build: Builder, flow: Flow, constant: Array) -> Flow:
    shape = broadcast_shape(call, flow.shape, tuple(constant.shape))
    flow = expanded(build, call, flow, shape)
    offset = np.broadcast_to(constant.astype(np.float64), shape).ravel()
    if not np.any(offset):
        return flow
    op = build.op(flow)
    if isinstance(op, Dense | Sparse) and not flow.shared and not np.any(op.bias):
        build.exchange(flow, Affine(op.weight, offset))
        return flow
    return build.emit(call.name, Affine(diagonal(np.ones(flow.size)), offset), (flow,), shape)


def negated(call: Call, build: Builder, value: Flow | Array) -> Flow | Array:
    if isinstance(value, np.ndarray):
        return -(value if value.dtype.kind == "i" else value.astype(np.float64))
    return scaled(call, build, value, np.array(-1.0))


def _multiplied(call: Call, build: Builder, a: Flow | Array, b: Flow | Array) -> Flow:
    if isinstance(a, Flow) and isinstance(b, np.ndarray):
        return scaled(call, build, a, b)
    if isinstance(a, np.ndarray) and isinstance(b, Flow):
        return scaled(call, build, b, a)
    raise call.refuse(
        "multiplies two values that both depend on the network's input; only a constant factor "
        "is an affine map"
    )


def _divided(call: Call, build: Builder, a: Flow | Array, b: Flow | Array) -> Flow:
    if not isinstance(a, Flow) or not isinstance(b, np.ndarray):
        raise call.refuse("divides by a value that depends on the network's input")
    if not np.all(b):
        raise call.fault("divides by zero")
    return scaled(call, build, a, 1 / b.astype(np.float64))


def scaled(call: Call, build: Builder, flow: Flow, constant: Array) -> Flow:
    """`constant ∘ flow`; a scaled ELU is read as SELU."""
    shape = broadcast_shape(call, flow.shape, tuple(constant.shape))
    if constant.size == 1 and (selu := elu.scaled(call, build, flow, float(constant.item()))):
        return replace(selu, shape=shape)
    flow = expanded(build, call, flow, shape)
    factor = np.broadcast_to(constant.astype(np.float64), shape).ravel()
    if np.all(factor == 1):
        return flow
    return build.emit(call.name, Affine(diagonal(factor)), (flow,), shape)


def _folded(call: Call, a: Array, b: Array) -> Array:
    broadcast_shape(call, tuple(a.shape), tuple(b.shape))
    if a.dtype.kind in "iu" and b.dtype.kind in "iu":
        if call.kind == "Div":
            return np.asarray(np.trunc(a / b).astype(np.int64))
    else:
        a, b = a.astype(np.float64), b.astype(np.float64)
    steps = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
    with np.errstate(all="ignore"):
        return np.asarray(steps[call.kind](a, b))


def _check_old_broadcast(call: Call) -> None:
    if call.opset < 7 and call.attributes.get("axis") is not None:
        raise call.refuse("broadcasts along an axis as opsets before 7 did; export it anew")
