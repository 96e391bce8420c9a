"""Types and shapes by ONNX's own inference, one node at a time.

Every constant is known when a node is reached, so that ONNX's rules leave no dimension open. What
they say is the authority: a node that is read in another shape is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.onnx.model import Model, import_onnx

Array = NDArray[Any]
MENDED = {"MaxPool": 22, "AveragePool": 22}  # earlier rules count windows on pads (ceil_mode)
KNOWN = 2**12  # values up to which a constant is shown to the inference (shapes, axes, sizes)


class Inference:
    """The type of every value that has been reached."""

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
        self._constants = model.constants
        self._types: dict[str, Any] = {}
        make = self._onnx.helper.make_tensor_type_proto
        self._types[model.input] = make(model.kind, list(model.shape))

    def type_of(self, name: str) -> Any:
        """The type of a value that a node has made, or of a constant."""
        if name not in self._types:
            array = self._constants[name]
            kind = self._onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            made = self._onnx.helper.make_tensor_type_proto(kind, list(array.shape))
            self._types[name] = made
        return self._types[name]

    def kind(self, name: str) -> int:
        """ONNX's number of the value's element type."""
        return int(self.type_of(name).tensor_type.elem_type)

    def schema(self, node: Any) -> Any:
        """The operator as the model's operator set defines it."""
        opset = max(self._model.opset, MENDED.get(node.op_type, 0))
        try:
            return self._onnx.defs.get_schema(node.op_type, opset, "")
        except self._onnx.defs.SchemaError:
            raise UnsupportedError(
                f"is not an operator of ONNX's set {self._model.opset}, which the model states"
            ) from None

    def outputs(self, node: Any, constants: dict[str, Array]) -> list[tuple[int, ...] | None]:
        """The shapes of what the node makes, None where ONNX's rules do not tell."""
        names = {name for name in node.input if name}
        data = {
            name: self._onnx.numpy_helper.from_array(constants[name], name)
            for name in names
            if isinstance(constants.get(name), np.ndarray) and constants[name].size <= KNOWN
        }
        self._constants = constants
        try:
            made = self._onnx.shape_inference.infer_node_outputs(
                self.schema(node),
                node,
                {name: self.type_of(name) for name in names},
                data,
                opset_imports=self._opsets,
                ir_version=self._model.proto.ir_version,
            )
        except self._refusals as error:
            shapes = ", ".join(str(_shape(self.type_of(name))) for name in node.input if name)
            raise InputError(
                f"is not legal ONNX on inputs of shapes {shapes or 'none'} ({_reason(error)})"
            ) from None
        self._types.update(made)
        return [_shape(made.get(name)) if name else None for name in node.output]

    def settle(self, name: str, shape: tuple[int, ...]) -> None:
        """What is known of a value whose shape ONNX's rules left open."""
        kind = self._types[name].tensor_type.elem_type if name in self._types else self._model.kind
        make = self._onnx.helper.make_tensor_type_proto
        self._types[name] = make(kind or self._model.kind, list(shape))


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


def same_type(array: Array, kind: int) -> bool:
    """Whether a folded constant has the element type that ONNX's rules give it."""
    onnx = import_onnx("reading ONNX files")
    expected = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    return bool(array.dtype == expected)
