"""ELU, SELU and leaky ReLU written in basic steps, as float64 files need them; Max and Min.

onnxruntime has no float64 kernels for these three. The writer spells them out,

    leaky(h) = max(h, slope·h),    elu(h) = relu(h) + alpha·(exp(min(h, 0)) − 1),
    selu(h) = gamma·elu(h),

with `min` in place of `max` for a slope above 1, and here the steps are recognised again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.formats.onnx.values import (
    Builder,
    Call,
    Flow,
    Tail,
    Value,
    broadcast_shape,
    expanded,
)
from reconstruct.networks import Clip, Elu, LeakyRelu, Relu, Scaling, Selu

Array = NDArray[Any]
REASON = "uses Exp, which is supported only as a part of Elu: relu(h) + a·(exp(min(h, 0)) − 1)"


def exponential(call: Call, build: Builder) -> Tail:
    """`exp(min(h, 0))`, the beginning of an ELU; any other Exp is refused."""
    flow = call.flow()
    if build.op(flow) != Clip(-np.inf, 0.0):
        raise call.refuse(REASON)
    return Tail(Flow(build.inputs(flow)[0], flow.shape))


def arithmetic(call: Call, build: Builder) -> Value:
    """The next step of an ELU: `· − 1`, `alpha · ·`, and `relu(h) + ·`, all of one shape."""
    a, b = call.get(0), call.get(1)
    if call.kind == "Sub" and isinstance(a, Tail) and _fits(a, b) == 1 and a == Tail(a.base):
        return Tail(a.base, 1.0, -1.0)
    tail, other = (a, b) if isinstance(a, Tail) else (b, a)
    if not isinstance(tail, Tail) or tail.offset != -1:
        raise call.refuse(REASON)
    factor = _fits(tail, other)
    if call.kind == "Mul" and factor is not None and math.isfinite(factor) and tail.scale == 1:
        return Tail(tail.base, factor, -1.0)
    if call.kind == "Add" and isinstance(other, Flow) and _is_relu(build, other, tail.base):
        return build.emit(call.name, Elu(tail.scale), (tail.base,), other.shape)
    raise call.refuse(REASON)


def _is_relu(build: Builder, flow: Flow, base: Flow) -> bool:
    """Whether the flow is the ReLU of the base, in the same shape."""
    same = build.inputs(flow) == (base.node,) and flow.shape == base.shape
    return same and isinstance(build.op(flow), Relu)


def _fits(tail: Tail, value: Value | None) -> float | None:
    """The number that a constant is, if it leaves the tail's shape as it is."""
    if not isinstance(value, np.ndarray) or value.size != 1 or value.ndim > len(tail.shape):
        return None
    return _number(value)


def scaled(call: Call, build: Builder, flow: Flow, factor: float) -> Flow | None:
    """SELU, when an ELU that nothing else uses is multiplied by a positive number."""
    op = build.op(flow)
    if not isinstance(op, Elu) or flow.shared or factor <= 0:
        return None
    base = Flow(build.inputs(flow)[0], flow.shape)
    return build.emit(call.name, Selu(op.alpha, factor), (base,), flow.shape)


def extremum(call: Call, build: Builder) -> Flow:
    """Max or Min: of a value and a number (a Clip), or of a value and a multiple (leaky ReLU)."""
    values = [call.value(i) for i in range(len(call.inputs))]
    if len(values) == 1:
        return call.flow()
    if len(values) == 2:
        for a, b in (values, values[::-1]):
            if isinstance(a, Flow) and (made := _bounded(call, build, a, b)):
                return made
    raise call.refuse(
        "is supported of a value and a number, or of a value and a multiple of it (leaky ReLU)"
    )


def _bounded(call: Call, build: Builder, flow: Flow, other: Flow | Array) -> Flow | None:
    if isinstance(other, np.ndarray):
        number = _number(other)
        return None if number is None else _limited(call, build, flow, number, other.shape)
    slope = _multiple(build, flow, other)
    if slope is None or (slope <= 1) != (call.kind == "Max"):
        return None
    return build.emit(call.name, LeakyRelu(slope), (flow,), flow.shape)


def _limited(call: Call, build: Builder, flow: Flow, number: float, shape: tuple[int, ...]) -> Flow:
    """`max(flow, number)` or `min(flow, number)` in the shape that both have together."""
    empty = math.inf if call.kind == "Max" else -math.inf
    if math.isnan(number) or number == empty:
        raise call.fault(f"bounds its values by {number}, which leaves no finite value")
    flow = expanded(build, call, flow, broadcast_shape(call, flow.shape, shape))
    if math.isinf(number):
        return flow
    clip = Clip(number, math.inf) if call.kind == "Max" else Clip(-math.inf, number)
    op = Relu() if call.kind == "Max" and number == 0 else clip
    return build.emit(call.name, op, (flow,), flow.shape)


def _multiple(build: Builder, flow: Flow, other: Flow) -> float | None:
    """c when `other = c·flow`, in the same shape, made by a multiplication with one number."""
    op = build.op(other)
    if build.inputs(other) != (flow.node,) or other.shape != flow.shape:
        return None
    if not isinstance(op, Scaling) or np.any(op.offset) or np.any(op.divisor != 1):
        return None
    factors = op.factor
    return float(factors[0]) if np.all(factors == factors[0]) else None


def _number(value: Array) -> float | None:
    """The number that all entries of a constant are, if they are all the same."""
    if not value.size or value.dtype.kind in "OSU":
        return None
    values = value.astype(np.float64).ravel()
    return float(values[0]) if np.all(values == values[0]) or values.size == 1 else None
