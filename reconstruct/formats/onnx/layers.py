"""Activations, norms and what training leaves behind: Relu … Clip, BatchNormalization, Dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.formats.onnx.values import Builder, Call, Flow, broadcast_shape
from reconstruct.networks import Activation, Clip, Elu, LeakyRelu, Norm, Relu, Selu

Array = NDArray[Any]
FLOATS = {1: "float32", 10: "float16", 11: "float64", 16: "bfloat16"}  # ONNX's type numbers


def _applied(call: Call, build: Builder, op: Activation) -> Flow:
    flow = call.flow()
    return build.emit(call.name, op, (flow,), flow.shape)


def relu(call: Call, build: Builder) -> Flow:
    return _applied(call, build, Relu())


def leaky_relu(call: Call, build: Builder) -> Flow:
    return _leaky(call, build, call.number("alpha", float(np.float32(0.01))))


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


def elu(call: Call, build: Builder) -> Flow:
    return _applied(call, build, Elu(call.number("alpha", 1.0)))


def selu(call: Call, build: Builder) -> Flow:
    default = Selu()
    alpha, gamma = call.number("alpha", default.alpha), call.number("gamma", default.gamma)
    return _applied(call, build, Selu(alpha, gamma))


def clip(call: Call, build: Builder) -> Flow:
    """Clip with constant bounds, either of which may be absent; both absent is the identity."""
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
    trains = call.attributes.get("training_mode", 0) or call.outputs > 1
    if trains or (call.opset < 7 and not call.attributes.get("is_test", 0)):
        raise call.refuse(
            "is in training mode, so that its statistics are not constants; export the model in "
            "evaluation mode"
        )
    if call.opset < 9 and not call.attributes.get("spatial", 1):
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
    eps = call.number("epsilon", float(np.float32(1e-5)))
    norm = Norm(gamma, beta, mean, var, eps, math.prod(flow.shape[2:]))
    return build.emit(call.name, norm, (flow,), flow.shape)


def dropout(call: Call, build: Builder) -> Flow:
    """The identity at inference; a Dropout that is set to train is refused."""
    training = call.constant(2, "settings")
    old = call.opset < 7 and not call.attributes.get("is_test", 0)
    if old or (training is not None and np.any(training)):
        raise call.refuse("is in training mode; export the model in evaluation mode")
    return call.flow()


def cast(call: Call, build: Builder) -> Flow:
    """Between float types the identity (noted)."""
    flow, kind = call.flow(), int(call.attributes.get("to", 0))
    if kind not in FLOATS:
        raise call.refuse("converts to a type that is not a float, which is not an affine map")
    build.notes.append(f"{call.name}: a conversion to {FLOATS[kind]} is read as the identity")
    return flow
