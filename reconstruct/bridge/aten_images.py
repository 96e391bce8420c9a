"""What torch's operators on images are in ONNX: convolutions, pads, pooling, means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reconstruct.bridge.call import OperatorCall, Rule
from reconstruct.bridge.onnx_graph import OnnxGraph


def convolution(call: OperatorCall, graph: OnnxGraph) -> str:
    padding = call["padding"]
    where: dict[str, Any] = {}
    if padding == "same":
        where["auto_pad"] = "SAME_UPPER"
    elif padding != "valid":
        where["pads"] = [*_pair(call, padding), *_pair(call, padding)]
    inputs = [call["input"], call["weight"]] + ([call["bias"]] if call["bias"] else [])
    return graph.node(
        "Conv",
        inputs,
        call.name,
        strides=_pair(call, call["stride"]),
        dilations=_pair(call, call["dilation"]),
        group=call["groups"],
        **where,
    )


def pad(call: OperatorCall, graph: OnnxGraph) -> str:
    """Constant pads; torch counts them from the last dimension, ONNX from the first."""
    if call.arguments.get("mode", "constant") != "constant":
        raise call.refuse(f"repeats what is there ({call['mode']}); constant pads are supported")
    rank, pads = len(call.shape), call["pad"]
    before, after = [0] * rank, [0] * rank
    for i in range(len(pads) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = pads[2 * i], pads[2 * i + 1]
    if before[0] or after[0]:
        raise call.refuse("adds examples to a batch")
    widths = graph.constant(f"{call.name}.pads", [*before, *after], np.int64)
    value = graph.constant(f"{call.name}.value", call["value"] or 0.0)
    return graph.node("Pad", [call["self"], widths, value], call.name)


def maximum(call: OperatorCall, graph: OnnxGraph) -> str:
    return _pool("MaxPool", call, graph, dilations=_pair(call, call["dilation"]))


def average(call: OperatorCall, graph: OnnxGraph) -> str:
    if call["divisor_override"] is not None:
        raise call.refuse("divides by a number of its own; the size of the window is supported")
    return _pool("AveragePool", call, graph, count_include_pad=int(call["count_include_pad"]))


def _pool(kind: str, call: OperatorCall, graph: OnnxGraph, **more: Any) -> str:
    kernel = _pair(call, call["kernel_size"])
    pads = _pair(call, call["padding"])
    return graph.node(
        kind,
        [call["self"]],
        call.name,
        kernel_shape=kernel,
        strides=_pair(call, call["stride"] or kernel),
        pads=[*pads, *pads],
        ceil_mode=int(call["ceil_mode"]),
        **more,
    )


def adaptive_average(call: OperatorCall, graph: OnnxGraph) -> str:
    """The mean over equal windows; windows of different sizes are refused."""
    size, wanted = call.shapes["self"][-2:], call.shape[-2:]
    if any(s % w for s, w in zip(size, wanted, strict=True)):
        raise call.refuse(f"averages {size} to {wanted} pixels, but only equal windows are read")
    if wanted == (1, 1):
        return graph.node("GlobalAveragePool", [call["self"]], call.name)
    kernel = [s // w for s, w in zip(size, wanted, strict=True)]
    return graph.node("AveragePool", [call["self"]], call.name, kernel_shape=kernel, strides=kernel)


def mean(call: OperatorCall, graph: OnnxGraph) -> str:
    """The mean over the pixels of each channel."""
    rank = len(call.shapes["self"])
    if rank != 4 or sorted(d % rank for d in call["dim"]) != [2, 3]:
        raise call.refuse(f"is a mean over {call['dim']}; that over all pixels (2, 3) is supported")
    pooled = graph.node("GlobalAveragePool", [call["self"]], call.name)
    if call["keepdim"]:
        return pooled
    shape = graph.constant(f"{call.name}.shape", [0, call.shape[1]], np.int64)
    return graph.node("Reshape", [pooled, shape], f"{call.name}.flat")


def _pair(call: OperatorCall, value: int | Sequence[int]) -> list[int]:
    """One number per direction."""
    directions = len(call.shape) - 2
    numbers = [value] if isinstance(value, int) else list(value)
    return numbers * directions if len(numbers) == 1 else numbers


RULES: dict[str, Rule] = {
    "conv1d": convolution,
    "conv2d": convolution,
    "constant_pad_nd": pad,
    "pad": pad,
    "max_pool2d": maximum,
    "avg_pool2d": average,
    "adaptive_avg_pool2d": adaptive_average,
    "mean": mean,
}
