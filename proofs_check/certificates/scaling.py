"""The target with units scaled by powers of two: the same function, by an identity of floats.

Where an activation is a line through the origin on either side of 0, f(2^e z) = 2^e f(z). So the
row of a unit may be multiplied by 2^e if its column in every map that follows is divided by it. A
certificate names the powers; here it is checked that the units lie between plain maps, that nothing
else uses them, and that no product is rounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from proofs_check.certificates.arithmetic import Floats
from proofs_check.certificates.report import CheckFailed
from reconstruct.networks import Network, Node
from reconstruct.networks.activations import Line, Unitwise
from reconstruct.networks.maps import Dense, Sparse


def scaled(target: Network, scales: Mapping[str, tuple[int, ...]]) -> Network:
    """The target with its units scaled, after checking that it is the same function."""
    nodes = {node.name: node for node in target.nodes}
    for name, powers in scales.items():
        before, after = _neighbours(target, nodes, name)
        if len(powers) != target.sizes[name]:
            raise CheckFailed("scales", f"one power for each unit of {name!r} is needed")
        nodes[before] = _times(nodes[before], np.array(powers), None)
        for user in after:
            nodes[user] = _times(nodes[user], None, -np.array(powers))
    chosen = tuple(nodes[node.name] for node in target.nodes)
    return replace(target, nodes=chosen) if scales else target


def _neighbours(
    target: Network, nodes: Mapping[str, Node], name: str
) -> tuple[str, tuple[str, ...]]:
    """The map before an activation and the maps behind it, if its units can be scaled."""
    node = nodes.get(name)
    if node is None or not isinstance(node.op, Unitwise) or not _homogeneous(node.op):
        raise CheckFailed("scales", f"{name!r} is no activation that can be scaled")
    (before,) = node.inputs
    users = tuple(n.name for n in target.nodes if name in n.inputs)
    others = [n.name for n in target.nodes if before in n.inputs]
    maps = [nodes.get(neighbour) for neighbour in (before, *users)]
    plain = all(n is not None and isinstance(n.op, Dense | Sparse) for n in maps)
    if not plain or not users or others != [name] or target.output in (name, before):
        raise CheckFailed("scales", f"{name!r} does not stand between plain maps alone")
    return before, users


def _homogeneous(op: Unitwise) -> bool:
    """Two lines through the origin, one on either side of 0."""
    lines = [p for p in op.pieces if isinstance(p, Line) and p.intercept == 0]
    ends = [piece.hi for piece in op.pieces[:-1]]
    return len(lines) == len(op.pieces) == 2 and ends == [0.0]


def _times(node: Node, rows: Floats | None, columns: Floats | None) -> Node:
    """The node's map with rows and columns multiplied by powers of two, each product exact."""
    assert isinstance(node.op, Dense | Sparse)
    weight = np.asarray(node.op.tile(0, node.op.shape[0]), dtype=np.float64)
    bias = np.asarray(node.op.bias, dtype=np.float64)
    if rows is not None:
        return replace(node, op=Dense(_moved(weight, rows[:, None]), _moved(bias, rows)))
    assert columns is not None
    return replace(node, op=Dense(_moved(weight, columns[None]), bias))


def _moved(values: Floats, powers: Floats) -> Floats:
    """`values·2^powers`; refused where the floats do not hold it."""
    moved = np.ldexp(values, powers)
    back = np.ldexp(moved, -powers)
    if not (np.isfinite(moved).all() and np.array_equal(back, values)):
        raise CheckFailed("scales", "a scaled weight leaves the range of floats")
    return np.asarray(moved)
