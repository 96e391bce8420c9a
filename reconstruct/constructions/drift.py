"""How far an approximation drifts from the target: the error that what is left out brings along.

With W − R in place of W, values drift apart by `e' = |W| e + |R| (max|h| + e)` from map to map.
Hidden units have to stay active on what the approximation reaches, so their shifts must cover the
drift; the certificate repeats the same recursion with every rounding counted in.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reconstruct.bounds import Reach
from reconstruct.constructions.construction import LeftOut
from reconstruct.networks import Activation, Map, Mixing, Network, Node
from reconstruct.numbers.arrays import Vector

MARGIN = 1 + 2.0**-20  # this recursion is not rounded outward: it only sizes the shifts


def drift(
    form: Network, known: Reach, left_out: Mapping[str, LeftOut | None]
) -> Mapping[str, Vector] | None:
    """For each value of the target's normal form a bound of what the approximation adds; None if
    it is none.

    `known` bounds the target; `left_out` says what each map leaves out, as far as it is known:
    what comes behind a map that is not solved yet is told without it.
    """
    if all(rest is None for rest in left_out.values()):
        return None
    errors = {form.source: np.zeros(form.size_in)}
    for node in form.nodes:
        before = [errors[i] for i in node.inputs]
        if isinstance(node.op, Map):
            (error,) = before
            passed = node.op.absolute(error[None])[0]
            errors[node.name] = MARGIN * (passed + _added(node, known, left_out, error))
        elif isinstance(node.op, Activation):
            errors[node.name] = node.op.carried(before[0])
        else:
            errors[node.name] = np.sum(before, axis=0)
    return errors


def _added(
    node: Node, known: Reach, left_out: Mapping[str, LeftOut | None], error: Vector
) -> Vector | float:
    """|R|·(max|h| + e) + |b − b̃| of what the map leaves out, the same at every position."""
    rest = left_out.get(node.name)
    if rest is None or not isinstance(node.op, Mixing):
        return 0.0
    lo, hi = known.bounds(node.inputs[0])
    reached = node.op.seen(np.maximum(np.abs(lo), np.abs(hi)) + error)
    return np.repeat(rest.weight @ reached + rest.bias, node.op.positions)
