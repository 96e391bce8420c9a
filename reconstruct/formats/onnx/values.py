"""What flows through an ONNX graph while it is read, and the network that grows from it.

Every tensor that depends on the input is a `Flow`: the flat value of one node of the network, read
in a real shape (a symbolic batch counts as 1). Relabelling a tensor changes its shape alone.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.files import VALUE, Budget
from reconstruct.networks import Network, Node, Operation, Placement, Select
from reconstruct.numbers.arrays import Array

FLOAT, HALF, DOUBLE, BFLOAT = 1, 10, 11, 16  # ONNX's type numbers
# the types that hold every number of a type, and the digits of those that round
WIDER = {FLOAT: (FLOAT, DOUBLE), HALF: (HALF, FLOAT, DOUBLE), DOUBLE: (DOUBLE,)}
WIDER[BFLOAT] = (BFLOAT, FLOAT, DOUBLE)
DIGITS = {HALF: 11, BFLOAT: 8, FLOAT: 24}
NAMES = {HALF: "float16", BFLOAT: "bfloat16", FLOAT: "float32", DOUBLE: "float64"}
REASON = (
    "is a product, root, exponential or mean of values that depend on the network's input, which "
    "is read only as a step of ELU, relu(h) + a·(exp(min(h, 0)) − 1), of GELU, "
    "h·(1 + erf(h/√2))/2, or, over the last axis, of LayerNorm, "
    "(h − mean)/√(mean((h − mean)²) + eps), or RMSNorm"
)


@dataclass(frozen=True)
class Flow:
    """The value of `node` seen in `shape`; `shared` when more than one consumer may see it."""

    node: str
    shape: tuple[int, ...]
    shared: bool = field(default=False, compare=False)

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Unfinished:
    """A value that no network has an operation for, but that is part of one (`steps`)."""

    kind: str
    parts: tuple[Any, ...]  # values, steps and numbers
    shape: tuple[int, ...]


Value: TypeAlias = "Flow | Unfinished | Array"


@dataclass(frozen=True, eq=False)
class Call:
    """One ONNX node with its inputs looked up (None where an optional one is absent).

    `attributes` holds the defaults of the file's operator set where the node says nothing.
    """

    name: str
    kind: str
    inputs: tuple[Value | None, ...]
    attributes: dict[str, Any]
    opset: int
    outputs: int
    kinds: tuple[int, ...] = ()  # ONNX's type numbers of the inputs

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
        if isinstance(found, Unfinished):
            raise self.refuse(f"uses the result of {found.kind}, which {REASON}")
        return found

    def flow(self, index: int = 0) -> Flow:
        """The input of that index, which must depend on the network's input."""
        found = self.value(index)
        if not isinstance(found, Flow):
            raise self.refuse("acts on a constant, with settings that depend on the input")
        return found

    def constant(self, index: int, what: str) -> Array | None:
        """The input of that index if it is there, which must then be constant."""
        found = self.get(index)
        if isinstance(found, Flow | Unfinished):
            raise self.refuse(f"has {what} that depend on the network's input; only constants can")
        return found

    def integers(self, index: int, attribute: str) -> list[int] | None:
        """Integers that older opsets keep in an attribute and newer ones in an input."""
        if attribute in self.attributes:
            return [int(i) for i in np.atleast_1d(self.attributes[attribute])]
        found = self.constant(index, attribute)
        if found is not None and found.dtype.kind not in "iu":
            raise self.fault(f"needs whole numbers as its {attribute}, but has {found.dtype}")
        return None if found is None else [int(i) for i in found.ravel()]

    def number(self, attribute: str) -> float:
        """A float attribute, which must be finite."""
        value = float(self.attributes[attribute])
        if not math.isfinite(value):
            raise self.fault(f"has the {attribute} {value}, but a finite number is needed")
        return value


@dataclass(eq=False)
class Builder:
    """The network under construction: nodes by name, in topological order."""

    source: str
    size: int
    budget: Budget
    nodes: dict[str, Node] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)  # placements behind a token-wise map of their own
    nearly: list[str] = field(default_factory=list)  # what is not quite what the file says
    revisions: Counter[str] = field(default_factory=Counter)
    _counts: Counter[str] = field(default_factory=Counter)

    def emit(
        self, name: str, op: Operation, inputs: tuple[Flow, ...], shape: tuple[int, ...]
    ) -> Flow:
        """A new node; its name gets a number when it is taken."""
        unique = name
        while unique in self.nodes or unique == self.source:
            self._counts[name] += 1
            unique = f"{name}_{self._counts[name] + 1}"
        self.budget.tensor(shape, f"the value of node {name!r}")
        self.nodes[unique] = Node(unique, op, tuple(flow.node for flow in inputs))
        return Flow(unique, shape)

    def op(self, flow: Flow) -> Operation | None:
        """The operation that made this value, None for the network's input."""
        return self.nodes[flow.node].op if flow.node in self.nodes else None

    def inputs(self, flow: Flow) -> tuple[str, ...]:
        """The names of the values that this one was made from."""
        return self.nodes[flow.node].inputs if flow.node in self.nodes else ()

    def exchange(self, flow: Flow, op: Operation, name: str | None = None) -> Flow:
        """Another operation, and perhaps name, for a node that nothing else has seen yet."""
        self.revisions[flow.node] += 1
        if name is None:
            self.nodes[flow.node] = replace(self.nodes[flow.node], op=op)
            return flow
        old = self.nodes.pop(flow.node)
        made = self.emit(name, op, (), flow.shape)
        self.nodes[made.node] = replace(self.nodes[made.node], inputs=old.inputs)
        return made

    def network(self, output: Flow, metadata: dict[str, Any]) -> Network:
        """The finished network, without the nodes that its output does not depend on."""
        nodes = tuple(self.nodes.values())
        whole = Network(self.size, nodes, output.node, self.source, metadata)
        if self.source not in whole.needed():
            raise UnsupportedError("the network's output does not depend on its input")
        return whole.ending_at(output.node)


def relabelled(value: Flow | Array, shape: tuple[int, ...]) -> Flow | Array:
    """The same values in another shape."""
    return replace(value, shape=shape) if isinstance(value, Flow) else value.reshape(shape)


def moved(build: Builder, call: Call, value: Flow | Array, step: Any) -> Flow | Array:
    """`step`, an indexing of arrays, applied to a constant or to the positions of a flow."""
    if not isinstance(value, Flow):
        return np.asarray(step(value))
    return rearranged(build, call, value, np.asarray(step(positions(value))))


def rearranged(build: Builder, call: Call, flow: Flow, index: Array) -> Flow:
    """The values `flow[index]`, in the shape of `index`.

    Identity keeps the node, a run of neighbours is a Select, anything else a Placement.
    """
    flat, shape = index.ravel(), tuple(index.shape)
    if not flat.size:
        raise call.fault("leaves no values")
    repeated = flat.size > flow.size  # as ahead of grouped layers
    if not repeated and np.array_equal(flat, np.arange(flat[0], flat[0] + flat.size)):
        if flat.size == flow.size:
            return replace(flow, shape=shape)
        return build.emit(call.name, Select(int(flat[0]), int(flat[-1]) + 1), (flow,), shape)
    build.budget.take(VALUE * 2 * flat.size, f"the value of node {call.name!r}")
    return build.emit(call.name, Placement(flat, flow.size), (flow,), shape)


def placed(build: Builder, name: str, flow: Flow, index: Array) -> Flow:
    """The values `flow[index]` by a placement; one that only takes back an earlier one is none."""
    op, flat, source = build.op(flow), index.ravel(), flow
    if isinstance(op, Placement):
        (before,) = build.inputs(flow)
        flat = np.where(flat >= 0, op.index[flat], -1)
        source = Flow(before, (op.inputs,), shared=True)
    if np.array_equal(flat, np.arange(source.size)):
        return replace(source, shape=tuple(index.shape))
    return build.emit(name, Placement(flat, source.size), (source,), tuple(index.shape))


def positions(flow: Flow) -> Array:
    """The index of every value of the flow, in its shape."""
    return np.arange(flow.size).reshape(flow.shape)


def expanded(build: Builder, call: Call, flow: Flow, shape: tuple[int, ...]) -> Flow:
    """The flow broadcast to `shape`, as ONNX does before it adds or multiplies."""
    build.budget.tensor(shape, f"the value of node {call.name!r}")
    if math.prod(shape) == flow.size:
        return replace(flow, shape=shape)
    return rearranged(build, call, flow, np.broadcast_to(positions(flow), shape))


def broadcast_shape(call: Call, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        raise call.fault(f"joins shapes that do not fit: {', '.join(map(str, shapes))}") from None
