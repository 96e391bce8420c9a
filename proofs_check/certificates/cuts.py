"""Both networks cut at the pairs of a certificate, and composed exactly between the cuts.

The candidate's nodes are taken in their order: at a cut the two forms of what it takes are
compared, and of an inner activation it is asked how far its units may be from their line. What that
means for errors is said by who compares: on boxes (`recursion`), or at given inputs (`points`).

Rests on proofs_check: layerwise-to-network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from proofs_check.certificates.affine import Form, Forms, common, runs
from proofs_check.certificates.arithmetic import Floats
from proofs_check.certificates.ranges import needed
from proofs_check.certificates.rationals import RationalNorm
from proofs_check.certificates.reading import Claims
from proofs_check.certificates.report import CheckFailed, NotCheckable
from reconstruct.networks import LiveNorm, MatrixProduct, Network, Node, Softmax
from reconstruct.networks.activations import Line, MaxPool, Unitwise
from reconstruct.networks.maps import Dense, Diagonal, Map, Mixing, Scaling, Sparse
from reconstruct.networks.operation import Add

MEANING: dict[type, tuple[str, ...]] = {  # what two operations at a cut have to have in common
    Add: (),
    MaxPool: ("windows",),
    Unitwise: ("pieces",),
    Softmax: (),
    MatrixProduct: (),
    LiveNorm: ("gamma", "beta", "centred", "eps", "positions"),
    Scaling: ("factor", "divisor", "offset"),
}


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
            elif node.name in self.used and isinstance(node.op, Unitwise):
                self.inner(node)
            elif node.name in self.used and isinstance(node.op, LiveNorm):
                self.live(node, node.op)
        outputs = self.target.output, self.candidate.output
        self._compared("output", None, outputs[0], self.forms(*outputs))

    def _compared(self, name: str, node: Node | None, value: str, pair: tuple[Form, Form]) -> None:
        self.ours.forget()  # what they were composed of
        self.theirs.forget()
        self.compare(name, node, value, *pair)
        del pair
        self.passed()

    @abstractmethod
    def compare(self, name: str, node: Node | None, value: str, ours: Form, theirs: Form) -> None:
        """The two forms of what a cut takes, `value` in the target; without node, the outputs."""

    def passed(self) -> None:  # noqa: B027 (whoever takes no errors on has nothing to do)
        """Called when the forms that were compared are given up: those of wide maps take as much
        memory as the network, and errors are taken on without them."""

    @abstractmethod
    def inner(self, node: Node) -> None:
        """How far units of an inner activation may be from their line: its doubts in `theirs`."""

    def live(self, node: Node, op: LiveNorm) -> None:
        raise NotCheckable(f"{node.name!r} is a norm of live statistics")

    def cut(self, node: Node, name: str) -> None:
        """An activation by the forms of its input; a sum, or a map, by its own."""
        ours = self.ours.nodes[name]
        if not isinstance(ours.op, Add | Map):
            value = ours.inputs[0]
            self._compared(name, node, value, self.forms(value, node.inputs[0]))
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
        self._compared(name, node, name, (self.ours.own(ours, count), self.theirs.own(node, count)))

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
    """Two sums, two maxima over the same windows, two activations of the same pieces, two scalings
    by the same numbers, two operations that are evaluated; or two other maps: of those the forms
    are compared, whatever they are."""
    pair = ours.op, theirs.op
    both_scale = all(isinstance(op, Scaling) for op in pair)
    for kind, parts in MEANING.items():
        if any(isinstance(op, kind) for op in pair) and (kind is not Scaling or both_scale):
            same = all(isinstance(op, kind) for op in pair)
            return same and all(np.array_equal(*(getattr(op, p) for op in pair)) for p in parts)
    return all(isinstance(op, Mixing | Diagonal) for op in pair)


# --- units scaled by powers of two ----------------------------------------------------------------
#
# Where an activation is a line through the origin on either side of 0, f(2^e z) = 2^e f(z). So the
# row of a unit may be multiplied by 2^e if its column in every map that follows is divided by it. A
# certificate names the powers; here it is checked that the units lie between plain maps, that
# nothing else uses them, and that no product is rounded: then it is the same function.


def scaled(target: Network, scales: Mapping[str, tuple[int, ...]]) -> Network:
    """The target with its units scaled, after checking that it is the same function."""
    nodes = {node.name: node for node in target.nodes}
    for name, powers in scales.items():
        before, after = _neighbours(target, nodes, name)
        if len(powers) != target.sizes[name]:
            raise CheckFailed("scales", f"one power for each unit of {name!r} is needed")
        nodes[before] = _rescaled(nodes[before], np.array(powers), None)
        for user in after:
            nodes[user] = _rescaled(nodes[user], None, -np.array(powers))
    chosen = tuple(nodes[node.name] for node in target.nodes)
    return replace(target, nodes=chosen) if scales else target


def _neighbours(
    target: Network, nodes: Mapping[str, Node], name: str
) -> tuple[str, tuple[str, ...]]:
    """The map before an activation and the maps behind it, if its units can be scaled."""
    node = nodes.get(name)
    if node is None or not isinstance(node.op, Unitwise) or not _homogeneous(node.op):
        raise CheckFailed("scales", f"{name!r} is no activation that can be scaled")
    (before,) = node.inputs
    users = tuple(n.name for n in target.nodes if name in n.inputs)
    others = [n.name for n in target.nodes if before in n.inputs]
    maps = [nodes.get(neighbour) for neighbour in (before, *users)]
    plain = all(n is not None and isinstance(n.op, Dense | Sparse) for n in maps)
    if not plain or not users or others != [name] or target.output in (name, before):
        raise CheckFailed("scales", f"{name!r} does not stand between plain maps alone")
    return before, users


def _homogeneous(op: Unitwise) -> bool:
    """Two lines through the origin, one on either side of 0."""
    lines = [p for p in op.pieces if isinstance(p, Line) and p.intercept == 0]
    ends = [piece.hi for piece in op.pieces[:-1]]
    return len(lines) == len(op.pieces) == 2 and ends == [0.0]


def _rescaled(node: Node, rows: Floats | None, columns: Floats | None) -> Node:
    """The node's map with rows and columns multiplied by powers of two, each product exact."""
    assert isinstance(node.op, Dense | Sparse)
    weight = np.asarray(node.op.tile(0, node.op.shape[0]), dtype=np.float64)
    bias = np.asarray(node.op.bias, dtype=np.float64)
    if rows is not None:
        return replace(node, op=Dense(_moved(weight, rows[:, None]), _moved(bias, rows)))
    assert columns is not None
    return replace(node, op=Dense(_moved(weight, columns[None]), bias))


def _moved(values: Floats, powers: Floats) -> Floats:
    """`values·2^powers`; refused where the floats do not hold it."""
    moved = np.ldexp(values, powers)
    back = np.ldexp(moved, -powers)
    if not (np.isfinite(moved).all() and np.array_equal(back, values)):
        raise CheckFailed("scales", "a scaled weight leaves the range of floats")
    return np.asarray(moved)
