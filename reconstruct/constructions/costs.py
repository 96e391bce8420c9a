"""What a construction would cost for a given target, before anything is drawn or solved."""

from __future__ import annotations

from dataclasses import dataclass

from reconstruct.constructions.blueprint import Blueprint
from reconstruct.constructions.construction import Construction
from reconstruct.khatri_rao import plan
from reconstruct.networks import (
    Mixing,
    Network,
)


@dataclass(frozen=True)
class MapCost:
    """One map of the target: its shape, and the frozen layers that it needs."""

    name: str
    rows: int
    cols: int
    widths: tuple[int, ...]
    weights: int
    tunable: int


@dataclass(frozen=True)
class Cost:
    """A whole target in one construction; memory and seconds are estimates for the solves.

    `memory_bytes` is the larger of holding all frozen weights in float32 and the hungriest solve;
    `nonzeros` is the expected count when each weight is kept with probability `sparsity`.
    """

    construction: str
    maps: tuple[MapCost, ...]
    weights: int
    nonzeros: int
    tunable: int
    depth: int
    memory_bytes: int
    seconds: float


def cost(target: Network, construction: Construction, sparsity: float | None = None) -> Cost:
    """The cost of rebuilding `target` (in normal form) with `construction`."""
    maps: list[MapCost] = []
    solves = []
    density = 1.0 if sparsity is None else sparsity
    for node in target.mixing_nodes():
        assert isinstance(node.op, Mixing)
        blueprint = construction.blueprint(node.op)
        widths = tuple(layer.width for layer in blueprint.layers)
        maps.append(
            MapCost(
                node.name,
                blueprint.rows,
                blueprint.cols,
                widths,
                blueprint.weights,
                blueprint.tunable,
            )
        )
        solves += [plan(m, k, n, density=density) for m, k, n in systems(blueprint)]
    weights = sum(m.weights for m in maps)
    held = 4 * weights if density == 1 else int(8 * density * weights)
    return Cost(
        construction=construction.name,
        maps=tuple(maps),
        weights=weights,
        nonzeros=round(density * weights),
        tunable=sum(m.tunable for m in maps),
        depth=sum(len(m.widths) for m in maps),
        memory_bytes=held + max((s.memory_bytes for s in solves), default=0),
        seconds=sum(s.seconds for s in solves),
    )


def systems(blueprint: Blueprint) -> list[tuple[int, int, int]]:
    """The Khatri-Rao systems (m, k, n) that a site leads to.

    Layers in a plain chain are solved pair by pair; with skip connections there is one system for
    each block of the input, all with the map's own number of rows.
    """
    layers = blueprint.layers
    blocks = [layer for layer in layers if layer.block is not None]
    if len(blocks) > 1:
        return [(blueprint.rows, b.block[1] - b.block[0], b.width) for b in blocks if b.block]
    found, size = [], blueprint.cols
    for first, second in zip(layers[::2], layers[1::2], strict=True):
        found.append((second.width, size, first.width))
        size = second.width
    return found
