"""Where to cut two networks so that each piece is affine: the alignment.

An alignment pairs nodes of the target (activations, and sums of branches) with nodes of the
candidate that should have the same value. It is a hint and nothing more: it is found by comparing
values at a few points, and the proof that follows holds, or fails, however it was found. All other
activations are inner: the proof takes them as lines and pays for how far they may be from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from reconstruct.networks import Activation, Add, Box, Network, Node
from reconstruct.numbers.arrays import Array

POINTS = 48
CLOSE = 1e-3  # relative to the largest value: far above rounding, far below another neuron
SEED = 20240517


@dataclass(frozen=True)
class Alignment:
    """`pairs` of (target node, candidate node) in topological order; the outputs go together."""

    pairs: tuple[tuple[str, str], ...]

    def target_sources(self, target: Network) -> Mapping[str, str]:
        """The target's input and cuts, each under its own name."""
        return {target.source: target.source, **{t: t for t, _ in self.pairs}}

    def candidate_sources(self, target: Network, candidate: Network) -> Mapping[str, str]:
        """The candidate's input and cuts, each under the name of its partner in the target."""
        return {candidate.source: target.source, **{c: t for t, c in self.pairs}}


def align(target: Network, candidate: Network, box: Box) -> Alignment:
    """Pair the target's cuts with candidate nodes of the same kind, size and values."""
    points = _points(box)
    ours, theirs = _cuts(target), _cuts(candidate)
    left, right = _values(target, points), _values(candidate, points)
    pairs: list[tuple[str, str]] = []
    first = 0  # cuts keep their order: what comes later in one network comes later in the other
    for node in ours:
        best = _closest(node, theirs[first:], left, right)
        if best is None:
            best = _namesake(node, theirs[first:], left, right)
        if best is not None:
            pairs.append((node.name, theirs[first + best].name))
            first += best + 1
    return Alignment(tuple(pairs))


def _cuts(network: Network) -> list[Node]:
    """Activations, and sums of branches, that the output depends on."""
    used = network.needed()
    return [n for n in network.nodes if n.name in used and isinstance(n.op, Activation | Add)]


def _closest(
    node: Node, others: list[Node], left: dict[str, Array], right: dict[str, Array]
) -> int | None:
    """The index of the first candidate whose value is as close as any, if that is close."""
    value = _compared(node, left)
    gaps = np.full(len(others), np.inf)
    for index, other in enumerate(others):
        if other.op == node.op and _compared(other, right).shape == value.shape:
            gaps[index] = np.max(np.abs(_compared(other, right) - value), initial=0.0)
    scale = max(np.max(np.abs(value), initial=0.0), np.finfo(float).tiny)
    close = np.flatnonzero(gaps <= np.min(gaps, initial=np.inf) * 2 + 1e-12 * scale)
    if not close.size or not gaps[close[0]] <= CLOSE * scale:
        return None
    return int(close[0])


def _namesake(
    node: Node, others: list[Node], left: dict[str, Array], right: dict[str, Array]
) -> int | None:
    """The index of the candidate of the same name, kind and size: an approximation keeps names."""
    for index, other in enumerate(others):
        if other.name == node.name and other.op == node.op:
            same = _compared(other, right).shape == _compared(node, left).shape
            return index if same else None
    return None


def _compared(node: Node, values: dict[str, Array]) -> Array:
    """What is compared: an activation's input (its output hides what is negative), a sum itself."""
    return values[node.name if isinstance(node.op, Add) else node.inputs[0]]


def _points(box: Box) -> Array:
    rng = np.random.default_rng(SEED)
    return np.concatenate([box.sample(POINTS, rng), box.corners(POINTS // 4, rng)])


def _values(network: Network, points: Array) -> dict[str, Array]:
    """The values at cuts and their inputs alone: wide networks have too many others to keep."""
    cuts = _cuts(network)
    kept = {n.name for n in cuts} | {n.inputs[0] for n in cuts}
    with np.errstate(all="ignore"):
        values = network.values(points)
    return {name: np.nan_to_num(values[name], nan=np.inf) for name in kept}
