"""Powers of two between the units of two networks, read off their values.

A network may compute 2^e times a unit of the target and take the factor back behind the activation.
The proof then speaks of the target with its units scaled likewise, which is the same function by an
identity of floats (`networks.rescaling`). The powers are a hint, found at a few points: wrong ones
make the proof fail and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.networks import Domain, Network, Node
from reconstruct.networks.rescaling import informative, probe_points, scalable
from reconstruct.numbers.arrays import Array


@dataclass(frozen=True)
class ScaleLimits:
    """When a unit is taken for a multiple of another by a power of two."""

    close: float = 2.0**-6  # to a power of two, in its logarithm
    largest: int = 64  # exponent
    alike: float = 1e-3  # relative: far above rounding, far below another unit


LIMITS = ScaleLimits()


def powers(target: Network, candidate: Network, box: Domain) -> dict[str, Array]:
    """For activations of the target: the powers of two that lead to units of the candidate.

    A namesake comes first; without one, as in a network that somebody else has named, the first
    activation of its kind and size, in the order of the network, whose units are multiples of
    these. Only powers that are not all zero; empty when the two networks have the same units.
    """
    ours = scalable(target)
    sizes = {target.sizes[node.name] for node in ours}
    theirs = tuple(n for n in candidate.activation_nodes() if candidate.sizes[n.name] in sizes)
    if not ours or not theirs:
        return {}
    points = probe_points(box)
    with np.errstate(all="ignore"):
        left = target.at(points, {node.inputs[0] for node in ours})
        right = candidate.at(points, {node.inputs[0] for node in theirs})
    found, first = {}, 0
    for node in ours:
        values = left[node.inputs[0]]
        for place in _places(node, theirs, first):
            other, shown = theirs[place], right[theirs[place].inputs[0]]
            if shown.shape != values.shape or not node.op.same(other.op):
                continue
            exponents = _ratio(values, shown)
            if other.name == node.name or _multiples(values, shown, exponents):
                first = place + 1
                if exponents.any():
                    found[node.name] = exponents
                break
    return found


def _places(node: Node, theirs: tuple[Node, ...], first: int) -> list[int]:
    """Where to look for the partner: the namesake alone if there is one, else all that follow."""
    named = [place for place, other in enumerate(theirs) if other.name == node.name]
    return named or list(range(first, len(theirs)))


def _multiples(left: Array, right: Array, exponents: Array) -> bool:
    """Whether the powers of two take `left` to `right`, but for what a proof will count."""
    with np.errstate(all="ignore"):
        apart = np.max(np.abs(np.ldexp(left, exponents) - right), initial=0.0)
        return bool(apart <= LIMITS.alike * np.max(np.abs(right), initial=0.0))


def _ratio(left: Array, right: Array) -> Array:
    """The power of two that takes each column of `left` to that of `right`; 0 where none does."""
    with np.errstate(all="ignore"):
        size = np.linalg.norm(right, axis=0) / np.linalg.norm(left, axis=0)
        logarithm = np.log2(size)
        nearest = np.rint(logarithm)
        known = np.abs(logarithm - nearest) < LIMITS.close
    known &= np.isfinite(logarithm) & (np.abs(nearest) <= LIMITS.largest) & informative(left)
    return np.where(known, nearest, 0.0).astype(np.int64)
