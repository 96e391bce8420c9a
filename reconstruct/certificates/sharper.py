"""Sharper bounds for two networks whose cuts are aligned: with signs, lengths, and smaller boxes.

They say in words what they did, and no checker repeats them: a certificate that rests on them has
no segments and says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from reconstruct.bounds import Reach
from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.cutting import applies, cut_until
from reconstruct.certificates.error_recursion import Layered
from reconstruct.certificates.euclidean import bears, euclidean_bound
from reconstruct.certificates.gaps import Gap, gaps
from reconstruct.errors import UnsupportedError
from reconstruct.networks import Network
from reconstruct.progress import Progress


@dataclass(frozen=True, eq=False)
class Aligned:
    """Two networks with their cuts, and the recursion from cut to cut that was made of them."""

    known: Reach
    candidate: Network
    alignment: Alignment
    layered: Layered

    def steps(self) -> tuple[Gap, ...]:
        """What the candidate does otherwise in front of each cut."""
        return gaps(self.known.network, self.candidate, self.alignment, self.layered)


def by_lengths(pair: Aligned, tried: list[str]) -> float:
    """The bound by Euclidean norms; inf where there is none in bearable time."""
    try:
        steps = pair.steps()
    except UnsupportedError:
        return inf
    if not bears(steps):
        return inf
    found = euclidean_bound(pair.known, steps)
    tried.append(f"lengths of differences through the maps: bound {found:.3g}")
    return found


def by_cutting(
    pair: Aligned, tolerance: float, deadline: float, tried: list[str], progress: Progress
) -> float:
    """The bound on boxes that are cut until it is within the tolerance; inf where none can be."""
    if not applies(pair.known, pair.alignment):
        return inf
    try:
        found = cut_until(pair.known, pair.steps(), tolerance, deadline, progress)
    except UnsupportedError as error:
        tried.append(f"difference with its signs: {error}")
        return inf
    tried.append(found.tried)
    return found.bound
