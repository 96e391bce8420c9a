"""Errors of random sign through a network: variances add, and slopes carry them by their squares.

The slopes are those of the network at sampled inputs. Numerical: predictions rest on it, no bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from reconstruct.networks import Domain, Network
from reconstruct.networks.gradients import adjoints
from reconstruct.numbers.arrays import Vector

POINTS, LEAST = 500, 16
MOST_VALUES = 2**23  # of all nodes at all points
MOST_OUTPUTS = 16
SEED = 11


def variances_at_outputs(
    network: Network, domain: Domain, own: Mapping[str, Vector | float]
) -> dict[str, Vector]:
    """What the variances that maps add to their values, by name, become at the outputs: for each
    map one number for every sampled input and output."""
    count = max(LEAST, min(POINTS, MOST_VALUES // sum(network.sizes.values())))
    values = network.values(domain.sample(count, np.random.default_rng(SEED)))
    found: dict[str, list[Vector]] = {name: [] for name in own}
    for j in range(min(network.size_out, MOST_OUTPUTS)):
        seed = np.zeros((len(values[network.output]), network.size_out))
        seed[:, j] = 1.0
        slopes = adjoints(network, values, {network.output: seed})
        for name, variance in own.items():
            whole = np.broadcast_to(variance, network.sizes[name])
            reached = slopes[name] ** 2 @ whole if name in slopes else np.zeros(len(seed))
            found[name].append(np.asarray(reached))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def deviation(variances: Mapping[str, Vector]) -> float:
    """The deviation of their sum, where inputs at which it is large count for more."""
    whole = np.sum(list(variances.values()), axis=0) if variances else np.zeros(1)
    return math.sqrt(math.sqrt(float(np.mean(whole**2))))
