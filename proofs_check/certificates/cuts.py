"""Both networks cut at the pairs of a certificate, and composed exactly between the cuts.

The candidate's nodes are taken in their order: at a cut the two forms of what it takes are
compared, and of an inner activation it is asked how far its units may be from their line. What that
means for errors is said by who compares: on boxes (`recursion`), or at given inputs (`points`).

Rests on proofs_check: layerwise-to-network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from proofs_check.certificates.activations import Bend
from proofs_check.certificates.affine import Form, Forms, common, runs
from proofs_check.certificates.arithmetic import Floats, plus, times
from proofs_check.certificates.ranges import needed
from proofs_check.certificates.rationals import Range, RationalNorm
from proofs_check.certificates.reading import Claims
from proofs_check.certificates.report import CheckFailed, NotCheckable
from reconstruct.networks import LiveNorm, MatrixProduct, Network, Node, Softmax
from reconstruct.networks.activations import MaxPool, Unitwise
from reconstruct.networks.maps import Diagonal, Map, Mixing, Scaling
from reconstruct.networks.operation import Add

SCALING = ("factor", "divisor", "offset")


class Cuts(ABC):
    """Two networks from cut to cut; `norms` are rational ones in place of the candidate's own."""

    kinds: tuple[type, ...] = (Unitwise, MaxPool, Add, Map)  # of nodes that can be cuts

    def __init__(
        self,
        claims: Claims,
        target: Network,
        candidate: Network,
        norms: Mapping[str, RationalNorm] | None = None,
    ) -> None:
        self.claims, self.target, self.candidate = claims, target, candidate
        pairs = self._aligned()
        self.partner = {c: t for t, c in pairs}
        source = target.source
        self.ours = Forms(target, {source: source, **{t: t for t, _ in pairs}})
        names = {candidate.source: source, **{c: t for t, c in pairs}}
        self.theirs = Forms(candidate, names, norms)
        self.used = needed(candidate)

    def run(self) -> None:
        """Cut after cut, and the outputs."""
        for node in self.candidate.nodes:
            if node.name in self.partner:
                self.cut(node, self.partner[node.name])
                self.ours.forget()
                self.theirs.forget()
            elif node.name in self.used and isinstance(node.op, Unitwise):
                self.inner(node)
            elif node.name in self.used and isinstance(node.op, LiveNorm):
                self.live(node, node.op)
        outputs = self.target.output, self.candidate.output
        self.compare("output", None, outputs[0], *self.forms(*outputs))

    @abstractmethod
    def compare(self, name: str, node: Node | None, value: str, ours: Form, theirs: Form) -> None:
        """The two forms of what a cut takes, `value` in the target; without node, the outputs."""

    @abstractmethod
    def inner(self, node: Node) -> None:
        """How far units of an inner activation may be from their line: its doubts in `theirs`."""

    def live(self, node: Node, op: LiveNorm) -> None:
        raise NotCheckable(f"{node.name!r} is a norm of live statistics")

    def cut(self, node: Node, name: str) -> None:
        """An activation by the forms of its input; a sum, or a map, by its own."""
        ours = self.ours.nodes[name]
        if not isinstance(ours.op, Add | Map):
            self.compare(name, node, ours.inputs[0], *self.forms(ours.inputs[0], node.inputs[0]))
            return
        size, inputs = self.target.sizes[name], (ours.inputs, node.inputs)
        if isinstance(ours.op, Add):
            count = common(self._stands(*inputs), size)
        elif (
            isinstance(ours.op, Scaling)
            and isinstance(node.op, Scaling)
            and not any(self._stands(*inputs))
        ):
            count = runs(ours.op)  # of units that were only moved: as its own numbers repeat
        else:
            own = self.ours.own_positions(name), self.theirs.own_positions(node.name)
            count = common(list(own), size)
        self.compare(name, node, name, self.ours.own(ours, count), self.theirs.own(node, count))

    def forms(self, ours: str, theirs: str) -> tuple[Form, Form]:
        """The forms of both values, their rows at equally many positions."""
        if self.target.sizes[ours] != self.candidate.sizes[theirs]:
            raise CheckFailed("alignment", f"{ours!r} and {theirs!r} are not of one size")
        count = common(self._stands((ours,), (theirs,)), self.target.sizes[ours])
        return self.ours.whole(ours, count), self.theirs.whole(theirs, count)

    def _stands(self, ours: tuple[str, ...], theirs: tuple[str, ...]) -> list[int]:
        return [*map(self.ours.stands, ours), *map(self.theirs.stands, theirs)]

    def _aligned(self) -> tuple[tuple[str, str], ...]:
        """The pairs of nodes, after checking that each pair has one meaning and one size."""
        networks = self.target, self.candidate
        places = []
        for network in networks:
            used = needed(network)
            places.append({n.name: i for i, n in enumerate(network.nodes) if n.name in used})
        last = [-1, -1]
        for pair in self.claims.alignment:
            for index, name in enumerate(pair):
                if name not in places[index]:
                    raise CheckFailed("alignment", f"no output depends on a node {name!r}")
                if places[index][name] <= last[index]:
                    raise CheckFailed("alignment", "the cuts are not in the order of the networks")
                last[index] = places[index][name]
            ours, theirs = (net.nodes[i] for net, i in zip(networks, last, strict=True))
            for node in (ours, theirs):
                if not isinstance(node.op, self.kinds):
                    what = f"{node.name!r}: {type(node.op).__name__}"
                    raise NotCheckable(f"{what} is not an operation the checker knows")
            sizes = [net.sizes[name] for net, name in zip(networks, pair, strict=True)]
            if sizes[0] != sizes[1] or not alike(ours, theirs):
                raise CheckFailed("alignment", f"{pair[0]!r} and {pair[1]!r} are not alike")
        return self.claims.alignment


def alike(ours: Node, theirs: Node) -> bool:
    """Two sums, two scalings by the same numbers, two maxima over the same windows, two activations
    of the same pieces, two operations that are evaluated, or two other maps: of those the forms are
    compared, whatever they are."""
    if isinstance(ours.op, Add) or isinstance(theirs.op, Add):
        return isinstance(ours.op, Add) and isinstance(theirs.op, Add)
    if isinstance(ours.op, Scaling) and isinstance(theirs.op, Scaling):
        pairs = [(getattr(ours.op, p), getattr(theirs.op, p)) for p in SCALING]
        return all(bool(np.array_equal(a, b)) for a, b in pairs)
    if isinstance(ours.op, MaxPool) and isinstance(theirs.op, MaxPool):
        return bool(np.array_equal(ours.op.windows, theirs.op.windows))
    if isinstance(ours.op, Softmax | MatrixProduct):
        return type(ours.op) is type(theirs.op)
    if not (isinstance(ours.op, Unitwise) and isinstance(theirs.op, Unitwise)):
        return all(isinstance(node.op, Mixing | Diagonal) for node in (ours, theirs))
    return tuple(ours.op.pieces) == tuple(theirs.op.pieces)


def deviation(node: Node, bend: Bend, reached: Range) -> Floats:
    """sup |f(z) − slope·z| over the range: steepness times the way off the line, and its rest."""
    assert isinstance(node.op, Unitwise)
    slope = float(node.op.piece.slope)
    ends = bend.line(slope)
    outside = np.zeros(len(reached[0]))
    for end, bound, sign in ((ends[0], reached[0], -1.0), (ends[1], reached[1], 1.0)):
        if np.isfinite(end):
            past = sign * (bound - end)
            past = np.where(bound == end, 0.0, np.where(past > 0, np.nextafter(past, np.inf), past))
            outside = np.maximum(outside, np.where(np.isnan(past), np.inf, past))
        outside = np.where(np.isnan(bound), np.inf, outside)
    if not (outside.any() or bend.rest):  # all on their line, of millions of units perhaps
        return np.broadcast_to(0.0, outside.shape)
    off = times(np.maximum(outside, 0.0), np.full(1, bend.steepness(slope)))
    return plus(off, np.full(1, bend.rest))
