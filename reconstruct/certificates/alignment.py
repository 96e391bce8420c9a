"""Where to cut two networks so that each piece is affine: the alignment.

An alignment pairs nodes of the target (activations, and sums of branches) with nodes of the
candidate of the same operation and size. It is a hint and nothing more: the proof that follows
compares the operations again and holds, or fails, however the pairs were found. They are read off
the graphs where these have the same structure, or where names were kept; only what is left is
guessed from values at a few points. All other activations are inner: the proof takes them as lines
and pays for how far they may be from it.

Rests on proofs_check: error-recursion, layerwise-to-network.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from reconstruct.certificates.forms import LIMITS as FORM_LIMITS
from reconstruct.certificates.forms import places
from reconstruct.errors import InputError
from reconstruct.networks import (
    Activation,
    Add,
    Domain,
    Map,
    MatrixProduct,
    Mixing,
    Network,
    Node,
    Scaling,
)
from reconstruct.networks.operation import ANY_POSITIONS
from reconstruct.networks.rescaling import informative, probe_points, scalable
from reconstruct.numbers.arrays import Array

# --------------------------------------------------------------------------------------------------
# Further cuts where images cannot be composed: a convolution that ends without an activation.
#
# A form of channels is the same at every position (`forms`). A pool, a dense map, a join of
# channels or a subsampling behind it looks at single pixels of a value that is itself composed, and
# unrolling that value to units would make a large matrix of a small kernel. So the value is cut
# there, like a sum: its error is bounded, and what follows looks at windows of it. Grouped layers
# look at blocks of units in the same way, so that next to them every map whose value another map
# takes is cut. Seams are found in each network by itself, and those between the same two cuts are
# paired in order. As every alignment that is a hint: the proof compares the forms of both values,
# whoever paired them.

Pairs = tuple[tuple[str, str], ...]


def joinable(ours: Node, theirs: Node) -> bool:
    """Whether two values can be a seam: maps, whose forms are compared; scalings only if alike."""
    if ours.op.kind == theirs.op.kind == "Scaling":
        return ours.op.same(theirs.op)
    return _mixes(ours) and _mixes(theirs)


def _mixes(node: Node) -> bool:
    """Whether a node is a map that does more than move units about."""
    return isinstance(node.op, Map) and places(node.op) is None


def with_seams(target: Network, candidate: Network, pairs: Pairs) -> Pairs:
    """The pairs, and between each two of them the seams of both networks, as far as they fit."""
    own = {node.name: node.op for node in target.nodes}
    grouped = any(  # layers that the target does not have: pools are grouped convolutions, too
        getattr(node.op, "groups", 1) > 1
        and not (node.name in own and node.op.same(own[node.name]))
        for node in candidate.nodes
    )
    ours = _between(target, [name for name, _ in pairs], grouped)
    theirs = _between(candidate, [name for _, name in pairs], grouped)
    found: list[tuple[str, str]] = []
    for place in range(len(pairs) + 1):
        left = list(theirs[place])
        for node in ours[place]:
            fits = [
                index
                for index, other in enumerate(left)
                if joinable(node, other) and target.sizes[node.name] == candidate.sizes[other.name]
            ]
            if fits:  # what comes later in one network comes later in the other
                found.append((node.name, left[fits[0]].name))
                left = left[fits[0] + 1 :]
        found += pairs[place : place + 1]
    return tuple(found)


def _between(network: Network, cuts: list[str], grouped: bool) -> list[list[Node]]:
    """The seams in front of each cut, and those behind the last."""
    place = {node.name: index for index, node in enumerate(network.nodes)}
    order = [place[name] for name in cuts]
    found: list[list[Node]] = [[] for _ in range(len(cuts) + 1)]
    for node in seams(network, set(cuts), grouped):
        found[bisect(order, place[node.name])].append(node)
    return found


def seams(network: Network, cuts: set[str], grouped: bool = False) -> list[Node]:
    """The maps behind which a network has to be cut, in its order, so that forms exist.

    Every value stands at some positions: at those of its maps, or anywhere, if it is a source or
    its units only moved. Where an operation cannot take what it is given, what is given is cut;
    next to `grouped` layers a map takes no value of another map.
    """
    if not grouped and not any(node.op.windowed for node in network.nodes):
        return []
    used, found = network.needed(), set[str]()
    stands = {network.source: ANY_POSITIONS}

    def cut(name: str) -> None:
        """Makes a source of a value, or of what its units come from."""
        if stands[name] == ANY_POSITIONS:
            return
        node = network.node(name)
        if places(node.op) is not None:
            cut(node.inputs[0])
        elif _mixes(node) and (stands[name] > 1 or network.sizes[name] <= FORM_LIMITS.units):
            found.add(name)
        stands[name] = ANY_POSITIONS

    for node in network.nodes:
        if node.name in used:
            count = _stands(node, stands)
            if count is None or (grouped and _takes_a_map(network, node)):
                for name in node.inputs:
                    cut(name)
                count = _stands(node, stands)
            stands[node.name] = ANY_POSITIONS if node.name in cuts else count or ANY_POSITIONS
    return [node for node in network.nodes if node.name in found]


def _takes_a_map(network: Network, node: Node) -> bool:
    """Whether a map that mixes units takes the value of a map, its units moved or not."""
    if not isinstance(node.op, Mixing):
        return False
    (name,) = node.inputs
    while name != network.source and places(network.node(name).op) is not None:
        (name,) = network.node(name).inputs
    return name != network.source and isinstance(network.node(name).op, Map)


def _stands(node: Node, stands: dict[str, int]) -> int | None:
    """At how many positions a value stands; None where it takes pixels of a composed value."""
    counts = [stands[name] for name in node.inputs]
    if places(node.op) is None:
        return node.op.positions_for(*counts)
    return counts[0] if counts[0] <= 1 else None


@dataclass(frozen=True)
class AlignmentLimits:
    """When two values are taken for the same one."""

    points: int = 48  # at which values are compared
    close: float = 1e-3  # relative to the largest: far above rounding, far below another neuron
    units: int = 2**11  # of an image whose pixels are each scaled by themselves
    values: int = 2**28  # numbers that are held: 2 GiB


LIMITS = AlignmentLimits()


@dataclass(frozen=True)
class Alignment:
    """`pairs` of (target node, candidate node) in topological order; the outputs go together.

    `origin` says what they were read from.
    """

    pairs: tuple[tuple[str, str], ...]
    origin: str = "given"

    def check(self, target: Network, candidate: Network) -> None:
        """Refuses pairs of different operations or sizes: no proof may rest on them."""
        for ours, theirs in self.pairs:
            node, other = target.node(ours), candidate.node(theirs)
            one_size = target.sizes[ours] == candidate.sizes[theirs]
            if not (_alike(target, node, candidate, other) or (one_size and joinable(node, other))):
                raise InputError(
                    f"an alignment pairs nodes of one operation and size, but {ours!r} is "
                    f"{node.op!r} of {target.sizes[ours]} values and {theirs!r} is {other.op!r} of "
                    f"{candidate.sizes[theirs]}; leave the pair out"
                )

    def target_sources(self, target: Network) -> Mapping[str, str]:
        """The target's input and cuts, each under its own name."""
        return {target.source: target.source, **{t: t for t, _ in self.pairs}}

    def candidate_sources(self, target: Network, candidate: Network) -> Mapping[str, str]:
        """The candidate's input and cuts, each under the name of its partner in the target."""
        return {candidate.source: target.source, **{c: t for t, c in self.pairs}}


def alignments(target: Network, candidate: Network, box: Domain) -> Iterator[Alignment]:
    """Alignments to try, the likeliest first, none of them twice."""
    seen: set[tuple[tuple[str, str], ...]] = set()
    for origin, find in (
        ("names", by_name),
        ("structure", by_structure),
        ("values", lambda g, f: by_values(g, f, box)),
    ):
        pairs = find(target, candidate)
        pairs = None if pairs is None else with_seams(target, candidate, pairs)
        if pairs is not None and pairs not in seen:
            seen.add(pairs)
            yield Alignment(pairs, origin)


def by_name(target: Network, candidate: Network) -> tuple[tuple[str, str], ...] | None:
    """Every cut with its namesake, where each has one and all come in the same order."""
    left = iter(cuts(candidate))
    for node in cuts(target):
        other = next((other for other in left if other.name == node.name), None)
        if other is None or not _alike(target, node, candidate, other):
            return None
    return tuple((node.name, node.name) for node in cuts(target))


def by_structure(target: Network, candidate: Network) -> tuple[tuple[str, str], ...] | None:
    """Every cut with the one at its place, where there are as many and each is alike."""
    ours, theirs = cuts(target), cuts(candidate)
    fits = (_alike(target, a, candidate, b) for a, b in zip(ours, theirs, strict=False))
    if len(ours) != len(theirs) or not all(fits):
        return None
    return tuple((a.name, b.name) for a, b in zip(ours, theirs, strict=True))


def by_values(target: Network, candidate: Network, box: Domain) -> tuple[tuple[str, str], ...]:
    """Each cut with the first later one whose values are as close as any, or with its namesake.

    Networks with more values than can be held at the points are not compared so.
    """
    points = _points(box)
    theirs = cuts(candidate)
    if len(points) * max(sum(net.sizes.values()) for net in (target, candidate)) > LIMITS.values:
        return ()
    left, right = _values(target, points), _values(candidate, points)
    pairs: list[tuple[str, str]] = []
    first = 0  # cuts keep their order: what comes later in one network comes later in the other
    for node in cuts(target):
        fitting = [
            place
            for place in range(first, len(theirs))
            if _alike(target, node, candidate, theirs[place])
        ]
        gaps = [_gap(node, theirs[place], left, right) for place in fitting]
        best = _closest(gaps)
        if best is None:
            names = [theirs[place].name for place in fitting]
            best = names.index(node.name) if node.name in names else None
        if best is not None:
            pairs.append((node.name, theirs[fitting[best]].name))
            first = fitting[best] + 1
    return tuple(pairs)


def cuts(network: Network) -> list[Node]:
    """Activations, sums and products of branches, and scaled images, that the output depends on."""
    used = network.needed()
    return [n for n in network.nodes if n.name in used and _is_cut(network, n)]


def _is_cut(network: Network, node: Node) -> bool:
    """Activations, sums, and what normalises an image ahead of windows: pads stay zero behind it,
    so that it cannot be a part of the convolution."""
    if isinstance(node.op, Scaling):
        ahead = any(user.op.windowed for user in network.consumers(node.name))
        return ahead and (node.op.repeats > 1 or network.sizes[node.name] <= LIMITS.units)
    return isinstance(node.op, Activation | Add | MatrixProduct)


def _alike(target: Network, node: Node, candidate: Network, other: Node) -> bool:
    """Whether two nodes can be paired at all: one operation, one size, and a cut."""
    same = node.op.same(other.op) and target.sizes[node.name] == candidate.sizes[other.name]
    return same and _is_cut(target, node)


def _closest(gaps: list[float]) -> int | None:
    """The first whose gap is as small as any, if that is close; what is no number is not close."""
    least = min(gaps, default=np.inf)
    if not least <= LIMITS.close:
        return None
    return next(place for place, gap in enumerate(gaps) if gap <= 2 * least + 1e-12)


def _gap(node: Node, other: Node, left: dict[str, Array], right: dict[str, Array]) -> float:
    """How far values lie apart, relative to the largest; +inf where they are not numbers."""
    value, shown = _compared(node, left), _compared(other, right)
    with np.errstate(all="ignore"):
        apart = float(np.max(np.abs(shown - value), initial=0.0))
        gap = apart / max(float(np.max(np.abs(value), initial=0.0)), np.finfo(float).tiny)
    return gap if np.isfinite(gap) else np.inf


def _compared(node: Node, values: dict[str, Array]) -> Array:
    """What is compared: an activation's input (its output hides what is negative), a sum itself."""
    return values[node.inputs[0] if isinstance(node.op, Activation) else node.name]


def _points(box: Domain) -> Array:
    rng = np.random.default_rng(20240517)
    return np.concatenate([box.sample(LIMITS.points, rng), box.corners(LIMITS.points // 4, rng)])


def _values(network: Network, points: Array) -> dict[str, Array]:
    """The values at cuts and their inputs alone: wide networks have too many others to keep."""
    found = cuts(network)
    kept = {n.name for n in found} | {n.inputs[0] for n in found}
    with np.errstate(all="ignore"):
        values = network.values(points)
    return {name: values[name] for name in kept}


# --------------------------------------------------------------------------------------------------
# Powers of two between the units of two networks, read off their values.
#
# A network may compute 2^e times a unit of the target and take the factor back behind the
# activation. The proof then speaks of the target with its units scaled likewise, which is the same
# function by an identity of floats (`networks.rescaling`). The powers are a hint, found at a few
# points: wrong ones make the proof fail and nothing else.


@dataclass(frozen=True)
class ScaleLimits:
    """When a unit is taken for a multiple of another by a power of two."""

    close: float = 2.0**-6  # to a power of two, in its logarithm
    largest: int = 64  # exponent
    alike: float = 1e-3  # relative: far above rounding, far below another unit


SCALES = ScaleLimits()


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
        for place in _candidates(node, theirs, first):
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


def _candidates(node: Node, theirs: tuple[Node, ...], first: int) -> list[int]:
    """Where to look for the partner: the namesake alone if there is one, else all that follow."""
    named = [place for place, other in enumerate(theirs) if other.name == node.name]
    return named or list(range(first, len(theirs)))


def _multiples(left: Array, right: Array, exponents: Array) -> bool:
    """Whether the powers of two take `left` to `right`, but for what a proof will count."""
    with np.errstate(all="ignore"):
        apart = np.max(np.abs(np.ldexp(left, exponents) - right), initial=0.0)
        return bool(apart <= SCALES.alike * np.max(np.abs(right), initial=0.0))


def _ratio(left: Array, right: Array) -> Array:
    """The power of two that takes each column of `left` to that of `right`; 0 where none does."""
    with np.errstate(all="ignore"):
        size = np.linalg.norm(right, axis=0) / np.linalg.norm(left, axis=0)
        logarithm = np.log2(size)
        nearest = np.rint(logarithm)
        known = np.abs(logarithm - nearest) < SCALES.close
    known &= np.isfinite(logarithm) & (np.abs(nearest) <= SCALES.largest) & informative(left)
    return np.where(known, nearest, 0.0).astype(np.int64)
