"""What each of torch's operators is in ONNX: one rule per operator, in one table.

A rule is given the operator's arguments by name and writes the nodes of ONNX that mean the same;
what those mean is then decided in one place, our reader of ONNX. The batch leads every value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.bridge import SELU
from reconstruct.errors import MissingDependencyError, UnsupportedError

try:
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    raise MissingDependencyError("onnx", "onnx", "reading a torch module") from None


class OnnxGraph:
    """Nodes and constants; values are known by their names, which are made unique."""

    def __init__(self, kind: Any) -> None:
        self.kind = np.dtype(kind)
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.eps: dict[str, float] = {}  # of each norm; the attribute in ONNX is only a float32
        self.opset = 17  # 20 where Gelu is used
        self._taken: set[str] = set()

    def input(self, name: str) -> str:
        """The name of the input."""
        return self._free(name)

    def constant(self, name: str, values: Any, kind: Any = None) -> str:
        """A constant of that name, or of one like it."""
        array = np.ascontiguousarray(values, self.kind if kind is None else kind)
        known = self._free(name)
        self.constants[known] = numpy_helper.from_array(array, known)
        return known

    def node(self, kind: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """A node; its one value carries its name."""
        known = self._free(name)
        given = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(kind, list(inputs), [known], name=known, **given))
        return known

    def bytes(self, source: str, shape: Sequence[int], output: str) -> bytes:
        """The model from the input `source` (batch × shape) to the value `output`."""
        self.nodes.append(helper.make_node("Identity", [output], ["result"], name="result"))
        kind = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}[self.kind.name]
        graph = helper.make_graph(
            self.nodes,
            "module",
            [helper.make_tensor_value_info(source, kind, ["batch", *shape])],
            [helper.make_tensor_value_info("result", kind, None)],
            list(self.constants.values()),
        )
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        content: bytes = model.SerializeToString()
        return content

    def value(self, name: str) -> NDArray[Any] | None:
        """The constant of that name, None for a value that depends on the input."""
        found = self.constants.get(name)
        return None if found is None else numpy_helper.to_array(found)

    def _free(self, name: str) -> str:
        known, count = name, 1
        while known in self._taken:
            count += 1
            known = f"{name}@{count}"
        self._taken.add(known)
        return known


@dataclass(frozen=True, eq=False)
class OperatorCall:
    """One operator: its arguments (names of values for tensors), its shapes, its layer's name."""

    target: str
    name: str
    arguments: dict[str, Any]
    shape: tuple[int, ...]
    shapes: dict[str, tuple[int, ...]]

    def __getitem__(self, key: str) -> Any:
        return self.arguments[key]

    def refuse(self, why: str) -> UnsupportedError:
        return UnsupportedError(f"{self.name!r} ({self.target}) {why}")


Rule = Callable[[OperatorCall, OnnxGraph], str]


def linear(call: OperatorCall, graph: OnnxGraph) -> str:
    """x Wᵀ + b; more than one dimension besides the batch goes by MatMul."""
    x, weight, bias = call["input"], call["weight"], call["bias"]
    if len(call.shape) == 2:
        return graph.node("Gemm", [x, weight] + ([bias] if bias else []), call.name, transB=1)
    turned = graph.node("Transpose", [weight], f"{call.name}.turned", perm=[1, 0])
    product = graph.node("MatMul", [x, turned], call.name)
    return graph.node("Add", [product, bias], f"{call.name}.bias") if bias else product


def plain(kind: str, *inputs: str) -> Rule:
    """A node of this kind on the arguments of these names."""
    return lambda call, graph: graph.node(kind, [call[key] for key in inputs], call.name)


def batch_norm(call: OperatorCall, graph: OnnxGraph) -> str:
    mean, var = (call.arguments.get(key) for key in ("running_mean", "running_var"))
    if mean is None or var is None or call.arguments.get("training"):
        raise call.refuse(
            "is normalised by the statistics of its batch, so it is no function of one example; "
            "use a norm that tracks running statistics"
        )
    channels = len(graph.value(mean))  # type: ignore[arg-type]
    weight = call["weight"] or graph.constant(f"{call.name}.ones", np.ones(channels))
    bias = call["bias"] or graph.constant(f"{call.name}.zeros", np.zeros(channels))
    inputs = [call["input"], weight, bias, mean, var]
    name = graph.node("BatchNormalization", inputs, call.name, epsilon=call["eps"])
    graph.eps[name] = float(call["eps"])
    return name


def layer_norm(call: OperatorCall, graph: OnnxGraph) -> str:
    over = list(call["normalized_shape"])
    weight = call["weight"] or graph.constant(f"{call.name}.ones", np.ones(over))
    inputs = [call["input"], weight] + ([call["bias"]] if call["bias"] else [])
    name = graph.node("LayerNormalization", inputs, call.name, axis=-len(over), epsilon=call["eps"])
    graph.eps[name] = float(call["eps"])
    return name


def rms_norm(call: OperatorCall, graph: OnnxGraph) -> str:
    """In steps: RMSNormalization is of a later operator set. Without eps torch takes that of its
    float type."""
    if len(call["normalized_shape"]) != 1:
        raise call.refuse("normalises over several axes; RMSNorm over the last one is read")
    eps = np.finfo(graph.kind).eps if call["eps"] is None else call["eps"]
    x = call["input"]
    square = graph.node("Mul", [x, x], f"{call.name}.square")
    mean = graph.node("ReduceMean", [square], f"{call.name}.mean", axes=[-1], keepdims=1)
    added = graph.constant(f"{call.name}.eps", eps)
    root = graph.node(
        "Sqrt", [graph.node("Add", [mean, added], f"{call.name}.sum")], f"{call.name}.root"
    )
    if not call["weight"]:
        return graph.node("Div", [x, root], call.name)
    unit = graph.node("Div", [x, root], f"{call.name}.unit")
    return graph.node("Mul", [unit, call["weight"]], call.name)


def group_norm(call: OperatorCall, graph: OnnxGraph) -> str:
    """One group is LayerNorm over all units of an example."""
    if call["num_groups"] != 1:
        raise call.refuse(
            f"has {call['num_groups']} groups, each with a deviation of its own; one group, which "
            f"is LayerNorm, is read"
        )
    over = call.shape[1:]
    parts = []
    for key, neutral in (("weight", 1.0), ("bias", 0.0)):
        given = np.full(over[:1], neutral) if not call[key] else graph.value(call[key])
        assert given is not None
        column = given.reshape(-1, *[1] * (len(over) - 1))
        parts.append(graph.constant(f"{call.name}.{key}", np.broadcast_to(column, over)))
    name = graph.node(
        "LayerNormalization", [call["input"], *parts], call.name, axis=1, epsilon=call["eps"]
    )
    graph.eps[name] = float(call["eps"])
    return name


def gelu(call: OperatorCall, graph: OnnxGraph) -> str:
    if call["approximate"] != "none":
        raise call.refuse("is approximated by tanh; GELU itself is read")
    if graph.kind == np.float64:
        raise call.refuse("is compared with ONNX's Gelu in float32 alone; bring module.float()")
    graph.opset = 20
    return graph.node("Gelu", [call["self"]], call.name)


def silu(call: OperatorCall, graph: OnnxGraph) -> str:
    gate = graph.node("Sigmoid", [call["self"]], f"{call.name}.gate")
    return graph.node("Mul", [call["self"], gate], call.name)


def softplus(call: OperatorCall, graph: OnnxGraph) -> str:
    """torch takes z itself beyond its threshold, 2e-9 away from log(1 + e^z) at 20."""
    if call["beta"] != 1 or call["threshold"] < 20:
        raise call.refuse("has a beta or a threshold of its own; Softplus with beta 1 is read")
    return graph.node("Softplus", [call["self"]], call.name)


def leaky_relu(call: OperatorCall, graph: OnnxGraph) -> str:
    """max(h, slope·h), or min for a slope above 1: as an attribute the slope would be rounded."""
    slope = graph.constant(f"{call.name}.slope", call["negative_slope"])
    scaled = graph.node("Mul", [call["self"], slope], f"{call.name}.scaled")
    kind = "Max" if call["negative_slope"] <= 1 else "Min"
    return graph.node(kind, [call["self"], scaled], call.name)


def elu(call: OperatorCall, graph: OnnxGraph) -> str:
    if call["scale"] != 1 or call["input_scale"] != 1:
        raise call.refuse("has a scale besides alpha; elu and selu as torch.nn has them are read")
    return _spelled_elu(call, graph, float(call["alpha"]), call.name)


def selu(call: OperatorCall, graph: OnnxGraph) -> str:
    gamma = graph.constant(f"{call.name}.gamma", SELU["gamma"])
    inner = _spelled_elu(call, graph, SELU["alpha"], f"{call.name}.elu")
    return graph.node("Mul", [inner, gamma], call.name)


def _spelled_elu(call: OperatorCall, graph: OnnxGraph, alpha: float, name: str) -> str:
    """relu(h) + alpha·(exp(min(h, 0)) − 1), which our reader knows again, alpha not rounded."""
    numbers = {"zero": 0.0, "one": 1.0, "alpha": alpha}
    zero, one, slope = (graph.constant(f"{name}.{key}", v) for key, v in numbers.items())
    below = graph.node("Min", [call["self"], zero], f"{name}.below")
    tail = graph.node("Sub", [graph.node("Exp", [below], f"{name}.exp"), one], f"{name}.tail")
    scaled = graph.node("Mul", [tail, slope], f"{name}.scaled")
    above = graph.node("Relu", [call["self"]], f"{name}.above")
    return graph.node("Add", [above, scaled], name)


def clip(low: str | float | None, high: str | float | None) -> Rule:
    """Clip between two numbers, or the arguments of these names; None is no end."""

    def rule(call: OperatorCall, graph: OnnxGraph) -> str:
        ends = []
        for key in (low, high):
            end = call[key] if isinstance(key, str) else key
            ends.append("" if end is None else graph.constant(f"{call.name}.{key}", end))
        return graph.node("Clip", [call["self"], *ends], call.name)

    return rule


def arithmetic(kind: str) -> Rule:
    """A sum, difference, product or quotient of two values, or of a value and a number."""

    def rule(call: OperatorCall, graph: OnnxGraph) -> str:
        other = _operand(call, graph, "other")
        alpha = call.arguments.get("alpha", 1)
        if alpha != 1:
            factor = graph.constant(f"{call.name}.alpha", alpha)
            other = graph.node("Mul", [other, factor], f"{call.name}.scaled")
        return graph.node(kind, [_operand(call, graph, "self"), other], call.name)

    return rule


def identity(call: OperatorCall, graph: OnnxGraph) -> str:
    """Copies, and what does nothing in evaluation."""
    return str(call["self" if "self" in call.arguments else "input"])


def reshape(call: OperatorCall, graph: OnnxGraph) -> str:
    """Any new shape that keeps the batch in front."""
    source = call.shapes["self"]
    if graph.value(call["self"]) is None and source[0] != call.shape[0]:
        raise call.refuse(f"makes {call.shape} of {source}, which mixes examples of a batch")
    lead = [0] if graph.value(call["self"]) is None else [call.shape[0]]
    shape = graph.constant(f"{call.name}.shape", [*lead, *call.shape[1:]], np.int64)
    return graph.node("Reshape", [call["self"], shape], call.name)


def transpose(call: OperatorCall, graph: OnnxGraph) -> str:
    rank = len(call.shape)
    order = list(range(rank))
    if "dims" in call.arguments:
        order = [d % rank for d in call["dims"]]
    else:
        first, second = (call.arguments.get(key, i) for i, key in enumerate(("dim0", "dim1")))
        order[first], order[second] = order[second], order[first]
    if graph.value(call["self"]) is None and order[0] != 0:
        raise call.refuse("moves the batch, which has to stay in front")
    return graph.node("Transpose", [call["self"]], call.name, perm=order)


def concat(call: OperatorCall, graph: OnnxGraph) -> str:
    axis = call["dim"] % len(call.shape)
    if axis == 0:
        raise call.refuse("joins examples of a batch")
    return graph.node("Concat", call["tensors"], call.name, axis=axis)


def part(call: OperatorCall, graph: OnnxGraph) -> str:
    """self[…, start:end:step, …] along one dimension."""
    rank = len(call.shapes["self"])
    axis = call["dim"] % rank
    size = call.shapes["self"][axis]
    end = size if call["end"] is None else min(call["end"], size)
    start = call["start"] or 0
    if axis == 0:
        if (start, end, call["step"]) == (0, size, 1):
            return str(call["self"])
        raise call.refuse("takes some examples of a batch")
    ends = {"start": start, "end": end, "axis": axis, "step": call["step"]}
    words = [graph.constant(f"{call.name}.{key}", [v], np.int64) for key, v in ends.items()]
    return graph.node("Slice", [call["self"], *words], call.name)


def _operand(call: OperatorCall, graph: OnnxGraph, key: str) -> str:
    value = call[key]
    if isinstance(value, str):
        return value
    return graph.constant(f"{call.name}.{key}", value)


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
    **dict.fromkeys(["permute", "transpose", "t"], transpose),
    **dict.fromkeys(
        ["batch_norm", "_native_batch_norm_legit_no_training", "_native_batch_norm_legit"],
        batch_norm,
    ),
    **dict.fromkeys(
        ["dropout", "clone", "contiguous", "detach", "alias", "lift_fresh_copy"], identity
    ),
    **dict.fromkeys(
        ["flatten", "view", "_unsafe_view", "reshape", "unflatten", "squeeze", "unsqueeze"], reshape
    ),
    "linear": linear,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "group_norm": group_norm,
    "relu": plain("Relu", "self"),
    "leaky_relu": leaky_relu,
    "sigmoid": plain("Sigmoid", "self"),
    "tanh": plain("Tanh", "self"),
    "softplus": softplus,
    "silu": silu,
    "gelu": gelu,
    "elu": elu,
    "selu": selu,
    "hardtanh": clip("min_val", "max_val"),
    "relu6": clip(0.0, 6.0),
    "clamp": clip("min", "max"),
    "clamp_min": clip("min", None),
    "clamp_max": clip(None, "max"),
    "prelu": plain("PRelu", "self", "weight"),
    "_prelu_kernel": plain("PRelu", "self", "weight"),
    "add": arithmetic("Add"),
    "sub": arithmetic("Sub"),
    "mul": arithmetic("Mul"),
    "div": arithmetic("Div"),
    "neg": plain("Neg", "self"),
    "matmul": arithmetic("MatMul"),
    "cat": concat,
    "slice": part,
    "conv1d": convolution,
    "conv2d": convolution,
    "constant_pad_nd": pad,
    "pad": pad,
    "max_pool2d": maximum,
    "avg_pool2d": average,
    "adaptive_avg_pool2d": adaptive_average,
    "mean": mean,
}
