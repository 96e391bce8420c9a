"""ONNX models read as networks: the table of operators and the walk along the graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.onnx import elementwise, elu, layers, linear, shapes
from reconstruct.formats.onnx.model import Model, attributes, read_model
from reconstruct.formats.onnx.values import Builder, Call, Flow, Tail, Value
from reconstruct.networks import Network

OPERATORS: dict[str, Callable[[Call, Builder], Any]] = {
    "Gemm": linear.gemm,
    "MatMul": linear.matmul,
    "Add": elementwise.arithmetic,
    "Sub": elementwise.arithmetic,
    "Mul": elementwise.arithmetic,
    "Div": elementwise.arithmetic,
    "Neg": elementwise.negate,
    "Sum": elementwise.total,
    "Relu": layers.relu,
    "LeakyRelu": layers.leaky_relu,
    "PRelu": layers.prelu,
    "Elu": layers.elu,
    "Selu": layers.selu,
    "Clip": layers.clip,
    "Max": elu.extremum,
    "Min": elu.extremum,
    "Exp": elu.exponential,
    "BatchNormalization": layers.batch_normalization,
    "Dropout": layers.dropout,
    "Cast": layers.cast,
    "Constant": layers.constant,
    "ConstantOfShape": shapes.filled,
    "Identity": shapes.identity,
    "Flatten": shapes.flatten,
    "Reshape": shapes.reshape,
    "Squeeze": shapes.squeeze,
    "Unsqueeze": shapes.unsqueeze,
    "Transpose": shapes.transpose,
    "Slice": shapes.slices,
    "Gather": shapes.gather,
    "Split": shapes.split,
    "Concat": shapes.concat,
    "Expand": shapes.expand,
    "Shape": shapes.shape_of,
}
SUPPORTED = (
    "Gemm, MatMul, Add, Sub, Mul, Div, Relu, LeakyRelu, Elu, Selu, Clip, BatchNormalization, "
    "Flatten, Reshape and others that only move values"
)


def read_onnx(content: bytes, folder: Path) -> Network:
    """The network that an ONNX model is; operators that are not supported are refused by name."""
    model = read_model(content, folder)
    build = Builder(model.input, math.prod(model.shape))
    values: dict[str, Value] = dict(model.constants)
    values[model.input] = Flow(model.input, model.shape)
    for node in model.graph.node:
        call = _call(node, model, values, folder)
        for name, value in zip(node.output, _outcome(call, build), strict=False):
            if name:
                values[name] = value
    output = values.get(model.output)
    if not isinstance(output, Flow):
        raise UnsupportedError(
            f"the output {model.output!r} is {'Exp' if isinstance(output, Tail) else 'constant'} "
            "or made by no node, but a function of the input is needed"
        )
    return build.network(output, _metadata(model, output, build))


def _call(node: Any, model: Model, values: dict[str, Value], folder: Path) -> Call:
    name = node.name or next(iter(node.output), "") or node.op_type
    _check_operator(node, name, model)
    missing = [i for i in node.input if i and i not in values]
    if missing:
        raise InputError(f"node {name!r} ({node.op_type}) uses {missing[0]!r}, which no node makes")
    inputs = tuple(_seen(values[i], model.uses[i]) if i else None for i in node.input)
    outputs = sum(1 for name in node.output if name)
    return Call(name, node.op_type, inputs, attributes(node, folder), model.opset, outputs)


def _seen(value: Value, uses: int) -> Value:
    return replace(value, shared=True) if isinstance(value, Flow) and uses > 1 else value


def _check_operator(node: Any, name: str, model: Model) -> None:
    if node.domain in ("", "ai.onnx") and node.op_type in OPERATORS:
        return
    kind = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"
    remedy = ""
    if model.output in node.output:
        remedy = "; remove the last node to use the network before it"
    raise UnsupportedError(
        f"node {name!r} is of type {kind}, which is not supported; supported are {SUPPORTED}"
        + remedy
    )


def _outcome(call: Call, build: Builder) -> list[Value]:
    """What the node gives; whatever a malformed one provokes becomes a refusal that names it."""
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused when the network is built
            result = OPERATORS[call.kind](call, build)
    except InputError as error:
        if repr(call.name) in str(error):
            raise
        raise type(error)(f"node {call.name!r} ({call.kind}): {error}") from None
    except (ValueError, TypeError, IndexError, KeyError, OverflowError, ZeroDivisionError) as error:
        raise InputError(f"node {call.name!r} ({call.kind}) is malformed ({error})") from None
    return result if isinstance(result, list) else [result]


def _metadata(model: Model, output: Flow, build: Builder) -> dict[str, Any]:
    kept = {"data_sha256": model.data_sha256} if model.data_sha256 else {}
    return {
        "input": model.input,
        "input_shape": list(model.shape),
        "batch": "symbolic" if model.batch else "fixed",
        "output": model.output,
        "output_shape": list(output.shape),
        "opset": model.opset,
        "notes": list(build.notes),
        **kept,
    }
