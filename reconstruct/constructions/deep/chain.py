"""The frozen layers of a deep site as matrices.

    h_1 = act(N_1(A_1 x^(1))),   h_i = act(N_i(M_i h_{i-1} + A_i x^(i))),   out = N_out(M_out h_D)

A link is one hidden layer with the block of the input that enters it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions.nodes import (
    activation_at,
    group_at,
    kernel_of,
    mixing_at,
    norm_group,
)
from reconstruct.constructions.sites import Layer, Site
from reconstruct.errors import InputError
from reconstruct.khatri_rao import structural_obstruction
from reconstruct.networks import (
    Matrix,
    Mixing,
    Network,
    Norm,
    Piece,
    dense,
)
from reconstruct.numbers.arrays import Vector


@dataclass(frozen=True, eq=False)
class Link:
    """A hidden layer: `carry` M (n × n before it, None in the first), `entry` A (n × block).

    `bias` is the sum of the biases of both linear layers, `piece` the activation's linear piece.
    """

    carry: Matrix | None
    entry: Matrix
    block: tuple[int, int]
    bias: Vector
    norm: Norm
    piece: Piece

    @property
    def width(self) -> int:
        return int(self.entry.shape[0])

    @property
    def bounded(self) -> bool:
        """Whether the activation is linear on an interval only."""
        return bool(np.isfinite(self.piece.hi))


@dataclass(frozen=True, eq=False)
class Chain:
    """The hidden layers, first to last, and the layer that ends the chain."""

    links: tuple[Link, ...]
    last: Mixing
    norm: Norm

    @property
    def width(self) -> int:
        """Neurons of the widest hidden layer."""
        return max(link.width for link in self.links)


def check_patterns(chain: Chain, where: str) -> None:
    """Refuse, before any numerical work, weights whose zeros alone leave some block out of reach.

    Where M has zeros, B has some at best where no path leads from the layer to the output.
    """
    reached = _pattern(kernel_of(chain.last))
    for i in reversed(range(len(chain.links))):
        link = chain.links[i]
        obstruction = structural_obstruction(link.entry, reached)
        if obstruction is not None:
            raise InputError(
                f"{where}, block {i + 1} cannot be reached by this frozen network: "
                f"{obstruction.message}"
            )
        if link.carry is not None:
            reached = _pattern(reached @ _pattern(link.carry))


def _pattern(matrix: Matrix) -> NDArray[np.float32]:
    return np.asarray(dense(matrix) != 0, dtype=np.float32)


def read_chain(site: Site, frozen: Network, group: int = 0, groups: int = 1) -> Chain:
    """The matrices of a site that `find_sites` recognised; of a grouped convolution one group's."""
    *hidden, final = site.layers
    links = tuple(_link(layer, frozen, group, groups) for layer in hidden)
    norm = norm_group(frozen, final.norm, group, groups)
    return Chain(links, group_at(frozen, final.carry, group), norm)


def _link(layer: Layer, frozen: Network, group: int, groups: int) -> Link:
    assert layer.block is not None
    entry = group_at(frozen, layer.entry, group)
    norm = norm_group(frozen, layer.norm, group, groups)
    carry = group_at(frozen, layer.carry, group) if layer.carry else None
    own = entry.channel_bias
    bias = own if carry is None else own + carry.channel_bias
    weight = None if carry is None else kernel_of(carry)
    piece = activation_at(frozen, layer.activation).piece
    entering = kernel_of(entry)
    if not mixing_at(frozen, layer.entry).own_entries:  # it has all columns, zero in other blocks
        entering = entering[:, slice(*layer.block)]
    return Link(weight, entering, layer.block, bias, norm, piece)
