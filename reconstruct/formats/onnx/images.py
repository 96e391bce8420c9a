"""Operators on images: Conv, pooling, sums and means over space.

A tensor of shape (1, channels, height, width) is a value of channels·height·width units, channel by
channel. Averages are sums over windows and a division that stays one, so nothing is rounded.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from reconstruct.formats.onnx.steps import mean
from reconstruct.formats.onnx.values import Builder, Call, Flow, Value, placed
from reconstruct.networks import Convolution, Geometry, MaxPool, Scaling, SumPool


def conv(call: Call, build: Builder) -> Flow:
    """Conv of images (or of sequences, as images of height 1) with a constant kernel."""
    kernel, offsets = call.constant(1, "kernels"), call.constant(2, "biases")
    if kernel is None or kernel.ndim not in (3, 4):
        raise call.refuse("is supported for sequences and images, with a constant kernel")
    window = kernel if kernel.ndim == 4 else kernel[:, :, None, :]
    geometry, _ = _geometry(call, window.shape[2:])
    op = Convolution(window, geometry, offsets, int(call.attributes["group"]))
    return build.emit(call.name, op, call.flow())


def max_pool(call: Call, build: Builder) -> Flow:
    if len(call.shapes) > 1:
        raise call.refuse("also gives the places of its maxima, which is not supported")
    return build.emit(call.name, MaxPool(_geometry(call)[0]), call.flow())


def average_pool(call: Call, build: Builder) -> Flow:
    """Sums over windows, divided by the number of pixels, or by that of pixels and pads."""
    geometry, more = _geometry(call)
    counted = SumPool(geometry)
    if call.attributes.get("count_include_pad", 0):
        # what ceil_mode adds at the ends to the pads that the file states does not count
        top, left, bottom, right = geometry.pads
        height, width = geometry.height + top + bottom, geometry.width + left + right
        sides: Any = {"height": height - more[0], "width": width - more[1], "pads": (0, 0, *more)}
        counted = SumPool(replace(geometry, channels=1, **sides))
    total = build.emit(f"{call.name}/sum", SumPool(geometry), call.flow())
    return _divided(call, build, total, counted)


def _divided(call: Call, build: Builder, total: Flow, counted: SumPool) -> Flow:
    counts = np.tile(counted.counts(), total.size // counted.positions)
    return build.emit(call.name, Scaling(np.ones(total.size), counts), total)


def global_pool(call: Call, build: Builder) -> Flow:
    """GlobalMaxPool and GlobalAveragePool."""
    channels, height, width = _image(call, call.flow())
    whole = Geometry(channels, height, width, (height, width))
    if call.kind == "GlobalMaxPool":
        return build.emit(call.name, MaxPool(whole), call.flow())
    op = SumPool(whole)
    return _divided(call, build, build.emit(f"{call.name}/sum", op, call.flow()), op)


def reduced(call: Call, build: Builder) -> Value:
    """ReduceSum and ReduceMean: of images over all pixels of each channel, or over each column of
    them, windows that reach from end to end; else what is added up is brought together first. A
    mean may be a step of a norm."""
    averaged = call.kind == "ReduceMean"
    if averaged and (step := mean(call, build)) is not None:
        return step
    flow = call.flow()
    rank = len(flow.shape)
    if call.attributes.get("noop_with_empty_axes", 0):
        raise call.refuse("reduces nothing where no axes are named; name the axes")
    axes = sorted({a % rank for a in call.integers(1, "axes") or range(rank)})
    if axes[0] == 0:
        raise call.refuse("is over the batch; each example by itself is read")
    columns = rank == 4 and axes == [2]
    if flow.shape[0] == 1 and rank in (3, 4) and (columns or axes == list(range(2, rank))):
        channels, height, width = _image(call, flow)
        op = SumPool(Geometry(channels, height, width, (height, 1 if columns else width)))
    else:
        kept = [i for i in range(rank) if i not in axes]
        count = math.prod(flow.shape[i] for i in axes)
        index = flow.places.transpose(*kept, *axes).reshape(1, -1, count)
        flow = placed(build, f"{call.name}/channels", flow, index)
        op = SumPool(Geometry(flow.size // count, 1, count, (1, count)))
    total = build.emit(f"{call.name}/sum" if averaged else call.name, op, flow)
    return _divided(call, build, total, op) if averaged else total


# --- geometry -------------------------------------------------------------------------------------


def _image(call: Call, flow: Flow) -> tuple[int, int, int]:
    """Channels, height and width; a sequence has height 1."""
    if len(flow.shape) not in (3, 4) or flow.shape[0] != 1:
        raise call.refuse(f"needs one image at a time, but was given shape {flow.shape}")
    channels, height, width = flow.shape[1], *_pair(flow.shape[2:], 1)
    return channels, height, width


def _pair(numbers: Any, neutral: int) -> tuple[int, int]:
    """One number for each direction; a sequence has one direction."""
    found = [int(n) for n in numbers or ()] or [neutral] * 2
    return (neutral, found[0]) if len(found) == 1 else (found[0], found[1])


def _geometry(call: Call, window: tuple[int, ...] = ()) -> tuple[Geometry, tuple[int, int]]:
    """As the file states it, and what `ceil_mode` adds to the pads at the ends, down and across:
    with it rounding down gives as many windows as ONNX's rules do. If these give others without it,
    the value has another size than theirs, and is refused."""
    channels, *sides = _image(call, call.flow())
    kernel = _pair(window or call.attributes["kernel_shape"], 1)
    strides, dilations = (_pair(call.attributes.get(key), 1) for key in ("strides", "dilations"))
    mode = call.attributes["auto_pad"]
    if mode not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise call.fault(f"has the auto_pad {mode!r}, which ONNX does not know")
    given = call.attributes.get("pads", []) if mode == "NOTSET" else []
    first, last = _pair(given[: len(given) // 2], 0), _pair(given[len(given) // 2 :], 0)
    pads, more = [], [0, 0]
    for i, told in enumerate(_pair(call.shape[2:], 1)):
        same = mode.startswith("SAME")
        count = math.ceil(sides[i] / strides[i]) if same else told
        missing = (count - 1) * strides[i] + dilations[i] * (kernel[i] - 1) + 1 - sides[i]
        before, after = first[i], last[i]
        if same:
            before, after = max(missing, 0) // 2, (max(missing, 0) + 1) // 2
            if mode == "SAME_LOWER":
                before, after = after, before
        elif call.attributes.get("ceil_mode", 0):
            more[i] = max(missing - before - after, 0)
        pads.append((before, after + more[i]))
    (top, bottom), (left, right) = pads
    around = (top, left, bottom, right)
    geometry = Geometry(channels, sides[0], sides[1], kernel, strides, around, dilations)
    return geometry, (more[0], more[1])
