"""Units that repeat or mirror one another, taken together: the same function, exactly.

With p = w·h + b the input of a unit, relu(−p) = relu(p) − p. So a unit whose weights and bias are
those of another one, or their negatives, is not needed: with G the map behind,

    G[:, a] relu(p) + G[:, b] relu(p)  = (G[:, a] + G[:, b]) relu(p),
    G[:, a] relu(p) + G[:, b] relu(−p) = (G[:, a] + G[:, b]) relu(p) − G[:, b] p.

Rows are compared with ==, and a unit is taken out only if the sums are floats without rounding:
then target and candidate may be replaced in any proof. Tools that split units leave such pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from reconstruct.networks import Add, Affine, Mixing, Network, Node, Relu
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.double_double import two_sum

MOST_ENTRIES = 2**24  # of a map whose rows are compared


@dataclass(frozen=True, eq=False)
class Folded:
    """The network without `units` units that mirror or repeat others."""

    network: Network
    units: int


@dataclass(frozen=True, eq=False)
class _Sandwich:
    """A ReLU between two maps, where nothing else uses the values between them."""

    before: Node
    first: Mixing
    relu: Node
    after: Node
    second: Mixing


def fold_mirrored(network: Network) -> Folded:
    """The same function, in real arithmetic, without units that repeat or mirror one another."""
    count = 0
    for node in network.nodes:
        sandwich = _sandwich(network, node)
        found = None if sandwich is None else _fold(sandwich)
        if sandwich is not None and found is not None:
            old = {sandwich.before.name, node.name, sandwich.after.name}
            network = _put(network, old, sandwich.after.name, found[0])
            count += found[1]
    return Folded(network, count)


def _sandwich(network: Network, node: Node) -> _Sandwich | None:
    if node.op != Relu() or node.inputs[0] == network.source:
        return None
    before, users = network.node(node.inputs[0]), network.consumers(node.name)
    alone = len(users) == 1 and len(network.consumers(before.name)) == 1
    if not alone or network.output in (before.name, node.name):
        return None
    first, second = before.op, users[0].op
    if not (isinstance(first, Mixing) and isinstance(second, Mixing)):
        return None
    small = max(first.shape[0] * first.shape[1], second.shape[0] * second.shape[1]) <= MOST_ENTRIES
    return _Sandwich(before, first, node, users[0], second) if small else None


def _fold(part: _Sandwich) -> tuple[list[Node], int] | None:
    """New nodes for the three, and how many units were taken out; None if none can be."""
    rows = np.column_stack([part.first.tile(0, part.first.shape[0]), part.first.bias])
    behind = part.second.tile(0, part.second.shape[0])
    bent, straight, taken = _moved(behind, *_groups(rows))
    if not taken:
        return None
    kept = np.flatnonzero(bent.any(axis=0) | straight.any(axis=0))
    kept = kept if kept.size else np.array([0])
    inputs = part.before.inputs
    first = Node(part.before.name, Affine(rows[kept, :-1], rows[kept, -1]), inputs)
    return [first, *_behind(part, bent[:, kept], straight[:, kept])], taken


def _groups(rows: Array) -> tuple[Array, Array]:
    """For each unit the first one with the same row up to its sign, and the sign between them."""
    leading = rows[np.arange(len(rows)), np.argmax(rows != 0, axis=1)]
    signs = np.where(leading < 0, -1.0, 1.0)
    upright = rows * signs[:, None] + 0.0  # no −0.0: bytes are compared
    first: dict[bytes, int] = {}
    leaders = np.array([first.setdefault(row.tobytes(), i) for i, row in enumerate(upright)])
    return leaders, signs * signs[leaders]


def _moved(behind: Array, leaders: Array, signs: Array) -> tuple[Array, Array, int]:
    """Coefficients of relu(p) and of p, with those units taken out whose sums are exact."""
    bent, straight, taken = behind.copy(), np.zeros_like(behind), 0
    for unit in np.flatnonzero(leaders != np.arange(len(leaders))):
        leader, column = leaders[unit], behind[:, unit]
        total, exact = _sum(bent[:, leader], column)
        line = straight[:, leader]
        if signs[unit] < 0:
            line, too = _sum(line, -column)
            exact = exact and too
        if exact:
            bent[:, leader], straight[:, leader], bent[:, unit] = total, line, 0.0
            taken += 1
    return bent, straight, taken


def _sum(first: Array, second: Array) -> tuple[Array, bool]:
    """The sum in floats, and whether nothing was lost."""
    with np.errstate(over="ignore", invalid="ignore"):
        total, lost = two_sum(first, second)
    return total, bool(np.isfinite(total).all() and not lost.any())


def _behind(part: _Sandwich, bent: Array, straight: Array) -> list[Node]:
    """The ReLU and the map behind it, a second way around the ReLU, or that way alone."""
    bias, relu, after = part.second.bias, part.relu, part.after
    (source,) = relu.inputs
    if not bent.any():
        return [Node(after.name, Affine(straight, bias), (source,))]
    if not straight.any():
        return [relu, Node(after.name, Affine(bent, bias), (relu.name,))]
    ways = (f"{after.name}.bent", f"{after.name}.straight")
    return [
        relu,
        Node(ways[0], Affine(bent, bias), (relu.name,)),
        Node(ways[1], Affine(straight), (source,)),
        Node(after.name, Add(), ways),
    ]


def _put(network: Network, old: set[str], place: str, new: list[Node]) -> Network:
    """The network with new nodes at the place of old ones; names that clash are made new."""
    others = {node.name for node in network.nodes if node.name not in old}
    names: dict[str, str] = {}
    for node in new:
        name = node.name
        while name in others:
            name += "'"
        names[node.name] = name
    fresh = [
        replace(node, name=names[node.name], inputs=tuple(names.get(i, i) for i in node.inputs))
        for node in new
    ]
    nodes: list[Node] = []
    for node in network.nodes:
        if node.name == place:
            nodes += fresh
        elif node.name not in old:
            nodes.append(node)
    return Network(network.size_in, tuple(nodes), network.output, network.source)
