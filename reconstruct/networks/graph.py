"""A network as a small directed acyclic graph, target and frozen alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reconstruct.errors import InputError
from reconstruct.networks.activations import ACTIVATIONS, Activation, Array, Relu
from reconstruct.networks.ops import Affine, Matrix, Norm, Op, nonzeros, size_of

CHUNK_ELEMENTS = 2**24  # evaluation holds about this many values per layer at once, or, where
# the weights themselves are larger, half as many values as weights: each chunk reads all of them


@dataclass(frozen=True, eq=False)
class Node:
    """`op` applied to the values named by `inputs`; its own value is known by `name`."""

    name: str
    op: Op
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
                sizes[node.name] = size_of(node.op, tuple(sizes[i] for i in node.inputs))
            except (InputError, ValueError) as error:
                raise InputError(f"node {node.name!r}: {error}") from None
        if self.output not in sizes:
            raise InputError(f"the network's output {self.output!r} is not one of its nodes")
        _check_finite(self.nodes)
        object.__setattr__(self, "sizes", MappingProxyType(sizes))
        object.__setattr__(self, "metadata", MappingProxyType(dict(self.metadata)))

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
        if not weights:
            raise InputError("a network needs at least one weight matrix, but got none")
        offsets = list(biases) if biases is not None else [None] * len(weights)
        if len(offsets) != len(weights):
            raise InputError(
                f"a network of {len(weights)} weights needs as many biases (None where there is "
                f"none), but got {len(offsets)}"
            )
        nodes: list[Node] = []
        last = "input"
        for i, (weight, bias) in enumerate(zip(weights, offsets, strict=True), start=1):
            nodes.append(Node(f"layer{i}", Affine(weight, bias), (last,)))
            last = f"layer{i}"
            if i < len(weights) or final_activation:
                nodes.append(Node(f"act{i}", activation or Relu(), (last,)))
                last = f"act{i}"
        first = nodes[0].op
        assert isinstance(first, Affine)
        return cls(int(first.weight.shape[1]), tuple(nodes), last)

    def with_ops(self, ops: Mapping[str, Op]) -> Network:
        """The same graph with the operations of some nodes exchanged."""
        unknown = set(ops) - {n.name for n in self.nodes}
        if unknown:
            raise InputError(f"the network has no node named {sorted(unknown)[0]!r}")
        nodes = tuple(replace(n, op=ops[n.name]) if n.name in ops else n for n in self.nodes)
        return Network(self.size_in, nodes, self.output, self.source, self.metadata)

    # --- reading ------------------------------------------------------------------------------

    def node(self, name: str) -> Node:
        """The node of that name."""
        for candidate in self.nodes:
            if candidate.name == name:
                return candidate
        raise InputError(f"the network has no node named {name!r}")

    def consumers(self, name: str) -> tuple[Node, ...]:
        """The nodes that use the value `name`, in order."""
        return tuple(n for n in self.nodes if name in n.inputs)

    def affine_nodes(self) -> tuple[Node, ...]:
        return tuple(n for n in self.nodes if isinstance(n.op, Affine))

    def norm_nodes(self) -> tuple[Node, ...]:
        return tuple(n for n in self.nodes if isinstance(n.op, Norm))

    def activation_nodes(self) -> tuple[Node, ...]:
        return tuple(n for n in self.nodes if isinstance(n.op, ACTIVATIONS))

    @property
    def size_out(self) -> int:
        return self.sizes[self.output]

    @property
    def maps(self) -> tuple[tuple[int, int], ...]:
        """The shapes (m, k) of the affine maps, in order."""
        return tuple((int(w.shape[0]), int(w.shape[1])) for w in self._weights())

    def _weights(self) -> Iterator[Matrix]:
        return (n.op.weight for n in self.nodes if isinstance(n.op, Affine))

    @property
    def parameters(self) -> int:
        """Weights and biases of the affine maps, and the gammas and betas of the norms."""
        return self.weights + self.tunable + sum(self.sizes[n.name] for n in self.affine_nodes())

    @property
    def weights(self) -> int:
        """Entries of all weight matrices, zeros included."""
        return sum(m * k for m, k in self.maps)

    @property
    def nonzeros(self) -> int:
        """Entries of all weight matrices that are not zero."""
        return sum(nonzeros(weight) for weight in self._weights())

    @property
    def tunable(self) -> int:
        """Gammas and betas of all norm layers."""
        return sum(2 * self.sizes[n.name] for n in self.norm_nodes())

    # --- evaluating ---------------------------------------------------------------------------

    def __call__(self, x: ArrayLike, dtype: Any = np.float64) -> Array:
        """The function at one point (shape `(size_in,)`) or at a batch of them (as rows)."""
        points = np.asarray(x, dtype=dtype)
        batch = self._as_batch(points)
        rows = max(1, max(CHUNK_ELEMENTS, self.weights // 2) // max(self.sizes.values()))
        parts = [self._evaluate(batch[i : i + rows]) for i in range(0, len(batch), rows)]
        result = np.concatenate(parts) if parts else np.empty((0, self.size_out), dtype)
        return result[0] if points.ndim == 1 else result

    def values(self, x: ArrayLike, dtype: Any = np.float64) -> dict[str, Array]:
        """The value of every node on a batch (kept in memory together: use small batches)."""
        values = {self.source: self._as_batch(np.asarray(x, dtype=dtype))}
        for node in self.nodes:
            values[node.name] = node.op(*(values[i] for i in node.inputs))
        return values

    def _as_batch(self, points: Array) -> Array:
        batch = np.atleast_2d(points)
        if batch.ndim != 2 or batch.shape[1] != self.size_in:
            raise InputError(
                f"the network takes points with {self.size_in} coordinates, one or a batch of "
                f"rows, but got an array of shape {points.shape}"
            )
        return batch

    def _evaluate(self, batch: Array) -> Array:
        last_use = {name: i for i, n in enumerate(self.nodes) for name in n.inputs}
        last_use[self.output] = len(self.nodes)
        values = {self.source: batch}
        for i, node in enumerate(self.nodes):
            values[node.name] = node.op(*(values[j] for j in node.inputs))
            for name in set(node.inputs):
                if last_use[name] == i:
                    del values[name]
        return values[self.output]

    def __repr__(self) -> str:
        widths = [self.size_in] + [m for m, _ in self.maps]
        shown = "-".join(map(str, widths)) if len(widths) <= 12 else f"{len(widths) - 1} maps"
        return (
            f"Network({shown}, {len(self.activation_nodes())} activations, "
            f"{len(self.norm_nodes())} norms, {self.parameters} parameters)"
        )


def _check_finite(nodes: Iterable[Node]) -> None:
    for node in nodes:
        op = node.op
        if isinstance(op, Affine):
            parts = {"weight": op.weight if isinstance(op.weight, np.ndarray) else op.weight.data}
            parts["bias"] = op.bias
        elif isinstance(op, Norm):
            parts = {"gamma": op.gamma, "beta": op.beta, "mean": op.mean, "var": op.var}
        else:
            continue
        for what, values in parts.items():
            bad = int(np.count_nonzero(~np.isfinite(values)))
            if bad:
                raise InputError(
                    f"node {node.name!r}: its {what} must be finite numbers, but {bad} of "
                    f"{np.size(values)} entries are NaN or infinite"
                )
