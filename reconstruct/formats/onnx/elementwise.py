"""Operators that treat each value or channel by itself: arithmetic, activations, norms, casts.

Neutral constants (0 added, 1 multiplied) leave nothing behind. A constant added to a product that
has no bias yet becomes its bias, exactly. Any other shift, factor or divisor is an operation of its
own, as the file states it: `x/3` is not `x·fl(1/3)`, and `alpha·W` is rarely a float64 matrix. What
float64 holds exactly becomes a weight or a bias; a second offset carries what the first one lost.

Numbers that an operation cannot have (NaN, a divisor of 0, crossed ends) it refuses itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from reconstruct.formats.onnx.steps import recognised
from reconstruct.formats.onnx.values import DIGITS, NAMES, WIDER, Builder, Call, Flow, Value
from reconstruct.networks import Add, Convolution, Placement, Relu, Scaling, activations, maps
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.double_double import two_product

SAFE = (2.0**-480, 2.0**480)  # magnitudes whose products and remainders neither over- nor underflow


def total(call: Call, build: Builder) -> Value:
    """Add, Sub and Sum with ONNX's broadcasting: what depends on the input first, then the rest."""
    if (made := recognised(call, build, call.kind, *call.inputs)) is not None:
        return made
    terms = [call.spread(build, i) for i in range(len(call.inputs))]
    if call.kind == "Sub" and isinstance(terms[1], Flow):
        terms[1] = scaled_by(build, f"{call.name}/negated", terms[1], -1.0)
    elif call.kind == "Sub":
        terms[1] = -np.asarray(terms[1])
    flows = [term for term in terms if isinstance(term, Flow)]
    found = flows[0] if len(flows) == 1 else build.emit(call.name, Add(), *flows)
    for term in terms:
        if isinstance(term, np.ndarray):
            found = shifted_by(build, call.name, found, term)
    return found


def product(call: Call, build: Builder) -> Value:
    """Mul and Div with ONNX's broadcasting."""
    if (made := recognised(call, build, call.kind, *call.inputs)) is not None:
        return made
    first, second = (call.spread(build, i) for i in range(2))
    if call.kind == "Mul" and isinstance(second, Flow):
        first, second = second, first
    if isinstance(first, np.ndarray) or isinstance(second, Flow):
        raise call.refuse(
            f"{'multiplies' if call.kind == 'Mul' else 'divides'} by a value that depends on the "
            f"network's input; only a constant factor is an affine map"
        )
    factors = (second, 1.0) if call.kind == "Mul" else (1.0, second)
    return scaled_by(build, call.name, first, *factors)


def negate(call: Call, build: Builder) -> Flow:
    return scaled_by(build, call.name, call.flow(), -1.0)


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
    return build.emit(name, Scaling(top, bottom), flow)


def shifted_by(build: Builder, name: str, flow: Flow, offset: Array) -> Flow:
    """`flow + offset`: the bias of a map that has none yet and that nothing else uses, else new."""
    if not np.any(offset):
        return flow
    if (norm := _tuned(build, flow, name, beta=offset)) is not None:
        return norm
    op = None if flow.shared else build.op(flow)
    if isinstance(op, maps.Dense | maps.Sparse) and not np.any(op.bias):
        return build.exchange(flow, maps.Affine(op.weight, offset))
    if isinstance(op, Convolution) and _biased(build, flow, op, offset):
        return flow
    if isinstance(op, Placement) and flow.node in build.tokens:
        # A token-wise map, whose units are only moved here: nothing else can use the map itself,
        # as it might use a convolution that the file transposes.
        source = Flow(build.inputs(flow)[0], (op.inputs,))
        inner, pixels = build.op(source), np.empty_like(offset)
        pixels[op.index] = offset
        if isinstance(inner, Convolution) and _biased(build, source, inner, pixels):
            return build.exchange(flow, op)  # what stands here has changed with it
    if isinstance(op, Scaling) and not np.any(op.offset):
        return build.exchange(flow, Scaling(op.factor, op.divisor, offset), name)
    return build.emit(name, Scaling(np.ones(flow.size), offset=offset), flow)


def _biased(build: Builder, flow: Flow, op: Convolution, offset: Array) -> bool:
    """Whether an offset became the bias of a convolution: it has none, and pixels are alike."""
    pixels = offset.reshape(op.channels, op.positions)
    if op.fixed or np.any(op.offsets) or np.any(pixels != pixels[:, :1]):
        return False
    build.exchange(flow, Convolution(op.kernel, op.geometry, pixels[:, 0], op.groups))
    return True


def _tuned(
    build: Builder, flow: Flow, name: str, *, gamma: Array | None = None, beta: Array | None = None
) -> Flow | None:
    """The norm that a value is, with its factor or offset as gamma or beta, where it has none yet
    and they are the same at all positions; else None."""
    op = build.op(flow)
    if not isinstance(op, activations.LiveNorm) or flow.shared or np.any(op.beta):
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


def named(call: Call, build: Builder) -> Flow:
    """The activation of the operator's own name, with its attributes as settings."""
    op = getattr(activations, call.kind)(**call.attributes)
    return build.emit(call.name, op, call.flow())


def leaky(call: Call, build: Builder) -> Flow:
    """LeakyRelu, and PRelu with one slope for all values, which is the same."""
    given = call.attributes["alpha"] if call.kind == "LeakyRelu" else call.constant(1, "slopes")
    slope = np.broadcast_to(np.asarray(given), call.shape)
    if np.any(slope != slope.flat[0]):
        raise call.refuse("has several slopes; one slope for all values is supported")
    op = activations.LeakyRelu(float(slope.flat[0])) if slope.flat[0] else Relu()
    return build.emit(call.name, op, call.flow())


def gelu(call: Call, build: Builder) -> Flow:
    """The approximation by tanh is another function."""
    if call.attributes["approximate"] != "none":
        raise call.refuse("is approximated by tanh; export GELU without the approximation")
    return build.emit(call.name, activations.Gelu(), call.flow())


def softmax(call: Call, build: Builder) -> Flow:
    """Over the last axis; before set 13 over all axes from `axis` on, taken together."""
    if call.opset >= 13 and call.axis != len(call.shape) - 1:
        raise call.refuse("is over another axis than the last; transpose the value around it")
    width = math.prod(call.shape[call.axis :])
    op = activations.Softmax(width, math.prod(call.shape) // width)
    return build.emit(call.name, op, call.flow())


def clip(call: Call, build: Builder) -> Value:
    """Clip with constant bounds, either of which may be absent.

    Bounds that are attributes (sets before 11) are never absent: they have finite defaults.
    """
    ends = []
    for index, name, absent in ((1, "min", -math.inf), (2, "max", math.inf)):
        found = call.constant(index, "bounds")
        ends.append(call.attributes.get(name, absent) if found is None else found.item())
    return _clipped(call, build, call.flow(), *ends)


def extremum(call: Call, build: Builder) -> Value:
    """Max or Min: of a value and a number (a Clip), or of a value and a multiple (leaky ReLU)."""
    if (made := recognised(call, build, call.kind, *call.inputs)) is not None:
        return made
    if len(call.inputs) == 1:
        return call.flow()
    terms = [call.spread(build, i) for i in range(len(call.inputs))]
    flows = [term for term in terms if isinstance(term, Flow)]
    bounds = [term for term in terms if isinstance(term, np.ndarray)]
    if len(flows) != 1 or len(bounds) != 1 or len(np.unique(bounds[0])) != 1:
        raise call.refuse(
            "is supported of a value and a number, or of a value and a multiple of it (leaky ReLU)"
        )
    number = bounds[0][0]
    ends = (number, math.inf) if call.kind == "Max" else (-math.inf, number)
    return _clipped(call, build, flows[0], *ends)


def _clipped(call: Call, build: Builder, flow: Flow, lo: float, hi: float) -> Flow:
    if (lo, hi) == (-math.inf, math.inf):
        return flow
    op = Relu() if call.kind == "Max" and lo == 0 else activations.Clip(float(lo), float(hi))
    return build.emit(call.name, op, flow)


def batch_normalization(call: Call, build: Builder) -> Flow:
    """A norm with frozen statistics, one channel after the other along axis 1."""
    flow = call.flow()
    if call.attributes.get("training_mode", 0) or len(call.shapes) > 1:
        raise call.refuse(
            "is in training mode, so that its statistics are not constants; export the model in "
            "evaluation mode"
        )
    if not call.attributes.get("spatial", 1):
        raise call.refuse("has statistics per position (spatial = 0); export it per channel")
    parts = [call.constant(i, "statistics or parameters") for i in range(1, 5)]
    channels = flow.shape[1] if len(flow.shape) > 1 else 1  # a tensor of rank 1 is one channel
    stated = {0 if p is None else int(p.size) for p in parts}
    if stated != {channels}:
        raise call.fault(
            f"has {', '.join(map(str, sorted(stated)))} channels, but was given shape {flow.shape}"
        )
    count = flow.shape[0] if flow.shape else 1
    flat = (p.reshape(-1) for p in parts if p is not None)  # one number may stand everywhere
    gamma, beta, mean, var = (np.tile(p, count) if count > 1 else p for p in flat)
    positions = flow.size // max(len(gamma), 1)
    norm = maps.Norm(gamma, beta, mean, var, float(call.attributes["epsilon"]), positions)
    return build.emit(call.name, norm, flow)


def live_norm(call: Call, build: Builder) -> Flow:
    """LayerNorm and RMSNorm over the axes from `axis` on, all of them together; one group is
    LayerNorm over all units, with gamma and beta of each channel."""
    flow, grouped = call.flow(), call.kind == "GroupNormalization"
    axis = 1 if grouped else call.axis
    if grouped and call.attributes["num_groups"] != 1:
        raise call.refuse(f"has {call.attributes['num_groups']} groups, {CHANNELWISE}")
    if len(call.shapes) > 1:
        raise call.refuse("hands on its statistics; only its value is read")
    if axis == 0:
        raise call.refuse("normalises over the batch; each example by itself is read")
    over, parts = flow.shape[axis:], []
    for index, neutral in ((1, 1.0), (2, 0.0)):
        part = call.constant(index, "parameters")
        part = np.array(neutral) if part is None else part.astype(np.float64)
        if grouped:
            part = part.reshape(-1, *[1] * (len(over) - 1))
        parts.append(np.broadcast_to(part, over).ravel())
    kind = activations.RMSNorm if call.kind == "RMSNormalization" else activations.LayerNorm
    eps, rows = float(call.attributes["epsilon"]), math.prod(flow.shape[:axis])
    return build.emit(call.name, kind(parts[0], parts[1], eps, rows), flow)


CHANNELWISE = (
    "each with statistics of its own, which do not share one deviation; LayerNorm, RMSNorm and a "
    "GroupNorm of one group are read"
)


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
    return build.emit(call.name, maps.Cast(flow.size, DIGITS[goal]), flow)
