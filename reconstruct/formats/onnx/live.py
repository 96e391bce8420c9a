"""Norms by the statistics of their own input: LayerNormalization, RMSNormalization, and in steps.

Exporters before operator set 17 spell LayerNorm out,

    m = ReduceMean(x),  d = x − m,  v = ReduceMean(d²),  d / Sqrt(v + eps) · gamma + beta,

and RMSNorm without m, its root sometimes as a factor 1/Sqrt. A `Moment` is such a step on its way.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from reconstruct.formats.onnx.values import Builder, Call, Flow, Moment, Value
from reconstruct.networks import LayerNorm, LiveNorm, RMSNorm

Array = NDArray[Any]
REASON = (
    "is a product, root or mean of values that depend on the network's input, which is read only "
    "as a part of LayerNorm, (x − mean)/√(mean((x − mean)²) + eps), or RMSNorm, over the last axis"
)
CHANNELWISE = (
    "has statistics for each {what}, which do not share one deviation; LayerNorm, RMSNorm and a "
    "GroupNorm of one group are read"
)


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


# --- in steps -------------------------------------------------------------------------------------


def power(call: Call, build: Builder) -> Value:
    """The square of a value; any other power is refused."""
    base, exponent = call.get(0), call.constant(1, "exponents")
    if exponent is None or not np.all(exponent == 2):
        raise call.refuse(REASON)
    return squared(call, base, base)


def squared(call: Call, first: Value | None, second: Value | None) -> Moment:
    """x·x, x the value itself or what is left of it without its mean."""
    if isinstance(first, Flow) and isinstance(second, Flow) and first.node == second.node:
        return Moment(first, "square")
    if isinstance(first, Moment) and first == second and first.stage == "centred":
        return replace(first, stage="square")
    raise call.refuse(REASON)


def mean(call: Call) -> Moment | None:
    """The mean over the last axis of rows, or of their squares; None where it is another one."""
    value = call.get(0)
    base = value.base if isinstance(value, Moment) else value
    if not isinstance(base, Flow) or not call.attributes["keepdims"]:
        return None
    axes = call.integers(1, "axes")
    if axes is None or [a % len(base.shape) for a in axes] != [len(base.shape) - 1]:
        return None
    if isinstance(value, Moment):
        return replace(value, stage="mean square") if value.stage == "square" else None
    return Moment(base, "mean", centred=True) if len(base.shape) == 2 else None


def root(call: Call, build: Builder) -> Moment:
    """√(mean square + eps), or one over it."""
    value, wanted = call.get(0), "mean square" if call.kind == "Sqrt" else "root"
    if not isinstance(value, Moment) or value.stage != wanted:
        raise call.refuse(REASON)
    return replace(value, stage="root" if call.kind == "Sqrt" else "inverse")


def step(call: Call, build: Builder) -> Value:
    """Add, Sub, Mul or Div of which a part is a step of a norm."""
    a, b = call.get(0), call.get(1)
    if call.kind == "Sub" and isinstance(a, Flow) and _is(b, "mean", a):
        return Moment(a, "centred", centred=True)
    moment, eps = (a, b) if isinstance(a, Moment) else (b, a)
    if call.kind == "Add" and isinstance(eps, np.ndarray) and _is(moment, "mean square"):
        if eps.size != 1:
            raise call.refuse(REASON)
        return replace(moment, eps=moment.eps + float(eps.item()))
    if call.kind == "Mul" and isinstance(a, Moment) and a == b:
        return squared(call, a, b)
    if call.kind in ("Div", "Mul"):
        pairs = [(a, b)] if call.kind == "Div" else [(a, b), (b, a)]
        for above, below in pairs:
            if isinstance(below, Moment) and _fits(above, below, call.kind):
                return _made(call, build, below)
    raise call.refuse(REASON)


def _is(value: Value | None, stage: str, of: Flow | None = None) -> TypeGuard[Moment]:
    if not isinstance(value, Moment) or value.stage != stage:
        return False
    return of is None or value.base.node == of.node


def _fits(above: Value | None, below: Moment, kind: str) -> bool:
    """Whether `below` is the root, or the factor, that belongs to the value `above`."""
    if below.stage != ("root" if kind == "Div" else "inverse"):
        return False
    if below.centred:
        return isinstance(above, Moment) and above.stage == "centred" and above.same(below)
    return isinstance(above, Flow) and above.node == below.base.node


def _made(call: Call, build: Builder, root: Moment) -> Flow:
    base = root.base
    channels = base.shape[-1]
    kind = LayerNorm if root.centred else RMSNorm
    op = kind(np.ones(channels), np.zeros(channels), root.eps, base.size // channels)
    return build.emit(call.name, op, (base,), base.shape)


def tuned(
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
