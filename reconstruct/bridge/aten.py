"""What each of torch's operators is in ONNX: one rule per operator, in one table.

A rule is given the operator's arguments by name and writes the nodes of ONNX that mean the same;
what those mean is then decided in one place, our reader of ONNX. The batch leads every value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.bridge import SELU
from reconstruct.errors import UnsupportedError
from reconstruct.formats.onnx.write import Draft, write_activation
from reconstruct.networks import Activation, Clip, Elu, LeakyRelu, Relu, Selu
from reconstruct.networks.activations import Gelu, HardSwish, Sigmoid, Silu, Softplus, Tanh


@dataclass(eq=False)
class ModuleGraph(Draft):
    """A module as an ONNX graph while it is written; values are known by their names."""

    held: dict[str, NDArray[Any]] = field(default_factory=dict)  # the constants
    eps: dict[str, float] = field(default_factory=dict)  # of norms: in ONNX only a float32
    opset: int = 17  # LayerNormalization is of it

    def constant(self, name: str, values: Any, dtype: Any = None) -> str:
        known = super().constant(name, values, dtype)
        self.held[known] = np.asarray(values)
        return known

    def make(self, kind: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """A node whose value has that name, or one like it."""
        given = {key: value for key, value in attributes.items() if value is not None}
        return self.node(kind, list(inputs), self.fresh(name), **given)


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


Rule = Callable[[OperatorCall, ModuleGraph], str]
# MultiheadAttention, alone or in a TransformerEncoderLayer, puts the sequence in front.
HEADS = (
    "; in place of nn.MultiheadAttention write q, k and v as Linear layers with their heads behind "
    "the batch, joined by scaled_dot_product_attention"
)


def linear(call: OperatorCall, graph: ModuleGraph) -> str:
    """x Wᵀ + b; more than one dimension besides the batch goes by MatMul."""
    x, weight, bias = call["input"], call["weight"], call["bias"]
    if len(call.shape) == 2:
        return graph.make("Gemm", [x, weight] + ([bias] if bias else []), call.name, transB=1)
    turned = graph.make("Transpose", [weight], f"{call.name}.turned", perm=[1, 0])
    product = graph.make("MatMul", [x, turned], call.name)
    return graph.make("Add", [product, bias], f"{call.name}.bias") if bias else product


def plain(kind: str, *inputs: str) -> Rule:
    """A node of this kind on the arguments of these names."""
    return lambda call, graph: graph.make(kind, [call[key] for key in inputs], call.name)


def batch_norm(call: OperatorCall, graph: ModuleGraph) -> str:
    mean, var = (call.arguments.get(key) for key in ("running_mean", "running_var"))
    if mean is None or var is None or call.arguments.get("training"):
        raise call.refuse(
            "is normalised by the statistics of its batch, so it is no function of one example; "
            "use a norm that tracks running statistics"
        )
    channels = len(graph.held[mean])
    weight = call["weight"] or graph.constant(f"{call.name}.ones", np.ones(channels))
    bias = call["bias"] or graph.constant(f"{call.name}.zeros", np.zeros(channels))
    inputs = [call["input"], weight, bias, mean, var]
    name = graph.make("BatchNormalization", inputs, call.name, epsilon=call["eps"])
    graph.eps[name] = float(call["eps"])
    return name


def layer_norm(call: OperatorCall, graph: ModuleGraph) -> str:
    over = list(call["normalized_shape"])
    weight = call["weight"] or graph.constant(f"{call.name}.ones", np.ones(over))
    inputs = [call["input"], weight] + ([call["bias"]] if call["bias"] else [])
    name = graph.make("LayerNormalization", inputs, call.name, axis=-len(over), epsilon=call["eps"])
    graph.eps[name] = float(call["eps"])
    return name


def rms_norm(call: OperatorCall, graph: ModuleGraph) -> str:
    """In steps: RMSNormalization is of a later operator set. Without eps torch takes that of its
    float type."""
    if len(call["normalized_shape"]) != 1:
        raise call.refuse("normalises over several axes; RMSNorm over the last one is read")
    eps = np.finfo(graph.dtype).eps if call["eps"] is None else call["eps"]
    x = call["input"]
    square = graph.make("Mul", [x, x], f"{call.name}.square")
    mean = graph.make("ReduceMean", [square], f"{call.name}.mean", axes=[-1], keepdims=1)
    added = graph.constant(f"{call.name}.eps", eps)
    root = graph.make(
        "Sqrt", [graph.make("Add", [mean, added], f"{call.name}.sum")], f"{call.name}.root"
    )
    if not call["weight"]:
        return graph.make("Div", [x, root], call.name)
    unit = graph.make("Div", [x, root], f"{call.name}.unit")
    return graph.make("Mul", [unit, call["weight"]], call.name)


def group_norm(call: OperatorCall, graph: ModuleGraph) -> str:
    """One group is LayerNorm over all units of an example."""
    if call["num_groups"] != 1:
        raise call.refuse(
            f"has {call['num_groups']} groups, each with a deviation of its own; one group, which "
            f"is LayerNorm, is read"
        )
    over = call.shape[1:]
    parts = []
    for key, neutral in (("weight", 1.0), ("bias", 0.0)):
        given = np.full(over[:1], neutral) if not call[key] else graph.held[call[key]]
        column = given.reshape(-1, *[1] * (len(over) - 1))
        parts.append(graph.constant(f"{call.name}.{key}", np.broadcast_to(column, over)))
    name = graph.make(
        "LayerNormalization", [call["input"], *parts], call.name, axis=1, epsilon=call["eps"]
    )
    graph.eps[name] = float(call["eps"])
    return name


def activation(made: Callable[[OperatorCall], Activation]) -> Rule:
    """An activation of ours, written as every network's is."""

    def rule(call: OperatorCall, graph: ModuleGraph) -> str:
        name, op = graph.fresh(call.name), made(call)
        if isinstance(op, Gelu | HardSwish) and graph.dtype == np.float64:
            raise call.refuse("is compared with ONNX's in float32 alone; bring module.float()")
        write_activation(op, call["self"], name, graph)
        return name

    return rule


def gelu(call: OperatorCall) -> Gelu:
    if call["approximate"] != "none":
        raise call.refuse("is approximated by tanh; GELU itself is read")
    return Gelu()


def softplus(call: OperatorCall) -> Softplus:
    """torch takes z itself beyond its threshold, 2e-9 away from log(1 + e^z) at 20."""
    if call["beta"] != 1 or call["threshold"] < 20:
        raise call.refuse("has a beta or a threshold of its own; Softplus with beta 1 is read")
    return Softplus()


def elu(call: OperatorCall) -> Elu:
    if call["scale"] != 1 or call["input_scale"] != 1:
        raise call.refuse("has a scale besides alpha; elu and selu as torch.nn has them are read")
    return Elu(float(call["alpha"]))


def clip(low: str, high: str) -> Rule:
    """Clip between the arguments of these names; one that is absent is no end."""

    def end(call: OperatorCall, key: str, absent: float) -> float:
        value = call.arguments.get(key)
        return absent if value is None else float(value)

    return activation(lambda call: Clip(end(call, low, -np.inf), end(call, high, np.inf)))


def arithmetic(kind: str) -> Rule:
    """A sum, difference, product or quotient of two values, or of a value and a number."""

    def rule(call: OperatorCall, graph: ModuleGraph) -> str:
        other = _operand(call, graph, "other")
        alpha = call.arguments.get("alpha", 1)
        if alpha != 1:
            factor = graph.constant(f"{call.name}.alpha", alpha)
            other = graph.make("Mul", [other, factor], f"{call.name}.scaled")
        return graph.make(kind, [_operand(call, graph, "self"), other], call.name)

    return rule


def identity(call: OperatorCall, graph: ModuleGraph) -> str:
    """Copies, and what does nothing in evaluation."""
    return str(call["self" if "self" in call.arguments else "input"])


def reshape(call: OperatorCall, graph: ModuleGraph) -> str:
    """Any new shape that keeps the batch in front."""
    source = call.shapes["self"]
    if call["self"] not in graph.held and source[0] != call.shape[0]:
        raise call.refuse(f"makes {call.shape} of {source}, which mixes examples of a batch{HEADS}")
    lead = [0] if call["self"] not in graph.held else [call.shape[0]]
    shape = graph.constant(f"{call.name}.shape", [*lead, *call.shape[1:]], np.int64)
    return graph.make("Reshape", [call["self"], shape], call.name)


def transpose(call: OperatorCall, graph: ModuleGraph) -> str:
    rank = len(call.shape)
    order = list(range(rank))
    if "dims" in call.arguments:
        order = [d % rank for d in call["dims"]]
    else:
        first, second = (call.arguments.get(key, i) for i, key in enumerate(("dim0", "dim1")))
        order[first], order[second] = order[second], order[first]
    if call["self"] not in graph.held and order[0] != 0:
        raise call.refuse(f"moves the batch, which has to stay in front{HEADS}")
    return graph.make("Transpose", [call["self"]], call.name, perm=order)


def concat(call: OperatorCall, graph: ModuleGraph) -> str:
    axis = call["dim"] % len(call.shape)
    if axis == 0:
        raise call.refuse("joins examples of a batch")
    return graph.make("Concat", call["tensors"], call.name, axis=axis)


def part(call: OperatorCall, graph: ModuleGraph) -> str:
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
    return graph.make("Slice", [call["self"], *words], call.name)


def _operand(call: OperatorCall, graph: ModuleGraph, key: str) -> str:
    value = call[key]
    if isinstance(value, str):
        return value
    return graph.constant(f"{call.name}.{key}", value)


def convolution(call: OperatorCall, graph: ModuleGraph) -> str:
    padding = call["padding"]
    where: dict[str, Any] = {}
    if padding == "same":
        where["auto_pad"] = "SAME_UPPER"
    elif padding != "valid":
        where["pads"] = [*_pair(call, padding), *_pair(call, padding)]
    inputs = [call["input"], call["weight"]] + ([call["bias"]] if call["bias"] else [])
    return graph.make(
        "Conv",
        inputs,
        call.name,
        strides=_pair(call, call["stride"]),
        dilations=_pair(call, call["dilation"]),
        group=call["groups"],
        **where,
    )


def pad(call: OperatorCall, graph: ModuleGraph) -> str:
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
    return graph.make("Pad", [call["self"], widths, value], call.name)


def maximum(call: OperatorCall, graph: ModuleGraph) -> str:
    return _pool("MaxPool", call, graph, dilations=_pair(call, call["dilation"]))


def average(call: OperatorCall, graph: ModuleGraph) -> str:
    if call["divisor_override"] is not None:
        raise call.refuse("divides by a number of its own; the size of the window is supported")
    return _pool("AveragePool", call, graph, count_include_pad=int(call["count_include_pad"]))


def _pool(kind: str, call: OperatorCall, graph: ModuleGraph, **more: Any) -> str:
    kernel = _pair(call, call["kernel_size"])
    pads = _pair(call, call["padding"])
    return graph.make(
        kind,
        [call["self"]],
        call.name,
        kernel_shape=kernel,
        strides=_pair(call, call["stride"] or kernel),
        pads=[*pads, *pads],
        ceil_mode=int(call["ceil_mode"]),
        **more,
    )


def adaptive_average(call: OperatorCall, graph: ModuleGraph) -> str:
    """The mean over equal windows; windows of different sizes are refused."""
    size, wanted = call.shapes["self"][-2:], call.shape[-2:]
    if any(s % w for s, w in zip(size, wanted, strict=True)):
        raise call.refuse(f"averages {size} to {wanted} pixels, but only equal windows are read")
    kernel = [s // w for s, w in zip(size, wanted, strict=True)]
    return graph.make("AveragePool", [call["self"]], call.name, kernel_shape=kernel, strides=kernel)


def softmax(call: OperatorCall, graph: ModuleGraph) -> str:
    rank = len(call.shape)
    if call["dim"] % rank != rank - 1:
        raise call.refuse("is over another dimension than the last; transpose the value around it")
    return graph.make("Softmax", [call["self"]], call.name, axis=-1)


def attention(call: OperatorCall, graph: ModuleGraph) -> str:
    """softmax(q kᵀ · scale) v, the scale 1/√d unless it is given."""
    if call["attn_mask"] is not None or call["is_causal"] or call["enable_gqa"]:
        raise call.refuse("has a mask or shares its heads; plain attention is supported")
    rank, width = len(call.shape), call.shapes["query"][-1]
    scale = call["scale"] if call["scale"] is not None else width**-0.5
    order = [*range(rank - 2), rank - 1, rank - 2]
    turned = graph.make("Transpose", [call["key"]], f"{call.name}.turned", perm=order)
    scores = graph.make("MatMul", [call["query"], turned], f"{call.name}.scores")
    factor = graph.constant(f"{call.name}.scale", scale)
    scaled = graph.make("Mul", [scores, factor], f"{call.name}.scaled")
    weights = graph.make("Softmax", [scaled], f"{call.name}.weights", axis=-1)
    return graph.make("MatMul", [weights, call["value"]], call.name)


def expand(call: OperatorCall, graph: ModuleGraph) -> str:
    """A constant for each example of a batch: a class token."""
    if call["self"] not in graph.held or call.shapes["self"][1:] != call.shape[1:]:
        raise call.refuse("repeats values; constants repeated for a batch are supported")
    return str(call["self"])


def select(call: OperatorCall, graph: ModuleGraph) -> str:
    """One place along a dimension, which is left out."""
    axis = call["dim"] % len(call.shapes["self"])
    if axis == 0:
        raise call.refuse("takes one example of a batch")
    place = call["index"] % call.shapes["self"][axis]
    index = graph.constant(f"{call.name}.index", place, np.int64)
    return graph.make("Gather", [call["self"], index], call.name, axis=axis)


def mean(call: OperatorCall, graph: ModuleGraph) -> str:
    """The mean over some dimensions."""
    rank = len(call.shapes["self"])
    axes = sorted(d % rank for d in call["dim"] or range(rank))
    if axes[0] == 0:
        raise call.refuse("is a mean over the batch")
    keep = int(call["keepdim"])
    return graph.make("ReduceMean", [call["self"]], call.name, axes=axes, keepdims=keep)


def _pair(call: OperatorCall, value: int | Sequence[int]) -> list[int]:
    """One number per direction."""
    directions = len(call.shape) - 2
    numbers = [value] if isinstance(value, int) else list(value)
    return numbers * directions if len(numbers) == 1 else numbers


TABLE: dict[str, Rule] = {  # by the names that torch has for the operator
    "linear": linear,
    "bmm": plain("MatMul", "self", "mat2"),
    "matmul": arithmetic("MatMul"),
    "scaled_dot_product_attention": attention,
    "conv1d conv2d": convolution,
    "max_pool2d": maximum,
    "avg_pool2d": average,
    "adaptive_avg_pool2d": adaptive_average,
    "mean": mean,
    "batch_norm _native_batch_norm_legit_no_training _native_batch_norm_legit": batch_norm,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "group_norm": group_norm,
    "relu": activation(lambda call: Relu()),
    "leaky_relu": activation(lambda call: LeakyRelu(call["negative_slope"])),
    "prelu _prelu_kernel": plain("PRelu", "self", "weight"),
    "relu6": activation(lambda call: Clip(0.0, 6.0)),
    "hardtanh": clip("min_val", "max_val"),
    "clamp clamp_min clamp_max": clip("min", "max"),
    "elu": activation(elu),
    "selu": activation(lambda call: Selu(**SELU)),
    "sigmoid": activation(lambda call: Sigmoid()),
    "tanh": activation(lambda call: Tanh()),
    "softplus": activation(softplus),
    "silu": activation(lambda call: Silu()),
    "gelu": activation(gelu),
    "hardswish": activation(lambda call: HardSwish()),
    "softmax _softmax": softmax,
    "add": arithmetic("Add"),
    "sub": arithmetic("Sub"),
    "mul": arithmetic("Mul"),
    "div": arithmetic("Div"),
    "neg": plain("Neg", "self"),
    "dropout clone contiguous detach alias lift_fresh_copy": identity,
    "flatten view _unsafe_view reshape unflatten squeeze unsqueeze": reshape,
    "permute transpose t": transpose,
    "cat": concat,
    "slice": part,
    "select": select,
    "expand": expand,
    "constant_pad_nd pad": pad,
}
RULES = {name: rule for names, rule in TABLE.items() for name in names.split()}
