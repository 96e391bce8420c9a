"""Which values on images are the same map at every position, and what of a source they look at.

A convolution of a source, of units of it that were only moved, or a 1×1 convolution of such a value
again, acts on every position alike; norms and activations of its channels, and sums of such values,
follow. Whatever else occurs is taken unit by unit: any choice is sound, for both are the same map.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from proofs_check.certificates.views import Places, View, windows
from reconstruct.networks import Convolution, Network, Node
from reconstruct.networks.activations import Unitwise
from reconstruct.networks.maps import Cast, Diagonal, Norm, Placement, Scaling, Select
from reconstruct.networks.operation import Add

ANY = 0  # as many positions as one likes: a source, or units of it that were moved
SMALL = 2**11  # units up to which what only moved is taken unit by unit


class Pixels:
    """The positions of a network's values over its sources."""

    def __init__(self, network: Network, sources: Mapping[str, str]) -> None:
        self.nodes: dict[str, Node] = {node.name: node for node in network.nodes}
        self.sizes, self.sources = network.sizes, sources
        self._views: dict[tuple[str, int], View] = {}
        self._windows: dict[str, View] = {}
        self._moved: dict[str, tuple[str, Places] | None] = {}
        self._positions: dict[str, int] = {}
        for node in network.nodes:  # in their order, so that no chain is too long
            self._moved[node.name] = self._find_moved(node)
            self._positions[node.name] = self._find_positions(node)

    def positions(self, name: str) -> int:
        """At how many positions the rows of a node stand; 1 for units, ANY for what only moved."""
        return ANY if name in self.sources else self._positions[name]

    def own(self, name: str) -> int:
        """The positions of a node's own form over what it takes, though it is a source itself."""
        return self._positions[name] or 1

    def view(self, name: str, positions: int) -> View | None:
        """Units of a source that were only moved, as rows at that many positions."""
        key = name, positions
        if key not in self._views:
            found = self._looked(name)
            if found is None:
                return None
            source, index = found
            self._views[key] = View.of(source, index.reshape(-1, positions))
        return self._views[key]

    def window(self, name: str, op: Convolution) -> View | None:
        """What a convolution's kernel looks at, if its input is such a value."""
        if name not in self._windows:
            found = self._looked(self.nodes[name].inputs[0])
            if found is None:
                return None
            source, index = found
            places = windows(op)
            self._windows[name] = View.of(source, np.where(places >= 0, index[places], -1))
        return self._windows[name]

    def _looked(self, name: str) -> tuple[str, Places] | None:
        if name in self.sources:
            return self.sources[name], np.arange(self.sizes[name])
        return self._moved[name]

    def _find_moved(self, node: Node) -> tuple[str, Places] | None:
        op = node.op
        if not isinstance(op, Cast | Select | Placement):
            return None
        found = self._looked(node.inputs[0])
        if found is None:
            return None
        source, index = found
        if isinstance(op, Cast):
            return source, index
        if isinstance(op, Select):
            return source, index[op.start : op.stop]
        return source, np.where(op.index >= 0, index[op.index], -1)

    def _find_positions(self, node: Node) -> int:
        op = node.op
        if self._moved[node.name] is not None:
            return ANY
        counts = [self.positions(name) for name in node.inputs]
        if isinstance(op, Convolution):
            inside = counts[0] == ANY or (op.geometry.plain and counts[0] == op.positions)
            return op.positions if inside else 1
        if isinstance(op, Add):
            return common(counts, 1)
        if isinstance(op, Diagonal):
            return counts[0] if counts[0] > 1 and alike(op, counts[0]) else 1
        return counts[0] or 1 if isinstance(op, Unitwise) else 1


def alike(op: Diagonal, positions: int) -> bool:
    """Whether the units of a channel are all scaled and shifted alike."""
    if isinstance(op, Norm):
        return op.positions == positions
    if not isinstance(op, Scaling):
        return isinstance(op, Cast)
    parts = (np.asarray(part).reshape(-1, positions) for part in (op.factor, op.divisor, op.offset))
    return all(bool((part == part[:, :1]).all()) for part in parts)


def runs(op: Scaling) -> int:
    """The longest run of neighbours by which a scaling is made of channels, 1 where it is not."""
    parts = np.stack([np.asarray(part) for part in (op.factor, op.divisor, op.offset)])
    differ = np.flatnonzero((parts != parts[:, :1]).any(axis=0))
    length = int(differ[0]) if len(differ) else parts.shape[1]
    return length if parts.shape[1] % length == 0 and alike(op, length) else 1


def common(counts: list[int], size: int) -> int:
    """The positions at which values of one `size` are compared or added."""
    known = {count for count in counts if count != ANY}
    if not known:
        return 1 if size <= SMALL else size
    return known.pop() if len(known) == 1 else 1
