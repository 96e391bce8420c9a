"""Sums that a graph spells out: which products they add up, and how often each may be rounded.

A sum of q values rounds what it adds at most q − 1 times, in any order; a product of a map at most
as often as the map has terms, its bias included. So a product that reaches the end of a tree
through sums of q_1, q_2, … values from a map of k terms is rounded at most k + Σ(q_i − 1) times,
and the whole is off by at most γ of the largest of these counts times the sum of all |products|.

Rests on proofs_check: accumulated-rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from proofs_check.certificates.arithmetic import Floats
from reconstruct.networks import Network, Node
from reconstruct.networks.maps import Dense, Select
from reconstruct.networks.operation import Add


@dataclass(eq=False)
class Spread:
    """A tree: its maps by the first column of `source` that they take, the most roundings of any
    product in it, and the names of what is computed for it alone."""

    source: str = ""
    width: int = 0
    maps: dict[int, Dense] = field(default_factory=dict)
    count: int = 0
    inside: set[str] = field(default_factory=set)

    def rows(self, start: int, stop: int) -> Floats:
        """Rows of the map that the tree is."""
        found = np.zeros((stop - start, self.width))
        for first, op in self.maps.items():
            found[:, first : first + op.shape[1]] = op.tile(start, stop)
        return found

    @property
    def offsets(self) -> Floats:
        """The biases of all maps, (maps, rows)."""
        return np.stack([np.asarray(op.bias, dtype=np.float64) for op in self.maps.values()])


class Trees:
    """The trees of a network whose values `opened` are looked at from outside."""

    def __init__(self, network: Network, opened: set[str]) -> None:
        self.network, self.opened = network, opened | {network.output}
        self.users: dict[str, int] = dict.fromkeys(network.sizes, 0)
        for node in network.nodes:
            for name in node.inputs:
                self.users[name] += 1
        self.nodes = {node.name: node for node in network.nodes}

    def found(self) -> dict[str, Spread]:
        """By the sums that they end in."""
        trees: dict[str, Spread] = {}
        inside: set[str] = set()
        for node in reversed(self.network.nodes):
            if isinstance(node.op, Add) and node.name not in inside:
                tree = Spread()
                if self._grow(tree, node, 0) and _disjoint(tree):
                    trees[node.name] = tree
                    inside |= tree.inside
        return trees

    def _own(self, name: str) -> Node | None:
        """A node whose value serves one other only."""
        alone = self.users[name] == 1 and name not in self.opened
        return self.nodes.get(name) if alone else None

    def _grow(self, tree: Spread, node: Node, above: int) -> bool:
        """All that a sum adds up, into the tree; false where that is anything else."""
        roundings = above + len(node.inputs) - 1
        for name in node.inputs:
            child = self._own(name)
            if child is None:
                return False
            tree.inside.add(name)
            grow = self._grow if isinstance(child.op, Add) else self._add_map
            if not grow(tree, child, roundings):
                return False
        return True

    def _add_map(self, tree: Spread, child: Node, above: int) -> bool:
        cut = self._own(child.inputs[0])
        if not isinstance(child.op, Dense) or cut is None or not isinstance(cut.op, Select):
            return False
        (source,), first = cut.inputs, cut.op.start
        if tree.maps and (source != tree.source or first in tree.maps):
            return False
        tree.source, tree.width = source, self.network.sizes[source]
        tree.inside.add(cut.name)
        tree.maps[first] = child.op
        count = child.op.shape[1] + int(bool(np.any(child.op.bias))) + above
        tree.count = max(tree.count, count)
        return True


def _disjoint(tree: Spread) -> bool:
    last = 0
    for first in sorted(tree.maps):
        if first < last:
            return False
        last = first + tree.maps[first].shape[1]
    return last <= tree.width
