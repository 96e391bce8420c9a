"""Whether two networks can be compared at all, and against what scale: before any work."""

from __future__ import annotations

import numpy as np

from reconstruct.networks import Domain, DomainLike, Network
from reconstruct.networks.graph import as_network, fitting, require_same_ends
from reconstruct.numbers.given import at_least


def comparable(
    target: Network, network: Network, domain: DomainLike, tolerance: float | None
) -> Domain:
    """The box for two networks that can be compared on it; refuses others, before any work."""
    as_network(target, "the target")
    as_network(network, "the other network")
    require_same_ends(target, network)
    at_least(tolerance, "the tolerance", 0)
    return fitting(domain, target)


def output_scale(target: Network, box: Domain) -> float:
    """The largest |target| at sampled points: a lower bound of the true one, but for rounding."""
    rng = np.random.default_rng(11)
    points = np.concatenate([box.sample(512, rng), box.corners(512, rng)])
    with np.errstate(all="ignore"):
        top = float(np.max(np.abs(target(points)), initial=0.0))
    return top if np.isfinite(top) else 0.0
