"""The error recursion, repeated: cut by cut in the order of the candidate.

Let h be the target's values at the cuts and h' = h + δ, |δ| ≤ e, the candidate's. With the forms
A h + c of the target and A' h' + c' of the candidate,

    e_pre ≤ Σ_j |A_j| e_j + |A'_j − A_j| (max|h_j| + e_j) + |c' − c|,      e = Lip(f)·e_pre.

Rests on proofs_check: error-recursion, layerwise-to-network.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from proofs_check.certificates.affine import ANY, Form, Forms, common, runs
from proofs_check.certificates.arithmetic import Floats, above, below, dot, plus, times
from proofs_check.certificates.bends import Bend
from proofs_check.certificates.claims import Claims, Derived
from proofs_check.certificates.columns import Column, RationalNorm
from proofs_check.certificates.live import nearly_constant
from proofs_check.certificates.ranges import (
    Range,
    Ranges,
    Rows,
    Term,
    boxes_of,
    interval,
    needed,
)
from proofs_check.certificates.report import CheckFailed, NotCheckable
from proofs_check.certificates.step import Step
from proofs_check.certificates.threads import side_by_side
from proofs_check.certificates.windows import Windows
from reconstruct.networks import LiveNorm, Network, Node
from reconstruct.networks.activations import MaxPool, Unitwise
from reconstruct.networks.maps import Diagonal, Map, Mixing, Scaling
from reconstruct.networks.operation import Add

SCALING = ("factor", "divisor", "offset")


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
        single = len(claims.domain) == 1
        self.whole = Ranges(target, lo, hi, sharp=sharp, places=claims.places if single else None)
        self.leaves = None
        if claims.tree is not None:
            if not single:
                raise CheckFailed("tree", "a partition is one of a single box")
            leaves = boxes_of(claims.domain[0], claims.tree)
            self.leaves = Ranges(target, *leaves, known=self.whole.values, lean=True)
        self.ranges = self.leaves or self.whole
        self.segment = 0
        self.steps: list[Step] = []  # what was found at the cuts, for whoever carries errors on
        self.inner: dict[str, Range] = {}

    def run(self) -> float:
        """An upper bound of |candidate − target| on the domain."""
        used = needed(self.candidate)
        self._linearise()
        for node in self.candidate.nodes:
            if node.name in self.partner:
                self._cut(node, self.partner[node.name])
            elif node.name in used and isinstance(node.op, Unitwise):
                self._inner(node)
            elif node.name in used and isinstance(node.op, LiveNorm):
                self._live(node, node.op)
        outputs = self.target.output, self.candidate.output
        error = self._compare(("output", "output"), *self._forms(*outputs), None)
        if not self.exact and len(self.claims.segments) != self.segment:
            raise CheckFailed("segments", f"there are {self.segment} segments, and no others")
        if not self.exact:
            self._take(self.target.output)
        return float(np.max(error))

    # --- a cut: compare the two forms, then learn where the target's value can be ---------------

    def _cut(self, node: Node, name: str) -> None:
        ours = self.ours.nodes[name]
        op, bend = ours.op if isinstance(ours.op, Unitwise) else None, self._meaning(ours)
        if bend is None:
            forms = self._sums(ours, node)
        else:
            forms = self._forms(ours.inputs[0], node.inputs[0])
        self.errors[name] = self._compare((name, node.name), *forms, bend)
        if not self.exact:
            self._take(name if bend is None else ours.inputs[0])
            step = self.steps[-1]
            step.node, step.op, step.bend = node, op, bend

    def _take(self, value: str) -> None:
        """The value of the target that a cut takes, and its range."""
        self.steps[-1].value, self.steps[-1].taken = value, self.ranges.over_all(value)

    def _forms(self, ours: str, theirs: str) -> tuple[Form, Form]:
        """The forms of both values, their rows at equally many positions."""
        count = self._positions([ours], [theirs], self.target.sizes[ours])
        return self.ours.whole(ours, count), self.theirs.whole(theirs, count)

    def _sums(self, ours: Node, theirs: Node) -> tuple[Form, Form]:
        """The same for two sums of branches, or for two maps, each at the positions of its own."""
        size = self.target.sizes[ours.name]
        if isinstance(ours.op, Add):
            count = self._positions(list(ours.inputs), list(theirs.inputs), size)
        else:
            count = self._maps_at(ours, theirs, size)
        return self.ours.own(ours, count), self.theirs.own(theirs, count)

    def _maps_at(self, ours: Node, theirs: Node, size: int) -> int:
        """The positions at which two maps are compared; those of one scaling of units that were
        only moved are as its own numbers repeat."""
        first, second = self.ours, self.theirs
        moved = first.stands(ours.inputs[0]) == second.stands(theirs.inputs[0]) == ANY
        if moved and isinstance(ours.op, Scaling) and isinstance(theirs.op, Scaling):
            return runs(ours.op)
        return common([first.own_positions(ours.name), second.own_positions(theirs.name)], size)

    def _positions(self, ours: list[str], theirs: list[str], size: int) -> int:
        counts = [self.ours.stands(name) for name in ours]
        return common([*counts, *(self.theirs.stands(name) for name in theirs)], size)

    def _meaning(self, node: Node) -> Bend | Windows | None:
        """What a cut does to the value of its form; None for a sum, which is that value."""
        if isinstance(node.op, Unitwise):
            return self.ours.bend(node)
        if isinstance(node.op, MaxPool):
            return Windows(node.op, self.target.sizes[node.inputs[0]])
        return None

    def _compare(
        self, names: tuple[str, str], ours: Form, theirs: Form, bend: Bend | Windows | None
    ) -> Floats:
        """The error at a cut, and the claims of its segment."""
        gap = theirs.minus(ours)
        if self.exact:
            if gap.whole.nonzero().any() or gap.radius.any():
                raise CheckFailed("exact_norms", f"the maps to {names[0]!r} are not equal")
            return np.zeros(self.target.sizes.get(names[0], gap.rows * gap.positions))
        difference, size = gap.largest(), ours.over(gap.layout, gap.unit).largest()
        local = self._local(gap)
        step = Step(names[0], ours, gap.parts(), gap.positions, size, difference, local)
        self.steps.append(step)
        error = np.repeat(difference[:, -1:], gap.positions, axis=1)
        passed, apart = np.zeros_like(error), local.reshape(error.shape)
        before, residual = 0.0, 0.0
        for view, part in gap.parts():
            e, far = self.errors[view.source], self.largest(view.source)
            met, reached = view.met(e), view.met(plus(far, e))
            error = plus(error, dot(difference[:, part], reached))
            apart = plus(apart, dot(difference[:, part], met))
            passed = plus(passed, dot(size[:, part], met))
            before = max(before, float(np.max(e, initial=0.0)))
            residual = max(residual, float(np.max(difference[:, part], initial=0.0)))
        error = plus(np.minimum(error.ravel(), apart.ravel()), passed.ravel())
        if isinstance(bend, Windows):
            error = bend.largest(error)
        elif bend is not None:
            error = times(np.full(len(error), bend.lipschitz), error)
        derived = Derived(residual, float(np.max(difference[:, -1])), before, float(np.max(error)))
        self.claims.check_segment(self.segment, names, derived)
        self.segment += 1
        return error

    def _local(self, gap: Form) -> Floats:
        """max |(A' − A) h + c' − c| over the domain, h the target's values; not known on images."""
        if gap.positions > 1:
            return np.full(gap.rows * gap.positions, np.inf)
        return np.maximum(*map(np.abs, self._range(gap, gap.floats())))

    def _range(self, form: Form, floats: Range, quick: bool = False) -> Range:
        """Bounds of a form over the domain, one for each unit; `quick`: by intervals alone."""
        found = []
        for position in range(form.positions):
            rows = at_position(form, floats, position)
            if quick:
                low, high = interval(rows, self.ranges.values)
                found.append((low.min(axis=0), high.max(axis=0)))
            else:
                found.append(self.ranges.worst(rows))
        lows, highs = zip(*found, strict=True)
        return np.stack(lows, axis=1).ravel(), np.stack(highs, axis=1).ravel()

    def largest(self, source: str) -> Floats:
        """max|h| of a source of the target over the domain."""
        return np.maximum(*map(np.abs, self.ranges.over_all(source)))

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
        scales = nearly_constant(op, square)
        self.theirs.scales[node.name] = Column.between(scales, self.theirs.bits)

    def _linearise(self) -> None:
        """The same for the target's own activations that are not cut."""
        used = needed(self.target)
        for node in self.target.nodes:
            if isinstance(node.op, Unitwise) and node.name in used - set(self.ours.sources):
                reached = self.ranges.over_all(node.inputs[0])
                self.ours.doubts[node.name] = deviation(node, self.ours.bend(node), reached)


def at_position(form: Form, floats: Range, position: int) -> Rows:
    """A form at one position, as rows over the units that it sees there."""
    middle, error = floats
    terms = []
    for view, part in form.parts():
        places = view.index[:, position]
        kept = places >= 0
        matrix, doubt = middle[:, part][:, kept], error[:, part][:, kept]
        terms.append(Term(view.source, places[kept], matrix, doubt if doubt.any() else None))
    return Rows(tuple(terms), middle[:, -1], error[:, -1])


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
