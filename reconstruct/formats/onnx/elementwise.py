"""Add, Sub, Mul, Div, Neg and Sum: branches that meet, and constants that shift or scale.

Neutral constants (0 added, 1 multiplied) leave nothing behind. A constant added to a product that
has no bias yet becomes its bias, exactly. Any other shift, factor or divisor is an operation of its
own, as the file states it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.formats.onnx import elu
from reconstruct.formats.onnx.scaling import scaled_by, shifted_by
from reconstruct.formats.onnx.values import (
    Builder,
    Call,
    Flow,
    Tail,
    Value,
    broadcast_shape,
    expanded,
)
from reconstruct.networks import Add

Array = NDArray[Any]


def arithmetic(call: Call, build: Builder) -> Value:
    """Add, Sub, Mul or Div of two tensors, with ONNX's broadcasting."""
    if any(isinstance(value, Tail) for value in call.inputs):
        return elu.arithmetic(call, build)
    a, b = call.value(0), call.value(1)
    _check_old_broadcast(call)
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


def _multiplied(call: Call, build: Builder, a: Flow | Array, b: Flow | Array) -> Flow:
    if isinstance(a, Flow) and isinstance(b, np.ndarray):
        return _scaled(call, build, a, b)
    if isinstance(a, np.ndarray) and isinstance(b, Flow):
        return _scaled(call, build, b, a)
    raise call.refuse(
        "multiplies two values that both depend on the network's input; only a constant factor "
        "is an affine map"
    )


def _scaled(call: Call, build: Builder, flow: Flow, constant: Array) -> Flow:
    """`constant ∘ flow`; a scaled ELU is read as SELU."""
    shape = broadcast_shape(call, flow.shape, tuple(constant.shape))
    factor = real(call, constant)
    if factor.size == 1 and (selu := elu.scaled(call, build, flow, float(factor.item()))):
        return replace(selu, shape=shape)
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


def _check_old_broadcast(call: Call) -> None:
    old = call.attributes.get("axis") is not None or call.attributes.get("broadcast")
    if call.opset < 7 and old:
        raise call.refuse("broadcasts as opsets before 7 did; export it anew")
