"""Networks written as ONNX models (IR 8, opset 15) that onnxruntime runs in float32 and float64.

The model takes `[N, size_in]` with a symbolic batch; each node of the network is an ONNX node of
the same name. Where onnxruntime has no float64 kernel (LeakyRelu, Elu, Selu) the activation is
spelled out in basic steps, which the reader recognises.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reconstruct.errors import InputError
from reconstruct.formats.files import write_atomically, written_whole
from reconstruct.formats.onnx.external import DataFile, holds
from reconstruct.formats.onnx.model import import_onnx
from reconstruct.formats.precision import rounded
from reconstruct.networks import (
    Add,
    Clip,
    Elu,
    LeakyRelu,
    Mixing,
    Network,
    Node,
    Norm,
    Relu,
    Scaling,
    Select,
    Selu,
)
from reconstruct.version import __version__

IR_VERSION, OPSET = 8, 15  # onnx's own defaults are too new for released onnxruntimes
PROTOBUF_LIMIT = 2**31 - 2**20  # bytes in one protobuf message, less what is not weights
Array = NDArray[Any]


@dataclass(eq=False)
class _Draft:
    """The ONNX nodes and constants written so far."""

    onnx: Any
    dtype: Any
    taken: set[str]
    data: DataFile | None = None
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def constant(self, name: str, values: Any, dtype: Any = None) -> str:
        unique = self.fresh(name)
        array = np.asarray(values, dtype=dtype or self.dtype, order="C")
        if self.data is not None and holds(array):
            self.constants.append(self.data.tensor(unique, array))
        else:
            self.constants.append(self.onnx.numpy_helper.from_array(array, unique))
        return unique

    def node(
        self, kind: str, inputs: list[str], made: str, name: str | None = None, **attributes: Any
    ) -> str:
        """A node that makes the value `made`, called so itself unless `name` is given."""
        node = self.onnx.helper.make_node(kind, inputs, [made], name=name or made, **attributes)
        self.nodes.append(node)
        return made

    def step(self, kind: str, inputs: list[str], name: str) -> str:
        """A node of our own making, between the network's."""
        return self.node(kind, inputs, self.fresh(f"{name}/{kind.lower()}"))

    def fresh(self, name: str) -> str:
        unique, count = name, 1
        while unique in self.taken:
            count += 1
            unique = f"{name}_{count}"
        self.taken.add(unique)
        return unique


def write_onnx(network: Network, path: str | os.PathLike[str], dtype: Any = np.float64) -> None:
    """Writes the network with its numbers rounded to `dtype`, whole or not at all.

    Beyond 2 GiB, where a protobuf message ends, the weights go to `<path>.data` beside the model.
    """
    kind, goal = np.dtype(dtype), Path(path)
    if network.parameters * kind.itemsize <= PROTOBUF_LIMIT:
        write_atomically(goal, onnx_model(network, kind).SerializeToString())
        return
    beside = goal.with_name(goal.name + ".data")
    with written_whole(beside) as file:
        data = DataFile(import_onnx("writing ONNX files"), file, beside.name)
        model = onnx_model(network, kind, data)
        goal.unlink(missing_ok=True)  # an older model must not meet the new weights
    data.sign(model)
    write_atomically(goal, model.SerializeToString())


def onnx_model(network: Network, dtype: Any = np.float64, data: DataFile | None = None) -> Any:
    """The network as an onnx.ModelProto, its weights in `data` if that is given."""
    onnx = import_onnx("writing ONNX files")
    kind = np.dtype(dtype)
    if kind not in (np.float32, np.float64):
        raise InputError(f"ONNX files are written in float32 or float64, but got {kind}")
    draft = _Draft(onnx, kind, {network.source, *(n.name for n in network.nodes)}, data)
    for node in network.nodes:
        _write_node(node, draft)
    output = network.output
    if output == network.source:
        output = draft.node("Identity", [output], draft.fresh("output"))
    number = onnx.helper.np_dtype_to_tensor_dtype(kind)
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        draft.nodes,
        "network",
        [info(network.source, number, ["N", network.size_in])],
        [info(output, number, ["N", network.size_out])],
        draft.constants,
    )
    return onnx.helper.make_model(
        graph,
        ir_version=IR_VERSION,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        producer_name="reconstruct",
        producer_version=__version__,
    )


def _write_node(node: Node, draft: _Draft) -> None:
    op, name, inputs = node.op, node.name, list(node.inputs)
    if isinstance(op, Mixing):
        weight = op.matrix.toarray() if sparse.issparse(op.matrix) else op.matrix
        parts = _parameters(node, draft, weight=weight, bias=op.bias)
        draft.node("Gemm", inputs + parts, name, transB=1)
    elif isinstance(op, Norm):
        _write_norm(node, op, draft)
    elif isinstance(op, Scaling):
        _write_scaling(node, op, draft)
    elif isinstance(op, Add):
        draft.node("Add" if len(inputs) == 2 else "Sum", inputs, name)
    elif isinstance(op, Select):
        parts = [
            draft.constant(f"{name}.{key}", [value], np.int64)
            for key, value in (("start", op.start), ("stop", op.stop), ("axis", 1))
        ]
        draft.node("Slice", inputs + parts, name)
    else:
        _write_activation(op, inputs[0], name, draft)


def _write_norm(node: Node, op: Norm, draft: _Draft) -> None:
    """BatchNormalization; units that share a channel stand along an axis of their own."""
    eps = float(np.float32(op.eps))  # ONNX keeps a float32: the variance takes what is left of it
    var = np.maximum(op.var + (op.eps - eps), 0.0)
    parts = _parameters(
        node, draft, weight=op.gamma, bias=op.beta, running_mean=op.mean, running_var=var
    )
    if op.positions == 1:
        draft.node("BatchNormalization", [*node.inputs, *parts], node.name, epsilon=eps)
        return
    apart = draft.constant(f"{node.name}.shape", [0, op.channels, op.positions], np.int64)
    image = draft.node("Reshape", [*node.inputs, apart], draft.fresh(f"{node.name}/apart"))
    made = draft.fresh(f"{node.name}/image")
    draft.node("BatchNormalization", [image, *parts], made, node.name, epsilon=eps)
    flat = draft.constant(f"{node.name}.flat", [0, -1], np.int64)
    draft.node("Reshape", [made, flat], node.name, f"{node.name}/flat")


def _write_scaling(node: Node, op: Scaling, draft: _Draft) -> None:
    """Mul, Div and Add, those of them that do something; the last one has the node's name."""
    steps = [
        (kind, key, values)
        for kind, key, values, neutral in (
            ("Mul", "factor", op.factor, 1.0),
            ("Div", "divisor", op.divisor, 1.0),
            ("Add", "offset", op.offset, 0.0),
        )
        if np.any(values != neutral)
    ] or [("Add", "offset", op.offset)]
    (value,) = node.inputs
    for place, (kind, key, values) in enumerate(steps, start=1):
        (part,) = _parameters(node, draft, **{key: values})
        last = node.name if place == len(steps) else draft.fresh(f"{node.name}/{kind.lower()}")
        value = draft.node(kind, [value, part], last)


def _parameters(node: Node, draft: _Draft, **values: Array) -> list[str]:
    """The constants `<node>.<key>`, which must stay finite in the precision of the file."""
    return [
        draft.constant(f"{node.name}.{key}", rounded(node.name, key, value, draft.dtype))
        for key, value in values.items()
    ]


def _write_activation(op: Any, source: str, name: str, draft: _Draft) -> None:
    if isinstance(op, Relu):
        draft.node("Relu", [source], name)
    elif isinstance(op, Clip):
        bounds = ((op.lo, "min"), (op.hi, "max"))
        parts = [
            draft.constant(f"{name}.{key}", value) if np.isfinite(value) else ""
            for value, key in bounds
        ]
        draft.node("Clip", [source, *_without_trailing(parts)], name)
    elif draft.dtype == np.float32:
        kinds = {LeakyRelu: "LeakyRelu", Elu: "Elu", Selu: "Selu"}
        draft.node(kinds[type(op)], [source], name, **_attributes(op))
    else:
        _spell_out(op, source, name, draft)


def _attributes(op: LeakyRelu | Elu | Selu) -> dict[str, Any]:
    if isinstance(op, LeakyRelu):
        return {"alpha": op.slope}
    return {"alpha": op.alpha} | ({"gamma": op.gamma} if isinstance(op, Selu) else {})


def _spell_out(op: LeakyRelu | Elu | Selu, source: str, name: str, draft: _Draft) -> None:
    """The activation in basic steps that have float64 kernels (see `elu.py`)."""
    if isinstance(op, LeakyRelu):
        slope = draft.constant(f"{name}.slope", op.slope)
        product = draft.step("Mul", [source, slope], name)
        draft.node("Max" if op.slope <= 1 else "Min", [source, product], name)
        return
    one, zero = draft.constant(f"{name}.one", 1.0), draft.constant(f"{name}.zero", 0.0)
    alpha = draft.constant(f"{name}.alpha", op.alpha)
    below = draft.step("Min", [source, zero], name)
    tail = draft.step("Sub", [draft.step("Exp", [below], name), one], name)
    halves = [draft.step("Relu", [source], name), draft.step("Mul", [tail, alpha], name)]
    if isinstance(op, Elu):
        draft.node("Add", halves, name)
    else:
        gamma = draft.constant(f"{name}.gamma", op.gamma)
        draft.node("Mul", [draft.step("Add", halves, name), gamma], name)


def _without_trailing(parts: list[str]) -> Iterator[str]:
    """The names up to the last one that is not empty."""
    count = max((i + 1 for i, part in enumerate(parts) if part), default=0)
    yield from parts[:count]
