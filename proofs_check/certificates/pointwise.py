"""For these N inputs: both networks evaluated beyond float64, and their outputs compared.

Every value is a ball (`balls`). What stands between two cuts of the candidate is wide, and rebuilt
there by cancellation: evaluated node by node its radius would explode. So a map behind hidden
activations is composed with what stands before them, exactly (`forms`), after it was shown at each
input that no hidden unit leaves its line, or by how much. Where the candidate is cut is a hint of
the certificate: any choice is sound.

Rests on proofs_check: accumulated-rounding, layerwise-to-network, exact-splitting.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from proofs_check.certificates.affine import Form, Forms, View
from proofs_check.certificates.arithmetic import TINY, Floats, above, gamma, norms, plus, times
from proofs_check.certificates.attention import multiplied, softmax
from proofs_check.certificates.balls import Applied, Balls
from proofs_check.certificates.claims import Claims, covers
from proofs_check.certificates.columns import Column, columns_of
from proofs_check.certificates.live import normed
from proofs_check.certificates.ranges import Range, interval, needed
from proofs_check.certificates.recursion import at_position, deviation, widened
from proofs_check.certificates.report import CheckFailed
from proofs_check.certificates.windows import Windows
from reconstruct.networks import LiveNorm, MatrixProduct, Network, Node, Softmax
from reconstruct.networks.activations import MaxPool, Unitwise
from reconstruct.networks.maps import Diagonal, Mixing, Norm, Placement, Select
from reconstruct.networks.operation import Add

# --------------------------------------------------------------------------------------------------
# The least and the largest value of a channel at a given input, over all positions at once.
#
# With c ± r around what a row a ± e meets, |(a ± e)·h − fl(a·c)| ≤ ‖a‖(‖r‖ + γ‖h‖) + ‖e‖‖h‖ by
# Cauchy and Schwarz, of which the worst position is taken: one product, and nothing else that is as
# large as rows × positions.


class Seen:
    """What views meet at one input: c, and the largest ‖h‖ and ‖r‖ of all positions."""

    def __init__(self, near: dict[str, Range]) -> None:
        self.near = near
        self._met: dict[View, tuple[Floats, float, float]] = {}

    def __call__(self, view: View) -> tuple[Floats, float, float]:
        if view not in self._met:
            ends = self.near[view.source]
            lo, hi = (view.met(end).reshape(view.columns, -1) for end in ends)
            with np.errstate(all="ignore"):
                centre = np.where(lo == hi, lo, 0.5 * lo + 0.5 * hi)
                radius = np.where(lo == hi, 0.0, above(np.maximum(hi - centre, centre - lo)))
            far, wide = norms(np.maximum(np.abs(lo), np.abs(hi))), norms(radius)
            self._met[view] = centre, float(far.max()), float(wide.max())
        return self._met[view]

    def forget(self, source: str) -> None:
        self._met = {view: met for view, met in self._met.items() if view.source != source}


@dataclass(frozen=True, eq=False)
class Channels:
    """Rows of a form as floats, with the lengths that all inputs share."""

    form: Form
    middle: Floats
    error: Floats
    lengths: tuple[tuple[Floats, Floats], ...]  # ‖a‖ and ‖e‖ of the rows, view by view

    @classmethod
    def of(cls, form: Form) -> Channels:
        middle, error = form.floats()
        pairs = ((middle[:, part], error[:, part]) for _, part in form.parts())
        return cls(form, middle, error, tuple((norms(a.T), norms(e.T)) for a, e in pairs))

    def at(self, seen: Seen) -> Range:
        """Bounds of each row at one input."""
        form, middle = self.form, self.middle
        total = np.repeat(middle[:, -1:], form.positions, axis=1)
        size, room = np.abs(middle[:, -1]), self.error[:, -1]
        for (view, part), (length, off) in zip(form.parts(), self.lengths, strict=True):
            centre, far, wide = seen(view)
            with np.errstate(all="ignore"):
                total += middle[:, part] @ centre
            reached = _by(length, far)
            size = plus(size, reached)
            room = plus(room, _by(length, wide), _by(reached, gamma(view.columns + 1)))
            room = above(plus(room, _by(off, far)) + view.columns * TINY)
        room = plus(room, _by(size, gamma(len(form.layout) + 1)))  # these sums' own rounding
        return widened(total.min(axis=1), total.max(axis=1), room)


def _by(values: Floats, factor: float) -> Floats:
    return times(values, np.full(len(values), factor))


# --------------------------------------------------------------------------------------------------
# Hidden units at given inputs: shown to be on their line, or how far they may be off it.
#
# What a map makes of hidden units is composed with what stands before them, a block of units at a
# time. While a block is there, its units are bounded at every input, and what may leave the line is
# a doubt of the form (`forms`). So no wide value is ever held.

BLOCK = 2**8


@dataclass(eq=False)
class At:
    """What is known at one input: values as balls, and floats around them."""

    values: dict[str, Balls]
    near: dict[str, Range]
    seen: Seen = field(init=False)

    def __post_init__(self) -> None:
        self.seen = Seen(self.near)

    def know(self, name: str, value: Balls) -> None:
        self.values[name] = value
        self.near[name] = value.ends()

    def forget(self, name: str) -> None:
        self.values.pop(name, None)
        self.near.pop(name, None)
        self.seen.forget(name)


def hidden(network: Network, inner: set[str], cuts: set[str]) -> set[str]:
    """Inner activations, and what stands before them back to the first map."""
    nodes = {node.name: node for node in network.nodes}
    found, todo = set[str](), list(inner)
    while todo:
        name = todo.pop()
        if name in found or name not in nodes or (name in cuts and name not in inner):
            continue
        if name not in inner and isinstance(nodes[name].op, Unitwise | MaxPool):
            continue
        found.add(name)
        if not isinstance(nodes[name].op, Mixing):
            todo.extend(nodes[name].inputs)
    return found


class Lines(Forms):
    """Forms in which inner activations are lines, with doubts found when they are asked for."""

    chunk = BLOCK

    def __init__(
        self, network: Network, sources: dict[str, str], inner: set[str], points: list[At]
    ) -> None:
        super().__init__(network, sources)
        self.inner, self.points = inner, points

    def rows(self, name: str, start: int, stop: int, positions: int = 1) -> Form:
        if name not in self.inner:
            return super().rows(name, start, stop, positions)
        node = self.nodes[name]
        assert isinstance(node.op, Unitwise)
        form = self.rows(node.inputs[0], start, stop, positions)
        doubt, slope = self._doubt(node, form), node.op.piece.slope
        if slope != 1:
            form = form.scaled(Column.of_floats(np.full(form.rows, slope)))
        return form.shifted(Column.doubt(doubt)) if doubt.any() else form

    def _doubt(self, node: Node, form: Form) -> Floats:
        """How far the rows of a block may be from their line, anywhere at any of the inputs."""
        channels, most = Channels.of(form), np.zeros(form.rows)
        for at in self.points:
            rows = np.flatnonzero(deviation(node, self.bend(node), channels.at(at.seen)))
            if len(rows):
                part = channels.middle[rows], channels.error[rows]
                doubt = self._closely(node, form.placed(rows), part, at.near)
                most[rows] = np.maximum(most[rows], doubt)
        return most

    def _closely(self, node: Node, form: Form, floats: Range, near: dict[str, Range]) -> Floats:
        """The same unit by unit."""
        values = {name: (lo[None], hi[None]) for name, (lo, hi) in near.items()}
        most = np.zeros(form.rows)
        for position in range(form.positions):
            low, high = interval(at_position(form, floats, position), values)
            most = np.maximum(most, deviation(node, self.bend(node), (low[0], high[0])))
        return most


BITS = (192, 640)  # binary digits behind the point; more of them if the first do not decide
BATCH = 32  # inputs whose values are held together


def prove_at_points(claims: Claims, target: Network, candidate: Network) -> None:
    """The claimed bound holds at every input of the domain."""
    if any((box.lo != box.hi).any() for box in claims.domain):
        raise CheckFailed("method", "a proof input by input is for inputs without a box around")
    cuts = {theirs for _, theirs in claims.alignment}
    if any(isinstance(node.op, LiveNorm) for node in candidate.nodes):
        cuts = set()  # a live norm is no line: every value is evaluated, and digits make up for it
    points = np.stack([box.lo for box in claims.domain])
    for start in range(0, len(points), BATCH):
        part = points[start : start + BATCH]
        for bits in BITS:
            ours = Evaluation(target, set(), part, bits).outputs()
            theirs = Evaluation(candidate, cuts, part, bits).outputs()
            least, most = (
                float(np.max(ends))
                for ends in zip(
                    *(a.apart(b) for a, b in zip(ours, theirs, strict=True)), strict=True
                )
            )
            if claims.bound is None or most <= claims.bound or least > claims.bound:
                break
        covers("bound", claims.bound, most)


class Evaluation:
    """A network at some inputs; without `cuts` no activation is a hidden one."""

    def __init__(self, network: Network, cuts: set[str], points: Floats, bits: int) -> None:
        self.network, self.bits, self.used = network, bits, needed(network)
        acting = [n for n in network.nodes if isinstance(n.op, Unitwise) and n.name in self.used]
        inner = {node.name for node in acting if cuts and node.name not in cuts}
        self.hidden = hidden(network, inner, cuts)
        self.points = [At({}, {}) for _ in points]
        for at, x in zip(self.points, points, strict=True):
            at.know(network.source, Balls.of(x, 0.0, bits))
        known = {n: n for n in network.sizes if n not in self.hidden}
        self.forms = Lines(network, known, inner, self.points)

    def outputs(self) -> list[Balls]:
        """The output at each input."""
        last = self._last_looks()
        for place, node in enumerate(self.network.nodes):
            if node.name in self.used and node.name not in self.hidden:
                self._know(node)
                for name in [name for name, look in last.items() if look == place]:
                    for at in self.points:
                        at.forget(name)
        output = self.network.output
        if output in self.hidden:
            return self._composed(self.forms.whole(output, self.forms.positions(output)))
        return [at.values[output] for at in self.points]

    def _know(self, node: Node) -> None:
        """The value of a node that is not hidden, at each input."""
        if isinstance(node.op, LiveNorm):
            found: Iterable[Balls] = [normed(v, node.op) for v in self._taken(node.inputs[0])]
        elif isinstance(node.op, Softmax):
            found = [softmax(v, node.op) for v in self._taken(node.inputs[0])]
        elif isinstance(node.op, MatrixProduct):
            pairs = zip(*map(self._taken, node.inputs), strict=True)
            found = [multiplied(first, second, node.op) for first, second in pairs]
        elif isinstance(node.op, Unitwise | MaxPool):
            found = self._behind(node, node.op)
        elif isinstance(node.op, Mixing) or any(name in self.hidden for name in node.inputs):
            found = self._composed(self.forms.own(node, self.forms.own_positions(node.name)))
        else:
            found = self._moved(node)
        for at, value in zip(self.points, found, strict=True):
            at.know(node.name, value)

    def _composed(self, form: Form) -> list[Balls]:
        applied = Applied.of(form, self.bits)
        return [applied(at.values) for at in self.points]

    def _taken(self, name: str) -> list[Balls]:
        if name in self.hidden:
            return self._composed(self.forms.whole(name, self.forms.positions(name)))
        return [at.values[name] for at in self.points]

    def _behind(self, node: Node, op: Unitwise | MaxPool) -> Iterable[Balls]:
        (name,) = node.inputs
        if isinstance(op, MaxPool):
            windows = Windows(op, self.network.sizes[name])
            return [value.greatest(windows) for value in self._taken(name)]
        bend = self.forms.bend(node)
        return [value.bent(bend) for value in self._taken(name)]

    def _moved(self, node: Node) -> Iterable[Balls]:
        """Sums and maps that take each unit on its own."""
        op, taken = node.op, [self._taken(name) for name in node.inputs]
        if isinstance(op, Add):
            return [_sum(values) for values in zip(*taken, strict=True)]
        if isinstance(op, Diagonal):
            each = op.positions if isinstance(op, Norm) else 1
            scale, shift = (c.repeated(each) for c in columns_of(op, None, self.bits, each))
            return [value.scaled(scale, shift) for value in taken[0]]
        if isinstance(op, Select):
            return [value.placed(np.arange(op.start, op.stop)) for value in taken[0]]
        if isinstance(op, Placement):
            return [value.placed(op.index) for value in taken[0]]
        return self._composed(self.forms.own(node))

    def _last_looks(self) -> dict[str, int]:
        """The place of the last node that looks at a value, through hidden ones too."""
        last: dict[str, int] = {}
        looks: dict[str, set[str]] = {}
        for place, node in enumerate(self.network.nodes):
            seen = {name for i in node.inputs for name in looks.get(i, {i})}
            if node.name in self.hidden:
                looks[node.name] = seen
            else:
                last |= dict.fromkeys(seen, place)
        kept = looks.get(self.network.output, {self.network.output})
        return {name: place for name, place in last.items() if name not in kept}


def _sum(values: tuple[Balls, ...]) -> Balls:
    total = values[0]
    for value in values[1:]:
        total = total.plus(value)
    return total
