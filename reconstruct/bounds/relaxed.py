"""A network with lines in place of what bends: bounds of forms, and how they depend on the slopes.

A line below a unit that bends up may have any slope between those of its two sides, and so may a
line above one that bends down. Let Λ_a be the coefficients that a form meets at the activation a on
its way back. Its lower bound is the least value of an affine function on the box. With x* where it
is met, every activation replaced by the line that Λ took, and ẑ_a the value in front of a at x*,

    ∂ bound / ∂ slope_i = Λ_a,i (ẑ_a,i − breakpoint_i)    where Λ took the free line, else 0,

because the minimum moves as the function at its minimiser does, and that is linear in each slope:
one pass back and one forward give the derivatives in all slopes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from reconstruct.bounds.crown import carry_back, on_source
from reconstruct.bounds.leaning import Leaning, Shares
from reconstruct.bounds.propagation import Ranges
from reconstruct.bounds.transfers import along
from reconstruct.networks import Activation, Node
from reconstruct.networks.activations import Bends
from reconstruct.numbers.arrays import Array


@dataclass(frozen=True, eq=False)
class Climb:
    """Lower bounds of forms, (rows,), and by activation the derivatives of their weighted sum in
    the shares, (size,)."""

    low: Array
    slope: dict[str, Array]


@dataclass(frozen=True, eq=False)
class Relaxed:
    """What is known of a network on one box, and the units whose slopes are free."""

    state: Ranges
    bends: Mapping[str, Bends]

    @classmethod
    def of(cls, state: Ranges) -> Relaxed:
        found: dict[str, Bends] = {}
        for node in state.network.activation_nodes():
            if node.name in state.values:
                bends = cast(Activation, node.op).bends(*state.values[node.inputs[0]])
                if bends is not None and bends.free.any():
                    found[node.name] = bends
        return cls(state, found)

    def climb(self, shares: Shares, forms: Mapping[str, Array], weights: Array) -> Climb:
        """Of `Σ forms[name]·v_name`, forms (rows, size) each, with one weight for each row."""
        network, values = self.state.network, self.state.values
        own = Leaning.of(network, values, shares).transfers
        transfers = {**self.state.transfers[0], **own}
        met: dict[str, Array] = {}
        blocks = {name: block[None] for name, block in forms.items()}
        start = np.zeros((1, len(weights)))
        form, const = carry_back(network, blocks, start, transfers, values, met=met)
        low = on_source(form, const, transfers[network.source])[0]
        seen = {network.source: np.where(form[0] >= 0, *values[network.source])}
        bent = {node.name for node in network.activation_nodes()}
        slope: dict[str, Array] = {}
        for node in self._until_bends(met):
            inputs = [seen[name] for name in node.inputs]
            if node.name in bent:
                seen[node.name] = along(transfers[node.name], met[node.name][0], inputs[0])
            else:
                seen[node.name] = node.op(*inputs)
            if node.name in self.bends:
                slope[node.name] = weights @ self._moved(node.name, met[node.name][0], inputs[0])
        return Climb(low, slope)

    def _until_bends(self, met: Mapping[str, Array]) -> list[Node]:
        """The nodes that forms passed, up to the last activation among them."""
        passed = [node for node in self.state.network.nodes if node.name in met]
        while passed and passed[-1].name not in self.bends:
            passed.pop()
        return passed

    def _moved(self, name: str, coefficients: Array, z: Array) -> Array:
        """The derivatives of every row in the shares of an activation."""
        bends = self.bends[name]
        took = np.where(coefficients >= 0, bends.below, bends.above)
        moved = coefficients * (z - bends.at) * (bends.right - bends.left)
        return np.where(took, moved, 0.0)
