"""Kernels that move over an image: the worst position of each row, by intervals and by CROWN.

By CROWN each position has a small network of what is seen.

A window at one position depends on few units of the cut that it looks at, these on few units of the
image before, and so on. Restricted to them every map is a small matrix, and forms are carried back
through it at the cost of what they see and not of the whole image: a coefficient that is zero
everywhere else is left out, and the rounding of a product is charged for its own terms alone.

Rests on proofs_check: back-substitution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from reconstruct.bounds.crown import lower_bounds
from reconstruct.bounds.propagation import Ranges
from reconstruct.bounds.transfers import ByMap, Transfer, handed_on, narrowed
from reconstruct.networks import Dense, Network, Node
from reconstruct.numbers.arrays import Array, Range


@dataclass(frozen=True)
class LocalLimits:
    """Up to where a position is worth a network of its own."""

    entries: int = 2**23  # of the rows of one map
    rounds: int = 8  # until the units that are seen have settled
    tile: int = 2**20  # coefficients that are carried back at once


LIMITS = LocalLimits()


def worst_position(ranges: Ranges, name: str, kernel: Array, index: Array) -> Range:
    """Bounds of `kernel · v[index]` over all boxes and positions, row by row, by intervals."""
    op = Dense.over(np.ascontiguousarray(kernel, dtype=np.float64))
    low, high = np.full(len(kernel), np.inf), np.full(len(kernel), -np.inf)
    for box in zip(*ranges.values[name], strict=True):
        below, above = op.image(*(np.where(index >= 0, end[index], 0.0).T for end in box))
        low, high = np.minimum(low, below.min(axis=0)), np.maximum(high, above.max(axis=0))
    return low, high


def local_bounds(ranges: Ranges, name: str, kernel: Array, index: Array) -> Range | None:
    """Bounds of `kernel · v[index]` over all boxes and positions by linear forms, row by row.

    None where what a position sees is too much to be worth it.
    """
    low, high = np.full(len(kernel), np.inf), np.full(len(kernel), -np.inf)
    for places in index.T:
        part = _Part.at(ranges, name, places)
        if part is None:
            return None
        below, above = part.bounds(kernel[:, places >= 0], places[places >= 0])
        low, high = np.minimum(low, below), np.maximum(high, above)
    return low, high


@dataclass(frozen=True, eq=False)
class _Part:
    """The network as one position sees it: `units` of each node, and its nodes seen backwards."""

    network: Network
    name: str
    units: Mapping[str, Array]
    transfers: tuple[Mapping[str, Transfer], ...]
    values: Mapping[str, Range]

    @classmethod
    def at(cls, ranges: Ranges, name: str, places: Array) -> _Part | None:
        network = ranges.network
        needed = _Dependence(network, ranges.transfers[0], name, np.unique(places[places >= 0]))
        if not needed.found():
            return None
        values = {n: _at(ranges.values[n], u) for n, u in needed.units.items()}
        matrices = {n.name: needed.matrix(n) for n in network.nodes if n.name in needed.units}
        transfers = tuple(
            {n: narrowed(known[n], u, matrices.get(n)) for n, u in needed.units.items()}
            for known in ranges.transfers
        )
        return cls(network, name, needed.units, transfers, values)

    def bounds(self, rows: Array, places: Array) -> Range:
        """Bounds of `rows · v[places]` over all boxes."""
        if not len(self.units[self.name]):  # a window that lies in the pads alone sees zeros
            return np.zeros(len(rows)), np.zeros(len(rows))
        forms = np.zeros((len(rows), len(self.units[self.name])))
        np.add.at(forms.T, np.searchsorted(self.units[self.name], places), rows.T)
        widest = max(len(u) for u in self.units.values())
        boxes = len(self.values[self.name][0])
        step = max(1, LIMITS.tile // (2 * boxes * widest))
        low, high = np.empty(len(rows)), np.empty(len(rows))
        for start in range(0, len(rows), step):
            part = forms[start : start + step]
            found = self._lower(np.concatenate([part, -part]))
            low[start : start + step] = found[: len(part)]
            high[start : start + step] = -found[len(part) :]
        return low, high

    def _lower(self, forms: Array) -> Array:
        offsets = np.zeros((1, len(forms)))
        found = [
            lower_bounds(self.network, {self.name: forms[None]}, offsets, known, self.values)
            for known in self.transfers
        ]
        return np.asarray(np.maximum.reduce(found).min(axis=0))


def _at(value: Range, units: Array) -> Range:
    return value[0][:, units], value[1][:, units]


class _Dependence:
    """Which units of each node some units of one node depend on, and the maps between them.

    What hands its units on as they are (an activation, a sum) has the same units as its inputs:
    so they are found again and again until nothing is added.
    """

    def __init__(
        self, network: Network, transfers: Mapping[str, Transfer], name: str, units: Array
    ) -> None:
        self.network, self.transfers, self.name = network, transfers, name
        self.units: dict[str, Array] = {name: units}
        self.maps: dict[str, tuple[Array, Array]] = {}

    def found(self) -> bool:
        """False where it is too much, or where a maximum chooses among units."""
        for _ in range(LIMITS.rounds):
            before = sum(len(u) for u in self.units.values())
            if not all(self._step(node) for node in reversed(self.network.nodes)):
                return False
            if sum(len(u) for u in self.units.values()) == before:
                return True
        return False

    def _step(self, node: Node) -> bool:
        units = self.units.get(node.name)
        if units is None:
            return True
        pull = self.transfers[node.name].pull
        if isinstance(pull, ByMap):
            return self._map(node, pull, units)
        if not handed_on(pull):
            return False
        shared = units
        for name in node.inputs:
            shared = np.union1d(shared, self.units.get(name, shared))
        for name in (node.name, *node.inputs):
            self.units[name] = shared
        return True

    def _map(self, node: Node, pull: ByMap, units: Array) -> bool:
        """The rows of a map and the columns that they see."""
        (source,) = node.inputs
        if node.name in self.maps and len(self.maps[node.name][0]) == len(units):
            return True
        if len(units) * max(pull.size, self.network.sizes[node.name]) > LIMITS.entries:
            return False
        rows = np.zeros((len(units), self.network.sizes[node.name]))
        rows[np.arange(len(units)), units] = 1.0
        weights = pull(rows)  # 0·w and 1·w are exact, and so are their sums
        seen = np.flatnonzero(weights.any(axis=0))
        self.maps[node.name] = weights, seen
        self.units[source] = np.union1d(self.units.get(source, seen), seen)
        return True

    def matrix(self, node: Node) -> Array | None:
        """The node's map between the units that were found, None for what is no map."""
        if node.name not in self.maps:
            return None
        return self.maps[node.name][0][:, self.units[node.inputs[0]]]
