"""What each of torch's operators is in ONNX: one rule per operator, in one table.

A rule is given the operator's arguments by name and writes the nodes of ONNX that mean the same;
what those mean is then decided in one place, our reader of ONNX. The batch leads every value.
"""

from __future__ import annotations

import numpy as np

from reconstruct.bridge import aten_images
from reconstruct.bridge.call import OperatorCall, Rule
from reconstruct.bridge.onnx_graph import OnnxGraph
from reconstruct.bridge.requirement import SELU


def linear(call: OperatorCall, graph: OnnxGraph) -> str:
    """x Wᵀ + b; more than one dimension besides the batch goes by MatMul."""
    x, weight, bias = call["input"], call["weight"], call["bias"]
    if len(call.shape) == 2:
        return graph.node("Gemm", [x, weight] + ([bias] if bias else []), call.name, transB=1)
    turned = graph.node("Transpose", [weight], f"{call.name}.turned", perm=[1, 0])
    product = graph.node("MatMul", [x, turned], call.name)
    return graph.node("Add", [product, bias], f"{call.name}.bias") if bias else product


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


def relu(call: OperatorCall, graph: OnnxGraph) -> str:
    return graph.node("Relu", [call["self"]], call.name)


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


def clip(low: str | None, high: str | None) -> Rule:
    """Clip between the arguments of these names, either of which may be None."""

    def rule(call: OperatorCall, graph: OnnxGraph) -> str:
        ends = []
        for key in (low, high):
            end = None if key is None else call[key]
            ends.append("" if end is None else graph.constant(f"{call.name}.{key}", end))
        return graph.node("Clip", [call["self"], *ends], call.name)

    return rule


def fixed_clip(low: float, high: float) -> Rule:
    def rule(call: OperatorCall, graph: OnnxGraph) -> str:
        ends = [graph.constant(f"{call.name}.{end:g}", end) for end in (low, high)]
        return graph.node("Clip", [call["self"], *ends], call.name)

    return rule


def prelu(call: OperatorCall, graph: OnnxGraph) -> str:
    return graph.node("PRelu", [call["self"], call["weight"]], call.name)


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


def negate(call: OperatorCall, graph: OnnxGraph) -> str:
    return graph.node("Neg", [call["self"]], call.name)


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


RULES: dict[str, Rule] = aten_images.RULES | {
    "linear": linear,
    "batch_norm": batch_norm,
    "_native_batch_norm_legit_no_training": batch_norm,
    "_native_batch_norm_legit": batch_norm,
    "relu": relu,
    "leaky_relu": leaky_relu,
    "elu": elu,
    "selu": selu,
    "hardtanh": clip("min_val", "max_val"),
    "relu6": fixed_clip(0.0, 6.0),
    "clamp": clip("min", "max"),
    "clamp_min": clip("min", None),
    "clamp_max": clip(None, "max"),
    "prelu": prelu,
    "_prelu_kernel": prelu,
    "add": arithmetic("Add"),
    "sub": arithmetic("Sub"),
    "mul": arithmetic("Mul"),
    "div": arithmetic("Div"),
    "neg": negate,
    "matmul": arithmetic("MatMul"),
    "flatten": reshape,
    "view": reshape,
    "_unsafe_view": reshape,
    "reshape": reshape,
    "unflatten": reshape,
    "squeeze": reshape,
    "unsqueeze": reshape,
    "permute": transpose,
    "transpose": transpose,
    "t": transpose,
    "cat": concat,
    "slice": part,
    "dropout": identity,
    "clone": identity,
    "contiguous": identity,
    "detach": identity,
    "alias": identity,
    "lift_fresh_copy": identity,
}
