"""Errors of random sign through a network: variances add, maps carry them by squared entries."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reconstruct.networks import Activation, Map, Mixing, Network
from reconstruct.numbers.arrays import Vector

TILE = 2**22  # entries of a map that are looked at together


def variance_at_output(network: Network, own: Mapping[str, Vector | float]) -> float:
    """The largest variance at an output, where each map adds its `own` to that of its value."""
    found: dict[str, Vector] = {network.source: np.zeros(network.size_in)}
    for node in network.nodes:
        before = [found[i] for i in node.inputs]
        if isinstance(node.op, Map):
            found[node.name] = _carried(node.op, before[0]) + own.get(node.name, 0.0)
        elif isinstance(node.op, Activation):
            size = network.sizes[node.name]  # of a pool smaller: any of its inputs may come through
            worst = before[0] if size == len(before[0]) else np.full(size, np.max(before[0]))
            found[node.name] = max(1.0, node.op.lipschitz) ** 2 * worst
        else:
            found[node.name] = np.sum(before, axis=0)
    return float(np.max(found[network.output], initial=0.0))


def _carried(op: Map, variance: Vector) -> Vector:
    """A tile of the entries at a time."""
    if not isinstance(op, Mixing):  # one summand to a unit
        return np.asarray(op.absolute(np.sqrt(variance)) ** 2)
    return np.concatenate([op.tile(*span) ** 2 @ variance for span in op.spans(TILE)])
