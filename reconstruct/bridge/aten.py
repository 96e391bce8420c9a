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
from reconstruct.networks import activations


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


@dataclass(frozen=True, eq=False)
class OperatorCall:
    """One operator: its arguments (names of values for tensors), its shapes, its layer's name."""

    graph: ModuleGraph
    target: str
    name: str
    arguments: dict[str, Any]
    shape: tuple[int, ...]
    shapes: dict[str, tuple[int, ...]]

    def __getitem__(self, key: str) -> Any:
        return self.arguments[key]

    def get(self, key: str, absent: Any = None) -> Any:
        """The argument where the operator has one of that name, and it is given."""
        value = self.arguments.get(key)
        return absent if value is None else value

    def refuse(self, why: str) -> UnsupportedError:
        return UnsupportedError(f"{self.name!r} ({self.target}) {why}")

    def make(self, kind: str, inputs: Sequence[Any], word: str = "", **attributes: Any) -> str:
        """A node whose value has the layer's name, or a `word` of it; None stands for an input that
        is not there."""
        name = self.graph.fresh(f"{self.name}.{word}" if word else self.name)
        return self.graph.node(kind, [value for value in inputs if value], name, **attributes)

    def constant(self, word: str, values: Any, dtype: Any = None) -> str:
        return self.graph.constant(f"{self.name}.{word}", values, dtype)

    def fixed(self, key: str) -> bool:
        """Whether an argument is a constant, without a batch in front."""
        return self[key] in self.graph.held

    def axis(self, key: str, what: str, source: str = "self") -> int:
        """A dimension counted from the front, which must not be the batch."""
        axis = int(self[key] % len(self.shapes.get(source, self.shape)))
        if axis == 0:
            raise self.refuse(what)
        return axis


Rule = Callable[[OperatorCall], str]
# MultiheadAttention, alone or in a TransformerEncoderLayer, puts the sequence in front.
HEADS = (
    "; in place of nn.MultiheadAttention write q, k and v as Linear layers with their heads behind "
    "the batch, joined by scaled_dot_product_attention"
)


def linear(call: OperatorCall) -> str:
    """x Wᵀ + b; more than one dimension besides the batch goes by MatMul."""
    if len(call.shape) == 2:
        return call.make("Gemm", [call["input"], call["weight"], call["bias"]], transB=1)
    turned = call.make("Transpose", [call["weight"]], "turned", perm=[1, 0])
    product = call.make("MatMul", [call["input"], turned])
    return call.make("Add", [product, call["bias"]], "bias") if call["bias"] else product


def plain(kind: str, *inputs: str) -> Rule:
    """A node of this kind on the arguments of these names."""
    return lambda call: call.make(kind, [call[key] for key in inputs])


def _norm(kind: str, call: OperatorCall, inputs: Sequence[Any], **attributes: Any) -> str:
    name = call.make(kind, inputs, epsilon=call["eps"], **attributes)
    call.graph.eps[name] = float(call["eps"])
    return name


def batch_norm(call: OperatorCall) -> str:
    mean, var = call.get("running_mean"), call.get("running_var")
    if mean is None or var is None or call.get("training"):
        raise call.refuse(
            "is normalised by the statistics of its batch, so it is no function of one example; "
            "use a norm that tracks running statistics"
        )
    channels = len(call.graph.held[mean])
    weight = call["weight"] or call.constant("ones", np.ones(channels))
    bias = call["bias"] or call.constant("zeros", np.zeros(channels))
    return _norm("BatchNormalization", call, [call["input"], weight, bias, mean, var])


def layer_norm(call: OperatorCall) -> str:
    over = list(call["normalized_shape"])
    weight = call["weight"] or call.constant("ones", np.ones(over))
    return _norm("LayerNormalization", call, [call["input"], weight, call["bias"]], axis=-len(over))


def rms_norm(call: OperatorCall) -> str:
    """In steps: RMSNormalization is of a later operator set. Without eps torch takes that of its
    float type."""
    if len(call["normalized_shape"]) != 1:
        raise call.refuse("normalises over several axes; RMSNorm over the last one is read")
    x, eps = call["input"], call.constant("eps", call.get("eps", np.finfo(call.graph.dtype).eps))
    square = call.make("Mul", [x, x], "square")
    mean = call.make("ReduceMean", [square], "mean", axes=[-1], keepdims=1)
    root = call.make("Sqrt", [call.make("Add", [mean, eps], "sum")], "root")
    unit = call.make("Div", [x, root], "unit" if call["weight"] else "")
    return call.make("Mul", [unit, call["weight"]]) if call["weight"] else unit


def group_norm(call: OperatorCall) -> str:
    """One group is LayerNorm over all units of an example."""
    if call["num_groups"] != 1:
        raise call.refuse(
            f"has {call['num_groups']} groups, each with a deviation of its own; one group, which "
            f"is LayerNorm, is read"
        )
    over, parts = call.shape[1:], []
    for key, neutral in (("weight", 1.0), ("bias", 0.0)):
        given = call.graph.held[call[key]] if call[key] else np.full(over[:1], neutral)
        column = given.reshape(-1, *[1] * (len(over) - 1))
        parts.append(call.constant(key, np.broadcast_to(column, over)))
    return _norm("LayerNormalization", call, [call["input"], *parts], axis=1)


def activation(made: Callable[[OperatorCall], activations.Activation]) -> Rule:
    """An activation of ours, written as every network's is."""

    def rule(call: OperatorCall) -> str:
        name, op = call.graph.fresh(call.name), made(call)
        if op.kind in ("Gelu", "HardSwish") and call.graph.dtype == np.float64:
            raise call.refuse("is compared with ONNX's in float32 alone; bring module.float()")
        write_activation(op, call["self"], name, call.graph)
        return name

    return rule


def gelu(call: OperatorCall) -> activations.Activation:
    if call["approximate"] != "none":
        raise call.refuse("is approximated by tanh; GELU itself is read")
    return activations.Gelu()


def softplus(call: OperatorCall) -> activations.Activation:
    """torch takes z itself beyond its threshold, 2e-9 away from log(1 + e^z) at 20."""
    if call["beta"] != 1 or call["threshold"] < 20:
        raise call.refuse("has a beta or a threshold of its own; Softplus with beta 1 is read")
    return activations.Softplus()


def elu(call: OperatorCall) -> activations.Activation:
    if call["scale"] != 1 or call["input_scale"] != 1:
        raise call.refuse("has a scale besides alpha; elu and selu as torch.nn has them are read")
    return activations.Elu(float(call["alpha"]))


def clip(low: str, high: str) -> Rule:
    """Clip between the arguments of these names; one that is absent is no end."""
    return activation(
        lambda call: activations.Clip(float(call.get(low, -np.inf)), float(call.get(high, np.inf)))
    )


def arithmetic(kind: str) -> Rule:
    """A sum, difference, product or quotient of two values, or of a value and a number."""

    def rule(call: OperatorCall) -> str:
        first, second = (
            call[key] if isinstance(call[key], str) else call.constant(key, call[key])
            for key in ("self", "other")
        )
        if (alpha := call.get("alpha", 1)) != 1:
            second = call.make("Mul", [second, call.constant("alpha", alpha)], "scaled")
        return call.make(kind, [first, second])

    return rule


def identity(call: OperatorCall) -> str:
    """Copies, and what does nothing in evaluation."""
    return str(call.get("self") or call["input"])


def reshape(call: OperatorCall) -> str:
    """Any new shape that keeps the batch in front."""
    source, fixed = call.shapes["self"], call.fixed("self")
    if not fixed and source[0] != call.shape[0]:
        raise call.refuse(f"makes {call.shape} of {source}, which mixes examples of a batch{HEADS}")
    shape = [call.shape[0] if fixed else 0, *call.shape[1:]]
    return call.make("Reshape", [call["self"], call.constant("shape", shape, np.int64)])


def transpose(call: OperatorCall) -> str:
    rank = len(call.shape)
    order = list(range(rank))
    if "dims" in call.arguments:
        order = [d % rank for d in call["dims"]]
    else:
        first, second = call.get("dim0", 0), call.get("dim1", 1)
        order[first], order[second] = order[second], order[first]
    if not call.fixed("self") and order[0] != 0:
        raise call.refuse(f"moves the batch, which has to stay in front{HEADS}")
    return call.make("Transpose", [call["self"]], perm=order)


def concat(call: OperatorCall) -> str:
    return call.make("Concat", call["tensors"], axis=call.axis("dim", "joins examples of a batch"))


def part(call: OperatorCall) -> str:
    """self[…, start:end:step, …] along one dimension."""
    size = call.shapes["self"][call["dim"]]
    start, end, step = call.get("start", 0), min(call.get("end", size), size), call["step"]
    if (start, end, step) == (0, size, 1):
        return str(call["self"])
    axis = call.axis("dim", "takes some examples of a batch")
    ends = {"start": start, "end": end, "axis": axis, "step": step}
    words = [call.constant(key, [value], np.int64) for key, value in ends.items()]
    return call.make("Slice", [call["self"], *words])


def convolution(call: OperatorCall) -> str:
    padding = call["padding"]
    where: dict[str, Any] = {}
    if padding == "same":
        where["auto_pad"] = "SAME_UPPER"
    elif padding != "valid":
        where["pads"] = [*_pair(call, padding), *_pair(call, padding)]
    where["strides"], where["dilations"] = (
        _pair(call, call["stride"]),
        _pair(call, call["dilation"]),
    )
    inputs = [call["input"], call["weight"], call["bias"]]
    return call.make("Conv", inputs, group=call["groups"], **where)


def pad(call: OperatorCall) -> str:
    """Constant pads; torch counts them from the last dimension, ONNX from the first."""
    if call.get("mode", "constant") != "constant":
        raise call.refuse(f"repeats what is there ({call['mode']}); constant pads are supported")
    rank, pads = len(call.shape), call["pad"]
    before, after = [0] * rank, [0] * rank
    for i in range(len(pads) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = pads[2 * i], pads[2 * i + 1]
    if before[0] or after[0]:
        raise call.refuse("adds examples to a batch")
    widths = call.constant("pads", [*before, *after], np.int64)
    return call.make("Pad", [call["self"], widths, call.constant("value", call["value"] or 0.0)])


def maximum(call: OperatorCall) -> str:
    return _pool("MaxPool", call, dilations=_pair(call, call["dilation"]))


def average(call: OperatorCall) -> str:
    if call["divisor_override"] is not None:
        raise call.refuse("divides by a number of its own; the size of the window is supported")
    return _pool("AveragePool", call, count_include_pad=int(call["count_include_pad"]))


def _pool(kind: str, call: OperatorCall, **more: Any) -> str:
    kernel, pads = _pair(call, call["kernel_size"]), _pair(call, call["padding"])
    strides = _pair(call, call["stride"] or kernel)
    more |= {"pads": pads * 2, "ceil_mode": int(call["ceil_mode"])}
    return call.make(kind, [call["self"]], kernel_shape=kernel, strides=strides, **more)


def adaptive_average(call: OperatorCall) -> str:
    """The mean over equal windows; windows of different sizes are refused."""
    size, wanted = call.shapes["self"][-2:], call.shape[-2:]
    if any(s % w for s, w in zip(size, wanted, strict=True)):
        raise call.refuse(f"averages {size} to {wanted} pixels, but only equal windows are read")
    kernel = [s // w for s, w in zip(size, wanted, strict=True)]
    return call.make("AveragePool", [call["self"]], kernel_shape=kernel, strides=kernel)


def softmax(call: OperatorCall) -> str:
    rank = len(call.shape)
    if call["dim"] % rank != rank - 1:
        raise call.refuse("is over another dimension than the last; transpose the value around it")
    return call.make("Softmax", [call["self"]], axis=-1)


def attention(call: OperatorCall) -> str:
    """softmax(q kᵀ · scale) v, the scale 1/√d unless it is given."""
    if call["attn_mask"] is not None or call["is_causal"] or call["enable_gqa"]:
        raise call.refuse("has a mask or shares its heads; plain attention is supported")
    rank, width = len(call.shape), call.shapes["query"][-1]
    order = [*range(rank - 2), rank - 1, rank - 2]
    turned = call.make("Transpose", [call["key"]], "turned", perm=order)
    scores = call.make("MatMul", [call["query"], turned], "scores")
    factor = call.constant("scale", call.get("scale", width**-0.5))
    scaled = call.make("Mul", [scores, factor], "scaled")
    weights = call.make("Softmax", [scaled], "weights", axis=-1)
    return call.make("MatMul", [weights, call["value"]])


def expand(call: OperatorCall) -> str:
    """A constant for each example of a batch: a class token."""
    if not call.fixed("self") or call.shapes["self"][1:] != call.shape[1:]:
        raise call.refuse("repeats values; constants repeated for a batch are supported")
    return str(call["self"])


def select(call: OperatorCall) -> str:
    """One place along a dimension, which is left out."""
    axis = call.axis("dim", "takes one example of a batch")
    place = call["index"] % call.shapes["self"][axis]
    return call.make("Gather", [call["self"], call.constant("index", place, np.int64)], axis=axis)


def mean(call: OperatorCall) -> str:
    """The mean over some dimensions."""
    rank = len(call.shapes["self"])
    axes = sorted(d % rank for d in call["dim"] or range(rank))
    if axes[0] == 0:
        raise call.refuse("is a mean over the batch")
    return call.make("ReduceMean", [call["self"]], axes=axes, keepdims=int(call["keepdim"]))


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
    "relu": activation(lambda call: activations.Relu()),
    "leaky_relu": activation(lambda call: activations.LeakyRelu(call["negative_slope"])),
    "prelu _prelu_kernel": plain("PRelu", "self", "weight"),
    "relu6": activation(lambda call: activations.Clip(0.0, 6.0)),
    "hardtanh": clip("min_val", "max_val"),
    "clamp clamp_min clamp_max": clip("min", "max"),
    "elu": activation(elu),
    "selu": activation(lambda call: activations.Selu(**SELU)),
    "sigmoid": activation(lambda call: activations.Sigmoid()),
    "tanh": activation(lambda call: activations.Tanh()),
    "softplus": activation(softplus),
    "silu": activation(lambda call: activations.Silu()),
    "gelu": activation(gelu),
    "hardswish": activation(lambda call: activations.HardSwish()),
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
