"""Further cuts where images cannot be composed: a convolution that ends without an activation.

A form of channels is the same at every position (`views`). A pool, a dense map, a join of channels
or a subsampling behind it looks at single pixels of a value that is itself composed, and unrolling
that value to units would make a large matrix of a small kernel. So the value is cut there, like a
sum: its error is bounded, and what follows looks at windows of it. Grouped layers look at blocks of
units in the same way, so that next to them every map whose value another map takes is cut. Seams
are found in each network
by itself, and those between the same two cuts are paired in order. As every alignment that is a
hint: the proof compares the forms of both values, whoever paired them.

Rests on proofs_check: error-recursion.
"""

from __future__ import annotations

from bisect import bisect

from reconstruct.certificates.forms import UNITS, places
from reconstruct.networks import Map, Mixing, Network, Node
from reconstruct.networks.operation import ANYWHERE

Pairs = tuple[tuple[str, str], ...]


def joinable(ours: Node, theirs: Node) -> bool:
    """Whether two values can be a seam: maps, whose forms are compared; scalings only if alike."""
    if ours.op.kind == theirs.op.kind == "Scaling":
        return ours.op.same(theirs.op)
    return _mixes(ours) and _mixes(theirs)


def _mixes(node: Node) -> bool:
    """Whether a node is a map that does more than move units about."""
    return isinstance(node.op, Map) and places(node.op) is None


def with_seams(target: Network, candidate: Network, pairs: Pairs) -> Pairs:
    """The pairs, and between each two of them the seams of both networks, as far as they fit."""
    grouped = any(getattr(node.op, "groups", 1) > 1 for node in candidate.nodes)
    ours = _between(target, [name for name, _ in pairs], grouped)
    theirs = _between(candidate, [name for _, name in pairs], grouped)
    found: list[tuple[str, str]] = []
    for place in range(len(pairs) + 1):
        left = list(theirs[place])
        for node in ours[place]:
            fits = [
                index
                for index, other in enumerate(left)
                if joinable(node, other) and target.sizes[node.name] == candidate.sizes[other.name]
            ]
            if fits:  # what comes later in one network comes later in the other
                found.append((node.name, left[fits[0]].name))
                left = left[fits[0] + 1 :]
        found += pairs[place : place + 1]
    return tuple(found)


def _between(network: Network, cuts: list[str], grouped: bool) -> list[list[Node]]:
    """The seams in front of each cut, and those behind the last."""
    place = {node.name: index for index, node in enumerate(network.nodes)}
    order = [place[name] for name in cuts]
    found: list[list[Node]] = [[] for _ in range(len(cuts) + 1)]
    for node in seams(network, set(cuts), grouped):
        found[bisect(order, place[node.name])].append(node)
    return found


def seams(network: Network, cuts: set[str], grouped: bool = False) -> list[Node]:
    """The maps behind which a network has to be cut, in its order, so that forms exist.

    Every value stands at some positions: at those of its maps, or anywhere, if it is a source or
    its units only moved. Where an operation cannot take what it is given, what is given is cut;
    next to `grouped` layers a map takes no value of another map.
    """
    if not grouped and not any(node.op.windowed for node in network.nodes):
        return []
    used, found = network.needed(), set[str]()
    stands = {network.source: ANYWHERE}

    def cut(name: str) -> None:
        """Makes a source of a value, or of what its units come from."""
        if stands[name] == ANYWHERE:
            return
        node = network.node(name)
        if places(node.op) is not None:
            cut(node.inputs[0])
        elif _mixes(node) and (stands[name] > 1 or network.sizes[name] <= UNITS):
            found.add(name)
        stands[name] = ANYWHERE

    for node in network.nodes:
        if node.name in used:
            count = _stands(node, stands)
            if count is None or (grouped and _takes_a_map(network, node)):
                for name in node.inputs:
                    cut(name)
                count = _stands(node, stands)
            stands[node.name] = ANYWHERE if node.name in cuts else count or ANYWHERE
    return [node for node in network.nodes if node.name in found]


def _takes_a_map(network: Network, node: Node) -> bool:
    """Whether a map that mixes units takes the value of a map, its units moved or not."""
    if not isinstance(node.op, Mixing):
        return False
    (name,) = node.inputs
    while name != network.source and places(network.node(name).op) is not None:
        (name,) = network.node(name).inputs
    return name != network.source and isinstance(network.node(name).op, Map)


def _stands(node: Node, stands: dict[str, int]) -> int | None:
    """At how many positions a value stands; None where it takes pixels of a composed value."""
    counts = [stands[name] for name in node.inputs]
    if places(node.op) is None:
        return node.op.stands(*counts)
    return counts[0] if counts[0] <= 1 else None
