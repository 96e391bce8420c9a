"""ONNX models read as networks: the table of operators and the walk along the graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.limits import VALUE, Budget, read_limit
from reconstruct.formats.mapped import FileBlocks
from reconstruct.formats.onnx import elementwise, elu, images, layers, linear, shapes
from reconstruct.formats.onnx.agreement import Reading, check_agreement
from reconstruct.formats.onnx.draft import NARROW
from reconstruct.formats.onnx.folding import Folding
from reconstruct.formats.onnx.inference import Inference
from reconstruct.formats.onnx.model import DEFAULT_DOMAIN, Model, attributes, read_model
from reconstruct.formats.onnx.order import node_name
from reconstruct.formats.onnx.values import Builder, Call, Flow, Tail, Value
from reconstruct.networks import Network

Array = NDArray[Any]
DOUBLE = 11  # ONNX's number of float64
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
    "Conv": images.conv,
    "MaxPool": images.max_pool,
    "AveragePool": images.average_pool,
    "GlobalAveragePool": images.global_average,
    "GlobalMaxPool": images.global_max,
    "ReduceMean": images.reduce_mean,
    "Pad": images.pad,
}
SUPPORTED = (
    "Gemm, MatMul, Conv, Add, Sub, Mul, Div, Relu, LeakyRelu, Elu, Selu, Clip, "
    "BatchNormalization, MaxPool, AveragePool, Flatten, Reshape and others that only move values"
)


def read_onnx(content: bytes, folder: Path, budget: Budget | None = None) -> Network:
    """The network that an ONNX model is; operators that are not supported are refused by name.

    What was read is compared with an independent evaluation of the model at a few points, unless
    weights stay in their file: another program would hold them.
    """
    memory = budget or Budget(read_limit())
    model = read_model(content, folder, memory)
    walk = _Walk(model, Builder(model.input, math.prod(model.shape), memory), Inference(model))
    for node in model.nodes:
        walk.step(node)
    output = walk.values.get(model.output)
    if not isinstance(output, Flow):
        raise UnsupportedError(
            f"the output {model.output!r} is {'Exp' if isinstance(output, Tail) else 'constant'} "
            "or made by no node, but a function of the input is needed"
        )
    if any(isinstance(value, FileBlocks) for value in model.constants.values()):
        walk.build.notes.append("large weights stay in their file: no other program was asked")
        return walk.build.network(output, _metadata(walk, output))
    network = walk.build.network(output, _metadata(walk, output))
    if not check_agreement(Reading(model, network, output, walk.flows, walk.kinds, walk.build)):
        walk.build.notes.append("values overflow wherever the model was tried: not compared")
        network = walk.build.network(output, _metadata(walk, output))
    return network


@dataclass(eq=False)
class _Walk:
    """The values known so far: constants, and what depends on the input.

    `flows` remembers, for each tensor of the file, where in the network its value stands;
    `kinds` the float types that values have on the way.
    """

    model: Model
    build: Builder
    inference: Inference
    values: dict[str, Value] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    flows: dict[str, tuple[Flow, int]] = field(default_factory=dict)
    kinds: set[int] = field(default_factory=set)
    widened: set[str] = field(default_factory=set)  # float64 in the file, kept as the float32 cast

    def __post_init__(self) -> None:
        self.folding = Folding(self.model.opset)
        self.constants = dict(self.model.constants)
        self.values = {**self.constants, self.model.input: Flow(self.model.input, self.model.shape)}
        self.kinds.add(self.model.kind)

    def step(self, node: Any) -> None:
        """Reads one node; whatever it provokes becomes a refusal that names it."""
        name = node_name(node)
        try:
            self._step(node, name)
        except InputError as error:
            if repr(name) in str(error):
                raise
            raise type(error)(f"node {name!r} ({node.op_type}) {error}") from None
        except (ValueError, TypeError, IndexError, KeyError, ArithmeticError) as error:
            raise InputError(f"node {name!r} ({node.op_type}) is malformed ({error})") from None

    def _step(self, node: Any, name: str) -> None:
        inputs = [self.values[i] if i else None for i in node.input]
        constant = all(v is None or isinstance(v, np.ndarray | FileBlocks) for v in inputs)
        if node.domain not in DEFAULT_DOMAIN or not (constant or node.op_type in KNOWN):
            raise _unknown(node, name, self.model)
        try:
            stated = self.inference.outputs(node, self.constants)
        except InputError:
            if not constant:  # the operator's own refusal says more, if it has one
                self._read(node, name, inputs)
            raise
        for shape in [] if self._only_widens(node, inputs) else stated:
            self.build.budget.tensor(shape or (), f"the value of node {name!r}")
        if node.op_type == "Shape":
            made: list[Any] = [_shape_of(inputs[0], node)]
        elif constant:
            made = self._folded(node, inputs, stated)
        else:
            made = self._read(node, name, inputs)
        self._keep(node, made, stated)

    def _folded(self, node: Any, inputs: list[Any], stated: list[Any]) -> list[Array]:
        kinds = [(self.inference.kind(o) if o else 0) for o in node.output]
        size = sum(VALUE * math.prod(shape or (0,)) for shape in stated)
        if self._only_widens(node, inputs):
            self.widened.update(node.output)
            return [inputs[0]]
        self.build.budget.take(size, f"the constant that node {node_name(node)!r} makes")
        inputs = [
            v.astype(np.float64) if name in self.widened else v
            for name, v in zip(node.input, inputs, strict=True)
        ]
        return self.folding.fold(node, inputs, list(zip(kinds, stated, strict=True)))

    def _only_widens(self, node: Any, inputs: list[Any]) -> bool:
        """A Cast of large float32 weights to float64: the same numbers, kept in half the space."""
        return (
            node.op_type == "Cast"
            and self.inference.kind(node.output[0]) == DOUBLE
            and isinstance(inputs[0], np.ndarray | FileBlocks)
            and inputs[0].dtype == np.float32
            and inputs[0].size >= NARROW
        )

    def _read(self, node: Any, name: str, inputs: list[Any]) -> list[Any]:
        seen = tuple(_seen(v, self.model.uses[i]) for i, v in zip(node.input, inputs, strict=True))
        outputs = len(node.output)
        call = Call(name, node.op_type, seen, attributes(node), self.model.opset, outputs)
        made = OPERATORS[node.op_type](call, self.build)
        return made if isinstance(made, list) else [made]

    def _keep(self, node: Any, made: list[Any], stated: list[Any]) -> None:
        for goal, value, shape in zip(node.output, made, stated, strict=False):
            if not goal:
                continue
            if shape is not None and tuple(value.shape) != shape:
                raise UnsupportedError(
                    f"is read in shape {tuple(value.shape)}, but ONNX's rules give {shape}"
                )
            if shape is None:
                self.inference.settle(goal, tuple(value.shape))
            self.values[goal] = value
            if isinstance(value, np.ndarray | FileBlocks):
                self.constants[goal] = value
            else:
                self.kinds.add(self.inference.kind(goal))
            if isinstance(value, Flow):
                self.flows[goal] = (value, self.build.revisions[value.node])


KNOWN = {*OPERATORS, "Shape"}


def _seen(value: Value | None, uses: int) -> Value | None:
    return replace(value, shared=True) if isinstance(value, Flow) and uses > 1 else value


def _shape_of(value: Any, node: Any) -> Array:
    """The shape of a tensor as a constant: a symbolic batch counts as 1."""
    found = attributes(node)
    return np.array(value.shape, dtype=np.int64)[found.get("start", 0) : found.get("end")]


def _unknown(node: Any, name: str, model: Model) -> UnsupportedError:
    kind = node.op_type if node.domain in DEFAULT_DOMAIN else f"{node.domain}.{node.op_type}"
    remedy = ""
    if model.output in node.output:
        remedy = "; remove the last node to use the network before it"
    return UnsupportedError(
        f"node {name!r} is of type {kind}, which is not supported; supported are {SUPPORTED}"
        + remedy
    )


def _metadata(walk: _Walk, output: Flow) -> dict[str, Any]:
    model = walk.model
    kept = {"data_sha256": model.data} if model.data else {}
    return {
        "input": model.input,
        "input_shape": list(model.shape),
        "batch": "symbolic" if model.batch else "fixed",
        "output": model.output,
        "output_shape": list(output.shape),
        "opset": model.opset,
        "notes": [*walk.build.notes, *walk.folding.notes()],
        **kept,
    }
