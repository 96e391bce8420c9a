"""Activations, norms and what training leaves behind: Relu … Clip, BatchNormalization, Dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.formats.onnx.values import Builder, Call, Flow, diagonal
from reconstruct.networks import Activation, Affine, Clip, Elu, LeakyRelu, Norm, Relu, Selu

Array = NDArray[Any]
FLOATS = {1: "float32", 10: "float16", 11: "float64", 16: "bfloat16"}  # ONNX's type numbers


def _applied(call: Call, build: Builder, op: Activation) -> Flow | Array:
    value = call.value()
    if isinstance(value, np.ndarray):
        return op(value.astype(np.float64))
    return build.emit(call.name, op, (value,), value.shape)


def relu(call: Call, build: Builder) -> Flow | Array:
    return _applied(call, build, Relu())


def leaky_relu(call: Call, build: Builder) -> Flow | Array:
    return _leaky(call, build, float(call.attributes.get("alpha", np.float32(0.01))))


def prelu(call: Call, build: Builder) -> Flow | Array:
    """PRelu with one slope for all values, which is a leaky ReLU."""
    slope = call.constant(1, "slopes")
    if slope is None or not slope.size or np.any(slope != slope.flat[0]):
        raise call.refuse("has several slopes; one slope for all values is supported")
    return _leaky(call, build, float(slope.flat[0]))


def _leaky(call: Call, build: Builder, slope: float) -> Flow | Array:
    if not 0 <= slope <= 1:
        raise call.refuse(f"has the slope {slope:g}; slopes from 0 to 1 are supported")
    return _applied(call, build, LeakyRelu(slope) if slope else Relu())


def elu(call: Call, build: Builder) -> Flow | Array:
    return _applied(call, build, Elu(float(call.attributes.get("alpha", 1.0))))


def selu(call: Call, build: Builder) -> Flow | Array:
    default = Selu()
    alpha = float(call.attributes.get("alpha", default.alpha))
    return _applied(call, build, Selu(alpha, float(call.attributes.get("gamma", default.gamma))))


def clip(call: Call, build: Builder) -> Flow | Array:
    """Clip with constant bounds, either of which may be absent."""
    bounds: list[float] = []
    for index, name, absent in ((1, "min", -np.inf), (2, "max", np.inf)):
        found = call.constant(index, "bounds")
        value = call.attributes.get(name, absent) if found is None else found
        if np.size(value) != 1 or np.any(np.isnan(value)):
            raise call.fault(f"needs a single number as its {name}")
        bounds.append(float(np.reshape(value, ())))
    if bounds[0] > bounds[1]:
        raise call.fault(f"clips to [{bounds[0]:g}, {bounds[1]:g}], which is empty")
    return _applied(call, build, Clip(*bounds))


def batch_normalization(call: Call, build: Builder) -> Flow:
    """A Norm with frozen statistics; an affine map where one channel covers several values."""
    value = call.value()
    trains = call.attributes.get("training_mode", 0) or call.outputs > 1
    if trains or (call.opset < 7 and not call.attributes.get("is_test", 0)):
        raise call.refuse(
            "is in training mode, so that its statistics are not constants; export the model in "
            "evaluation mode"
        )
    if not isinstance(value, Flow):
        raise call.refuse("acts on a constant")
    parts = [call.constant(i, "statistics or parameters") for i in range(1, 5)]
    if any(p is None for p in parts):
        raise call.fault("lacks some of scale, bias, mean and variance")
    gamma, beta, mean, var = (p.ravel() for p in parts if p is not None)
    norm = Norm(gamma, beta, mean, var, float(call.attributes.get("epsilon", np.float32(1e-5))))
    channels = value.shape[1] if len(value.shape) > 1 else math.prod(value.shape)
    if channels != gamma.size:
        raise call.fault(f"has {gamma.size} channels, but was given shape {value.shape}")
    if value.size == channels:
        return build.emit(call.name, norm, (value,), value.shape)
    inner = math.prod(value.shape[2:])
    s, t = (np.tile(np.repeat(v, inner), value.shape[0]) for v in norm.effective())
    build.notes.append(f"{call.name}: one channel covers several values, read as an affine map")
    return build.emit(call.name, Affine(diagonal(s), t), (value,), value.shape)


def dropout(call: Call, build: Builder) -> Flow | Array:
    """The identity at inference; a Dropout that is set to train is refused."""
    training = call.constant(2, "settings")
    old = call.opset < 7 and not call.attributes.get("is_test", 0)
    if old or (training is not None and np.any(training)):
        raise call.refuse("is in training mode; export the model in evaluation mode")
    return call.value()


def cast(call: Call, build: Builder) -> Flow | Array:
    """Between float types the identity (noted); constants are converted."""
    value, kind = call.value(), int(call.attributes.get("to", 0))
    if isinstance(value, np.ndarray):
        return value.astype(np.float64 if kind in FLOATS else np.int64)
    if kind not in FLOATS:
        raise call.refuse("converts to a type that is not a float, which is not an affine map")
    build.notes.append(f"{call.name}: a conversion to {FLOATS[kind]} is read as the identity")
    return value


def constant(call: Call, build: Builder) -> Array:
    """The value of a Constant node, in whichever attribute it is kept."""
    for name, kind in (
        ("value", None),
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if name in call.attributes:
            return np.asarray(call.attributes[name], dtype=kind)
    raise call.refuse("holds a value that is neither a tensor nor numbers")
