"""A network as a small directed acyclic graph, target and frozen alike: values and gradients.

What callers hand over is taken as it is meant or refused with what to do.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reconstruct.errors import InputError
from reconstruct.networks import operation
from reconstruct.networks.activations import Activation, Relu
from reconstruct.networks.domain import Domain, DomainLike, as_domain, sized
from reconstruct.networks.maps import Affine, Cast, Geometry, Map, Mixing, Norm
from reconstruct.networks.operation import MatrixProduct, Operation, set_once
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.given import numbers, precision
from reconstruct.numbers.parallel import parallel_map


@dataclass(frozen=True, eq=False)
class Node:
    """`op` applied to the values named by `inputs`; its own value is known by `name`."""

    name: str
    op: Operation
    inputs: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Network:
    """A function from R^size_in, given by nodes in topological order.

    `source` names the input; `output` names the node whose value is the function's. `metadata`
    holds what a file said about itself and never changes the function.
    """

    size_in: int
    nodes: tuple[Node, ...]
    output: str
    source: str = "input"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.source:
            raise InputError("the input of a network needs a name, but it has none")
        sizes = {self.source: int(self.size_in)}
        for node in self.nodes:
            if not node.name:
                raise InputError("every node of a network needs a name, but one has none")
            if node.name in sizes:
                raise InputError(f"two nodes of the network have the name {node.name!r}")
            missing = [i for i in node.inputs if i not in sizes]
            if missing:
                raise InputError(
                    f"node {node.name!r} uses {missing[0]!r}, which no earlier node makes"
                )
            try:
                sizes[node.name] = node.op.size(*(sizes[i] for i in node.inputs))
                operation.check_finite(node.op)
            except (InputError, ValueError) as error:
                raise InputError(f"node {node.name!r}: {error}") from None
        if self.output not in sizes:
            raise InputError(f"the network's output {self.output!r} is not one of its nodes")
        metadata = MappingProxyType(dict(self.metadata))
        set_once(self, sizes=MappingProxyType(sizes), metadata=metadata)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as what it is made of: what is derived is derived again."""
        parts = (self.size_in, self.nodes, self.output, self.source, dict(self.metadata))
        return type(self), parts

    # --- building -----------------------------------------------------------------------------

    @classmethod
    def mlp(
        cls,
        weights: Sequence[Any],
        biases: Sequence[ArrayLike | None] | None = None,
        *,
        activation: Activation | None = None,
        final_activation: bool = False,
    ) -> Network:
        """`W_L σ(… σ(W_1 x + b_1) …) + b_L`, with a last σ when `final_activation`."""
        if not hasattr(weights, "__len__") or len(weights) == 0:
            raise InputError(
                f"a network needs at least one weight matrix, in a list, but got {weights!r}"
            )
        offsets = list(biases) if biases is not None else [None] * len(weights)
        if len(offsets) != len(weights):
            raise InputError(
                f"a network of {len(weights)} weights needs as many biases (None where there is "
                f"none), but got {len(offsets)}"
            )
        nodes: list[Node] = []
        last = "input"
        for i, (weight, bias) in enumerate(zip(weights, offsets, strict=True), start=1):
            try:
                nodes.append(Node(f"layer{i}", Affine(weight, bias), (last,)))
            except InputError as error:
                raise InputError(f"layer {i}: {error}") from None
            last = f"layer{i}"
            if i < len(weights) or final_activation:
                nodes.append(Node(f"act{i}", activation or Relu(), (last,)))
                last = f"act{i}"
        size_in = int(np.shape(weights[0])[1])
        return cls(size_in, tuple(nodes), last)

    def with_nodes(self, nodes: tuple[Node, ...]) -> Network:
        """Other nodes with the same input and output."""
        return replace(self, nodes=nodes)

    def with_ops(self, ops: Mapping[str, Operation]) -> Network:
        """The same graph with the operations of some nodes exchanged."""
        unknown = set(ops) - {n.name for n in self.nodes}
        if unknown:
            raise InputError(f"the network has no node named {sorted(unknown)[0]!r}")
        return self.with_nodes(
            tuple(replace(n, op=ops[n.name]) if n.name in ops else n for n in self.nodes)
        )

    def same(self, other: Network) -> bool:
        """Whether the other network has the same nodes with the same numbers."""
        ends = [(n.source, n.output, n.size_in, len(n.nodes)) for n in (self, other)]
        return ends[0] == ends[1] and all(
            a.name == b.name and a.inputs == b.inputs and a.op.same(b.op)
            for a, b in zip(self.nodes, other.nodes, strict=True)
        )

    # --- reading ------------------------------------------------------------------------------

    def ending_at(self, name: str) -> Network:
        """The network whose output is the value `name`, with the nodes that it needs alone."""
        whole = replace(self, output=name)
        used = whole.needed()
        return whole.with_nodes(tuple(node for node in self.nodes if node.name in used))

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def _users(self) -> dict[str, tuple[Node, ...]]:
        users: dict[str, dict[str, Node]] = {name: {} for name in self.sizes}
        for node in self.nodes:
            for name in node.inputs:
                users[name][node.name] = node
        return {name: tuple(found.values()) for name, found in users.items()}

    def node(self, name: str) -> Node:
        """The node of that name."""
        found = self._by_name.get(name)
        if found is None:
            raise InputError(f"the network has no node named {name!r}")
        return found

    def consumers(self, name: str) -> tuple[Node, ...]:
        """The nodes that use the value `name`, in order."""
        return self._users.get(name, ())

    def needed(self) -> frozenset[str]:
        """The nodes that the output depends on, and the input if it does."""
        found = {self.output}
        for node in reversed(self.nodes):
            if node.name in found:
                found.update(node.inputs)
        return frozenset(found)

    def mixing_nodes(self) -> tuple[Node, ...]:
        """The nodes whose map sums over its inputs; sums over windows, never rebuilt, included."""
        return tuple(n for n in self.nodes if isinstance(n.op, Mixing))

    @property
    def casts(self) -> dict[str, str]:
        """The nodes that round to a narrower float type, and which: identities of real numbers."""
        return {n.name: n.op.to for n in self.nodes if isinstance(n.op, Cast)}

    def norm_nodes(self) -> tuple[Node, ...]:
        return tuple(n for n in self.nodes if isinstance(n.op, Norm))

    def activation_nodes(self) -> tuple[Node, ...]:
        return tuple(n for n in self.nodes if isinstance(n.op, Activation))

    @property
    def size_out(self) -> int:
        return self.sizes[self.output]

    @property
    def maps(self) -> tuple[tuple[int, int], ...]:
        """The shapes (m, k) of the mixing maps, in order."""
        return tuple(n.op.shape for n in self.nodes if isinstance(n.op, Mixing))

    @property
    def parameters(self) -> int:
        """Weights and biases of the maps, and the gammas and betas of the norms."""
        return sum(n.op.parameters for n in self.nodes)

    @property
    def weights(self) -> int:
        """Entries of all weight matrices, zeros included."""
        return sum(n.op.weights for n in self.nodes)

    @property
    def nonzeros(self) -> int:
        """Entries of all weight matrices that are not zero."""
        return sum(n.op.nonzeros for n in self.nodes)

    @property
    def tunable(self) -> int:
        """Gammas and betas of all norm layers."""
        return sum(n.op.tunable for n in self.nodes)

    # --- evaluating ---------------------------------------------------------------------------

    def __call__(self, x: ArrayLike, dtype: Any = np.float64) -> Array:
        """The function at one point (shape `(size_in,)`) or at a batch of rows or images."""
        points = as_points(x, dtype)
        result = self.at(points, (self.output,), dtype)[self.output]
        return result[0] if points.ndim == 1 else result

    def values(self, x: ArrayLike, dtype: Any = np.float64) -> dict[str, Array]:
        """The value of every node on a batch (kept in memory together: use small batches)."""
        return self.at(x, self.sizes, dtype)

    def at(self, x: ArrayLike, names: Collection[str], dtype: Any = np.float64) -> dict[str, Array]:
        """The values of these nodes on a batch."""
        parts = list(self._chunks(x, names, dtype, lambda name, value: value))
        if not parts:
            return {name: np.empty((0, self.sizes[name]), dtype) for name in names}
        return {name: np.concatenate([part[name] for part in parts]) for name in names}

    def extremes(
        self, x: ArrayLike, names: Collection[str], dtype: Any = np.float64
    ) -> tuple[Array, dict[str, Range]]:
        """The network's outputs, and the least and largest unit of these nodes' values, row by row.

        The values of a chunk are forgotten before the next: wide layers are never held whole.
        """

        def ends(name: str, value: Array) -> Array:
            low, high = value.min(axis=1), value.max(axis=1)
            return value if name == self.output else np.stack([low, high])

        parts = list(self._chunks(x, {*names, self.output}, dtype, ends))
        outputs = np.concatenate([part.pop(self.output) for part in parts])
        found = {n: np.concatenate([p[n] for p in parts], axis=1) for n in parts[0]}
        if self.output in names:
            found[self.output] = np.stack([outputs.min(axis=1), outputs.max(axis=1)])
        return outputs, {name: (low, high) for name, (low, high) in found.items()}

    def _chunks(
        self, x: ArrayLike, names: Collection[str], dtype: Any, kept: Callable[[str, Array], Array]
    ) -> Iterator[dict[str, Array]]:
        """`kept(name, value)` of these nodes, some rows of the batch at a time, in parallel."""
        batch = as_rows(self, as_points(x, dtype))
        limits = operation.LIMITS
        most = max(limits.chunk, min(self.weights // 8, limits.wide))
        rows = max(1, most // max(self.sizes.values()))
        starts = range(0, len(batch), rows)

        def part(start: int) -> dict[str, Array]:
            values, found = {self.source: batch[start : start + rows]}, {}
            for node in self.nodes:
                values[node.name] = node.op(*(values[i] for i in node.inputs))
                for name in self.finished[node.name]:
                    value = values.pop(name)
                    if name in names:
                        found[name] = kept(name, value)
            return found | {name: kept(name, values[name]) for name in names if name in values}

        return parallel_map(part, starts) if len(starts) > 1 else map(part, starts)

    @cached_property
    def finished(self) -> dict[str, list[str]]:
        """By node, the values that it is the last to use."""
        done: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for name, user in {name: n.name for n in self.nodes for name in n.inputs}.items():
            done[user].append(name)
        return done

    def __repr__(self) -> str:
        widths = [self.size_in] + [m for m, _ in self.maps]
        shown = "-".join(map(str, widths)) if len(widths) <= 12 else f"{len(widths) - 1} maps"
        bends, norms = len(self.activation_nodes()), len(self.norm_nodes())
        return (
            f"Network({shown}, {bends} activation{'s' * (bends != 1)}, "
            f"{norms} norm{'s' * (norms != 1)}, {self.parameters} parameters)"
        )

    def _repr_html_(self) -> str:
        """In a notebook: a row for each node."""
        # Imported here, so that the checker, which takes its types of networks from this file, does
        # not load what only notebooks need.
        from reconstruct.notebook import table

        rows = [
            (node.name, node.op.kind, self.sizes[node.name], ", ".join(node.inputs))
            for node in self.nodes
        ]
        return table(repr(self), ("node", "kind", "size", "inputs"), rows)


# --- given --------------------------------------------------------------------------------------


def as_network(value: object, role: str) -> Network:
    """The network, or a sentence that says how to come to one."""
    if isinstance(value, Network):
        return value
    if isinstance(value, str | os.PathLike):
        remedy = f"rc.load({os.fspath(value)!r}) reads a file"
    elif isinstance(getattr(value, "network", None), Network):
        remedy = "give its .network"
    elif hasattr(value, "state_dict"):
        remedy = "rc.from_torch(module, example) reads a torch module"
    else:
        remedy = "rc.load reads one from a file, rc.Network.mlp makes one of weights"
    raise InputError(
        f"{role} must be a Network, but is of the type {type(value).__name__}; {remedy}"
    )


# --- inputs ---------------------------------------------------------------------------------------


IMAGE = 4  # axes of a batch of images


def input_shape(network: Network) -> tuple[int, ...]:
    """The shape of one input: an image where the network begins with an operation on images."""
    for node in network.consumers(network.source):
        geometry = getattr(node.op, "geometry", None)
        if isinstance(geometry, Geometry):
            return geometry.channels, geometry.height, geometry.width
    stated = tuple(network.metadata.get("input_shape") or ())
    if len(stated) == IMAGE and stated[0] == 1 and math.prod(stated) == network.size_in:
        return stated[1:]
    return (network.size_in,)


def fitting(domain: DomainLike, network: Network) -> Domain:
    """The domain for this network: a cube is spread, data must have the shape that it takes."""
    return as_domain(domain).of_size(network.size_in, input_shape(network))


def require_same_ends(target: Network, candidate: Network) -> None:
    """Refuses two networks that take or give different numbers of values."""
    ends = [(n.size_in, n.size_out) for n in (target, candidate)]
    if ends[0] != ends[1]:
        named = zip(("target", "candidate"), (target, candidate), strict=True)
        sizes = (
            f"the {role} {n.metadata.get('file', '')} has {n.size_in} and {n.size_out}"
            for role, n in named
        )
        raise InputError(
            f"two networks can be compared only with equally many inputs and outputs, but "
            f"{' '.join(', '.join(sizes).split())}; check that they belong together"
        )


def as_points(x: ArrayLike, dtype: Any = np.float64) -> Array:
    """The inputs as an array of float32 or float64 numbers, in the axes in which they came."""
    return numbers(x, "inputs", precision(dtype, "a network is evaluated"))


def as_rows(network: Network, points: Array) -> Array:
    """One row for each input; the axes of images behind the first are flattened."""
    count = network.size_in
    if points.ndim < 2 and points.size == count:
        return points.reshape(1, count)
    if points.ndim < 2 or math.prod(points.shape[1:]) != count:
        raise InputError(_unfit(network, points.shape))
    wanted = input_shape(network)
    if len(wanted) > 1 and points.ndim == len(wanted) + 1 and points.shape[1:] != wanted:
        raise InputError(_unfit(network, points.shape))
    return points.reshape(len(points), count)


def _unfit(network: Network, shape: tuple[int, ...]) -> str:
    wanted = input_shape(network)
    kind = f"images of {sized(wanted)}, channels first," if len(wanted) > 1 else "inputs"
    return (
        f"the network takes {kind} of {network.size_in} numbers, but got an array of shape "
        f"{shape}; give ({network.size_in},) for one input, or N×{sized(wanted)}"
    )


# --- gradients ------------------------------------------------------------------------------------


def gradient(network: Network, values: Mapping[str, Array], name: str, seeds: Array) -> Array:
    """The gradient of `seeds · v` by the input, v the value `name`: one row per point."""
    rows = adjoints(network, values, {name: seeds})
    return rows.get(network.source, np.zeros_like(values[network.source]))


def adjoints(
    network: Network, values: Mapping[str, Array], seeds: Mapping[str, Array]
) -> dict[str, Array]:
    """The gradient of `Σ seeds[name] · v_name` by the value of every node that matters to it.

    `values` are those of `network.values` at the points, seeds have one row per point. Reverse
    mode: the rows are multiplied by each node's transposed derivative, from the seeds to the
    input; at a kink the derivative that the activation gives itself is taken.
    """
    found = dict(seeds)
    for node in reversed(network.nodes):
        if node.name not in found:
            continue
        op, rows, value = node.op, found[node.name], values[node.inputs[0]]
        pulled = [rows] * len(node.inputs)  # of a sum
        if isinstance(op, Map):
            pulled = [op.pull(rows, value.shape[1])]
        elif isinstance(op, Activation):
            pulled = [op.pull(rows, value)]
        elif isinstance(op, MatrixProduct):
            pulled = op.pull(rows, *(values[name] for name in node.inputs))
        for source, part in zip(node.inputs, pulled, strict=True):
            found[source] = found[source] + part if source in found else part
    return found
