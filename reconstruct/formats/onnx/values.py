"""What flows through an ONNX graph while it is read, and the network that grows from it.

Every tensor that depends on the input is a `Flow`: the flat value of one node of the network, read
in a real shape (a symbolic batch counts as 1). Relabelling a tensor changes its shape alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.onnx.model import checked_size
from reconstruct.networks import Affine, Network, Node, Select
from reconstruct.networks import Operation as Op

Array = NDArray[Any]
DENSE = 2**18  # entries up to which diagonal and 0/1 matrices are stored dense
ENTRIES = 2**28  # non-zero entries beyond which a flattened map is refused


@dataclass(frozen=True)
class Flow:
    """The value of `node` seen in `shape`; `shared` when more than one consumer may see it."""

    node: str
    shape: tuple[int, ...]
    shared: bool = False

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Tail:
    """`scale·(exp(min(h, 0)) + offset)` of the node `base`: a part of an ELU in basic steps."""

    base: str
    scale: float = 1.0
    offset: float = 0.0


Value: TypeAlias = "Flow | Tail | Array"


@dataclass(frozen=True, eq=False)
class Call:
    """One ONNX node with its inputs looked up (None where an optional one is absent)."""

    name: str
    kind: str
    inputs: tuple[Value | None, ...]
    attributes: dict[str, Any]
    opset: int
    outputs: int

    def refuse(self, reason: str) -> UnsupportedError:
        return UnsupportedError(f"node {self.name!r} ({self.kind}) {reason}")

    def fault(self, reason: str) -> InputError:
        return InputError(f"node {self.name!r} ({self.kind}) {reason}")

    def get(self, index: int) -> Value | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def value(self, index: int = 0) -> Flow | Array:
        """The input of that index, which must be there."""
        found = self.get(index)
        if found is None:
            raise self.fault(f"lacks its input {index + 1}")
        if isinstance(found, Tail):
            raise self.refuse("uses the result of Exp, which is supported only as a part of Elu")
        return found

    def constant(self, index: int, what: str) -> Array | None:
        """The input of that index if it is there, which must then be constant."""
        found = self.get(index)
        if isinstance(found, Flow | Tail):
            raise self.refuse(f"has {what} that depend on the network's input; only constants can")
        return found

    def integers(self, index: int, attribute: str) -> list[int] | None:
        """Integers that older opsets keep in an attribute and newer ones in an input."""
        if attribute in self.attributes:
            return [int(i) for i in np.atleast_1d(self.attributes[attribute])]
        found = self.constant(index, attribute)
        return None if found is None else [int(i) for i in found.ravel()]


@dataclass(eq=False)
class Builder:
    """The network under construction: nodes by name, in topological order."""

    source: str
    size: int
    nodes: dict[str, Node] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def emit(self, name: str, op: Op, inputs: tuple[Flow, ...], shape: tuple[int, ...]) -> Flow:
        """A new node; its name gets a number when it is taken."""
        unique, count = name, 1
        while unique in self.nodes or unique == self.source:
            count += 1
            unique = f"{name}_{count}"
        checked_size(shape, f"the value of node {name!r}")
        self.nodes[unique] = Node(unique, op, tuple(flow.node for flow in inputs))
        return Flow(unique, shape)

    def op(self, flow: Flow) -> Op | None:
        """The operation that made this value, None for the network's input."""
        return self.nodes[flow.node].op if flow.node in self.nodes else None

    def exchange(self, flow: Flow, op: Op) -> None:
        self.nodes[flow.node] = replace(self.nodes[flow.node], op=op)

    def network(self, output: Flow, metadata: dict[str, Any]) -> Network:
        """The finished network, without the nodes that its output does not depend on."""
        needed = {output.node}
        for node in reversed(self.nodes.values()):
            if node.name in needed:
                needed.update(node.inputs)
        live = tuple(n for n in self.nodes.values() if n.name in needed)
        if self.source not in needed:
            raise UnsupportedError("the network's output does not depend on its input")
        return Network(self.size, live, output.node, self.source, metadata)


def diagonal(values: Array) -> Any:
    """`diag(values)`, dense when small, else CSR."""
    if values.size**2 <= DENSE:
        return np.diag(values)
    return sparse.csr_array(sparse.diags_array(values))


def rearranged(build: Builder, call: Call, flow: Flow, index: Array) -> Flow:
    """The values `flow[index]`, in the shape of `index`: relabelled, selected, or moved by 0/1.

    Identity keeps the node, a run of neighbours is a Select, anything else an affine map with one
    1 in each row, which merging later joins to its neighbour.
    """
    flat, shape = index.ravel(), tuple(index.shape)
    if not flat.size:
        raise call.fault("leaves no values")
    if np.array_equal(flat, np.arange(flat[0], flat[0] + flat.size)):
        if flat.size == flow.size:
            return replace(flow, shape=shape)
        return build.emit(call.name, Select(int(flat[0]), int(flat[-1]) + 1), (flow,), shape)
    checked_size(shape, f"the value of node {call.name!r}")
    rows = sparse.csr_array(
        (np.ones(flat.size), (np.arange(flat.size), flat)), shape=(flat.size, flow.size)
    )
    weight = rows.toarray() if flat.size * flow.size <= DENSE else rows
    return build.emit(call.name, Affine(weight), (flow,), shape)


def positions(flow: Flow) -> Array:
    """The index of every value of the flow, in its shape."""
    return np.arange(flow.size).reshape(flow.shape)


def expanded(build: Builder, call: Call, flow: Flow, shape: tuple[int, ...]) -> Flow:
    """The flow broadcast to `shape`, as ONNX does before it adds or multiplies."""
    checked_size(shape, f"the value of node {call.name!r}")
    if math.prod(shape) == flow.size:
        return replace(flow, shape=shape)
    return rearranged(build, call, flow, np.broadcast_to(positions(flow), shape))


def broadcast_shape(call: Call, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        raise call.fault(f"joins shapes that do not fit: {', '.join(map(str, shapes))}") from None
