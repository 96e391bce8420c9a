"""Gradients of a network's values with respect to its input, through the pattern of its pieces."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reconstruct.networks.activations import Activation
from reconstruct.networks.graph import Network, Node
from reconstruct.networks.maps import Map
from reconstruct.networks.product import MatrixProduct
from reconstruct.numbers.arrays import Array


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
        pulled = _pull(node, values, found[node.name])
        for source, rows in zip(node.inputs, pulled, strict=True):
            found[source] = found[source] + rows if source in found else rows
    return found


def _pull(node: Node, values: Mapping[str, Array], rows: Array) -> list[Array]:
    op, value = node.op, values[node.inputs[0]]
    if isinstance(op, Map):
        return [op.pull(rows, value.shape[1])]
    if isinstance(op, Activation):
        return [op.pull(rows, value)]
    if isinstance(op, MatrixProduct):
        return op.pull(rows, *(values[name] for name in node.inputs))
    return [rows] * len(node.inputs)  # a sum
