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

from reconstruct.networks.graph import Network, Node
from reconstruct.networks.maps import Dense, Select
from reconstruct.networks.sums import Add

BLOCK = 32  # columns: half of it gains little more and takes twice as long
MOST_BLOCKS = 256  # of one map: a file has three nodes for each
TOGETHER = 8  # values that one node adds


def in_blocks(network: Network) -> Network:
    """The network with the long sums of its dense maps as trees; the names of values stay.

    A map is spelled out if it takes at least twice a block and more than it gives: elsewhere the
    partial sums would be larger than what they are made of.
    """
    names = {network.source, *(node.name for node in network.nodes)}
    nodes = [
        part
        for node in network.nodes
        for part in (_tree(node, names) if is_long(node) else iter([node]))
    ]
    return Network(network.size_in, nodes, network.output, network.source, network.metadata)


def is_long(node: Node) -> bool:
    """Whether the sums of this map are worth a tree."""
    if not isinstance(node.op, Dense):
        return False
    rows, columns = node.op.shape
    return columns >= 2 * BLOCK and columns > rows


def _tree(node: Node, names: set[str]) -> Iterator[Node]:
    """The nodes whose last one is the map's value, under its name."""
    op = node.op
    assert isinstance(op, Dense)
    step = max(BLOCK, -(-op.shape[1] // MOST_BLOCKS))
    level = []
    for i, start in enumerate(range(0, op.shape[1], step)):
        stop = min(start + step, op.shape[1])
        taken, part = _free(f"{node.name}.taken{i}", names), _free(f"{node.name}.part{i}", names)
        yield Node(taken, Select(start, stop), node.inputs)
        yield Node(part, Dense(op.weight[:, start:stop], None if i else op.bias), (taken,))
        level.append(part)
    height = 0
    while len(level) > 1:
        groups = [tuple(level[i : i + TOGETHER]) for i in range(0, len(level), TOGETHER)]
        level = []
        for j, group in enumerate(groups):
            if len(group) == 1:
                level.append(group[0])
                continue
            name = f"{node.name}.sum{height}.{j}"
            level.append(node.name if len(groups) == 1 else _free(name, names))
            yield Node(level[-1], Add(), group)
        height += 1


def _free(name: str, names: set[str]) -> str:
    """A name that no value has yet."""
    while name in names:
        name += "'"
    names.add(name)
    return name
