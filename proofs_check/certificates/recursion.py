"""The error recursion, repeated: cut by cut in the order of the candidate.

Let h be the target's values at the cuts and h' = h + δ, |δ| ≤ e, the candidate's. With the forms
A h + c of the target and A' h' + c' of the candidate,

    e_pre ≤ Σ_j |A_j| e_j + |A'_j − A_j| (max|h_j| + e_j) + |c' − c|,      e = Lip(f)·e_pre.

Rests on proofs_check: error-recursion, layerwise-to-network.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from proofs_check.certificates.arithmetic import Floats, dot, plus, times
from proofs_check.certificates.bends import Bend
from proofs_check.certificates.claims import Claims, Derived
from proofs_check.certificates.columns import Column, RationalNorm
from proofs_check.certificates.form import Form
from proofs_check.certificates.forms import Forms
from proofs_check.certificates.leaves import LeafBounds
from proofs_check.certificates.live import nearly_constant
from proofs_check.certificates.pixels import ANY, common, runs
from proofs_check.certificates.reachable import Range, Ranges, meet, widened
from proofs_check.certificates.report import CheckFailed, NotCheckable
from proofs_check.certificates.rows import Block, spread
from proofs_check.certificates.step import Step
from proofs_check.certificates.threads import side_by_side
from proofs_check.certificates.views import View
from proofs_check.certificates.windows import Windows
from reconstruct.networks import LiveNorm, Network, Node
from reconstruct.networks.activations import MaxPool, Unitwise
from reconstruct.networks.maps import Diagonal, Map, Mixing, Scaling
from reconstruct.networks.operation import Add

SCALING = ("factor", "divisor", "offset")
EDGE = 64  # units of a block that are bounded again without rounding


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
        kernels = claims.tree is None  # else forms are taken unit by unit
        self.ours = Forms(target, {source: source, **{t: t for t, _ in pairs}}, kernels=kernels)
        names = {candidate.source: source, **{c: t for t, c in pairs}}
        self.theirs = Forms(candidate, names, norms, kernels=kernels)
        self.errors: dict[str, Floats] = {source: np.zeros(target.size_in)}
        boxes = claims.domain
        self.whole = 1 if len(boxes) == 1 else 0  # bounds on the box itself, if it is one
        self.reach = [Ranges(source, box.lo, box.hi) for box in boxes]
        self.leaves = None
        if claims.tree is not None:
            self.leaves = LeafBounds(source, claims.domain[0], claims.tree)
        self.segment = 0
        self.steps: list[Step] = []  # what was found at the cuts, for whoever carries errors on
        self.inner: dict[str, Range] = {}

    def run(self) -> float:
        """An upper bound of |candidate − target| on the domain."""
        used = needed(self.candidate)
        for node in self.candidate.nodes:
            if node.name in self.partner:
                self._cut(node, self.partner[node.name])
            elif node.name in used and isinstance(node.op, Unitwise):
                self._inner(self.theirs, node, self.errors)
            elif node.name in used and isinstance(node.op, LiveNorm):
                self._live(node, node.op)
        self._linearise(None)
        outputs = self.target.output, self.candidate.output
        error = self._compare(("output", "output"), *self._forms(*outputs), None)
        if not self.exact and len(self.claims.segments) != self.segment:
            raise CheckFailed("segments", f"there are {self.segment} segments, and no others")
        if not self.exact:
            form = self.steps[-1].form
            self.steps[-1].taken = self._range(form, form.floats())
        return float(np.max(error))

    # --- a cut: compare the two forms, then learn where the target's value can be ---------------

    def _cut(self, node: Node, name: str) -> None:
        self._linearise(name)
        ours = self.ours.nodes[name]
        op, bend = ours.op if isinstance(ours.op, Unitwise) else None, self._meaning(ours)
        if bend is None:
            forms = self._sums(ours, node)
        else:
            forms = self._forms(ours.inputs[0], node.inputs[0])
        self.errors[name] = self._compare((name, node.name), *forms, bend)
        floats = forms[0].floats()
        marks, rows = self.claims.lines(name, self.target.sizes[name]), self.claims.places.get(name)
        places = bend.at(rows) if isinstance(bend, Windows) and rows is not None else None
        for index, reach in enumerate(self.reach):
            known = (marks, places) if index < self.whole else (None, None)
            reach.add_cut(name, forms[0], floats, op, bend, *known)
        if self.leaves is not None:
            certain = self.reach[0].of_form(forms[0], floats)
            if isinstance(bend, Windows):
                raise NotCheckable("a maximum over windows on the leaves of a tree")
            self.leaves.add_cut(name, forms[0], floats, op, bend, certain)
        if not self.exact:
            taken = meet([reach.taken[name] for reach in self.reach], self.whole)
            if self.leaves is not None:
                taken = self.leaves.union(name)
            step = self.steps[-1]
            step.node, step.op, step.bend, step.taken = node, op, bend, taken

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
        first, second = self.ours.pixels, self.theirs.pixels
        if first is None or second is None:
            return 1
        moved = first.positions(ours.inputs[0]) == second.positions(theirs.inputs[0]) == ANY
        if moved and isinstance(ours.op, Scaling) and isinstance(theirs.op, Scaling):
            return runs(ours.op)
        return common([first.own(ours.name), second.own(theirs.name)], size)

    def _positions(self, ours: list[str], theirs: list[str], size: int) -> int:
        if self.ours.pixels is None or self.theirs.pixels is None:
            return 1
        first = [self.ours.pixels.positions(name) for name in ours]
        return common([*first, *(self.theirs.pixels.positions(name) for name in theirs)], size)

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
            met, reached = (columns(view, values) for values in (e, plus(far, e)))
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
        if gap.positions > 1 or any(view.index is not None for view in gap.layout):
            return np.full(gap.rows * gap.positions, np.inf)
        lo, hi = self._range(gap, gap.floats())
        return np.maximum(np.abs(lo), np.abs(hi))

    def _range(self, form: Block, floats: Range) -> Range:
        """Bounds of a form over the domain; many leaves say more than the box of them all."""
        if self.leaves is None:
            return self._on_boxes(form, floats)
        return self.leaves.of_form(form, floats)

    def _by_units(self, form: Block, floats: Range) -> Range:
        """By the ranges of the source's units, over all leaves: near to the best where a row sees
        few units, as those of grouped layers do."""
        if len(form.layout) != 1:
            return np.full(form.rows, -np.inf), np.full(form.rows, np.inf)
        source = form.layout[0].source
        known = meet([reach.ranges[source] for reach in self.reach], self.whole)
        if self.leaves is not None:
            known = meet([known, self.leaves.ranges[source]], 1)
        return Ranges(source, *known).of_form(form, floats)

    def _on_boxes(self, form: Block, floats: Range) -> Range:
        return meet([reach.of_form(form, floats) for reach in self.reach], self.whole)

    def largest(self, source: str) -> Floats:
        """max|h| of a source of the target: on the whole box, or over the parts if smaller."""
        lo, hi = meet([reach.ranges[source] for reach in self.reach], self.whole)
        if self.leaves is not None:
            lo, hi = meet([(lo, hi), self.leaves.ranges[source]], 1)
        return np.maximum(np.abs(lo), np.abs(hi))

    # --- an inner activation: how far can a unit be from its line? ------------------------------

    def _inner(self, forms: Forms, node: Node, errors: dict[str, Floats]) -> None:
        """z = F h' + d, h' within e of the target's h: bounds of F h + d, widened by |F| e."""
        positions = forms.positions(node.inputs[0])

        def doubted(span: tuple[int, int]) -> tuple[Floats, Floats, Floats]:
            return self._doubted(forms, node, span, positions, errors)

        spans = forms.blocks(node.inputs[0], positions)
        found = zip(*side_by_side(doubted, spans), strict=True)
        forms.doubts[node.name], lo, hi = (np.concatenate(parts) for parts in found)
        if forms is self.theirs:
            self.inner[node.name] = lo, hi
        if self.exact and forms.doubts[node.name].any():
            raise CheckFailed("exact_norms", f"a unit of {node.name!r} may leave its line")

    def _doubted(
        self,
        forms: Forms,
        node: Node,
        span: tuple[int, int],
        positions: int,
        errors: dict[str, Floats],
    ) -> tuple[Floats, Floats, Floats]:
        """The same for some rows, and the bounds of F h + d."""
        form = forms.block(node.inputs[0], *span, positions)
        floats = form.floats()
        if form.layout and form.layout[0] in forms.narrow:
            # Shifts of grouped layers come from intervals of the few inputs that a unit sees:
            # only where these say too little is the dearer question asked.
            lo, hi = self._by_units(form, floats)
            doubt = deviation(forms, node, widened(lo, hi, moved(form, floats, errors)))
            if not doubt.any():
                return doubt, lo, hi
            form = spread(form, forms.narrow)
            floats = form.floats()
        lo, hi = self._range(form, floats)
        by = moved(form, floats, errors)
        doubt = deviation(forms, node, widened(lo, hi, by))
        rows = np.unique(np.flatnonzero(doubt)[:EDGE] // positions)
        if len(rows):  # perhaps by rounding alone
            few = form.take(rows)
            edge = meet([reach.exactly(few) for reach in self.reach], self.whole)
            units = (rows[:, None] * positions + np.arange(positions)).ravel()
            edge = meet([(lo[units], hi[units]), edge], 1)
            edge = meet([edge, self._on_boxes(few, few.floats())], 1)
            doubt[units] = deviation(forms, node, widened(*edge, by[units]))
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

    def _linearise(self, until: str | None) -> None:
        """The same, with e = 0, for the target's activations before `until` that are not cut."""
        used = needed(self.target)
        for node in self.target.nodes:
            if node.name == until:
                return
            inner = isinstance(node.op, Unitwise) and node.name not in self.ours.sources
            if inner and node.name in used and node.name not in self.ours.doubts:
                self._inner(self.ours, node, {})


def moved(form: Block, floats: Range, errors: dict[str, Floats]) -> Floats:
    """|F| e: how far errors of the sources may move the rows of a form."""
    room: Floats = np.zeros((form.rows, form.positions))
    for view, part in form.parts():
        if view.source in errors and errors[view.source].any():
            size = plus(np.abs(floats[0][:, part]), floats[1][:, part])
            room = plus(room, dot(size, columns(view, errors[view.source])))
    return room.ravel()


def columns(view: View, values: Floats) -> Floats:
    """What a view meets, as columns: one for each position."""
    return view.met(values).reshape(view.columns, -1)


def deviation(forms: Forms, node: Node, reached: Range) -> Floats:
    """sup |f(z) − slope·z| over the range: steepness times the way off the line, and its rest."""
    assert isinstance(node.op, Unitwise)
    bend, slope = forms.bend(node), float(node.op.piece.slope)
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


def needed(network: Network) -> set[str]:
    """The nodes that the output depends on."""
    inputs = {node.name: node.inputs for node in network.nodes}
    seen: set[str] = set()
    todo = [network.output]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo.extend(inputs.get(name, ()))
    return seen


def aligned(claims: Claims, target: Network, candidate: Network) -> tuple[tuple[str, str], ...]:
    """The pairs of nodes, after checking that each pair has one meaning and one size."""
    places = tuple({n.name: i for i, n in enumerate(net.nodes)} for net in (target, candidate))
    last = [-1, -1]
    for pair in claims.alignment:
        for index, name in enumerate(pair):
            if name not in places[index]:
                raise CheckFailed("alignment", f"there is no node {name!r}")
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
