"""Operators that treat each value or channel by itself: arithmetic, activations, norms, casts.

Neutral constants (0 added, 1 multiplied) leave nothing behind. A constant added to a product that
has no bias yet becomes its bias, exactly. Any other shift, factor or divisor is an operation of its
own, as the file states it: `x/3` is not `x·fl(1/3)`, and `alpha·W` is rarely a float64 matrix. What
float64 holds exactly becomes a weight or a bias; a second offset carries what the first one lost.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from reconstruct.formats.onnx.steps import recognised
from reconstruct.formats.onnx.values import (
    DIGITS,
    NAMES,
    WIDER,
    Builder,
    Call,
    Flow,
    Unfinished,
    Value,
    broadcast_shape,
    expanded,
)
from reconstruct.networks import (
    Activation,
    Add,
    Affine,
    Cast,
    Clip,
    Convolution,
    Dense,
    Elu,
    LayerNorm,
    LeakyRelu,
    LiveNorm,
    Norm,
    Placement,
    Relu,
    RMSNorm,
    Scaling,
    Selu,
    Softmax,
    Sparse,
)
from reconstruct.networks.activations import SMOOTH
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.double_double import two_product

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


# --- activations, norms and casts ------------------------------------------------------------

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
    flat = (p.reshape(-1) for p in parts if p is not None)
    gamma, beta, mean, var = (np.tile(p, count) if count > 1 else p for p in flat)
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
