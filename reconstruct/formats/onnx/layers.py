"""Activations, norms and what training leaves behind: Relu … Clip, norms, Dropout, Cast."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.formats.onnx.steps import recognised
from reconstruct.formats.onnx.values import (
    Builder,
    Call,
    Flow,
    Unfinished,
    broadcast_shape,
    expanded,
)
from reconstruct.networks import (
    Activation,
    Cast,
    Clip,
    Elu,
    LayerNorm,
    LeakyRelu,
    LiveNorm,
    Norm,
    Relu,
    RMSNorm,
    Selu,
    Softmax,
)
from reconstruct.networks.activations import SMOOTH

Array = NDArray[Any]
FLOAT, HALF, DOUBLE, BFLOAT = 1, 10, 11, 16  # ONNX's type numbers
# the types that hold every number of a type, and the digits of those that round
WIDER = {FLOAT: (FLOAT, DOUBLE), HALF: (HALF, FLOAT, DOUBLE), DOUBLE: (DOUBLE,)}
WIDER[BFLOAT] = (BFLOAT, FLOAT, DOUBLE)
DIGITS = {HALF: 11, BFLOAT: 8, FLOAT: 24}
NAMES = {HALF: "float16", BFLOAT: "bfloat16", FLOAT: "float32", DOUBLE: "float64"}

CHANNELWISE = (
    "has statistics for each {what}, which do not share one deviation; LayerNorm, RMSNorm and a "
    "GroupNorm of one group are read"
)


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


def layer_normalization(call: Call, build: Builder) -> Flow:
    return _normalised(call, build, LayerNorm, call.constant(2, "parameters"))


def rms_normalization(call: Call, build: Builder) -> Flow:
    return _normalised(call, build, RMSNorm, None)


def _normalised(call: Call, build: Builder, kind: type[LiveNorm], beta: Array | None) -> Flow:
    """Over the axes from `axis` on, all of them together."""
    flow, axis = call.flow(), int(call.attributes["axis"])
    if call.outputs > 1:
        raise call.refuse("hands on its statistics; only its value is read")
    axis %= len(flow.shape)
    if axis == 0:
        raise call.refuse("normalises over the batch; each example by itself is read")
    over = flow.shape[axis:]
    gamma = call.constant(1, "parameters")
    scale, offset = (
        np.broadcast_to(np.asarray(part, np.float64), over).ravel()
        for part in (1.0 if gamma is None else gamma, 0.0 if beta is None else beta)
    )
    op = kind(scale, offset, call.number("epsilon"), math.prod(flow.shape[:axis]))
    return build.emit(call.name, op, (flow,), flow.shape)


def group_normalization(call: Call, build: Builder) -> Flow:
    """One group is LayerNorm over all units, with gamma and beta of each channel."""
    flow, groups = call.flow(), int(call.attributes["num_groups"])
    if groups != 1:
        raise call.refuse(
            f"has {groups} groups, " + CHANNELWISE.format(what="group").removeprefix("has ")
        )
    parts = []
    for index in (1, 2):
        part = call.constant(index, "parameters")
        assert part is not None
        column = part.astype(np.float64).reshape(-1, *[1] * (len(flow.shape) - 2))
        parts.append(np.broadcast_to(column, flow.shape[1:]).ravel())
    op = LayerNorm(parts[0], parts[1], call.number("epsilon"))
    return build.emit(call.name, op, (flow,), flow.shape)


def instance_normalization(call: Call, build: Builder) -> Flow:
    raise call.refuse(CHANNELWISE.format(what="channel"))


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


def extremum(call: Call, build: Builder) -> Flow | Unfinished:
    """Max or Min: of a value and a number (a Clip), or of a value and a multiple (leaky ReLU)."""
    if (made := recognised(call, build, call.kind, call.inputs)) is not None:
        return made
    values = [call.value(i) for i in range(len(call.inputs))]
    if len(values) == 1:
        return call.flow()
    for flow, other in (values, values[::-1]) if len(values) == 2 else ():
        number = _number(other) if isinstance(other, np.ndarray) else None
        if isinstance(flow, Flow) and isinstance(other, np.ndarray) and number is not None:
            return _limited(call, build, flow, number, other.shape)
    raise call.refuse(
        "is supported of a value and a number, or of a value and a multiple of it (leaky ReLU)"
    )


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


def _number(value: Array) -> float | None:
    """The number that all entries of a constant are, if they are all the same."""
    if not value.size or value.dtype.kind in "OSU":
        return None
    values = value.astype(np.float64).ravel()
    return float(values[0]) if np.all(values == values[0]) or values.size == 1 else None
