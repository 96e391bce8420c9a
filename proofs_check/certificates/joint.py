"""Two networks bounded together on the boxes of a partition: a bound of |f − g| on each.

Both networks begin at one input and end in a node that subtracts their outputs, so that what they
have in common cancels when f − g is carried back. A unit whose input is nearly a multiple of an
earlier one's, z_i = c·z_j + δ, may be written through it. As relu is 1-Lipschitz, monotone and
positively homogeneous,

    relu(z_i) = |c|·relu(z_j) − [c < 0]·|c|·z_j + r,     min(0, δ) ≤ r ≤ max(0, δ),

and for δ in [a, b] a line of the slope q lies above max(0, δ), one of the slope 1 − q below
min(0, δ), with what the ends of [a, b] ask for added. Every slope q is sound; q = b/(b − a), cut to
[0, 1], loses least.

The document says how the boxes were divided and which pairs to try. δ is bounded here on each box,
and a pair is used where that leaves less open than the two lines around relu(z_i).

Rests on proofs_check: equal-units, back-substitution, partition-covers, accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from proofs_check.certificates.arithmetic import Floats, above, side_by_side
from proofs_check.certificates.ranges import Ranges, Swap, Waiting, boxes_of, needed
from proofs_check.certificates.rationals import Range
from proofs_check.certificates.reading import Claims, PairClaim
from proofs_check.certificates.report import CheckFailed
from reconstruct.networks import Network, Node, Relu
from reconstruct.networks.maps import Dense
from reconstruct.networks.operation import Add

SIDES = ("target", "candidate")
SOURCE = "input"
TILE = 2**20  # coefficients that are carried back at once
STEPS = 2**10  # slopes of lines around r are multiples of its inverse, so that 1 − q is exact


def prove_jointly(claims: Claims, target: Network, candidate: Network) -> None:
    """|f − g| ≤ bound on every box of the partition, or the field that fails."""
    assert claims.tree is not None and claims.bound is not None
    both = subtracted(target, candidate)
    pairs = _pairs(claims, both)
    lo, hi = _boxes(claims)
    step = int(np.clip(TILE // (2 * max(both.sizes.values()) ** 2), 1, 64))
    parts = [slice(start, start + step) for start in range(0, len(lo), step)]

    def bounded(part: slice) -> float:
        ends = _Both(both, lo[part], hi[part], pairs).values[both.output]
        return float(np.max(np.abs(ends), initial=0.0))

    for part, worst in zip(parts, side_by_side(bounded, parts), strict=True):
        if not worst <= claims.bound:
            raise CheckFailed(
                "bound",
                f"{claims.bound} is claimed, but on boxes {part.start} to {part.stop - 1} of the "
                f"partition only {worst} follows",
            )


def _boxes(claims: Claims) -> Range:
    """The boxes of the trees, one tree after the other, for each box of the domain."""
    assert claims.tree is not None
    wide = claims.domain[0].size > 254
    if len(claims.tree) % (2 if wide else 1):
        raise CheckFailed("tree", "two bytes for each node are needed")
    code = np.frombuffer(claims.tree, ">u2" if wide else ">u1").tolist()
    found, start = [], 0
    for box in claims.domain:
        missing, stop = 1, start
        while missing and stop < len(code):
            missing, stop = missing + (1 if code[stop] else -1), stop + 1
        found.append(boxes_of(box, code[start:stop]))
        start = stop
    if start != len(code):
        raise CheckFailed("tree", "there are more nodes than the boxes of the domain have")
    lows, highs = zip(*found, strict=True)
    return np.concatenate(lows), np.concatenate(highs)


def subtracted(target: Network, candidate: Network) -> Network:
    """Both networks over one input, and f − g."""
    nodes: list[Node] = []
    ends = []
    for side, network in zip(SIDES, (target, candidate), strict=True):
        names = {node.name: f"{side}.{node.name}" for node in network.nodes}
        names[network.source] = SOURCE
        used = needed(network)
        for node in network.nodes:
            if node.name in used:
                inputs = tuple(names[name] for name in node.inputs)
                nodes.append(replace(node, name=names[node.name], inputs=inputs))
        ends.append(names[network.output])
    negated = Node("negated", Dense(-np.eye(target.size_out)), (ends[0],))
    nodes += [negated, Node("difference", Add(), (ends[1], "negated"))]
    return Network(target.size_in, tuple(nodes), "difference", SOURCE)


Pairs = Mapping[str, tuple[PairClaim, ...]]


def _pairs(claims: Claims, both: Network) -> Pairs:
    """The pairs of each activation: a ReLU with units of ReLUs before it, or with its own that are
    in no pair."""
    wanted: dict[str, tuple[PairClaim, ...]] = {}
    for pair in claims.pairs:
        wanted[pair.node] = (*wanted.get(pair.node, ()), pair)
    found, before = dict(wanted), set[str]()
    for node in both.nodes:
        pairs = wanted.pop(node.name, ())
        units = {pair.unit for pair in pairs}
        if node.op == Relu():
            before.add(node.name)
        if pairs and (node.op != Relu() or len(units) != len(pairs)):
            raise CheckFailed("pairs", f"{node.name!r} is no ReLU, or a unit of it is in two pairs")
        for pair in pairs:
            known = pair.partner in before and 0 <= pair.index < both.sizes[pair.partner]
            own = pair.partner == node.name and pair.index in units
            if not known or own or not 0 <= pair.unit < both.sizes[node.name]:
                what = f"unit {pair.unit} of {node.name!r} has no partner before it"
                raise CheckFailed("pairs", what)
    if wanted:
        raise CheckFailed("pairs", f"there is no activation {next(iter(wanted))!r}")
    return found


class _Both(Ranges):
    """Ranges of both networks, in which units of activations are written through others."""

    alone = True

    def __init__(self, both: Network, lo: Floats, hi: Floats, pairs: Pairs) -> None:
        self.pairs, self.nodes = pairs, {node.name: node for node in both.nodes}
        super().__init__(both, lo, hi, sharp={both.output}, lean=True)

    def link(self, node: Node) -> None:
        """Bounds δ of all pairs of an activation, and notes where they are used."""
        pairs = self.pairs.get(node.name, ())
        if not pairs:
            return
        (source,), size = node.inputs, self.network.sizes[node.name]
        units, count = [pair.unit for pair in pairs], len(pairs)
        low, high = np.empty((2, self.boxes, count))
        moves = []
        for partner in dict.fromkeys(pair.partner for pair in pairs):
            (taken,) = self.nodes[partner].inputs
            some = [i for i, pair in enumerate(pairs) if pair.partner == partner]
            first = np.zeros((len(some), size))
            second = np.zeros((len(some), self.network.sizes[partner]))
            scales = np.zeros((size, self.network.sizes[partner]))
            for row, i in enumerate(some):
                first[row, pairs[i].unit] += 1.0
                second[row, pairs[i].index] -= pairs[i].factor
                scales[pairs[i].unit, pairs[i].index] = abs(pairs[i].factor)
            forms = {source: first, taken: first + second if taken == source else second}
            waiting: Waiting = {name: np.concatenate([a, -a])[None] for name, a in forms.items()}
            below = self.lower(waiting)
            low[:, some], high[:, some] = below[:, : len(some)], -below[:, len(some) :]
            moves.append((partner, taken, scales))
        lo, hi = (end[:, units] for end in self.values[source])
        open_between = np.where((lo < 0) & (hi > 0), np.minimum(-lo, hi), 0.0)
        better = np.maximum(np.abs(low + high), high - low) / 2 < open_between
        low, high = np.where(better, low, 0.0), np.where(better, high, 0.0)
        least, most = np.minimum(low, 0.0), np.maximum(high, 0.0)
        width = np.where(most > least, most - least, 1.0)
        part = np.round(most / width * STEPS) / STEPS
        ends = [np.where(end > 0, (1.0 - part) * end, -part * end) for end in (low, high)]
        used, slope, beyond = np.zeros((3, self.boxes, size))
        used[:, units], slope[:, units] = better, part
        beyond[:, units] = np.where(better, above(np.maximum(*ends)), 0.0)
        negative = np.zeros(size, dtype=bool)
        negative[units] = [pair.factor < 0 for pair in pairs]
        self.swaps[node.name] = Swap(used, slope, beyond, negative, tuple(moves))
