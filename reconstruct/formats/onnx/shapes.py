"""Operators that move values about without changing them: Reshape, Flatten, Slice, Concat, …

They relabel a shape, select a block, or become a placement: nothing that has to be rebuilt.
"""

from __future__ import annotations

import math
from itertools import accumulate, pairwise

import numpy as np

from reconstruct.formats.files import VALUE
from reconstruct.formats.onnx.elementwise import real
from reconstruct.formats.onnx.values import (
    Builder,
    Call,
    Flow,
    broadcast_shape,
    expanded,
    moved,
    positions,
    relabelled,
)
from reconstruct.networks import Add, Placement, Scaling
from reconstruct.numbers.arrays import Array


def _axis(call: Call, axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise call.fault(f"names axis {axis} of a tensor of rank {rank}")
    return axis % rank


def identity(call: Call, build: Builder) -> Flow | Array:
    return call.value()


def flatten(call: Call, build: Builder) -> Flow | Array:
    value, axis = call.value(), int(call.attributes["axis"])
    rank = len(value.shape)
    if not -rank <= axis <= rank:
        raise call.fault(f"flattens at axis {axis} of a tensor of rank {rank}")
    axis += rank if axis < 0 else 0
    return relabelled(value, (math.prod(value.shape[:axis]), math.prod(value.shape[axis:])))


def reshape(call: Call, build: Builder) -> Flow | Array:
    value, wanted = call.value(), call.integers(1, "shape")
    if wanted is None:
        raise call.fault("lacks the shape to reshape to")
    if not call.attributes.get("allowzero", 0):
        wanted = [
            value.shape[i] if n == 0 and i < len(value.shape) else n for i, n in enumerate(wanted)
        ]
    known, size = math.prod(n for n in wanted if n != -1), math.prod(value.shape)
    if wanted.count(-1) == 1 and known > 0 and size % known == 0:
        wanted = [size // known if n == -1 else n for n in wanted]
    if math.prod(wanted) != size or any(n < 0 for n in wanted):
        raise call.fault(f"reshapes {value.shape} to {tuple(wanted)}, which does not fit")
    return relabelled(value, tuple(wanted))


def squeeze(call: Call, build: Builder) -> Flow | Array:
    value, axes = call.value(), call.integers(1, "axes")
    chosen = {_axis(call, a, len(value.shape)) for a in axes or ()}
    if axes is None:
        chosen = {i for i, n in enumerate(value.shape) if n == 1}
    if any(value.shape[i] != 1 for i in chosen):
        raise call.fault(f"squeezes axes {sorted(chosen)} of shape {value.shape}")
    return relabelled(value, tuple(n for i, n in enumerate(value.shape) if i not in chosen))


def unsqueeze(call: Call, build: Builder) -> Flow | Array:
    value, axes = call.value(), call.integers(1, "axes")
    if axes is None:
        raise call.fault("lacks its axes")
    rank = len(value.shape) + len(axes)
    chosen = {_axis(call, a, rank) for a in axes}
    if len(chosen) != len(axes):
        raise call.fault(f"names an axis twice in {axes}")
    sizes = iter(value.shape)
    return relabelled(value, tuple(1 if i in chosen else next(sizes) for i in range(rank)))


def transpose(call: Call, build: Builder) -> Flow | Array:
    value = call.value()
    order = call.attributes.get("perm") or list(range(len(value.shape)))[::-1]
    return moved(build, call, value, lambda a: np.transpose(a, order))


def slices(call: Call, build: Builder) -> Flow | Array:
    value = call.value()
    starts, ends = call.integers(1, "starts"), call.integers(2, "ends")
    if starts is None or ends is None:
        raise call.fault("lacks its starts or ends")
    axes, steps = call.integers(3, "axes"), call.integers(4, "steps")
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    rows = [np.arange(n) for n in value.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = _axis(call, axis, len(value.shape))
        rows[place] = _chosen(start, end, step, value.shape[place])
    return moved(build, call, value, lambda a: a[np.ix_(*rows)])


def _chosen(start: int, end: int, step: int, size: int) -> Array:
    """The rows of one axis by ONNX's rules, which clamp a start where NumPy leaves nothing."""
    start, end = (i + size if i < 0 else i for i in (start, end))
    if step > 0:
        return np.arange(min(max(start, 0), size), min(max(end, 0), size), step)
    return np.arange(min(max(start, 0), size - 1), min(max(end, -1), size - 1), step)


def gather(call: Call, build: Builder) -> Flow | Array:
    value, index = call.value(), call.constant(1, "indices")
    if index is None or index.dtype.kind not in "iu":
        raise call.fault("lacks its indices, whole numbers")
    if call.opset < 11 and np.any(index < 0):
        raise call.refuse("counts from the end, which sets before 11 do not define")
    axis = _axis(call, int(call.attributes["axis"]), len(value.shape))
    return moved(build, call, value, lambda a: np.take(a, index.astype(np.int64), axis=axis))


def expand(call: Call, build: Builder) -> Flow | Array:
    value, wanted = call.value(), call.integers(1, "shape")
    shape = broadcast_shape(call, tuple(value.shape), tuple(wanted or ()))
    if isinstance(value, Flow):
        return expanded(build, call, value, shape)
    return np.broadcast_to(value, shape).copy()


def concat(call: Call, build: Builder) -> Flow | Array:
    """Concat: every part is put in its place among zeros, and these are added up."""
    values = [call.value(i) for i in range(len(call.inputs))]
    axis = _axis(call, int(call.attributes["axis"]), len(values[0].shape))
    if len(values) == 1:
        return values[0]
    if all(isinstance(value, np.ndarray) for value in values):
        return np.concatenate([np.asarray(value) for value in values], axis=axis)
    build.budget.take(3 * VALUE * sum(math.prod(v.shape) for v in values), f"node {call.name!r}")

    fixed = [np.zeros(v.shape) if isinstance(v, Flow) else real(call, v) for v in values]
    offset = np.concatenate(fixed, axis=axis)
    shape = build.budget.tensor(offset.shape, f"the value of node {call.name!r}")
    parts: list[Flow] = []
    for place, flow in enumerate(values):
        if isinstance(flow, Flow):
            rows = [np.full(v.shape, -1) for v in values]
            rows[place] = positions(flow)
            op = Placement(np.concatenate(rows, axis=axis).ravel(), flow.size)
            parts.append(build.emit(f"{call.name}/part", op, (flow,), shape))
    if np.any(offset):
        shift = Scaling(np.ones(offset.size), offset=offset.ravel())
        parts[0] = build.emit(f"{call.name}/part", shift, (parts[0],), shape)
    return parts[0] if len(parts) == 1 else build.emit(call.name, Add(), tuple(parts), shape)


def split(call: Call, build: Builder) -> list[Flow | Array]:
    """Split into consecutive blocks along an axis."""
    value = call.value()
    axis = _axis(call, int(call.attributes["axis"]), len(value.shape))
    sizes, length = call.integers(1, "split"), value.shape[axis]
    if sizes is None:
        block = -(-length // call.outputs)
        sizes = [min(block, length - i * block) for i in range(call.outputs)]
    if sum(sizes) != length or len(sizes) != call.outputs or any(n < 0 for n in sizes):
        raise call.fault(f"splits {length} values into {sizes}")
    blocks = [np.arange(a, b) for a, b in pairwise(accumulate(sizes, initial=0))]
    return [
        moved(build, call, value, lambda a, rows=rows: np.take(a, rows, axis=axis))
        for rows in blocks
    ]
