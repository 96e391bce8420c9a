"""What a construction would cost for a given target, before anything is drawn or solved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconstruct.constructions.construction import Construction, SitePlan
from reconstruct.constructions.sites import mixing_at
from reconstruct.khatri_rao import plan
from reconstruct.networks import Network
from reconstruct.networks.normal_form import rebuilt_nodes


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
class ConstructionCost:
    """A whole target in one construction; memory and seconds are estimates for the solves.

    `memory_bytes` is the larger of holding all frozen weights in float32 and the hungriest solve;
    `nonzeros` is the expected count when each weight is kept with probability `density`.
    """

    construction: str
    maps: tuple[MapCost, ...]
    weights: int
    nonzeros: int
    tunable: int
    depth: int
    memory_bytes: int
    seconds: float


def cost(
    target: Network,
    construction: Construction,
    density: float | None = None,
    plans: Mapping[str, SitePlan] | None = None,
) -> ConstructionCost:
    """The cost of rebuilding `target` (in normal form) with `construction`; `plans` are those of
    its maps, where they were made already (a plan may factor the map)."""
    maps: list[MapCost] = []
    solves = []
    share = 1.0 if density is None else density
    for node in rebuilt_nodes(target):
        made = plans[node.name] if plans else construction.plan(mixing_at(target, node.name))
        blueprint = made.blueprint
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
        solves += [plan(m, k, n, density=share) for m, k, n in made.systems]
    weights = sum(m.weights for m in maps)
    held = 4 * weights if share == 1 else int(8 * share * weights)
    return ConstructionCost(
        construction=construction.name,
        maps=tuple(maps),
        weights=weights,
        nonzeros=round(share * weights),
        tunable=sum(m.tunable for m in maps),
        depth=sum(len(m.widths) for m in maps),
        memory_bytes=held + max((s.memory_bytes for s in solves), default=0),
        seconds=sum(s.seconds for s in solves),
    )
