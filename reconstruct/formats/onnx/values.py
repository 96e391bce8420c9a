"""What flows through an ONNX graph while it is read, and the network that grows from it.

Every tensor that depends on the input is a `Flow`: the flat value of one node of the network, read
in a real shape (a symbolic batch counts as 1). Shapes are what ONNX's own rules give: no reader of
an operator works them out again, and relabelling a tensor changes its shape alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
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
UNTOLD = "makes a value whose size ONNX's rules do not tell; fold constants when exporting"


@dataclass(frozen=True)
class Flow:
    """The value of `node` seen in `shape`; `shared` when more than one consumer may see it."""

    node: str
    shape: tuple[int, ...]
    shared: bool = field(default=False, compare=False)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def places(self) -> Array:
        """The index of every value, in its shape."""
        return np.arange(self.size).reshape(self.shape)


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
    shapes: tuple[tuple[int, ...] | None, ...]  # of what it makes, where ONNX's rules tell it
    kinds: tuple[int, ...] = ()  # ONNX's type numbers of the inputs

    @property
    def shape(self) -> tuple[int, ...]:
        if self.shapes[0] is None:
            raise self.refuse(UNTOLD)
        return self.shapes[0]

    @property
    def axis(self) -> int:
        """The attribute of that name, counted from the front of the first input."""
        return int(self.attributes["axis"]) % max(len(self.value().shape), 1)

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

    def spread(self, build: Builder, index: int) -> Flow | Array:
        """The input of that index broadcast to the result's shape; constants flat, in float64,
        which holds every smaller type."""
        value = self.value(index)
        if isinstance(value, Flow):
            return moved(build, self, lambda a: np.broadcast_to(a, self.shape), value)
        return np.broadcast_to(value.astype(np.float64), self.shape).ravel()


@dataclass(eq=False)
class Builder:
    """The network under construction: nodes by name, in topological order."""

    source: Flow
    budget: Budget
    nodes: dict[str, Node] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)  # placements behind a token-wise map of their own
    nearly: list[str] = field(default_factory=list)  # what is not quite what the file says
    revisions: Counter[str] = field(default_factory=Counter)
    _counts: Counter[str] = field(default_factory=Counter)

    def emit(self, name: str, op: Operation, *inputs: Flow) -> Flow:
        """A new node, whose value is flat; its name gets a number when it is taken."""
        unique = name
        while unique in self.nodes or unique == self.source.node:
            self._counts[name] += 1
            unique = f"{name}_{self._counts[name] + 1}"
        shape = (op.size(*(flow.size for flow in inputs)),)
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
        old = self.nodes.pop(flow.node) if name is not None else self.nodes[flow.node]
        made = flow if name is None else self.emit(name, op, flow)
        self.nodes[made.node] = Node(made.node, op, old.inputs)
        return made

    def network(self, output: Flow, metadata: dict[str, Any]) -> Network:
        """The finished network, without the nodes that its output does not depend on."""
        nodes, source = tuple(self.nodes.values()), self.source
        whole = Network(source.size, nodes, output.node, source.node, metadata)
        if source.node not in whole.needed():
            raise UnsupportedError("the network's output does not depend on its input")
        return whole.ending_at(output.node)


def moved(
    build: Builder, call: Call, step: Callable[[Array], Any], value: Flow | Array | None = None
) -> Flow | Array:
    """`step`, an indexing of arrays, applied to a constant or to the positions of a flow (default:
    the first input).

    Identity keeps the node, a run of neighbours is a Select, anything else a Placement.
    """
    value = call.value() if value is None else value
    if not isinstance(value, Flow):
        return np.asarray(step(value))
    index = np.asarray(step(value.places))
    flat, shape = index.ravel(), tuple(index.shape)
    if not flat.size:
        raise call.fault("leaves no values")
    repeated = flat.size > value.size  # as ahead of grouped layers
    if not repeated and np.array_equal(flat, np.arange(flat[0], flat[0] + flat.size)):
        if flat.size == value.size:
            return replace(value, shape=shape)
        made = build.emit(call.name, Select(int(flat[0]), int(flat[-1]) + 1), value)
    else:
        build.budget.take(VALUE * 2 * flat.size, f"the value of node {call.name!r}")
        made = build.emit(call.name, Placement(flat, value.size), value)
    return replace(made, shape=shape)


def placed(build: Builder, name: str, flow: Flow, index: Array) -> Flow:
    """The values `flow[index]` by a placement; one that only takes back an earlier one is none."""
    op, flat, source = build.op(flow), index.ravel(), flow
    if isinstance(op, Placement):
        (before,) = build.inputs(flow)
        flat = np.where(flat >= 0, op.index[flat], -1)
        source = Flow(before, (op.inputs,), shared=True)
    if np.array_equal(flat, np.arange(source.size)):
        return replace(source, shape=tuple(index.shape))
    return replace(build.emit(name, Placement(flat, source.size), source), shape=index.shape)
