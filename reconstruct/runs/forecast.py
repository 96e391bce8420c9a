"""What a whole run will take: solves, bounds, certificate, samples, files and the page.

Estimates, fitted to runs of six networks on one machine (digits, digits_cnn, ACAS Xu, acc, and
random ones with 64 and 128 units, 3 to 25 seconds of processor time each; the fit is within 40 %).
A busy machine takes longer.
"""

from __future__ import annotations

from dataclasses import dataclass

from reconstruct.constructions.costs import ConstructionCost
from reconstruct.networks import Network
from reconstruct.runs.defaults import FEW_INPUTS, boxes

START = 3.0  # seconds to load Python's packages and to draw a page
PER_WEIGHT = 8e-7  # seconds for a frozen weight: drawn, written, read and hashed
PER_PRODUCT = 6e-7  # seconds for each of its products: bounds, certificate, samples
PER_BOX = 8e-3  # seconds for a box of adaptive bounds

BASE_BYTES = 160e6
BYTES_PER_WEIGHT = 15.0
BYTES_PER_PRODUCT = 15.0
ADAPTIVE_BYTES = 1e8


@dataclass(frozen=True)
class Forecast:
    """Seconds and peak memory of a run, from start to end of the command."""

    seconds: float
    memory_bytes: int


def forecast(cost: ConstructionCost, target: Network) -> Forecast:
    """The whole run of a construction that costs so much; `target` is in normal form."""
    positions = {n.name: int(getattr(n.op, "positions", 1)) for n in target.nodes}
    products = sum(m.weights * positions[m.name] for m in cost.maps)
    adaptive = target.size_in <= FEW_INPUTS
    seconds = START + cost.seconds + PER_WEIGHT * cost.weights + PER_PRODUCT * products
    memory = BASE_BYTES + BYTES_PER_WEIGHT * cost.weights + BYTES_PER_PRODUCT * products
    if adaptive:
        seconds += PER_BOX * boxes(cost.weights)
        memory += ADAPTIVE_BYTES
    return Forecast(seconds, int(max(memory, BASE_BYTES + cost.memory_bytes)))
