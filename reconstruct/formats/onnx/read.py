"""ONNX models read as networks: the table of operators and the walk along the graph.

An operator is read if it stands in the table, in a version that the table names, with attributes
that it names; all else is refused by name. What is legal, and in which shape, ONNX's own rules say.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.files import VALUE, Around
from reconstruct.formats.onnx import constants as fold
from reconstruct.formats.onnx import elementwise, images, linear, steps, values
from reconstruct.formats.onnx.agreement import Reading, compared
from reconstruct.formats.onnx.model import DEFAULT_DOMAIN, Model, Schemas, node_name, read_model
from reconstruct.formats.onnx.values import Builder, Call, Flow, Unfinished, Value
from reconstruct.networks import Network

Reader = Callable[[Call, Builder], Any]


@dataclass(frozen=True)
class Operator:
    """How an operator is read, in the versions `first` to `last` of its definition.

    `flow` reads it on values that depend on the network's input, `constant` on constants alone.
    """

    first: int
    last: int
    attributes: str
    flow: Reader | None
    constant: Reader | None = None


def _both(first: int, last: int, attributes: str, reader: Reader) -> Operator:
    """One meaning for constants and for what depends on the input."""
    return Operator(first, last, attributes, reader, reader)


WINDOW = "auto_pad dilations kernel_shape pads strides"
POOL = f"{WINDOW} ceil_mode"
AXES = "axes keepdims noop_with_empty_axes"
# What rounds nothing in any type: all that is allowed in a narrower type than the network's.
EXACT: dict[str, Operator] = {
    "Relu": Operator(6, 14, "", elementwise.named, fold.folded(fold.rectified)),
    "Max": Operator(8, 13, "", elementwise.extremum, fold.folded(np.maximum)),
    "Min": Operator(8, 13, "", elementwise.extremum, fold.folded(np.minimum)),
    "Neg": Operator(6, 13, "", elementwise.negate, fold.folded(np.negative)),
    "Dropout": Operator(7, 22, "ratio seed", elementwise.dropout),
    "Cast": Operator(6, 28, "to saturate round_mode", elementwise.cast, fold.cast),
    "MaxPool": Operator(1, 22, f"{POOL} storage_order", images.max_pool),
    "GlobalMaxPool": Operator(1, 22, "", images.global_pool),
    "Pad": Operator(2, 25, "mode pads value", fold.pad),
    "Identity": _both(1, 25, "", fold.relabelled),
    "Flatten": _both(1, 25, "axis", fold.relabelled),
    "Reshape": _both(5, 25, "allowzero", fold.relabelled),
    "Squeeze": _both(1, 25, "axes", fold.relabelled),
    "Unsqueeze": _both(1, 25, "axes", fold.relabelled),
    "Transpose": _both(1, 25, "perm", fold.transpose),
    "Slice": _both(1, 13, "starts ends axes", fold.slices),
    "Gather": _both(1, 13, "axis", fold.gather),
    "Split": _both(2, 18, "axis split num_outputs", fold.split),
    "Concat": _both(4, 13, "axis", fold.concat),
    "Expand": _both(8, 13, "", fold.expand),
    "Shape": _both(1, 25, "start end", fold.shape_of),
}
OPERATORS: dict[str, Operator] = {
    # products
    "Gemm": Operator(7, 13, "alpha beta transA transB", linear.gemm),
    "MatMul": Operator(1, 13, "", linear.matmul, fold.matmul),
    "Conv": Operator(1, 22, f"{WINDOW} group", images.conv),
    # arithmetic
    "Add": Operator(7, 14, "", elementwise.total, fold.folded(np.add)),
    "Sub": Operator(7, 14, "", elementwise.total, fold.folded(np.subtract)),
    "Sum": Operator(8, 13, "", elementwise.total, fold.folded(np.add)),
    "Mul": Operator(7, 14, "", elementwise.product, fold.folded(np.multiply)),
    "Div": Operator(7, 14, "", elementwise.product, fold.folded(fold.quotient)),
    "Sqrt": Operator(6, 13, "", steps.part, fold.folded(np.sqrt)),
    "Reciprocal": Operator(6, 13, "", steps.part),
    "Pow": Operator(7, 15, "", steps.part),
    "Exp": Operator(6, 13, "", steps.part),
    "Erf": Operator(9, 13, "", steps.part),
    # activations and norms
    "LeakyRelu": Operator(6, 16, "alpha", elementwise.leaky),
    "PRelu": Operator(7, 16, "", elementwise.leaky),
    "Sigmoid": Operator(6, 13, "", elementwise.named),
    "Tanh": Operator(6, 13, "", elementwise.named),
    "Softplus": Operator(1, 22, "", elementwise.named),
    "HardSwish": Operator(14, 22, "", elementwise.named),
    "Gelu": Operator(20, 20, "approximate", elementwise.gelu),
    "Softmax": Operator(1, 13, "axis", elementwise.softmax),
    "Elu": Operator(6, 22, "alpha", elementwise.named),
    "Selu": Operator(6, 22, "alpha gamma", elementwise.named),
    "Clip": Operator(6, 13, "min max", elementwise.clip),
    "BatchNormalization": Operator(
        7, 15, "epsilon momentum spatial training_mode", elementwise.batch_normalization
    ),
    "LayerNormalization": Operator(17, 17, "axis epsilon stash_type", elementwise.live_norm),
    "RMSNormalization": Operator(23, 23, "axis epsilon stash_type", elementwise.live_norm),
    "GroupNormalization": Operator(21, 21, "epsilon num_groups stash_type", elementwise.live_norm),
    # pooling
    "AveragePool": Operator(7, 22, f"{POOL} count_include_pad", images.average_pool),
    "GlobalAveragePool": Operator(1, 22, "", images.global_pool),
    "ReduceMean": Operator(1, 18, AXES, images.reduced),
    "ReduceSum": Operator(1, 13, AXES, images.reduced),
    # constants
    "Constant": Operator(1, 25, " ".join(fold.VALUES), None, fold.constant),
    "ConstantOfShape": Operator(9, 25, "value", None, fold.filled),
    **EXACT,
}
REMEDIES = {
    "ConvTranspose": "; write it as a Conv of the image with zeros between its pixels",
    "InstanceNormalization": f"; it has channels, {elementwise.CHANNELWISE}",
    **dict.fromkeys(
        ["LSTM", "GRU", "RNN", "Loop", "Scan", "If"],
        "; a network is a fixed graph of layers here: unroll it over a sequence of one length",
    ),
}


def read_onnx(content: bytes, around: Around) -> Network:
    """The network that an ONNX model is; operators that are not supported are refused by name.

    What was read is compared with another program's evaluation of the same bytes.
    """
    model = read_model(content, around.folder, around.budget, around.held)
    walk = _Walk(model, Builder(Flow(model.input, model.shape), around.budget), Schemas(model))
    for node in model.nodes:
        walk.step(node)
    output = walk.values.get(model.output)
    if isinstance(output, Unfinished):
        raise UnsupportedError(f"the output {model.output!r} {values.REASON}")
    if not isinstance(output, Flow):
        raise UnsupportedError(
            f"the output {model.output!r} is constant or made by no "
            "node, but a function of the input is needed"
        )
    metadata: dict[str, Any] = {
        "input": model.input,
        "input_shape": list(model.shape),
        "batch": "symbolic" if model.batch else "fixed",
        "output": model.output,
        "output_shape": list(output.shape),
        "opset": model.opset,
        **({"data_sha256": model.data} if model.data else {}),
    }
    network = walk.build.network(output, metadata)
    where = {
        name: flow
        for name, (flow, revision) in walk.flows.items()
        if walk.build.revisions[flow.node] == revision  # else a bias or factor joined it later
        and (walk.schemas.kind(name) != values.BFLOAT or name == model.output)  # numpy has none
    }
    fixed = {name: v for name, v in walk.values.items() if isinstance(v, np.ndarray)}
    folded = {name: array for name, array in fixed.items() if name not in model.constants}
    kinds = {walk.schemas.kind(name) for name in walk.values.keys() - fixed.keys()}
    reading = Reading(content, around.folder, model, network, where, folded, kinds)
    told = compared(reading, around.near, around.unchecked)
    if walk.build.nearly:
        told = None
        if not around.unchecked:
            raise UnsupportedError(
                f"node {walk.build.nearly[0]!r} is GELU but for √2, in whose place the file has "
                "the nearest float: in real arithmetic another function, by up to 1e-8; export it "
                "in operator set 20, or say --unchecked-reading to have it read as GELU"
            )
    return replace(network, metadata={**metadata, "compared": told})


@dataclass(eq=False)
class _Walk:
    """The values known so far: constants, and what depends on the input.

    `flows` remembers, for each tensor of the file, where in the network its value stands.
    """

    model: Model
    build: Builder
    schemas: Schemas
    values: dict[str, Value] = field(default_factory=dict)
    flows: dict[str, tuple[Flow, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = {**self.model.constants, self.model.input: self.build.source}

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
        for missing in (i for i in node.input if i and i not in self.values):
            raise UnsupportedError(
                f"uses {missing!r}, which is not read: a second output, as Dropout's mask and "
                "MaxPool's indices, or the output of no node"
            )
        inputs = [self.values[i] if i else None for i in node.input]
        fixed = all(v is None or isinstance(v, np.ndarray) for v in inputs)
        read, attributes = self._operator(node, name, fixed)
        kinds = tuple(self.schemas.kind(i) if i else 0 for i in node.input)
        # Arithmetic is done in the type of the network's input or in a wider one: in a narrower
        # one every step would round in it, which no figure of a certificate counts.
        own = self.model.kind
        for value, kind in zip(inputs, kinds, strict=True):
            flows = isinstance(value, Flow | Unfinished) and node.op_type not in EXACT
            if flows and kind not in values.WIDER[own]:
                raise UnsupportedError(
                    f"computes in {values.NAMES.get(kind, 'another type')}, narrower than the "
                    f"input's {values.NAMES[own]}; export the model in one float type"
                )
        shapes = self.schemas.outputs(node, self.values)
        what = f"the value of node {name!r}"
        stored = max((v.size for v in inputs if isinstance(v, np.ndarray)), default=0)
        for shape in shapes:  # memory for what the node makes, before it is made
            if fixed and shape is None:
                raise UnsupportedError(values.UNTOLD)
            # a cast of a constant asks for no more numbers than the file holds
            if not fixed or math.prod(shape or ()) > stored:
                self.build.budget.tensor(shape or (), what)
            if fixed:
                self.build.budget.take(VALUE * math.prod(shape or ()), what)
        seen = tuple(_seen(v, self.model.uses[i]) for i, v in zip(node.input, inputs, strict=True))
        call = Call(name, node.op_type, seen, attributes, self.model.opset, shapes, kinds)
        made = read(call, self.build)
        for goal, value, shape in zip(
            node.output, made if isinstance(made, list) else [made], shapes, strict=False
        ):
            if goal:
                self._keep(goal, value, shape)

    def _operator(self, node: Any, name: str, fixed: bool) -> tuple[Reader, dict[str, Any]]:
        """The reader of the table for this node, and its attributes."""
        found = OPERATORS.get(node.op_type)
        if node.domain not in DEFAULT_DOMAIN or found is None:
            raise _unknown(node, name, self.model)
        version = self.schemas.definition(node).since_version
        if not found.first <= version <= found.last:
            raise UnsupportedError(
                f"is {node.op_type} of operator set {version}, but sets {found.first} to "
                f"{found.last} of it are read; convert the model with onnx.version_converter"
            )
        read = found.constant if fixed else found.flow
        if read is None:
            raise UnsupportedError(
                f"node {name!r} computes a constant by {node.op_type}, which is not done here; "
                "fold constants when exporting"
                if fixed
                else "acts on a value that depends on the network's input, but is read of constants"
            )
        return read, self.schemas.attributes(node, frozenset(found.attributes.split()))

    def _keep(self, name: str, value: Value, shape: tuple[int, ...] | None) -> None:
        """The value in the shape that ONNX's rules give, of which it must have the size."""
        if shape is None:
            raise UnsupportedError(values.UNTOLD)
        if math.prod(value.shape) != math.prod(shape):
            raise UnsupportedError(
                f"is read in shape {tuple(value.shape)}, but ONNX's rules give {shape}"
            )
        if isinstance(value, np.ndarray):
            self.values[name] = value.reshape(shape)
            return
        self.values[name] = value = replace(value, shape=shape)
        if isinstance(value, Flow):
            self.flows[name] = (value, self.build.revisions[value.node])


def _seen(value: Value | None, uses: int) -> Value | None:
    return replace(value, shared=True) if isinstance(value, Flow) and uses > 1 else value


def _unknown(node: Any, name: str, model: Model) -> UnsupportedError:
    kind = node.op_type if node.domain in DEFAULT_DOMAIN else f"{node.domain}.{node.op_type}"
    remedy = REMEDIES.get(node.op_type, "")
    if model.output in node.output:
        remedy = "; remove the last node to use the network before it"
    return UnsupportedError(
        f"node {name!r} is of type {kind}, which is not supported; supported are "
        f"{', '.join(OPERATORS)}{remedy}"
    )
