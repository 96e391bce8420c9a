"""Long sums spelled out as sums of short ones, so that an evaluation in floats rounds less.

A map that adds up n products may add them in any order, and what it rounds is bounded by n
roundings. The same map as a tree,

    W h = Σ_i W_i h_i    (blocks of columns, added eight at a time),

is the same function of real numbers, but the graph itself now says that no number takes part in
more than B + 7·log₈(n/B) roundings, and that no partial sum is longer than a block: both what is
proved and what is met become smaller. It costs time, for small products run slower than one large.

Rests on proofs_check: accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from reconstruct.errors import InputError
from reconstruct.networks.graph import Network, Node
from reconstruct.networks.maps import Dense, Select
from reconstruct.networks.sums import Add

BLOCK = 32  # columns: half of it gains little more and takes twice as long
MOST_BLOCKS = 256  # of one map: a file has three nodes for each
TOGETHER = 8  # values that one node adds


def in_blocks(network: Network, block: int = BLOCK) -> Network:
    """The network with the long sums of its dense maps as trees; the names of values stay.

    Blocks have `block` columns, more where there would be too many of them.

    A map is spelled out if it takes at least twice a block and more than it gives: elsewhere the
    partial sums would be larger than what they are made of.
    """
    names = {network.source, *(node.name for node in network.nodes)}
    nodes = tuple(part for node in network.nodes for part in _spelled(network, node, names, block))
    return network.with_nodes(nodes)


def joined(network: Network) -> Network:
    """The network of which this one is `in_blocks`; this one itself if there is none.

    Names tell what may belong together; spelled out again it has to be this network.
    """
    parts: dict[str, list[Node]] = {}
    for node in network.nodes:
        value, found, number = node.name.rpartition(".part")
        if found and number == str(len(parts.get(value, []))) and "weight" in node.op.arrays():
            parts.setdefault(value, []).append(node)
    names = {node.name for node in network.nodes}
    whole = {
        value: Node(value, _side_by_side(found), network.node(f"{value}.taken0").inputs)
        for value, found in parts.items()
        if value in names and f"{value}.taken0" in names
    }
    tree = tuple(f"{value}.{word}" for value in whole for word in ("taken", "part", "sum"))
    nodes = (whole.get(n.name, n) for n in network.nodes if not n.name.startswith(tree))
    try:
        plain = network.with_nodes(tuple(nodes)) if whole else network
    except InputError:  # what is left does not hang together
        return network
    return plain if in_blocks(plain).same(network) else network


def _side_by_side(parts: list[Node]) -> Dense:
    weights = [node.op.arrays()["weight"] for node in parts]
    return Dense(np.concatenate(weights, axis=1), parts[0].op.arrays().get("bias"))


def _spelled(network: Network, node: Node, names: set[str], block: int) -> Iterator[Node]:
    """The node as it is, or the nodes of its tree."""
    takes, gives = network.sizes[node.inputs[0]], network.sizes[node.name]
    width = max(block, -(-takes // MOST_BLOCKS))
    blocks = node.op.on_blocks(width) if takes >= 2 * block and takes > gives else ()
    if not blocks:
        yield node
        return
    level = []
    for i, (start, stop, op) in enumerate(blocks):
        taken, part = _free(f"{node.name}.taken{i}", names), _free(f"{node.name}.part{i}", names)
        yield Node(taken, Select(start, stop), node.inputs)
        yield Node(part, op, (taken,))
        level.append(part)
    yield from _added(node.name, level, names)


def _added(value: str, level: list[str], names: set[str]) -> Iterator[Node]:
    """The sum of all these, a few at a time, the last one under the name `value`."""
    height = 0
    while len(level) > 1:
        groups = [tuple(level[i : i + TOGETHER]) for i in range(0, len(level), TOGETHER)]
        level = []
        for j, group in enumerate(groups):
            if len(group) == 1:
                level.append(group[0])
                continue
            name = f"{value}.sum{height}.{j}"
            level.append(value if len(groups) == 1 else _free(name, names))
            yield Node(level[-1], Add(), group)
        height += 1


def _free(name: str, names: set[str]) -> str:
    """A name that no value has yet."""
    while name in names:
        name += "'"
    names.add(name)
    return name
