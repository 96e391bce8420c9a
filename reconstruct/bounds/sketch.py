"""Ranges that a search for cuts meets on its way: good guesses, and nothing that is proved.

Whoever wants to know how large values are about, before it is settled which network is bounded,
needs no bounds on every leaf.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from reconstruct.bounds.adaptive.search import look_for_cuts
from reconstruct.bounds.methods import Adaptive, Method
from reconstruct.bounds.propagation import propagate
from reconstruct.bounds.reach import Reach, reach, whole_box
from reconstruct.networks import Box, Network, Points
from reconstruct.numbers.arrays import Range
from reconstruct.progress import Progress, silent


@dataclass(frozen=True, eq=False)
class Sketch:
    """Ranges of all values on `box`, each (size,), numerical; `again` is the method with the tree
    that was found."""

    box: Box
    again: Method
    ranges: Mapping[str, Range]

    def bounds(self, name: str) -> Range:
        return self.ranges[name]


def sketch(
    network: Network, box: Box | Points, method: Method, *, progress: Progress = silent
) -> Sketch | Reach:
    """A sketch where the method looks for cuts; elsewhere the bounds themselves."""
    domain = box.of_size(network.size_in)
    if (
        not isinstance(method, Adaptive)
        or not isinstance(domain, Box)
        or not method.cutting(network.size_in)
        or method.cuts is not None
    ):
        return reach(network, domain, method, progress=progress)
    whole = whole_box(network, domain, method, progress)
    certain = {name: (lo[0], hi[0]) for name, (lo, hi) in whole.values.items()}
    found = look_for_cuts(network, domain, certain, method.boxes, method.seconds, progress)
    known = {name: (lo[None], hi[None]) for name, (lo, hi) in found.ranges.items()}
    values = propagate(network, domain.lo[None], domain.hi[None], backward=False, known=known)
    ranges = {name: (lo[0], hi[0]) for name, (lo, hi) in values.values.items()}
    return Sketch(domain, replace(method, cuts=found.cuts), ranges)


def of_scaled(first: Sketch | Reach, network: Network, *, progress: Progress = silent) -> Reach:
    """Bounds of `network`, the one that was looked at first with its units scaled.

    By the cuts that were found then: they depend on the scales, and whoever knows the network
    without them, to make another one or to compare it with one, must find the same.
    """
    if isinstance(first, Reach) and first.network.same(network):
        return first
    return reach(network, first.box, first.again, progress=progress)
