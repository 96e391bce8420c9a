"""An ONNX graph while it is written: its nodes, its constants, and the shape of every value."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.formats.files import rounded
from reconstruct.formats.onnx.external import DataFile, holds
from reconstruct.networks import Node

Array = NDArray[Any]
NARROW = 2**16  # float32 numbers from which a float64 file stores them as they are, with a Cast


def narrow(values: Any, dtype: Any) -> bool:
    """Whether these weights are stored as float32 numbers in a file of wider ones."""
    return bool(values.dtype == np.float32 and dtype != np.float32 and values.size >= NARROW)


@dataclass(eq=False)
class Draft:
    """The ONNX nodes and constants written so far.

    `shapes` holds the shape of each value without the batch: flat, or channels first.
    """

    onnx: Any
    dtype: Any
    taken: set[str]
    data: DataFile | None = None
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

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

    def shaped(self, name: str, shape: tuple[int, ...]) -> str:
        """The value in that shape, through a Reshape where it has another."""
        if self.shapes[name] == shape:
            return name
        goal = self.constant(f"{name}.shape", [0, *shape], np.int64)
        return self.node("Reshape", [name, goal], self.fresh(f"{name}/shaped"))

    def flat(self, name: str) -> str:
        """The value as a row of numbers."""
        return self.shaped(name, (math.prod(self.shapes[name]),))

    def parameters(self, node: Node, **values: Array) -> list[str]:
        """The constants `<node>.<key>`, which must stay finite in the precision of the file.

        Frozen weights are float32 numbers: a float64 file holds them so and casts them.
        """
        return [self._parameter(node, key, value) for key, value in values.items()]

    def _parameter(self, node: Node, key: str, value: Array) -> str:
        name = f"{node.name}.{key}"
        if not narrow(value, self.dtype):
            return self.constant(name, rounded(node.name, key, value, self.dtype))
        return self._widened(self.constant(name, value, np.float32))

    def _widened(self, stored: str) -> str:
        wide = self.onnx.helper.np_dtype_to_tensor_dtype(self.dtype)
        return self.node("Cast", [stored], self.fresh(f"{stored}/cast"), to=wide)
