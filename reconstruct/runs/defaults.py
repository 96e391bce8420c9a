"""What is meant where nothing is said, and what a whole run will take.

The same for the command line and the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from reconstruct.bounds import Adaptive, Method
from reconstruct.bounds.methods import as_method
from reconstruct.constructions import Construction, Grouped, SitePlan
from reconstruct.constructions.costs import ConstructionCost, cost
from reconstruct.constructions.sites import norm_at
from reconstruct.errors import UnsupportedError
from reconstruct.networks import Network
from reconstruct.numbers.parallel import physical_memory
from reconstruct.reports.words import duration, size

DOMAIN = (-1.0, 1.0)
FEW_INPUTS = 8  # up to which cutting the domain in halves gains much in little time


def default_bounds(network: Network, dtype: str = "float64") -> Adaptive:
    """A branch and bound where there are few inputs, elsewhere CROWN.

    A network that is written in float32 rounds by what its ranges are too wide: it gets more boxes,
    for some ten seconds.
    """
    if network.size_in > FEW_INPUTS:
        return Adaptive(boxes=1)
    chosen = adaptive(network)
    return replace(chosen, boxes=chosen.boxes * (16 if dtype == "float32" else 1))


def settled(method: Method | None, network: Network, dtype: str = "float64") -> Method:
    """The method for a frozen network that is written in `dtype`: a search that was given no number
    of boxes gets as many as suit the network."""
    if method is None:
        return default_bounds(network, dtype)
    method = as_method(method)
    if isinstance(method, Adaptive) and method.boxes == Adaptive.boxes:
        return adaptive(network, method.seconds)
    return method


def comparing_bounds(method: Method | None, candidate: Network) -> Method:
    """The bounds with which `run` makes a network like this one: those that show it again."""
    return settled(method, candidate, norm_precision(candidate))


def norm_precision(network: Network) -> str:
    """The precision in which a network with norm layers is written: float32 if these have no digit
    beyond it. Without norms it is float64, whatever it is."""
    norms = [norm_at(network, node.name) for node in network.norm_nodes()]
    numbers = [part for norm in norms for part in (norm.gamma, norm.beta)]
    single = all(np.array_equal(part, part.astype(np.float32)) for part in numbers)
    return "float32" if norms and single else "float64"


def adaptive(network: Network, seconds: float | None = None) -> Adaptive:
    """A branch and bound for `network`, the wide one of the two.

    Without a time it gets as many boxes as take about as long as the rest of the work on so many
    weights: the same number in `run` and `verify`, so that both find the same tree.
    """
    return Adaptive(seconds, boxes=boxes(sum(node.op.weights for node in network.nodes)))


def boxes(weights: int) -> int:
    """How many boxes a branch and bound for a network of so many weights gets.

    Bounding a box takes about as long as solving for 10,000 frozen weights; 64 boxes are always
    worth their time, and with 192 ranges are as narrow as those of zonotopes on 512 were.
    """
    return min(192, max(64, weights // 10_000))


@dataclass(frozen=True)
class Rates:
    """What parts of a run take, in seconds and bytes.

    Fitted to runs of six networks on one machine (digits, digits_cnn, ACAS Xu, acc, and random ones
    with 64 and 128 units, 3 to 25 seconds of processor time each; the fit is within 40 %).
    """

    start: float = 3.0  # to load Python's packages and to draw a page
    weight: float = 8e-7  # a frozen weight: drawn, written, read and hashed
    product: float = 6e-7  # each of its products: bounds, certificate, samples
    box: float = 8e-3  # a box of adaptive bounds
    start_bytes: float = 160e6
    weight_bytes: float = 15.0
    product_bytes: float = 15.0
    adaptive_bytes: float = 1e8


@dataclass(frozen=True)
class Forecast:
    """Seconds and peak memory of a run, from start to end of the command, on an idle machine."""

    seconds: float
    memory_bytes: int


def forecast(needed: ConstructionCost, target: Network) -> Forecast:
    """The whole run of a construction that costs so much; `target` is in normal form."""
    rates = Rates()
    positions = {n.name: int(getattr(n.op, "positions", 1)) for n in target.nodes}
    products = sum(m.weights * positions[m.name] for m in needed.maps)
    seconds = (
        rates.start + needed.seconds + rates.weight * needed.weights + rates.product * products
    )
    memory = (
        rates.start_bytes + rates.weight_bytes * needed.weights + rates.product_bytes * products
    )
    if target.size_in <= FEW_INPUTS:
        seconds += rates.box * boxes(needed.weights)
        memory += rates.adaptive_bytes
    return Forecast(seconds, int(max(memory, rates.start_bytes + needed.memory_bytes)))


def advice(
    target: Network,
    construction: Construction,
    density: float | None,
    plans: Mapping[str, SitePlan] | None = None,
) -> str | None:
    """What grouped layers would take, where this construction takes over two minutes or more memory
    than there is; `target` is in normal form."""
    if construction.name == Grouped().name:
        return None
    own = forecast(cost(target, construction, density, plans), target)
    if own.seconds <= 120 and own.memory_bytes <= (physical_memory() or inf):
        return None
    try:
        other = forecast(cost(target, Grouped(), density), target)
    except UnsupportedError:
        return None
    if other.seconds > own.seconds and other.memory_bytes > own.memory_bytes:
        return None
    return (
        f"{construction.name} takes about {duration(own.seconds)} and {size(own.memory_bytes)} "
        f"here; --construction grouped about {duration(other.seconds)} and "
        f"{size(other.memory_bytes)}"
    )
