"""Activations, norms and what training leaves behind: Relu … Clip, BatchNormalization, Dropout.

onnxruntime has no float64 kernels for ELU, SELU and leaky ReLU. The writer spells them out,

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
from reconstruct.networks import (
    Activation,
    Cast,
    Clip,
    Elu,
    LeakyRelu,
    Norm,
    Relu,
    Scaling,
    Selu,
    Softmax,
)
from reconstruct.networks.activations import SMOOTH, Sigmoid, Silu

Array = NDArray[Any]
REASON = "uses Exp, which is supported only as a part of Elu: relu(h) + a·(exp(min(h, 0)) − 1)"
FLOAT, HALF, DOUBLE, BFLOAT = 1, 10, 11, 16  # ONNX's type numbers
# the types that hold every number of a type, and the digits of those that round
WIDER = {FLOAT: (FLOAT, DOUBLE), HALF: (HALF, FLOAT, DOUBLE), DOUBLE: (DOUBLE,)}
WIDER[BFLOAT] = (BFLOAT, FLOAT, DOUBLE)
DIGITS = {HALF: 11, BFLOAT: 8, FLOAT: 24}
NAMES = {HALF: "float16", BFLOAT: "bfloat16", FLOAT: "float32", DOUBLE: "float64"}


def _applied(call: Call, build: Builder, op: Activation) -> Flow:
    flow = call.flow()
    return build.emit(call.name, op, (flow,), flow.shape)


def relu(call: Call, build: Builder) -> Flow:
    return _applied(call, build, Relu())


def leaky_relu(call: Call, build: Builder) -> Flow:
    return _leaky(call, build, call.number("alpha"))


def prelu(call: Call, build: Builder) -> Flow:
    """PRelu with one slope for all values, which is a leaky ReLU."""
    flow, slope = call.flow(), call.constant(1, "slopes")
    if slope is not None and broadcast_shape(call, flow.shape, slope.shape) != flow.shape:
        raise call.fault(f"has slopes of shape {slope.shape} for values of shape {flow.shape}")
    if slope is None or not slope.size or np.any(slope != slope.flat[0]):
        raise call.refuse("has several slopes; one slope for all values is supported")
    return _leaky(call, build, float(slope.flat[0]))


def _leaky(call: Call, build: Builder, slope: float) -> Flow:
    if not math.isfinite(slope):
        raise call.fault(f"has the slope {slope}, but a finite number is needed")
    return _applied(call, build, LeakyRelu(slope) if slope else Relu())


def smooth(call: Call, build: Builder) -> Flow:
    """Sigmoid, Tanh, Softplus and Gelu; the approximation of Gelu by tanh is another function."""
    if call.attributes.get("approximate", "none") not in ("none", b"none"):
        raise call.refuse("is approximated by tanh; export GELU without the approximation")
    return _applied(call, build, SMOOTH[call.kind]())


def softmax(call: Call, build: Builder) -> Flow:
    """Over the last axis; before set 13 over all axes from `axis` on, taken together."""
    flow, axis = call.flow(), int(call.attributes["axis"]) % max(len(call.flow().shape), 1)
    if call.opset >= 13 and axis != len(flow.shape) - 1:
        raise call.refuse("is over another axis than the last; transpose the value around it")
    width = math.prod(flow.shape[axis:])
    return build.emit(call.name, Softmax(width, flow.size // width), (flow,), flow.shape)


def gated(call: Call, build: Builder, a: Flow, b: Flow) -> Flow | None:
    """SiLU, where one of two factors is the Sigmoid of the other."""
    for flow, gate in ((a, b), (b, a)):
        made = isinstance(build.op(gate), Sigmoid) and build.inputs(gate) == (flow.node,)
        if made and flow.shape == gate.shape:
            return build.emit(call.name, Silu(), (flow,), flow.shape)
    return None


def elu(call: Call, build: Builder) -> Flow:
    return _applied(call, build, Elu(call.number("alpha")))


def selu(call: Call, build: Builder) -> Flow:
    return _applied(call, build, Selu(call.number("alpha"), call.number("gamma")))


def clip(call: Call, build: Builder) -> Flow:
    """Clip with constant bounds, either of which may be absent; both absent is the identity.

    Bounds that are attributes (sets before 11) are never absent: they have finite defaults.
    """
    lo, hi = _end(call, 1, "min", -math.inf), _end(call, 2, "max", math.inf)
    if lo > hi:
        raise call.fault(f"clips to [{lo:g}, {hi:g}], which is empty")
    if lo == math.inf or hi == -math.inf:
        raise call.fault(f"clips to [{lo:g}, {hi:g}], which leaves no finite value")
    if math.isinf(lo) and math.isinf(hi):
        return call.flow()
    return _applied(call, build, Clip(lo, hi))


def _end(call: Call, index: int, name: str, absent: float) -> float:
    found = call.constant(index, "bounds")
    value = call.attributes.get(name, absent) if found is None else found
    if np.size(value) != 1:
        raise call.fault(f"needs a single number as its {name}")
    if np.any(np.isnan(np.asarray(value, dtype=np.float64))):
        raise call.fault(f"has NaN as its {name}, which is no finite number")
    return float(np.reshape(value, ()))


def batch_normalization(call: Call, build: Builder) -> Flow:
    """A norm with frozen statistics, one channel after the other along axis 1."""
    flow = call.flow()
    if call.attributes.get("training_mode", 0) or call.outputs > 1:
        raise call.refuse(
            "is in training mode, so that its statistics are not constants; export the model in "
            "evaluation mode"
        )
    if not call.attributes.get("spatial", 1):
        raise call.refuse("has statistics per position (spatial = 0); export it per channel")
    parts = [call.constant(i, "statistics or parameters") for i in range(1, 5)]
    if any(p is None for p in parts):
        raise call.fault("lacks some of scale, bias, mean and variance")
    channels = flow.shape[1] if len(flow.shape) > 1 else 1  # a tensor of rank 1 is one channel
    stated = {int(p.size) for p in parts if p is not None}
    if stated != {channels}:
        raise call.fault(
            f"has {', '.join(map(str, sorted(stated)))} channels, but was given shape {flow.shape}"
        )
    count = flow.shape[0] if flow.shape else 1
    gamma, beta, mean, var = (np.tile(p.ravel(), count) for p in parts if p is not None)
    eps = call.number("epsilon")
    norm = Norm(gamma, beta, mean, var, eps, math.prod(flow.shape[2:]))
    return build.emit(call.name, norm, (flow,), flow.shape)


def dropout(call: Call, build: Builder) -> Flow:
    """The identity at inference; a Dropout that is set to train is refused."""
    training = call.constant(2, "settings")
    if training is not None and np.any(training):
        raise call.refuse("is in training mode; export the model in evaluation mode")
    return call.flow()


def cast(call: Call, build: Builder) -> Flow:
    """The same value where every number of its type is one of the goal; else a rounding."""
    flow, here, goal = call.flow(), call.kinds[0], int(call.attributes["to"])
    if here not in WIDER or goal not in WIDER:
        raise call.refuse(
            f"converts a value of the network to {NAMES.get(goal, 'another type')}; casts "
            f"between {', '.join(NAMES.values())} are supported"
        )
    if goal in WIDER[here]:
        return flow
    return build.emit(call.name, Cast(flow.size, DIGITS[goal]), (flow,), flow.shape)


# --- activations in basic steps ---


def exponential(call: Call, build: Builder) -> Tail:
    """`exp(min(h, 0))`, the beginning of an ELU; any other Exp is refused."""
    flow = call.flow()
    if build.op(flow) != Clip(-np.inf, 0.0):
        raise call.refuse(REASON)
    return Tail(Flow(build.inputs(flow)[0], flow.shape))


def elu_step(call: Call, build: Builder) -> Value:
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


def scaled_elu(call: Call, build: Builder, flow: Flow, factor: float) -> Flow | None:
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
