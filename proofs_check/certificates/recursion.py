"""The error recursion, repeated: cut by cut in the order of the candidate.

Let h be the target's values at the cuts and h' = h + δ, |δ| ≤ e, the candidate's. With the forms
A h + c of the target and A' h' + c' of the candidate,

    e_pre ≤ max|(A' − A) h + c' − c| + Σ_j (|A_j| + |A'_j − A_j|) e_j,      e = Lip(f)·e_pre.

Rests on proofs_check: error-recursion, layerwise-to-network.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from proofs_check.certificates.activations import Bend, Windows
from proofs_check.certificates.affine import Form, Forms, View, common, runs
from proofs_check.certificates.arithmetic import Floats, above, below, dot, plus, times
from proofs_check.certificates.ranges import (
    Ranges,
    at_position,
    boxes_of,
    needed,
    over_boxes,
)
from proofs_check.certificates.rationals import Interval, Range, RationalNorm, Rationals, root
from proofs_check.certificates.reading import Claims, Segment
from proofs_check.certificates.report import CheckFailed, NotCheckable
from proofs_check.certificates.threads import side_by_side
from reconstruct.networks import LiveNorm, Network, Node
from reconstruct.networks.activations import MaxPool, Unitwise
from reconstruct.networks.maps import Diagonal, Map, Mixing, Scaling
from reconstruct.networks.operation import Add

SCALING = ("factor", "divisor", "offset")


@dataclass(frozen=True, eq=False)
class Step:
    """What was compared at a cut, or at the output: the target's form, |A| and |A' − A| by parts,
    how far the two forms are apart at the target's values, the name and the range of what the cut
    takes; of a cut also the candidate's node and its meaning."""

    name: str
    form: Form
    parts: list[tuple[View, slice]]
    positions: int
    size: Floats
    difference: Floats
    local: Floats
    value: str
    taken: Range
    node: Node | None
    op: Unitwise | None
    bend: Bend | Windows | None

    @property
    def largest(self) -> Floats:
        """max|z|, z what the cut takes, or the output."""
        return np.maximum(np.abs(self.taken[0]), np.abs(self.taken[1]))


class Recursion:
    """The recursion for the candidate as its file has it, or with rational `norms` instead.

    With rational norms the claim is that the two networks are equal: every difference of forms
    has to be zero and every inner activation on its line, without any doubt.
    """

    def __init__(
        self,
        claims: Claims,
        target: Network,
        candidate: Network,
        norms: dict[str, RationalNorm] | None = None,
    ) -> None:
        self.exact = norms is not None
        self.claims, self.target, self.candidate = claims, target, candidate
        pairs = aligned(claims, target, candidate)
        self.partner = {c: t for t, c in pairs}
        source = target.source
        self.ours = Forms(target, {source: source, **{t: t for t, _ in pairs}})
        names = {candidate.source: source, **{c: t for t, c in pairs}}
        self.theirs = Forms(candidate, names, norms)
        self.errors: dict[str, Floats] = {source: np.zeros(target.size_in)}
        sharp = {t for t, _ in pairs} | {target.output}
        lo, hi = (np.stack([getattr(box, end) for box in claims.domain]) for end in ("lo", "hi"))
        self.ranges = Ranges(target, lo, hi, sharp=sharp)
        if claims.tree is not None:
            if len(claims.domain) > 1:
                raise CheckFailed("tree", "a partition is one of a single box")
            boxes = boxes_of(claims.domain[0], claims.tree)
            self.ranges = Ranges(target, *boxes, known=self.ranges.values, lean=True)
        self.segment = 0
        self.steps: list[Step] = []  # what was found at the cuts, for whoever carries errors on
        self.inner: dict[str, Range] = {}

    def run(self) -> float:
        """An upper bound of |candidate − target| on the domain."""
        used = needed(self.candidate)
        self._linearise()
        for node in self.candidate.nodes:
            if node.name in self.partner:
                self.errors[self.partner[node.name]] = self._cut(node, self.partner[node.name])
            elif node.name in used and isinstance(node.op, Unitwise):
                self._inner(node)
            elif node.name in used and isinstance(node.op, LiveNorm):
                self._live(node, node.op)
        outputs = self.target.output, self.candidate.output
        error = self._compare("output", None, outputs[0], *self._forms(*outputs))
        if not self.exact and len(self.claims.segments) != self.segment:
            raise CheckFailed("segments", f"there are {self.segment} segments, and no others")
        return float(np.max(error))

    # --- a cut: compare the two forms of what it takes -------------------------------------------

    def _cut(self, node: Node, name: str) -> Floats:
        """An activation by the forms of its input; a sum, or a map, by its own."""
        ours = self.ours.nodes[name]
        if isinstance(ours.op, Unitwise | MaxPool):
            (value,) = ours.inputs
            return self._compare(name, node, value, *self._forms(value, node.inputs[0]))
        size, inputs = self.target.sizes[name], (ours.inputs, node.inputs)
        if isinstance(ours.op, Add):
            count = self._common(*inputs, size)
        elif (
            isinstance(ours.op, Scaling)
            and isinstance(node.op, Scaling)
            and not any(self._stands(*inputs))
        ):
            count = runs(ours.op)  # of units that were only moved: as its own numbers repeat
        else:
            own = self.ours.own_positions(name), self.theirs.own_positions(node.name)
            count = common(list(own), size)
        return self._compare(
            name, node, name, self.ours.own(ours, count), self.theirs.own(node, count)
        )

    def _forms(self, ours: str, theirs: str) -> tuple[Form, Form]:
        """The forms of both values, their rows at equally many positions."""
        count = self._common((ours,), (theirs,), self.target.sizes[ours])
        return self.ours.whole(ours, count), self.theirs.whole(theirs, count)

    def _common(self, ours: tuple[str, ...], theirs: tuple[str, ...], size: int) -> int:
        return common(self._stands(ours, theirs), size)

    def _stands(self, ours: tuple[str, ...], theirs: tuple[str, ...]) -> list[int]:
        return [*map(self.ours.stands, ours), *map(self.theirs.stands, theirs)]

    def _compare(
        self, name: str, node: Node | None, value: str, ours: Form, theirs: Form
    ) -> Floats:
        """The error at a cut, and the claims of its segment; `value` is what the cut takes."""
        gap = theirs.minus(ours)
        if self.exact:
            if gap.whole.nonzero().any() or gap.radius.any():
                raise CheckFailed("exact_norms", f"the maps to {name!r} are not equal")
            return np.zeros(self.target.sizes.get(name, gap.rows * gap.positions))
        difference, size = gap.largest(), ours.over(gap.layout, gap.unit).largest()
        local = np.maximum(*map(np.abs, self._range(gap, gap.floats(), gap.positions > 1)))
        error: Floats = local.reshape(-1, gap.positions)
        before, residual = 0.0, 0.0
        for view, part in gap.parts():
            e = self.errors[view.source]
            error = plus(error, dot(plus(size, difference)[:, part], view.met(e)))
            before = max(before, float(np.max(e, initial=0.0)))
            residual = max(residual, float(np.max(difference[:, part], initial=0.0)))
        error = np.asarray(error.ravel())
        op = None if node is None else node.op
        bend: Bend | Windows | None = None
        if isinstance(op, Unitwise):
            assert node is not None
            bend = self.theirs.bend(node)
            error = times(error, np.full(len(error), bend.lipschitz))
        elif isinstance(op, MaxPool):
            bend = Windows(op, self.target.sizes[value])
            error = bend.largest(error)
        taken = self.ranges.over_all(value)
        own = op if isinstance(op, Unitwise) else None
        parts = gap.parts(), gap.positions, size, difference, local, value, taken
        self.steps.append(Step(name, ours, *parts, node, own, bend))
        names = name, name if node is None else node.name
        found = residual, float(np.max(difference[:, -1])), before, float(np.max(error))
        self.claims.check_segment(self.segment, Segment(*names, *found))
        self.segment += 1
        return error

    def _range(self, form: Form, floats: Range, quick: bool = False) -> Range:
        """Bounds of a form over the domain, one for each unit; `quick`: by intervals alone."""
        if quick:
            low, high = over_boxes(form, floats, self.ranges.values)
            return low.min(axis=0), high.max(axis=0)
        found = [
            self.ranges.worst(at_position(form, floats, position, self.target.sizes))
            for position in range(form.positions)
        ]
        lows, highs = zip(*found, strict=True)
        return np.stack(lows, axis=1).ravel(), np.stack(highs, axis=1).ravel()

    # --- an inner activation: how far can a unit be from its line? ------------------------------

    def _inner(self, node: Node) -> None:
        """z = F h' + d, h' within e of the target's h: bounds of F h + d, widened by |F| e."""
        forms, positions = self.theirs, self.theirs.positions(node.inputs[0])

        def doubted(span: tuple[int, int]) -> tuple[Floats, Floats, Floats]:
            return self._doubted(node, span, positions)

        spans = forms.blocks(node.inputs[0], positions)
        found = zip(*side_by_side(doubted, spans), strict=True)
        doubt, lo, hi = (np.concatenate(parts) for parts in found)
        forms.doubts[node.name], self.inner[node.name] = doubt, (lo, hi)
        if self.exact and doubt.any():
            raise CheckFailed("exact_norms", f"a unit of {node.name!r} may leave its line")

    def _doubted(
        self, node: Node, span: tuple[int, int], positions: int
    ) -> tuple[Floats, Floats, Floats]:
        """The same for some rows, and the bounds of F h + d. Shifts of grouped layers come from
        intervals of the few units that a row sees: lines only where these leave a doubt."""
        form = self.theirs.rows(node.inputs[0], *span, positions)
        floats = form.floats()
        by, bend = moved(form, floats, self.errors), self.theirs.bend(node)
        grouped = self.theirs.grouped(node.inputs[0]) is not None
        for quick in (True, False) if grouped else (False,):
            lo, hi = self._range(form, floats, quick)
            doubt = deviation(node, bend, widened(lo, hi, by))
            if not doubt.any():
                break
        return doubt, lo, hi

    def _live(self, node: Node, op: LiveNorm) -> None:
        """An inner live norm as the map gamma∘P z/ρ + beta, ρ² from eps to eps + |P z|²/n."""
        form = self.theirs.centred(node, op)
        floats = form.floats()
        lo, hi = widened(*self._range(form, floats), moved(form, floats, self.errors))
        size = np.maximum(np.abs(lo), np.abs(hi))
        if self.exact or op.positions > 1 or not np.isfinite(size).all():
            raise NotCheckable(f"{node.name!r} is a norm of live statistics that may be anything")
        square = sum((Fraction(x) ** 2 for x in size.tolist()), Fraction(0))
        scales = nearly_constant(op, square, self.theirs.bits)
        self.theirs.scales[node.name] = Rationals.between(scales, self.theirs.bits)

    def _linearise(self) -> None:
        """The same for the target's own activations that are not cut."""
        used = needed(self.target)
        for node in self.target.nodes:
            if isinstance(node.op, Unitwise) and node.name in used - set(self.ours.sources):
                reached = self.ranges.over_all(node.inputs[0])
                self.ours.doubts[node.name] = deviation(node, self.ours.bend(node), reached)


def nearly_constant(op: LiveNorm, square: Fraction, bits: int) -> list[Interval]:
    """gamma/(n·ρ) of each unit where |n·P z|² is no more than `square`; ρ² is no less than eps."""
    n = op.channels
    if op.eps == 0:
        raise NotCheckable(f"{op.kind} without eps is nowhere nearly a map")
    (least, _), (_, most) = (root(Fraction(op.eps) + more, bits) for more in (0, square / n**3))
    ends = 1 / (n * most), 1 / (n * least)
    return [(min(g * e for e in ends), max(g * e for e in ends)) for g in map(Fraction, op.gamma)]


def widened(lo: Floats, hi: Floats, by: Floats) -> Range:
    """`[lo − by, hi + by]`, outward; as it was where there is nothing to add."""
    with np.errstate(all="ignore"):
        low = np.where(by == 0, lo, below(lo - by))
        high = np.where(by == 0, hi, above(hi + by))
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def moved(form: Form, floats: Range, errors: dict[str, Floats]) -> Floats:
    """|F| e: how far errors of the sources may move the rows of a form."""
    room: Floats = np.zeros((form.rows, form.positions))
    for view, part in form.parts():
        if view.source in errors and errors[view.source].any():
            size = plus(np.abs(floats[0][:, part]), floats[1][:, part])
            room = plus(room, dot(size, view.met(errors[view.source])))
    return room.ravel()


def deviation(node: Node, bend: Bend, reached: Range) -> Floats:
    """sup |f(z) − slope·z| over the range: steepness times the way off the line, and its rest."""
    assert isinstance(node.op, Unitwise)
    slope = float(node.op.piece.slope)
    ends = bend.line(slope)
    outside = np.zeros(len(reached[0]))
    for end, bound, sign in ((ends[0], reached[0], -1.0), (ends[1], reached[1], 1.0)):
        if np.isfinite(end):
            with np.errstate(all="ignore"):
                past = sign * (bound - end)
            past = np.where(bound == end, 0.0, np.where(past > 0, np.nextafter(past, np.inf), past))
            outside = np.maximum(outside, np.where(np.isnan(past), np.inf, past))
        outside = np.where(np.isnan(bound), np.inf, outside)
    off = times(np.maximum(outside, 0.0), np.full(len(outside), bend.steepness(slope)))
    return plus(off, np.full(len(off), bend.rest))


def aligned(claims: Claims, target: Network, candidate: Network) -> tuple[tuple[str, str], ...]:
    """The pairs of nodes, after checking that each pair has one meaning and one size."""
    used = needed(target), needed(candidate)
    places = tuple(
        {node.name: place for place, node in enumerate(net.nodes) if node.name in used[side]}
        for side, net in enumerate((target, candidate))
    )
    last = [-1, -1]
    for pair in claims.alignment:
        for index, name in enumerate(pair):
            if name not in places[index]:
                raise CheckFailed("alignment", f"no output depends on a node {name!r}")
            if places[index][name] <= last[index]:
                raise CheckFailed("alignment", "the cuts are not in the order of the networks")
            last[index] = places[index][name]
        ours, theirs = (net.nodes[i] for net, i in zip((target, candidate), last, strict=True))
        for node in (ours, theirs):
            if not isinstance(node.op, Unitwise | MaxPool | Add | Map):
                what = f"{node.name!r}: {type(node.op).__name__}"
                raise NotCheckable(f"{what} is not an operation the checker knows")
        if target.sizes[pair[0]] != candidate.sizes[pair[1]] or not _alike(ours, theirs):
            raise CheckFailed("alignment", f"{pair[0]!r} and {pair[1]!r} are not alike")
    return claims.alignment


def _alike(ours: Node, theirs: Node) -> bool:
    """Two sums, two scalings by the same numbers, two maxima over the same windows, two activations
    of the same pieces, or two other maps: of those the forms are compared, whatever they are."""
    if isinstance(ours.op, Add) or isinstance(theirs.op, Add):
        return isinstance(ours.op, Add) and isinstance(theirs.op, Add)
    if isinstance(ours.op, Scaling) and isinstance(theirs.op, Scaling):
        pairs = [(getattr(ours.op, p), getattr(theirs.op, p)) for p in SCALING]
        return all(bool(np.array_equal(a, b)) for a, b in pairs)
    if isinstance(ours.op, MaxPool) and isinstance(theirs.op, MaxPool):
        return bool(np.array_equal(ours.op.windows, theirs.op.windows))
    if not (isinstance(ours.op, Unitwise) and isinstance(theirs.op, Unitwise)):
        return all(isinstance(node.op, Mixing | Diagonal) for node in (ours, theirs))
    return tuple(ours.op.pieces) == tuple(theirs.op.pieces)
