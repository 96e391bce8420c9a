"""Operators as the file's own operator set defines them: attributes, types and shapes.

Defaults of attributes differ between operator sets (Clip of set 6 ends at ±3.4e38, Selu of set 1
has other constants), so they are taken from ONNX's definitions and never typed here. Shapes come
from ONNX's inference, one node at a time: every constant is known when a node is reached, so that
its rules leave no dimension open, and a node that is read in another shape is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.files import LIMITS
from reconstruct.formats.onnx.model import Model, attribute_value, import_onnx

Array = NDArray[Any]
MENDED = {"MaxPool": 22, "AveragePool": 22}  # earlier rules count windows on pads (ceil_mode)


class Schemas:
    """ONNX's definitions of the model's operators, and the type of every value reached so far."""

    def __init__(self, model: Model) -> None:
        self._onnx = import_onnx("reading ONNX files")
        import onnx.checker
        import onnx.defs
        import onnx.shape_inference

        self._refusals = (
            onnx.shape_inference.InferenceError,
            onnx.checker.ValidationError,
            ValueError,
            RuntimeError,
        )
        self._model = model
        self._opsets = [self._onnx.helper.make_opsetid("", model.opset)]
        self._types: dict[str, Any] = {}
        self.settle(model.input, model.kind, model.shape)

    def settle(self, name: str, kind: int, shape: tuple[int, ...]) -> None:
        """The type of a value that needs no rule."""
        self._types[name] = self._onnx.helper.make_tensor_type_proto(kind, list(shape))

    def settle_array(self, name: str, array: Array) -> None:
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        self.settle(name, kind, array.shape)

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

    def outputs(self, node: Any, values: dict[str, Any]) -> list[tuple[int, ...] | None]:
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
        except self._refusals as error:
            shapes = ", ".join(str(_shape(self._types[name])) for name in node.input if name)
            raise InputError(
                f"is not legal ONNX on inputs of shapes {shapes or 'none'} ({_reason(error)})"
            ) from None
        self._types.update(made)
        return [_shape(made.get(name)) if name else None for name in node.output]


def _shape(kind: Any) -> tuple[int, ...] | None:
    if kind is None or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    if not all(d.HasField("dim_value") for d in dims):
        return None
    return tuple(int(d.dim_value) for d in dims)


def _reason(error: Exception) -> str:
    """The last part of a message that names the whole chain of callers."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300]
