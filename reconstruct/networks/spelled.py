"""Sums that a graph spells out as trees, seen as the one map that they are.

A tree of sums over products of blocks of columns is the map with all columns side by side. What the
tree says beyond that is how often a product can be rounded on its way: as often as its block has
terms, and once for every other value at each sum that it takes part in. So an evaluation of the
tree in floats is bounded like one of the map, with fewer roundings (`networks/blocks.py` makes such
trees; any graph may have them).

Rests on proofs_check: accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from reconstruct.networks.graph import Network, Node
from reconstruct.networks.maps import Mixing
from reconstruct.numbers.arrays import Array


@dataclass(frozen=True, eq=False)
class SpelledSum:
    """A map from the value `source`, `columns` of it, in blocks: (first column, block).

    No product takes part in more than `roundings`, its own and that of a bias included. `nodes` are
    those of the tree but for its root.
    """

    source: str
    columns: int
    blocks: tuple[tuple[int, Mixing], ...]
    roundings: int
    nodes: frozenset[str]

    @property
    def biases(self) -> Array:
        """Those of all blocks, (blocks, rows)."""
        return np.stack([block.bias for _, block in self.blocks])

    @property
    def summands(self) -> int:
        return self.columns

    @property
    def largest(self) -> float:
        return max(block.largest for _, block in self.blocks)

    def absolute(self, reach: Array) -> Array:
        """|W| reach, in plain floats, blocks side by side."""
        parts = [b.absolute(reach[:, first : first + b.shape[1]]) for first, b in self.blocks]
        return np.asarray(np.sum(parts, axis=0))


def spelled_sums(network: Network, kept: Collection[str]) -> dict[str, SpelledSum]:
    """The trees of a network by the names of their roots; none of the values `kept` lies inside."""
    found: dict[str, SpelledSum] = {}
    inside: set[str] = set()
    for node in reversed(network.nodes):
        if len(node.inputs) > 1 and node.name not in inside:
            tree = _tree(network, node, kept)
            if tree is not None:
                found[node.name] = tree
                inside |= tree.nodes
    return found


def _tree(network: Network, root: Node, kept: Collection[str]) -> SpelledSum | None:
    """The tree that ends in a sum, if it is one over disjoint blocks of a single value."""
    found = list(_terms(network, root, 0, kept))
    terms = [term for term in found if term is not None]
    if len(terms) < len(found) or len({term.source for term in terms}) != 1:
        return None
    terms.sort(key=lambda term: term.first)
    if any(a.first + a.block.shape[1] > b.first for a, b in pairwise(terms)):
        return None
    source, most = terms[0].source, max(term.roundings for term in terms)
    nodes = frozenset(name for term in terms for name in term.nodes)
    blocks = tuple((term.first, term.block) for term in terms)
    return SpelledSum(source, network.sizes[source], blocks, most, nodes)


@dataclass(frozen=True, eq=False)
class _Term:
    """A block of a tree: the columns it takes, of which value, the roundings of its products in the
    end, and what is computed for it alone."""

    source: str
    first: int
    block: Mixing
    roundings: int
    nodes: tuple[str, ...]


def _terms(
    network: Network, node: Node, above: int, kept: Collection[str]
) -> Iterator[_Term | None]:
    """What a tree of sums adds up, each meeting so many roundings `above`; None for what is no
    block, or not computed for it alone."""
    more = above + len(node.inputs) - 1
    for name in node.inputs:
        child = _alone(network, name, kept)
        taken = None if child is None else _alone(network, child.inputs[0], kept)
        if child is None:
            yield None
        elif len(child.inputs) > 1:
            for term in _terms(network, child, more, kept):
                yield term and replace(term, nodes=(name, *term.nodes))
        else:
            yield _block(child, taken, more)


def _block(node: Node, taken: Node | None, above: int) -> _Term | None:
    """A map of units that were taken out of a value; None for anything else."""
    units = None if taken is None else getattr(taken.op, "block", None)
    if taken is None or units is None or not isinstance(node.op, Mixing) or node.op.positions > 1:
        return None
    count = node.op.shape[1] + int(node.op.bias.any()) + above
    return _Term(taken.inputs[0], units.start, node.op, count, (node.name, taken.name))


def _alone(network: Network, name: str, kept: Collection[str]) -> Node | None:
    """A node whose value serves one other and nothing else."""
    if name in (network.source, network.output) or name in kept:
        return None
    return network.node(name) if len(network.consumers(name)) == 1 else None
