"""One pass through a network on a batch of boxes, value after value as zonotopes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from reconstruct.bounds.adaptive import zonotope
from reconstruct.bounds.adaptive.zonotope import Bent, Zonotope
from reconstruct.networks import Activation, Add, Network, Node
from reconstruct.networks.maps import Map
from reconstruct.numbers.arrays import Array, Range


@dataclass(eq=False)
class Pass:
    """The values of `network` on boxes (boxes, inputs), node by node as far as they are asked for.

    `known` holds bounds over the whole domain of values that activations take, (size,): on each
    box they are met with what the zonotope says. `ranges` collects the zonotopes' own bounds.
    With `shares`, `share[b, e]` says which part of symbol e each input caused on box b.
    """

    network: Network
    lo: Array
    hi: Array
    known: Mapping[str, Range]
    shares: bool = False
    values: dict[str, Zonotope] = field(init=False)
    ranges: dict[str, Range] = field(init=False, default_factory=dict)
    share: Array = field(init=False)

    def __post_init__(self) -> None:
        start = zonotope.of_boxes(self.lo, self.hi)
        self.values = {self.network.source: start}
        self.symbols = start.symbols
        inputs = self.lo.shape[1]
        self.share = np.broadcast_to(np.eye(inputs), (len(self.lo), inputs, inputs))
        self._left = iter(self.network.nodes)
        users = {n: len(self.network.consumers(n)) for n in self.network.sizes}
        self._users = {**users, self.network.output: users[self.network.output] + 1}

    def until(self, name: str) -> Zonotope:
        """The value of a node; those before it are dropped when nothing needs them any more."""
        with np.errstate(all="ignore"):
            while name not in self.values:
                self._step(next(self._left))
        return self.values[name]

    def _step(self, node: Node) -> None:
        inputs = [self.values[i] for i in node.inputs]
        if isinstance(node.op, Activation):
            self.values[node.name] = self._activate(node, node.op, inputs[0])
        elif isinstance(node.op, Add):
            self.values[node.name] = zonotope.total(inputs)
        else:
            assert isinstance(node.op, Map)
            self.values[node.name] = zonotope.image(node.op, inputs[0])
        for name in set(node.inputs):
            self._users[name] -= 1
            if not self._users[name]:
                del self.values[name]

    def _activate(self, node: Node, op: Activation, value: Zonotope) -> Zonotope:
        lo, hi = self.ranges[node.inputs[0]] = value.bounds()
        if node.inputs[0] in self.known:
            below, above = self.known[node.inputs[0]]
            lo, hi = np.maximum(lo, below), np.minimum(hi, above)
        bent = zonotope.activate(op, value, lo, hi, self.symbols)
        if self.shares:
            self._blame(value, bent)
        self.symbols = bent.value.symbols
        return bent.value

    def _blame(self, value: Zonotope, bent: Bent) -> None:
        """A new symbol is blamed on the inputs as much as the range of its unit is."""
        own = np.matmul(np.abs(value.forms).transpose(0, 2, 1), self.share[:, : value.symbols])
        rows = own[bent.boxes, bent.units]
        share = np.zeros((len(self.lo), bent.value.symbols, self.lo.shape[1]))
        share[:, : self.symbols] = self.share
        sums = np.maximum(rows.sum(axis=1, keepdims=True), 1e-300)
        share[bent.boxes, bent.first + bent.slots] = rows / sums
        self.share = share
