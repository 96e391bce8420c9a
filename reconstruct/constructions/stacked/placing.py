"""Shifts of a stack, first layer to last: a chain without skip connections.

Where a piece is bounded, the layer's diagonal is scaled down by a power of two until its values
fit, and the last norm takes the factor back: scaling between diagonals is free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.constructions.construction import Task
from reconstruct.constructions.deep.arithmetic import Extended, real_scale
from reconstruct.constructions.deep.backward import BlockSolution
from reconstruct.constructions.deep.chain import Chain, Link
from reconstruct.constructions.deep.forward import Placed, place_chain
from reconstruct.constructions.deep.status import LARGEST, output_size
from reconstruct.constructions.nodes import kernel_of
from reconstruct.constructions.stacked.product import Product, Scales
from reconstruct.networks import Mixing, Norm, Piece
from reconstruct.numbers.arrays import Array


@dataclass(frozen=True, eq=False)
class Stack:
    """The frozen layers of a stacked site: L + 1 maps and norms, L pieces between them."""

    product: Product
    maps: tuple[Mixing, ...]
    norms: tuple[Norm, ...]
    pieces: tuple[Piece, ...]

    def chain(self) -> Chain:
        """The stack as a chain in which only the first layer takes inputs in."""
        k = self.product.shape[1]
        links = []
        for i, (op, norm, piece) in enumerate(
            zip(self.maps[:-1], self.norms[:-1], self.pieces, strict=True)
        ):
            kernel = kernel_of(op)
            entry = kernel if i == 0 else np.zeros((len(norm.gamma), 0))
            carry = None if i == 0 else kernel
            block = (0, k) if i == 0 else (k, k)
            links.append(Link(carry, entry, block, op.channel_bias, norm, piece))
        return Chain(tuple(links), self.maps[-1], self.norms[-1])


@dataclass(frozen=True, eq=False)
class PlacedStack:
    """The norms, and what rounding in each layer is expected to do to the output."""

    placed: Placed

    @property
    def norms(self) -> tuple[Norm, ...]:
        return self.placed.norms

    @property
    def shift_max(self) -> tuple[float, ...]:
        return self.placed.shift_max

    def rounding(self, task: Task) -> float:
        """The largest error of a float64 evaluation to expect, relative to the output's size."""
        size = output_size(task) or 1.0
        return LARGEST * float(np.linalg.norm(self.placed.noise)) / size


def place_stack(
    stack: Stack, task: Task, scales: Scales, unit: float
) -> tuple[PlacedStack, Scales]:
    """The norms for these σ, and the σ after fitting bounded pieces; the last norm times `unit`."""
    chain = stack.chain()
    factor = 1.0
    for _ in range(2 * len(scales) + 1):
        inner = task.with_map(task.weight / factor, task.bias / factor)
        placed = place_chain(chain, inner, _blocks(stack, chain, scales), unit * factor)
        wide = [i for i, value in enumerate(placed.overflow) if value > 1]
        if not wide:
            break
        over = 2 * placed.overflow[wide[0]]
        scales = tuple(s / over if i == wide[0] else s for i, s in enumerate(scales))
        factor *= over
    return PlacedStack(placed), scales


def _blocks(stack: Stack, chain: Chain, scales: Scales) -> tuple[BlockSolution, ...]:
    """Each layer as the forward pass wants it: σ as its norm really has it, and what follows."""
    lefts = stack.product.lefts(scales)
    return tuple(
        _block(link, sigma, B) for link, sigma, B in zip(chain.links, scales, lefts, strict=True)
    )


def _block(link: Link, sigma: Array, B: Array) -> BlockSolution:
    s = sigma / link.piece.slope
    real: Extended = link.piece.slope * real_scale(link.norm, s)
    return BlockSolution(s, real, B, float("nan"), "", None, (0.0,), 0.0)
