"""What a whole run of a construction would cost, before anything is drawn or solved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconstruct.constructions.construction import Construction, SitePlan
from reconstruct.constructions.sites import mixing_at
from reconstruct.khatri_rao import plan
from reconstruct.networks import Network
from reconstruct.networks.normal_form import rebuilt_nodes


@dataclass(frozen=True)
class Rates:
    """What parts of a run take beside the solves, in seconds and bytes.

    Fitted to runs on one machine (digits, digits_cnn, ACAS Xu, acc and random networks within 40 %;
    ResNet-20 at 16 inputs and a CNN of CIFAR-10, wide and grouped, within a factor of 2).
    """

    few_inputs: int = 8  # up to which dividing the domain gains much in little time
    start: float = 3.0  # to load Python's packages and to draw a page
    weight: float = 1.4e-6  # a frozen weight: drawn, written, read, hashed, bounded, certified
    product: float = 4e-8  # each of its products: values at samples and inputs
    box: float = 8e-3  # a box of adaptive bounds
    start_bytes: float = 190e6
    weight_bytes: float = 20.0
    value_bytes: float = 200.0  # a value of the widest layer: many of it are held at once
    adaptive_bytes: float = 1e8


RATES = Rates()


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
    """A whole target in one construction; memory (peak) and seconds are estimates of the run, from
    start to end of the command, on an idle machine.

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


def boxes(weights: int) -> int:
    """How many boxes a branch and bound for a network of so many weights gets.

    Bounding a box takes about as long as solving for 10,000 frozen weights; 64 boxes are always
    worth their time, and with 192 ranges are as narrow as those of zonotopes on 512 were.
    """
    return min(192, max(64, weights // 10_000))


def cost(
    target: Network,
    construction: Construction,
    density: float | None = None,
    plans: Mapping[str, SitePlan] | None = None,
) -> ConstructionCost:
    """The cost of rebuilding `target` (in normal form) with `construction`; `plans` are those of
    its maps, where they were made already (a plan may factor the map)."""
    maps, solves, products, widest = [], [], 0, 0
    share = 1.0 if density is None else density
    for node in rebuilt_nodes(target):
        op = mixing_at(target, node.name)
        made = plans[node.name] if plans else construction.plan(op)
        shape = made.blueprint
        widths = tuple(layer.width for layer in shape.layers)
        found = MapCost(node.name, shape.rows, shape.cols, widths, shape.weights, shape.tunable)
        maps.append(found)
        products += found.weights * op.positions
        widest = max(widest, max(widths, default=0) * op.positions)
        solves += [plan(m, k, n, density=share) for m, k, n in made.systems]
    weights = sum(m.weights for m in maps)
    held = 4 * weights if share == 1 else int(8 * share * weights)
    hungriest = held + max((s.memory_bytes for s in solves), default=0)
    seconds = RATES.start + sum(s.seconds for s in solves)
    seconds += RATES.weight * weights + RATES.product * products
    memory = RATES.weight_bytes * weights + RATES.value_bytes * widest
    if target.size_in <= RATES.few_inputs:
        seconds += RATES.box * boxes(weights)
        memory += RATES.adaptive_bytes
    return ConstructionCost(
        construction=construction.name,
        maps=tuple(maps),
        weights=weights,
        nonzeros=round(share * weights),
        tunable=sum(m.tunable for m in maps),
        depth=sum(len(m.widths) for m in maps),
        memory_bytes=int(RATES.start_bytes + max(memory, hungriest)),
        seconds=seconds,
    )
