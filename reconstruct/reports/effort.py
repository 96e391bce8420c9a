"""How many inputs a page may evaluate: figures must not take longer than what they show."""

from __future__ import annotations

from reconstruct.networks import Network

WORK = 2e10  # multiplications that one figure may cost


def affordable(target: Network, network: Network, most: int, work: float = WORK) -> int:
    """At most `most` inputs, fewer for large networks; 0 where not even one is cheap."""
    return int(min(most, work // max(1, multiplications(target) + multiplications(network))))


def multiplications(network: Network) -> int:
    """Of one evaluation: a kernel counts at each of its positions."""
    return sum(n.op.weights * int(getattr(n.op, "positions", 1)) for n in network.nodes)
