"""Lines of chosen slopes, as bounds use them and as a certificate carries them.

A set of slopes serves the values from one activation on. Of each unit it has a byte: 0 is the slope
on the left of its breakpoint, 255 the one on the right. Whatever the bytes are, every line is one
that holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from reconstruct.bounds.transfers import Transfer, transfer
from reconstruct.errors import InputError
from reconstruct.networks import Network
from reconstruct.networks.activations import Support
from reconstruct.numbers.arrays import Array, Range

LEVELS = 255  # shares are whole multiples of 1/255

Shares = Mapping[str, Array]  # by activation, (1, size): see `Bends.slope`


@dataclass(frozen=True, eq=False)
class Leaning:
    """Activations seen backwards through lines of these shares."""

    shares: Shares
    transfers: Mapping[str, Transfer]

    @classmethod
    def of(cls, network: Network, values: Mapping[str, Range], shares: Shares) -> Self:
        nodes = [network.node(name) for name in shares if name in values]
        seen = {n.name: transfer(n, values, Support.AREA, shares[n.name]) for n in nodes}
        return cls(shares, seen)


@dataclass(frozen=True)
class Slopes:
    """Sets of slopes by the activation from whose value on they serve, each by activation."""

    sets: Mapping[str, Mapping[str, bytes]]

    @classmethod
    def of(cls, leaning: Mapping[str, Leaning]) -> Self:
        return cls(
            {
                name: {n: _as_bytes(row) for n, row in one.shares.items()}
                for name, one in leaning.items()
            }
        )

    def check(self, network: Network) -> None:
        """Refuses slopes that are not of this network's activations."""
        bent = {node.name for node in network.activation_nodes()}
        for last, rows in self.sets.items():
            for name, row in rows.items():
                if not {last, name} <= bent or len(row) != network.sizes[name]:
                    raise InputError(
                        f"slopes must be those of this network, reach.slopes, but {len(row)} of "
                        f"them are given for {name!r}, which has no activation of so many units"
                    )

    def __call__(self, state: object, name: str, following: str, /) -> Shares | None:
        """The set for the values from an activation on, in place of a search."""
        rows = self.sets.get(name)
        if rows is None:
            return None
        return {n: np.frombuffer(row, dtype=np.uint8)[None] / LEVELS for n, row in rows.items()}


def _as_bytes(shares: Array) -> bytes:
    return bytes(np.rint(shares[0] * LEVELS).astype(np.uint8))
