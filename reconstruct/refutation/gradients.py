"""Gradients of a network's values with respect to its input, through the pattern of its pieces."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import sparse

from reconstruct.networks.activations import Array
from reconstruct.networks.graph import Network, Node
from reconstruct.networks.ops import Add, Affine, Norm, Select


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
    op = node.op
    if isinstance(op, Affine):
        weight = op.weight.astype(rows.dtype, copy=False)
        return [np.asarray((weight.T @ rows.T).T if sparse.issparse(weight) else rows @ weight)]
    if isinstance(op, Norm):
        return [rows * op.effective()[0]]
    if isinstance(op, Add):
        return [rows] * len(node.inputs)
    value = values[node.inputs[0]]
    if isinstance(op, Select):
        placed = np.zeros_like(value)
        placed[:, op.start : op.stop] = rows
        return [placed]
    return [rows * op.derivative(value)]
