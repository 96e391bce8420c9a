"""An ONNX graph in the making: what the rules of `aten` write to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import MissingDependencyError

try:
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    raise MissingDependencyError("onnx", "onnx", "reading a torch module") from None

OPSET, IR_VERSION = 15, 8
KINDS = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float64): TensorProto.DOUBLE}


class OnnxGraph:
    """Nodes and constants; values are known by their names, which are made unique."""

    def __init__(self, kind: Any) -> None:
        self.kind = np.dtype(kind)
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.eps: dict[str, float] = {}  # of each norm; the attribute in ONNX is only a float32
        self._taken: set[str] = set()

    def input(self, name: str) -> str:
        """The name of the input."""
        return self._free(name)

    def constant(self, name: str, values: Any, kind: Any = None) -> str:
        """A constant of that name, or of one like it."""
        array = np.ascontiguousarray(values, self.kind if kind is None else kind)
        known = self._free(name)
        self.constants[known] = numpy_helper.from_array(array, known)
        return known

    def node(self, kind: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        """A node; its one value carries its name."""
        known = self._free(name)
        given = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(helper.make_node(kind, list(inputs), [known], name=known, **given))
        return known

    def bytes(self, source: str, shape: Sequence[int], output: str) -> bytes:
        """The model from the input `source` (batch × shape) to the value `output`."""
        self.nodes.append(helper.make_node("Identity", [output], ["result"], name="result"))
        kind = KINDS[self.kind]
        graph = helper.make_graph(
            self.nodes,
            "module",
            [helper.make_tensor_value_info(source, kind, ["batch", *shape])],
            [helper.make_tensor_value_info("result", kind, None)],
            list(self.constants.values()),
        )
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        content: bytes = model.SerializeToString()
        return content

    def value(self, name: str) -> NDArray[Any] | None:
        """The constant of that name, None for a value that depends on the input."""
        found = self.constants.get(name)
        return None if found is None else numpy_helper.to_array(found)

    def _free(self, name: str) -> str:
        known, count = name, 1
        while known in self._taken:
            count += 1
            known = f"{name}@{count}"
        self._taken.add(known)
        return known
