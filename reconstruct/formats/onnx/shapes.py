"""Operators that move values about without changing them: Reshape, Flatten, Slice, Concat, …

On constants they are carried out with NumPy; on values that depend on the input they relabel a
shape, select a block, or become an affine map of zeros and ones.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reconstruct.formats.onnx.model import checked_size
from reconstruct.formats.onnx.values import (
    DENSE,
    Builder,
    Call,
    Flow,
    broadcast_shape,
    expanded,
    positions,
    rearranged,
)
from reconstruct.networks import Add, Affine

Array = NDArray[Any]


def _relabelled(value: Flow | Array, shape: tuple[int, ...]) -> Flow | Array:
    if isinstance(value, np.ndarray):
        return value.reshape(shape)
    return replace(value, shape=shape)


def _moved(call: Call, build: Builder, value: Flow | Array, step: Any) -> Flow | Array:
    """`step` (an indexing of arrays) applied to a constant, or to the positions of a flow."""
    if isinstance(value, np.ndarray):
        return np.asarray(step(value))
    return rearranged(build, call, value, np.asarray(step(positions(value))))


def _axis(call: Call, axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise call.fault(f"names axis {axis} of a tensor of rank {rank}")
    return axis % rank


def identity(call: Call, build: Builder) -> Flow | Array:
    return call.value()


def flatten(call: Call, build: Builder) -> Flow | Array:
    value = call.value()
    axis = int(call.attributes.get("axis", 1))
    rank = len(value.shape)
    if not -rank <= axis <= rank:
        raise call.fault(f"flattens at axis {axis} of a tensor of rank {rank}")
    axis += rank if axis < 0 else 0
    return _relabelled(value, (math.prod(value.shape[:axis]), math.prod(value.shape[axis:])))


def reshape(call: Call, build: Builder) -> Flow | Array:
    value, wanted = call.value(), call.integers(1, "shape")
    if wanted is None:
        raise call.fault("lacks the shape to reshape to")
    size = math.prod(value.shape)
    if not call.attributes.get("allowzero", 0):
        wanted = [
            value.shape[i] if n == 0 and i < len(value.shape) else n for i, n in enumerate(wanted)
        ]
    known = math.prod(n for n in wanted if n != -1)
    if wanted.count(-1) == 1 and known > 0 and size % known == 0:
        wanted = [size // known if n == -1 else n for n in wanted]
    if math.prod(wanted) != size or any(n < 0 for n in wanted):
        raise call.fault(f"reshapes {tuple(value.shape)} to {tuple(wanted)}, which does not fit")
    return _relabelled(value, tuple(wanted))


def squeeze(call: Call, build: Builder) -> Flow | Array:
    value, axes = call.value(), call.integers(1, "axes")
    rank = len(value.shape)
    chosen = {_axis(call, a, rank) for a in axes or ()}
    if axes is None:
        chosen = {i for i, n in enumerate(value.shape) if n == 1}
    if any(value.shape[i] != 1 for i in chosen):
        raise call.fault(f"squeezes axes {sorted(chosen)} of shape {tuple(value.shape)}")
    return _relabelled(value, tuple(n for i, n in enumerate(value.shape) if i not in chosen))


def unsqueeze(call: Call, build: Builder) -> Flow | Array:
    value, axes = call.value(), call.integers(1, "axes")
    if not axes:
        raise call.fault("lacks its axes")
    rank = len(value.shape) + len(axes)
    chosen = {_axis(call, a, rank) for a in axes}
    if len(chosen) != len(axes):
        raise call.fault(f"names an axis twice in {axes}")
    sizes = iter(value.shape)
    return _relabelled(value, tuple(1 if i in chosen else next(sizes) for i in range(rank)))


def transpose(call: Call, build: Builder) -> Flow | Array:
    value = call.value()
    order = call.attributes.get("perm") or list(range(len(value.shape)))[::-1]
    return _moved(call, build, value, lambda a: np.transpose(a, order))


def slices(call: Call, build: Builder) -> Flow | Array:
    value = call.value()
    starts, ends = call.integers(1, "starts"), call.integers(2, "ends")
    if starts is None or ends is None:
        raise call.fault("lacks its starts or ends")
    axes = call.integers(3, "axes") or list(range(len(starts)))
    steps = call.integers(4, "steps") or [1] * len(starts)
    rank = len(value.shape)
    cut = [slice(None)] * rank
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        cut[_axis(call, axis, rank)] = slice(start, end, step)
    return _moved(call, build, value, lambda a: a[tuple(cut)])


def gather(call: Call, build: Builder) -> Flow | Array:
    value, index = call.value(), call.constant(1, "indices")
    if index is None:
        raise call.fault("lacks its indices")
    axis = int(call.attributes.get("axis", 0))
    return _moved(call, build, value, lambda a: np.take(a, index.astype(np.int64), axis=axis))


def shape_of(call: Call, build: Builder) -> Array:
    """The shape of a tensor as a constant: a symbolic batch counts as 1."""
    first, last = call.attributes.get("start", 0), call.attributes.get("end")
    return np.array(call.value().shape, dtype=np.int64)[first:last]


def filled(call: Call, build: Builder) -> Array:
    """ConstantOfShape."""
    wanted = call.integers(0, "")
    value = call.attributes.get("value", np.zeros(1, np.float32))
    shape = checked_size(tuple(wanted or ()), f"the value of node {call.name!r}")
    return np.full(shape, value.ravel()[0])


def expand(call: Call, build: Builder) -> Flow | Array:
    value, wanted = call.value(), call.integers(1, "shape")
    shape = broadcast_shape(call, tuple(value.shape), tuple(wanted or ()))
    checked_size(shape, f"the value of node {call.name!r}")
    if isinstance(value, np.ndarray):
        return np.broadcast_to(value, shape)
    return expanded(build, call, value, shape)


def concat(call: Call, build: Builder) -> Flow | Array:
    """Concat: every part is embedded by zeros and ones and the embeddings are added up."""
    values = [call.value(i) for i in range(len(call.inputs))]
    axis = int(call.attributes.get("axis", 1))
    constants = [v for v in values if isinstance(v, np.ndarray)]
    if len(constants) == len(values):
        return np.concatenate(constants, axis=axis)
    if len(values) == 1:
        return values[0]
    labels = [np.full(v.shape, i) for i, v in enumerate(values)]
    owner = np.concatenate(labels, axis=axis)
    shape = checked_size(owner.shape, f"the value of node {call.name!r}")
    places = [np.flatnonzero(owner.ravel() == i) for i in range(len(values))]
    offset = np.zeros(owner.size)
    for value, place in zip(values, places, strict=True):
        if isinstance(value, np.ndarray):
            offset[place] = value.ravel()
    flows = [(v, p) for v, p in zip(values, places, strict=True) if isinstance(v, Flow)]
    parts: list[Flow] = []
    for value, place in flows:
        weight = _embedding(place, owner.size)
        bias = offset if not parts else None
        parts.append(build.emit(f"{call.name}/part", Affine(weight, bias), (value,), shape))
    if len(parts) == 1:
        return parts[0]
    return build.emit(call.name, Add(), tuple(parts), shape)


def _embedding(place: Array, size: int) -> Any:
    """The 0/1 matrix that puts value j at `place[j]` of `size`."""
    columns = np.arange(place.size)
    matrix = sparse.csr_array((np.ones(place.size), (place, columns)), shape=(size, place.size))
    return matrix.toarray() if size * place.size <= DENSE else matrix


def split(call: Call, build: Builder) -> list[Flow | Array]:
    """Split into consecutive blocks along an axis."""
    value = call.value()
    axis = int(call.attributes.get("axis", 0))
    sizes = call.integers(1, "split")
    length = value.shape[axis]
    if sizes is None:
        block = -(-length // call.outputs)
        sizes = [min(block, length - i * block) for i in range(call.outputs)]
    if sum(sizes) != length or len(sizes) != call.outputs:
        raise call.fault(f"splits {length} values into {sizes}")
    edges = reduce(lambda done, n: [*done, done[-1] + n], sizes, [0])
    blocks = [np.arange(a, b) for a, b in pairwise(edges)]
    return [
        _moved(call, build, value, lambda a, rows=rows: np.take(a, rows, axis=axis))
        for rows in blocks
    ]
