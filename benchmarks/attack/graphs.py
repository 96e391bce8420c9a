"""Random ONNX graphs over every operator that is read: odd ranks, broadcasting, types, edges.

Shapes are followed by ONNX's own inference, so that most graphs are legal; the runtime has the
last word on that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnx.checker
import onnx.defs
import onnx.shape_inference
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array: TypeAlias = NDArray[Any]
Shape: TypeAlias = tuple[int, ...]
OPSETS = (7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 18, 19, 21)
FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
DETOURS = (  # types that a constant is sent through and back
    TensorProto.FLOAT16,
    TensorProto.BFLOAT16,
    TensorProto.DOUBLE,
    TensorProto.INT8,
    TensorProto.UINT8,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.BOOL,
    TensorProto.FLOAT8E4M3FN,
    TensorProto.FLOAT8E5M2,
)


class Illegal(Exception):
    """The node that was drawn does not fit; another one is drawn."""


@dataclass
class Draft:
    """A graph under construction: nodes, constants, and the type of every value."""

    rng: np.random.Generator
    opset: int
    kind: int
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)
    types: dict[str, Any] = field(default_factory=dict)
    flows: list[str] = field(default_factory=list)
    count: int = 0

    @property
    def dtype(self) -> Any:
        return helper.tensor_dtype_to_np_dtype(self.kind)

    def fresh(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def shape(self, name: str) -> Shape:
        dims = self.types[name].tensor_type.shape.dim
        return tuple(d.dim_value for d in dims)

    def constant(self, values: Any, dtype: Any = None) -> str:
        """A constant as an initializer or as a Constant node; floats perhaps after a detour."""
        array = np.asarray(values, dtype=dtype or self.dtype)
        name = self.fresh()
        tensor = numpy_helper.from_array(array, name)
        self.arrays[name] = array
        self.types[name] = helper.make_tensor_type_proto(tensor.data_type, array.shape)
        if self.chance(0.3) and (self.opset >= 9 or array.dtype.kind == "f"):
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.constants.append(tensor)
        if dtype is None and self.chance(0.1):
            return self.detour(name)
        return name

    def detour(self, name: str) -> str:
        """The constant cast to another type and back, or through some arithmetic."""
        if self.chance(0.5):
            between = self.node("Cast", [name], to=self.pick(DETOURS))
            return self.node("Cast", [between], to=self.kind)
        kind = self.pick(("Neg", "Relu", "Identity", "Add", "Sub", "Mul", "Max", "Sum"))
        more = [] if kind in ("Neg", "Relu", "Identity") else [self.constant(self.numbers(()))]
        return self.node(kind, [name, *more])

    def numbers(self, shape: Shape) -> Array:
        """Ordinary numbers with zeros, ones and larger ones among them."""
        if any(n < 0 for n in shape):  # a window beyond the image, which ONNX infers without a word
            raise Illegal
        values = self.rng.normal(size=shape)
        odd = self.rng.choice([0.0, 1.0, -1.0, 0.5, 3.0, 100.0], size=shape)
        return np.asarray(np.where(self.rng.random(shape) < 0.3, odd, values))

    def node(self, kind: str, inputs: list[str], outputs: int = 1, **attributes: Any) -> str:
        """One more node if ONNX finds it legal; the name of its first output."""
        names = [self.fresh() for _ in range(outputs)]
        if any(isinstance(value, list) and not value for value in attributes.values()):
            raise Illegal
        made = helper.make_node(kind, inputs, names, **attributes)
        known = {i: self.types[i] for i in inputs if i}
        data = {i: numpy_helper.from_array(self.arrays[i], i) for i in known if i in self.arrays}
        try:
            schema = onnx.defs.get_schema(kind, self.opset, "")
            opsets = [helper.make_opsetid("", self.opset)]
            types = onnx.shape_inference.infer_node_outputs(schema, made, known, data, None, opsets)
        except (
            onnx.shape_inference.InferenceError,
            onnx.checker.ValidationError,
            onnx.defs.SchemaError,
            ValueError,
            RuntimeError,
        ) as error:
            raise Illegal from error
        self._check(types, names)
        self.types.update(types)
        self.nodes.append(made)
        if any(i in self.flows for i in inputs):
            self.flows.extend(names)
        return names[0]

    def _check(self, types: dict[str, Any], names: list[str]) -> None:
        for name in names:
            tensor = types[name].tensor_type if name in types else None
            if tensor is None or not tensor.HasField("shape"):
                raise Illegal
            sizes = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
            if -1 in sizes or not 0 < np.prod(sizes) <= 400:
                raise Illegal

    def flow(self) -> str:
        """A value that depends on the input, the last one as a rule."""
        return self.flows[-1] if self.chance(0.75) else str(self.pick(self.flows))

    def beside(self, shape: Shape) -> Shape:
        """A shape that can be broadcast with this one."""
        sizes = [1 if self.chance(0.3) else n for n in shape]
        sizes = [int(self.rng.integers(1, 4)) if n == 1 and self.chance(0.15) else n for n in sizes]
        sizes = sizes[int(self.rng.integers(len(sizes) + 1)) :] if self.chance(0.4) else sizes
        return (
            tuple([1] * int(self.rng.integers(0, 3)) + sizes) if self.chance(0.2) else tuple(sizes)
        )

    def axis(self, rank: int) -> int:
        return int(self.rng.integers(-rank, rank)) if rank else 0


Step: TypeAlias = Callable[[Draft], str]
STEPS: list[Step] = []


def step(weight: int = 1) -> Callable[[Step], Step]:
    """Registers a step that adds one operator; `weight` says how often it is drawn."""

    def registered(function: Step) -> Step:
        STEPS.extend([function] * weight)
        return function

    return registered


def draw_graph(rng: np.random.Generator) -> bytes:
    """A model of one to ten steps."""
    from benchmarks.attack import image_operators, operators

    assert operators.STEPS is image_operators.STEPS is STEPS
    kind = FLOATS[int(rng.choice(4, p=[0.6, 0.3, 0.07, 0.03]))]
    draft = Draft(rng, int(rng.choice(OPSETS)), kind)
    rank = int(rng.choice(6, p=[0.02, 0.1, 0.48, 0.2, 0.15, 0.05]))
    shape = [int(n) for n in rng.integers(1, 5, size=rank)]
    if rng.random() < 0.35:  # an image or a sequence
        sides = [int(n) for n in rng.integers(2, 7, size=int(rng.integers(1, 3)))]
        shape = [1, int(rng.integers(1, 5)), *sides]
    draft.types["x"] = helper.make_tensor_type_proto(kind, shape)
    draft.flows.append("x")
    for _ in range(int(rng.integers(1, 11))):
        try:
            STEPS[int(rng.integers(len(STEPS)))](draft)
        except Illegal:
            continue
    return _finished(draft, shape)


def _finished(draft: Draft, shape: list[int]) -> bytes:
    if draft.flows[-1] == "x":
        draft.nodes.append(helper.make_node("Identity", ["x"], ["made"]))
    output = draft.flows[-1] if draft.flows[-1] != "x" else "made"
    nodes = list(draft.nodes)
    if draft.chance(0.1):
        nodes = [nodes[i] for i in draft.rng.permutation(len(nodes))]
    for node in nodes:
        if draft.chance(0.3):
            node.name = str(draft.pick(["n", "layer", "x", "y/z:0"]))
    dims: list[Any] = list(shape)
    if dims and dims[0] == 1 and draft.chance(0.3):
        dims[0] = "batch"
    inputs = [helper.make_tensor_value_info("x", draft.kind, dims)]
    if draft.chance(0.1):
        inputs += [
            helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in draft.constants
        ]
    graph = helper.make_graph(
        nodes, "attack", inputs, [onnx.ValueInfoProto(name=output)], draft.constants
    )
    opsets = [helper.make_opsetid("", draft.opset)]
    ir = 10 if draft.opset >= 19 else 8
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=ir).SerializeToString())
