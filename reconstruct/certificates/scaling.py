"""Powers of two between the units of two networks, read off their values.

A network may compute 2^e times a unit of the target and take the factor back behind the activation.
The proof then speaks of the target with its units scaled likewise, which is the same function by an
identity of floats (`networks.rescaling`). The powers are a hint, found at a few points: wrong ones
make the proof fail and nothing else.
"""

from __future__ import annotations

import numpy as np

from reconstruct.networks import Domain, Network
from reconstruct.networks.rescaling import scalable
from reconstruct.numbers.arrays import Array

POINTS = 32
SEED = 20240520
CLOSE = 2.0**-6  # a ratio this close to a power of two, in its logarithm, is taken for it
LARGEST = 64


def powers(target: Network, candidate: Network, box: Domain) -> dict[str, Array]:
    """For activations of the target with a namesake in the candidate: the powers of its units.

    Only those that are not all zero; empty when the two networks have the same units.
    """
    shared = [node for node in scalable(target) if candidate.sizes.get(node.name)]
    if not shared:
        return {}
    points = box.sample(POINTS, np.random.default_rng(SEED))
    others = [candidate.node(node.name) for node in shared]
    with np.errstate(all="ignore"):
        ours = _values(target, points, {node.inputs[0] for node in shared})
        theirs = _values(candidate, points, {node.inputs[0] for node in others})
    found = {}
    for node, other in zip(shared, others, strict=True):
        left, right = ours[node.inputs[0]], theirs[other.inputs[0]]
        if left.shape == right.shape and node.op.same(other.op):
            exponents = _ratio(left, right)
            if exponents.any():
                found[node.name] = exponents
    return found


def _values(network: Network, points: Array, names: set[str]) -> dict[str, Array]:
    """The values of these nodes, without those of wide layers where they are not among them."""
    return network.values(points) if network.hides(names) else network.at(points, names)


def _ratio(left: Array, right: Array) -> Array:
    """The power of two that takes each column of `left` to that of `right`; 0 where none does."""
    with np.errstate(all="ignore"):
        size = np.linalg.norm(right, axis=0) / np.linalg.norm(left, axis=0)
        logarithm = np.log2(size)
        nearest = np.rint(logarithm)
        known = np.abs(logarithm - nearest) < CLOSE
    known &= np.isfinite(logarithm) & (np.abs(nearest) <= LARGEST)
    return np.where(known, nearest, 0.0).astype(np.int64)
