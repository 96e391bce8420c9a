"""Evaluating a network on a batch, wide hidden layers a tile of channels at a time.

A site of a frozen network is a map to n hidden channels, norms and activations on them, and a map
back. What the hidden channels contribute adds up, so they are computed a tile at a time and no
array of n × batch is ever held; the weights of a tile are cast to the precision of the batch once
for all its rows. Grouped layers go a few groups of outputs at a time: each sees hidden units of
its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reconstruct.networks.activations import Unitwise
from reconstruct.networks.maps import Convolution, Diagonal, Mixing, Placement
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.parallel import parallel_map

if TYPE_CHECKING:
    from reconstruct.networks.graph import Network, Node

TILE_ELEMENTS = 2**20  # hidden values that are held at once: 8 MiB


@dataclass(frozen=True)
class LayerTiles:
    """When a layer is evaluated in tiles, and how large they are beside TILE_ELEMENTS."""

    weights: int = 2**20  # of a tile: 8 MiB in float64
    channels: int = 64  # at least: narrower products are slow
    widening: int = 4  # a layer is hidden when it has this many times its neighbours' values


TILES = LayerTiles()

Part: TypeAlias = Callable[[Array], Array]
Seen: TypeAlias = Callable[[str, Array], None]  # hears the values of nodes, a tile at a time


def unheard(name: str, values: Array) -> None:
    """Nobody listens."""


def held_at(
    network: Network, x: Array, names: Collection[str], dtype: Any = np.float64
) -> dict[str, Array]:
    """The values of these nodes on a small batch, be they of wide layers: then all are held."""
    if network.hides(names):
        return network.values(x, dtype)
    return network.at(x, names, dtype)


@dataclass(frozen=True, eq=False)
class Bottleneck:
    """`first` to hidden channels, `inner` on each, `last` back: the value of the node `name`.

    `hidden` names the nodes of `first` and of each of `inner`.
    """

    name: str
    source: str
    first: Mixing
    inner: tuple[Diagonal | Unitwise, ...]
    last: Mixing
    hidden: tuple[str, ...]
    least = 1  # hidden values of the smallest tile at one input

    def __call__(self, h: Array, seen: Seen = unheard) -> Array:
        total: Array | None = None
        for part in self._parts(h, seen):
            total = part if total is None else np.add(total, part, out=total)
        assert total is not None
        total += self.last.bias.astype(h.dtype)
        return total

    def _parts(self, h: Array, seen: Seen) -> Iterator[Array]:
        """What tiles of hidden channels contribute; who listens hears one after the other."""
        width, weights = self.first.channels, self.first.weights + self.last.weights
        step = TILE_ELEMENTS // max(1, len(h) * self.first.positions)
        step = max(TILES.channels, min(step, TILES.weights * width // max(1, weights)))
        spans = [(start, min(width, start + step)) for start in range(0, width, step)]

        def one(span: tuple[int, int]) -> Array:
            return self._tile(h, *span, seen)

        return parallel_map(one, spans) if seen is unheard else map(one, spans)

    def _tile(self, h: Array, start: int, stop: int, seen: Seen) -> Array:
        first, last = self.first.hidden_rows(start, stop), self.last.hidden_inputs(start, stop)
        assert first is not None and last is not None
        return last.linear(self._inside(first(h), start, stop, seen))

    def _inside(self, z: Array, start: int, stop: int, seen: Seen) -> Array:
        """The hidden channels `start:stop` in front of the last map."""
        seen(self.hidden[0], z)
        for name, op in zip(self.hidden[1:], self.inner, strict=True):
            part = op.hidden(start, stop) if isinstance(op, Diagonal) else op
            assert part is not None
            z = part(z)
            seen(name, z)
        return z


@dataclass(frozen=True, eq=False)
class GroupedBottleneck(Bottleneck):
    """The same of grouped maps, some groups of outputs at a time: `first` to `moved` inputs."""

    first: Convolution
    last: Convolution
    moved: Placement | None

    @property
    def least(self) -> int:  # type: ignore[override]
        return max(self.first.shape) // self.last.groups

    def __call__(self, h: Array, seen: Seen = unheard) -> Array:
        groups = self.last.groups
        out = np.empty((len(h), groups, self.last.shape[0] // groups), h.dtype)
        step = max(1, TILE_ELEMENTS // (len(h) * self.least))
        spans = [(start, min(groups, start + step)) for start in range(0, groups, step)]

        def one(span: tuple[int, int]) -> None:
            out[:, slice(*span)] = self._groups(h, *span, seen).reshape(len(h), -1, out.shape[2])

        for _ in parallel_map(one, spans) if seen is unheard else map(one, spans):
            pass
        return out.reshape(len(h), -1)

    def _groups(self, h: Array, start: int, stop: int, seen: Seen) -> Array:
        """The groups of outputs `start:stop`."""
        each = self.first.groups // self.last.groups
        first = self.first.only(start * each, stop * each)
        width = self.first.shape[1] // self.last.groups
        units = slice(start * width, stop * width)
        if self.moved is None:
            h = h[:, units]
        else:
            h = Placement(self.moved.index[units], self.moved.inputs)(h)
        channels = self.first.channels // self.last.groups
        z = self._inside(first(h), start * channels, stop * channels, seen)
        return self.last.only(start, stop)(z)


def bottlenecks(network: Network) -> dict[str, Bottleneck]:
    """The hidden layers that can be evaluated in tiles, by the node that they end in."""
    found = {}
    for node in network.nodes:
        if isinstance(node.op, Mixing):
            made = _bottleneck(network, node, node.op)
            if made is not None:
                found[made.name] = made
    return found


def _bottleneck(network: Network, node: Node, first: Mixing) -> Bottleneck | None:
    inner: list[Diagonal | Unitwise] = []
    names = [node.name]
    current = node
    while True:
        users = network.consumers(current.name)
        if len(users) != 1 or current.name == network.output:
            return None
        (current,) = users
        op = current.op
        if isinstance(op, Mixing):
            break
        if not isinstance(op, Diagonal | Unitwise) or not _fits(op, first):
            return None
        inner.append(op)
        names.append(current.name)
    if isinstance(first, Convolution) and isinstance(op, Convolution) and first.groups > 1:
        return _grouped(network, node, first, tuple(inner), op, current, tuple(names))
    hidden = network.sizes[node.name]
    beside = max(network.sizes[node.inputs[0]], network.sizes[current.name])
    cut = first.hidden_rows(0, 1) is not None and op.hidden_inputs(0, 1) is not None
    if not cut or hidden < TILES.widening * beside or first.channels < 2 * TILES.channels:
        return None
    return Bottleneck(current.name, node.inputs[0], first, tuple(inner), op, tuple(names))


def _grouped(
    network: Network,
    node: Node,
    first: Convolution,
    inner: tuple[Diagonal | Unitwise, ...],
    last: Convolution,
    end: Node,
    names: tuple[str, ...],
) -> GroupedBottleneck | None:
    """Grouped maps of which each group of outputs sees whole groups of hidden channels."""
    if first.groups % last.groups or network.sizes[node.name] < TILES.widening * last.shape[0]:
        return None
    (source,) = node.inputs
    moved = None if source == network.source else network.node(source).op
    if isinstance(moved, Placement) and len(network.consumers(source)) == 1:
        (source,) = network.node(source).inputs
        return GroupedBottleneck(end.name, source, first, inner, last, names, moved)
    return GroupedBottleneck(end.name, source, first, inner, last, names, None)


def _fits(op: Diagonal | Unitwise, first: Mixing) -> bool:
    """Whether the operation can be cut where the map's channels are cut."""
    return isinstance(op, Unitwise) or (
        op.positions == first.positions and op.hidden(0, 1) is not None
    )


def inner_names(network: Network, found: dict[str, Bottleneck]) -> frozenset[str]:
    """The nodes that a bottleneck computes on the way and nobody else sees."""
    hidden: set[str] = set()
    for made in found.values():
        (name,) = network.node(made.name).inputs
        while name != made.source:
            hidden.add(name)
            (name,) = network.node(name).inputs
    return frozenset(hidden)


def last_uses(steps: Sequence[tuple[str, tuple[str, ...]]], output: str) -> dict[str, int]:
    """For each value the index of the last step that needs it."""
    found = {name: i for i, (_, inputs) in enumerate(steps) for name in inputs}
    found[output] = len(steps)
    return found
