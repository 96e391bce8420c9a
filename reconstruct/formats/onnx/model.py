"""An ONNX file as a checked model: one input of known shape, one output, constants, nodes.

ONNX asks for nodes in an order in which each one's inputs are known, but runtimes sort by
themselves, and files that are not in order exist: they are sorted here. Nodes that the output does
not depend on are left out.

Operators are what the file's own operator set says. Defaults of attributes differ between the sets
(Clip of set 6 ends at ±3.4e38, Selu of set 1 has other constants), so they are taken from ONNX's
definitions and never typed here. Shapes come from ONNX's inference, one node at a time: every
constant is known when a node is reached, so that its rules leave no dimension open, and a node that
is read in another shape is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.errors import InputError, MissingDependencyError, UnsupportedError
from reconstruct.formats.files import LIMITS, Budget
from reconstruct.formats.onnx.external import read_external
from reconstruct.formats.onnx.values import DOUBLE, FLOAT
from reconstruct.networks import Network
from reconstruct.numbers.arrays import Array

DEFAULT_DOMAIN = ("", "ai.onnx")


@dataclass(frozen=True, eq=False)
class Model:
    """A parsed ONNX model. `batch` is true when one dimension of the input is symbolic.

    `nodes` are those that the output depends on, in an order in which they can be evaluated.
    `kind` is ONNX's number of the input's type. `data` gives the SHA-256 of every file beside
    the model that was read.
    """

    proto: Any
    nodes: tuple[Any, ...]
    opset: int
    input: str
    shape: tuple[int, ...]
    kind: int
    batch: bool
    output: str
    constants: dict[str, Array]
    uses: Counter[str]
    data: dict[str, str]


def import_onnx(purpose: str) -> Any:
    """The package onnx, with the submodules used here."""
    try:
        import onnx
        import onnx.checker
        import onnx.defs
        import onnx.external_data_helper
        import onnx.helper
        import onnx.numpy_helper
        import onnx.shape_inference
    except ImportError:
        raise MissingDependencyError("onnx", "onnx", purpose) from None
    return onnx


def read_model(content: bytes, folder: Path, budget: Budget, held: Network | None = None) -> Model:
    """The model in these bytes; tensors kept in files beside it are looked up in `folder`."""
    proto, opset = _parse(content)
    graph = proto.graph
    data, external = read_external(proto, folder, budget)
    constants = _constants(graph.initializer, external, held)
    # The arrays hold the numbers: once is enough. A message gives no memory back before it ends.
    del graph.initializer[:]
    proto = type(proto).FromString(proto.SerializeToString())
    graph = proto.graph
    inputs, outputs = [i for i in graph.input if i.name not in constants], graph.output
    if len(inputs) != 1 or len(outputs) != 1:
        first, second = (tuple(end.name for end in ends) for ends in (inputs, outputs))
        raise UnsupportedError(
            f"a network with one input and one output is needed, but the ONNX graph has "
            f"{len(first)} inputs {first[:4]} and {len(second)} outputs {second[:4]}"
            f"{_chosen(first, second)}"
        )
    source, goal = inputs[0], outputs[0].name
    shape, batch = _input_shape(source, budget)
    order = live_nodes(graph.node, {source.name, *constants}, goal)
    nodes = tuple(graph.node[i] for i in order)
    uses = Counter([goal, *(name for node in nodes for name in node.input)])
    kind = source.type.tensor_type.elem_type
    ends = source.name, shape, kind, batch, goal
    return Model(proto, nodes, opset, *ends, constants, uses, data)


def _parse(content: bytes) -> tuple[Any, int]:
    onnx = import_onnx("reading ONNX files")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except Exception:  # protobuf's own DecodeError, whose module has no types
        raise InputError(
            "this is not an ONNX model, or one that was cut short; fetch or export it again"
        ) from None
    if not model.HasField("graph") or not (model.graph.node or model.graph.input):
        raise InputError("the ONNX model holds no graph; was it written completely?")
    if model.graph.sparse_initializer:
        raise UnsupportedError(
            "the ONNX model holds sparse initializers, but only dense ones can be read; "
            "export it with dense weights"
        )
    if any(f.domain in DEFAULT_DOMAIN for f in model.functions):
        raise UnsupportedError(
            "the ONNX model defines functions of its own under the names of ONNX's operators; "
            "export it without functions"
        )
    versions = {int(o.version) for o in model.opset_import if o.domain in DEFAULT_DOMAIN}
    if not versions and model.ir_version < 3:  # these models meant opset 1
        versions = {1}
    if len(versions) != 1:
        raise InputError(
            f"the ONNX model must state one operator set, but states {sorted(versions) or 'none'}; "
            "was it cut short?"
        )
    return model, versions.pop()


def _constants(tensors: Any, external: dict[str, Array], held: Network | None) -> dict[str, Array]:
    """The initializers by name, those of `held` in place of what is the same to the last bit."""
    constants: dict[str, Array] = {}
    nodes = () if held is None else held.nodes
    known = {f"{n.name}.{key}": array for n in nodes for key, array in n.op.arrays().items()}
    for tensor in tensors:
        if tensor.name in constants:
            raise InputError(f"the ONNX model has two tensors of the name {tensor.name!r}")
        found = external.get(tensor.name)
        array = array_of(tensor) if found is None else found
        constants[tensor.name] = _one_of(array, known.get(tensor.name))
    return constants


def _one_of(array: Array, twin: Array | None) -> Array:
    """The twin if it has the same bits, in whatever shape; else the array."""
    if twin is None or (twin.dtype, twin.size) != (array.dtype, array.size):
        return array
    twin, bits = twin.reshape(array.shape), np.dtype(f"u{array.dtype.itemsize}")
    return twin if np.array_equal(twin.view(bits), array.view(bits)) else array


def array_of(tensor: Any) -> Array:
    """A tensor as an array, in its own type."""
    onnx = import_onnx("reading ONNX files")
    try:
        return np.asarray(onnx.numpy_helper.to_array(tensor))
    except Exception as error:  # the decoder raises whatever the damage provokes
        raise InputError(f"the tensor {tensor.name!r} of the model is damaged ({error})") from None


def _chosen(inputs: tuple[str, ...], outputs: tuple[str, ...]) -> str:
    """What to do: take the network without its margin, or cut one function out of the graph."""
    if outputs[1:] == ("margin",):
        return "; the margin is that of a guarded network: use network.onnx, the same without it"
    if not inputs or not outputs:
        return ""
    return (
        "; choose one of each by name: onnx.utils.extract_model(FILE, NEW_FILE, "
        f"[{inputs[0]!r}], [{outputs[0]!r}])"
    )


def _input_shape(info: Any, budget: Budget) -> tuple[tuple[int, ...], bool]:
    """The input's shape with 1 for its symbolic dimension, if it has one."""
    tensor, what = info.type.tensor_type, f"the input {info.name!r}"
    if tensor.elem_type not in (FLOAT, DOUBLE):
        raise UnsupportedError(
            f"{what} must be a tensor of float32 or float64 numbers; export the model in one of "
            f"them"
        )
    if not tensor.HasField("shape"):
        raise UnsupportedError(f"{what} has no shape; export the model with a fixed input shape")
    sizes = [max(d.dim_value, 0) for d in tensor.shape.dim]
    if any(d.HasField("dim_value") and d.dim_value == 0 for d in tensor.shape.dim[1:]):
        raise InputError(f"{what} has a dimension of size 0, so it has no values")
    if sizes.count(0) > 1:
        raise UnsupportedError(
            f"{what} has {sizes.count(0)} dimensions of unknown size, but only the batch may be "
            "symbolic; export the model with a fixed input shape"
        )
    return budget.tensor(tuple(size or 1 for size in sizes), what), 0 in sizes


def attribute_value(attribute: Any) -> Any:
    """An ONNX attribute as a Python value, a tensor as an array."""
    onnx = import_onnx("reading ONNX files")
    if attribute.type == onnx.AttributeProto.TENSOR:
        return array_of(attribute.t)
    value = onnx.helper.get_attribute_value(attribute)
    return value.decode() if isinstance(value, bytes) else value


def live_nodes(nodes: Sequence[Any], known: set[str], output: str) -> list[int]:
    """The nodes that `output` depends on, sorted; as in the file where that order serves."""
    maker: dict[str, int] = {}
    for i, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in maker or name in known:
                raise InputError(
                    f"node {node_name(node)!r} makes {name!r}, which something else makes already"
                )
            maker[name] = i
    sources: dict[int, list[int]] = {}
    waiting = [maker[output]] if output in maker else []
    while waiting:
        i = waiting.pop()
        if i in sources:
            continue
        for name in filter(None, nodes[i].input):
            if name not in maker and name not in known:
                raise InputError(
                    f"node {node_name(nodes[i])!r} ({nodes[i].op_type}) uses {name!r}, which no "
                    "node makes"
                )
        sources[i] = sorted({maker[name] for name in nodes[i].input if name in maker})
        waiting += sources[i]
    order = sorted(sources)
    if all(j < i for i in order for j in sources[i]):
        return order
    try:
        return list(TopologicalSorter({i: sources[i] for i in order}).static_order())
    except CycleError as error:
        stuck = nodes[error.args[1][0]]
        raise InputError(
            f"node {node_name(stuck)!r} ({stuck.op_type}) depends on its own value; a network "
            "without cycles is needed"
        ) from None


def node_name(node: Any) -> str:
    """What a message calls the node: its name, else what it makes, else what it is."""
    return str(node.name or next((o for o in node.output if o), "") or node.op_type)


# --- operators ------------------------------------------------------------------------------------


MENDED = {"MaxPool": 22, "AveragePool": 22}  # earlier rules count windows on pads (ceil_mode)
ALIKE = ("GroupNormalization",)  # without a rule; what it makes is like its first input


class Schemas:
    """ONNX's definitions of the model's operators, and the type of every value reached so far."""

    def __init__(self, model: Model) -> None:
        self._onnx = import_onnx("reading ONNX files")
        self._model = model
        self._opsets = [self._onnx.helper.make_opsetid("", model.opset)]
        to_kind = self._onnx.helper.np_dtype_to_tensor_dtype
        known = {name: (to_kind(a.dtype), a.shape) for name, a in model.constants.items()}
        known[model.input] = model.kind, model.shape
        make = self._onnx.helper.make_tensor_type_proto
        self._types = {name: make(kind, list(shape)) for name, (kind, shape) in known.items()}

    def kind(self, name: str) -> int:
        """ONNX's number of the value's element type."""
        return int(self._types[name].tensor_type.elem_type)

    def definition(self, node: Any, opset: int | None = None) -> Any:
        """The operator as the model's operator set defines it."""
        try:
            return self._onnx.defs.get_schema(node.op_type, opset or self._model.opset, "")
        except self._onnx.defs.SchemaError:
            raise UnsupportedError(
                f"is not an operator of ONNX's set {self._model.opset}, which the model states"
            ) from None

    def attributes(self, node: Any, understood: frozenset[str]) -> dict[str, Any]:
        """The node's attributes with the defaults of its operator set; unknown ones are refused."""
        definition = self.definition(node)
        given = {a.name: a for a in node.attribute}
        unknown = sorted(set(given) - (understood & set(definition.attributes)))
        if unknown or len(given) != len(node.attribute):
            raise UnsupportedError(
                f"has the attribute {unknown[0]!r}, which is not supported in operator set "
                f"{self._model.opset}"
                if unknown
                else "has an attribute twice"
            )
        defaults = {
            name: attribute.default_value
            for name, attribute in definition.attributes.items()
            if name in understood and attribute.default_value.name
        }
        try:
            return {name: attribute_value(a) for name, a in (defaults | given).items()}
        except (ValueError, TypeError) as error:
            raise InputError(f"has a malformed attribute ({error})") from None

    def outputs(self, node: Any, values: dict[str, Any]) -> tuple[tuple[int, ...] | None, ...]:
        """The shapes of what the node makes, None where ONNX's rules do not tell."""
        names = {name for name in node.input if name}
        known = {name: values[name] for name in names if isinstance(values[name], np.ndarray)}
        data = {
            name: self._onnx.numpy_helper.from_array(array, name)
            for name, array in known.items()
            if array.size <= LIMITS.shown
        }
        opset = max(self._model.opset, MENDED.get(node.op_type, 0))
        try:
            made = self._onnx.shape_inference.infer_node_outputs(
                self.definition(node, opset),
                node,
                {name: self._types[name] for name in names},
                data,
                opset_imports=self._opsets,
                ir_version=self._model.proto.ir_version,
            )
        except (
            self._onnx.shape_inference.InferenceError,
            self._onnx.checker.ValidationError,
            ValueError,
            RuntimeError,
        ) as error:
            given = (self._types[name].tensor_type.shape.dim for name in node.input if name)
            shapes = ", ".join(str(tuple(d.dim_value for d in dims)) for dims in given)
            raise InputError(
                f"is not legal ONNX on inputs of shapes {shapes or 'none'} ({_reason(error)}); "
                f"export the model again"
            ) from None
        if node.op_type in ALIKE:
            made = {node.output[0]: self._types[node.input[0]]}
        self._types.update(made)
        return tuple(_shape(made.get(name)) for name in node.output)


def _shape(kind: Any) -> tuple[int, ...] | None:
    dims = [] if kind is None else kind.tensor_type.shape.dim
    told = kind is not None and kind.tensor_type.HasField("shape")
    known = told and all(d.HasField("dim_value") for d in dims)
    return tuple(int(d.dim_value) for d in dims) if known else None


def _reason(error: Exception) -> str:
    """The last part of a message that names the whole chain of callers."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = lines[-1] if lines else type(error).__name__
    return reason.removeprefix("[ShapeInferenceError] ")[:300]
