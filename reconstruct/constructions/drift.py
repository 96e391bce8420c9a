"""How far an approximation drifts from the target: the error that a chosen rank brings along.

With U V = W − R in place of W, values drift apart by `e' = |W| e + |R| (max|h| + e)` from map to
map. Hidden units have to stay active on what the approximation reaches, so their shifts must cover
the drift; the certificate repeats the same recursion with every rounding counted in.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reconstruct.bounds import Reach
from reconstruct.constructions.construction import Construction, Vector
from reconstruct.constructions.factored import Factored, factor
from reconstruct.networks import (
    Activation,
    Mixing,
    dense,
)

MARGIN = 1 + 2.0**-20  # this recursion is not rounded outward: it only sizes the shifts


def drift(known: Reach, construction: Construction) -> Mapping[str, Vector] | None:
    """For each value of the target a bound of what the approximation adds; None if it is none."""
    if not isinstance(construction, Factored) or construction.rank is None:
        return None
    network = known.network
    errors = {network.source: np.zeros(network.size_in)}
    for node in network.nodes:
        before = [errors[i] for i in node.inputs]
        if isinstance(node.op, Mixing):
            lo, hi = known.bounds(node.inputs[0])
            reached = np.maximum(np.abs(lo), np.abs(hi)) + before[0]
            W, low = dense(node.op.matrix), factor(node.op.matrix, construction.rank)
            left_out = np.abs(W - low.U @ low.V)
            errors[node.name] = MARGIN * (np.abs(W) @ before[0] + left_out @ reached)
        elif isinstance(node.op, Activation):
            errors[node.name] = node.op.lipschitz * before[0]
        else:
            errors[node.name] = np.sum(before, axis=0)
    return errors
