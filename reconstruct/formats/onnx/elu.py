"""ELU, SELU and leaky ReLU written in basic steps, as float64 files need them.

onnxruntime has no float64 kernels for these three. The writer spells them out,

    leaky(h) = max(h, slope·h),    elu(h) = relu(h) + alpha·(exp(min(h, 0)) − 1),
    selu(h) = gamma·elu(h),

with `min` in place of `max` for a slope above 1, and here the steps are recognised again.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.formats.onnx.values import Builder, Call, Flow, Tail, Value
from reconstruct.networks import Clip, Dense, Elu, LeakyRelu, Relu, Selu, Sparse, dense

Array = NDArray[Any]
REASON = "uses Exp, which is supported only as a part of Elu: relu(h) + a·(exp(min(h, 0)) − 1)"


def exponential(call: Call, build: Builder) -> Tail:
    """`exp(min(h, 0))`, the beginning of an ELU; any other Exp is refused."""
    flow = call.value()
    op = build.op(flow) if isinstance(flow, Flow) else None
    if not isinstance(flow, Flow) or not isinstance(op, Clip) or op != Clip(-np.inf, 0.0):
        raise call.refuse(REASON)
    return Tail(build.nodes[flow.node].inputs[0])


def arithmetic(call: Call, build: Builder) -> Value:
    """The next step of an ELU: `· − 1`, `alpha · ·`, and `relu(h) + ·`."""
    a, b = call.get(0), call.get(1)
    if call.kind == "Sub" and isinstance(a, Tail) and _scalar(b) == 1 and a == Tail(a.base):
        return Tail(a.base, 1.0, -1.0)
    tail, other = (a, b) if isinstance(a, Tail) else (b, a)
    if not isinstance(tail, Tail) or tail.offset != -1:
        raise call.refuse(REASON)
    factor = _scalar(other)
    if call.kind == "Mul" and factor is not None and tail.scale == 1:
        return Tail(tail.base, factor, -1.0)
    if call.kind == "Add" and isinstance(other, Flow) and isinstance(build.op(other), Relu):
        node = build.nodes[other.node]
        if node.inputs[0] == tail.base:
            base = Flow(tail.base, other.shape)
            return build.emit(call.name, Elu(tail.scale), (base,), other.shape)
    raise call.refuse(REASON)


def scaled(call: Call, build: Builder, flow: Flow, factor: float) -> Flow | None:
    """SELU, when an ELU that nothing else uses is multiplied by a number."""
    op = build.op(flow)
    if not isinstance(op, Elu) or flow.shared:
        return None
    base = Flow(build.nodes[flow.node].inputs[0], flow.shape)
    return build.emit(call.name, Selu(op.alpha, factor), (base,), flow.shape)


def extremum(call: Call, build: Builder) -> Flow | Array:
    """Max or Min: of a value and a number (a Clip), or of a value and a multiple (leaky ReLU)."""
    values = [call.value(i) for i in range(len(call.inputs))]
    constants = [v for v in values if isinstance(v, np.ndarray)]
    if len(constants) == len(values):
        return reduce(np.maximum if call.kind == "Max" else np.minimum, constants)
    if len(values) == 2:
        for a, b in (values, values[::-1]):
            if isinstance(a, Flow) and (made := _bounded(call, build, a, b)):
                return made
    raise call.refuse(
        "is supported of a value and a number, or of a value and a multiple of it (leaky ReLU)"
    )


def _bounded(call: Call, build: Builder, flow: Flow, other: Flow | Array) -> Flow | None:
    number = _scalar(other)
    if number is not None:
        clip = Clip(number, np.inf) if call.kind == "Max" else Clip(-np.inf, number)
        op = Relu() if call.kind == "Max" and number == 0 else clip
        return build.emit(call.name, op, (flow,), flow.shape)
    slope = _multiple(build, flow, other) if isinstance(other, Flow) else None
    if slope is None or (slope <= 1) != (call.kind == "Max"):
        return None
    return build.emit(call.name, LeakyRelu(slope), (flow,), flow.shape)


def _multiple(build: Builder, flow: Flow, other: Flow) -> float | None:
    """c when `other = c·flow`, made by a multiplication with one number."""
    op = build.op(other)
    if not isinstance(op, Dense | Sparse) or build.nodes[other.node].inputs != (flow.node,):
        return None
    if op.weight.shape[0] != op.weight.shape[1] or np.any(op.bias):
        return None
    values = op.weight.diagonal()
    off = op.weight.count_nonzero() if not isinstance(op.weight, np.ndarray) else None
    count = off if off is not None else int(np.count_nonzero(dense(op.weight)))
    same = bool(np.all(values == values[0])) and count == np.count_nonzero(values)
    return float(values[0]) if same else None


def _scalar(value: Value | None) -> float | None:
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "fiu":
        return float(value.item())
    return None
