"""Sharper bounds for two networks whose cuts are aligned: with signs, lengths, and smaller boxes.

They say in words what they did, and no checker repeats them: a certificate that rests on them has
no segments and says so.
"""

from __future__ import annotations

from math import inf

from reconstruct.bounds import Reach
from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.cutting import applies, cut_until
from reconstruct.certificates.error_recursion import bound_layers
from reconstruct.certificates.euclidean import bears, euclidean_bound
from reconstruct.certificates.gaps import gaps
from reconstruct.errors import UnsupportedError
from reconstruct.networks import Network
from reconstruct.progress import Progress


def by_lengths(known: Reach, candidate: Network, alignment: Alignment, tried: list[str]) -> float:
    """The bound by Euclidean norms; inf where there is none in bearable time."""
    try:
        layered = bound_layers(known.network, candidate, known, alignment)
        steps = gaps(known.network, candidate, alignment, layered)
    except UnsupportedError:
        return inf
    if not bears(steps):
        return inf
    found = euclidean_bound(known, steps)
    tried.append(f"lengths of differences through the maps: bound {found:.3g}")
    return found


def by_cutting(
    known: Reach,
    candidate: Network,
    alignment: Alignment,
    tolerance: float,
    deadline: float,
    tried: list[str],
    progress: Progress,
) -> float:
    """The bound on boxes that are cut until it is within the tolerance; inf where none can be."""
    if not applies(known, alignment):
        return inf
    try:
        found = cut_until(known, candidate, alignment, tolerance, deadline, progress)
    except UnsupportedError as error:
        tried.append(f"difference with its signs: {error}")
        return inf
    tried.append(found.tried)
    return found.bound
