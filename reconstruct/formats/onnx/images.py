"""Operators on images: Conv, pooling, means over space, padding.

A tensor of shape (1, channels, height, width) is a value of channels·height·width units, channel by
channel. Averages are sums over windows and a division that stays one, so nothing is rounded.
"""

from __future__ import annotations

import math

import numpy as np

from reconstruct.formats.onnx.steps import mean
from reconstruct.formats.onnx.values import Builder, Call, Flow, Value, placed, positions
from reconstruct.networks import Convolution, Geometry, MaxPool, Placement, Scaling, SumPool
from reconstruct.numbers.arrays import Array


def conv(call: Call, build: Builder) -> Flow:
    """Conv of images (or of sequences, as images of height 1) with a constant kernel."""
    flow, kernel = call.flow(), call.constant(1, "kernels")
    if kernel is None or kernel.ndim not in (3, 4) or kernel.ndim != len(flow.shape):
        raise call.refuse("is supported for sequences and images, with a constant kernel")
    offsets = call.constant(2, "biases")
    window = kernel if kernel.ndim == 4 else kernel[:, :, None, :]
    geometry = _geometry(call, flow, tuple(window.shape[2:]))
    op = Convolution(window, geometry, offsets, int(call.attributes["group"]))
    return build.emit(call.name, op, (flow,), _shape(flow, op.out_shape))


def max_pool(call: Call, build: Builder) -> Flow:
    flow = call.flow()
    if call.outputs > 1:
        raise call.refuse("also gives the places of its maxima, which is not supported")
    op = MaxPool(_geometry(call, flow, _window(call)))
    return build.emit(call.name, op, (flow,), _shape(flow, op.out_shape))


def average_pool(call: Call, build: Builder) -> Flow:
    """Sums over windows, divided by the number of pixels, or by that of pixels and pads."""
    flow = call.flow()
    geometry = _geometry(call, flow, _window(call))
    op = SumPool(geometry)
    counts = op.counts()
    if call.attributes.get("count_include_pad", 0):
        counts = _with_pads(call, geometry)
    return _divided(call, build, flow, op, np.tile(counts, geometry.channels))


def _with_pads(call: Call, geometry: Geometry) -> Array:
    """How many pixels and pads, as the file states them, each window covers."""
    sides = (geometry.height, geometry.width)
    stated = _pads(call, sides, geometry.kernel, geometry.strides, geometry.dilations)
    top, left, bottom, right = stated
    more = tuple(have - said for have, said in zip(geometry.pads, stated, strict=True))
    wide = Geometry(
        1,
        geometry.height + top + bottom,
        geometry.width + left + right,
        geometry.kernel,
        geometry.strides,
        (0, 0, more[2], more[3]),
        geometry.dilations,
    )
    return SumPool(wide).counts()


def global_average(call: Call, build: Builder) -> Flow:
    op = SumPool(_whole(call))
    return _divided(call, build, call.flow(), op, np.tile(op.counts(), op.channels))


def global_max(call: Call, build: Builder) -> Flow:
    op = MaxPool(_whole(call))
    return build.emit(call.name, op, (call.flow(),), _shape(call.flow(), op.out_shape))


def _whole(call: Call, *, columns: bool = False) -> Geometry:
    """Windows that reach from end to end of the image, or of each column of it."""
    channels, height, width = _image(call, call.flow())
    return Geometry(channels, height, width, (height, 1 if columns else width))


def reduce_mean(call: Call, build: Builder) -> Value:
    """The mean over some axes, or a step of a norm."""
    if (step := mean(call, build)) is not None:
        return step
    total, op = _reduced(call, build, f"{call.name}/sum")
    counts = np.tile(op.counts(), op.channels)
    return build.emit(call.name, Scaling(np.ones(total.size), counts), (total,), total.shape)


def reduce_sum(call: Call, build: Builder) -> Flow:
    return _reduced(call, build, call.name)[0]


def _reduced(call: Call, build: Builder, name: str) -> tuple[Flow, SumPool]:
    """Sums over some axes: of images over all pixels of each channel, or over each column of them,
    windows that reach from end to end; else what is added up is brought together first."""
    flow, axes = call.flow(), sorted(_axes(call))
    rank, keep = len(flow.shape), call.attributes["keepdims"]
    if axes[0] == 0:
        raise call.refuse("is over the batch; each example by itself is read")
    columns = rank == 4 and axes == [2]
    image = flow.shape[0] == 1 and rank in (3, 4)
    if image and (columns or axes == list(range(2, rank))):
        op, source = SumPool(_whole(call, columns=columns)), flow
    else:
        kept = [i for i in range(rank) if i not in axes]
        count = math.prod(flow.shape[i] for i in axes)
        index = positions(flow).transpose(*kept, *axes).reshape(1, -1, count)
        source = placed(build, f"{call.name}/channels", flow, index)
        op = SumPool(Geometry(flow.size // count, 1, count, (1, count)))
    whole = [1 if i in axes else n for i, n in enumerate(flow.shape) if keep or i not in axes]
    return build.emit(name, op, (source,), tuple(whole)), op


def _axes(call: Call) -> set[int]:
    rank = len(call.flow().shape)
    if call.attributes.get("noop_with_empty_axes", 0):
        raise call.refuse("reduces nothing where no axes are named; name the axes")
    return {a % rank for a in call.integers(1, "axes") or range(rank)}


def pad(call: Call, build: Builder) -> Flow:
    """Zeros around a tensor; other values and modes are refused."""
    flow, pads = call.flow(), call.integers(1, "pads")
    mode = call.attributes["mode"]
    value = call.constant(2, "values")
    filling = call.attributes.get("value", 0.0) if value is None else value
    if mode != "constant" or np.any(np.asarray(filling) != 0):
        raise call.refuse(f"pads in mode {mode!r} with {filling}; zeros alone are supported")
    if call.constant(3, "axes") is not None:
        raise call.refuse("pads chosen axes alone; give pads for all of them")
    rank = len(flow.shape)
    if pads is None or len(pads) != 2 * rank or min(pads) < 0:
        raise call.refuse(f"needs {2 * rank} pads of 0 or more, but has {pads}")
    widths = list(zip(pads[:rank], pads[rank:], strict=True))
    places = np.arange(1, flow.size + 1).reshape(flow.shape)
    index = np.pad(places, widths) - 1
    build.budget.tensor(index.shape, f"the value of node {call.name!r}")
    return build.emit(call.name, Placement(index.ravel(), flow.size), (flow,), index.shape)


def _divided(call: Call, build: Builder, flow: Flow, op: SumPool, counts: Array) -> Flow:
    shape = _shape(flow, op.out_shape)
    total = build.emit(f"{call.name}/sum", op, (flow,), shape)
    return build.emit(call.name, Scaling(np.ones(op.shape[0]), counts), (total,), shape)


# --- geometry -------------------------------------------------------------------------------------


def _image(call: Call, flow: Flow) -> tuple[int, int, int]:
    """Channels, height and width; a sequence has height 1."""
    if len(flow.shape) not in (3, 4) or flow.shape[0] != 1:
        raise call.refuse(f"needs one image at a time, but was given shape {flow.shape}")
    _, channels, *sides = flow.shape
    return (channels, 1, sides[0]) if len(sides) == 1 else (channels, sides[0], sides[1])


def _shape(flow: Flow, made: tuple[int, int, int]) -> tuple[int, ...]:
    channels, height, width = made
    return (1, channels, width) if len(flow.shape) == 3 else (1, channels, height, width)


def _pair(call: Call, name: str) -> tuple[int, int]:
    found = [int(n) for n in call.attributes.get(name) or ()] or [1, 1]
    return (1, found[0]) if len(found) == 1 else (found[0], found[1])


def _window(call: Call) -> tuple[int, int]:
    if "kernel_shape" not in call.attributes:
        raise call.fault("lacks its kernel_shape")
    return _pair(call, "kernel_shape")


def _geometry(call: Call, flow: Flow, kernel: tuple[int, int]) -> Geometry:
    """As the file states it; `ceil_mode` makes the pads at the end as large as it needs."""
    image = _image(call, flow)
    strides, dilations = _pair(call, "strides"), _pair(call, "dilations")
    pads = _pads(call, image[1:], kernel, strides, dilations)
    if call.attributes.get("ceil_mode", 0):
        top, left, bottom, right = pads
        reach = (d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True))
        sides = zip(image[1:], (top, left), (bottom, right), reach, strides, strict=True)
        down, across = (_ceiled(*side) for side in sides)
        pads = (top, left, down, across)
    return Geometry(*image, kernel, strides, pads, dilations)


def _ceiled(size: int, first: int, last: int, reach: int, stride: int) -> int:
    """The pad at the end with which rounding down gives as many windows as rounding up does."""
    count = math.ceil((size + first + last - reach) / stride) + 1
    if (count - 1) * stride >= size + first:  # a window has to begin inside of the image
        count -= 1
    return max(last, (count - 1) * stride + reach - size - first)


def _pads(
    call: Call,
    sides: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
) -> tuple[int, int, int, int]:
    """The pads that the file states, by numbers or by `auto_pad`."""
    mode = call.attributes["auto_pad"]
    if mode == "NOTSET":
        found = [int(n) for n in call.attributes.get("pads") or ()] or [0, 0, 0, 0]
        if len(found) == 2:
            return 0, found[0], 0, found[1]
        return found[0], found[1], found[2], found[3]
    if mode == "VALID":
        return 0, 0, 0, 0
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise call.fault(f"has the auto_pad {mode!r}, which ONNX does not know")
    pads = []
    for size, k, d, stride in zip(sides, kernel, dilations, strides, strict=True):
        needed = max(0, (math.ceil(size / stride) - 1) * stride + d * (k - 1) + 1 - size)
        small, large = needed // 2, needed - needed // 2
        pads.append((small, large) if mode == "SAME_UPPER" else (large, small))
    (top, bottom), (left, right) = pads
    return top, left, bottom, right
