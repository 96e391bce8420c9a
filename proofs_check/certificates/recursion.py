"""The errors, from cut to cut: in real arithmetic, in float64 and in float32, one walk for all.

Let h be the target's values at the cuts and h' = h + δ, |δ| ≤ e, the candidate's. With the forms
A h + c of the target and A' h' + c' of the candidate,

    e_pre ≤ max|(A' − A) h + c' − c| + Σ_j (|A_j| + |A'_j − A_j|) e_j,      e = Lip(f)·e_pre.

`Recursion` composes the forms, shows that inner activations stay on their lines, and takes the
errors along (`Walk`) on the whole domain as one box, in each arithmetic. Of what is claimed and
does not follow so the errors are found on each box.

What f does wrong in front of a cut is the residual of its maps and, in a format, what rounding did
since the cut before (`evaluation`):

    ε = min(max|(A' − A) h + c' − c| + |A' − A| p, |A' − A| max|h'| + |c' − c|) + rounding,

p the errors of the cuts before. Behind activations δ = ĥ − h obeys δ = D(A δ + ε) + η, where D
holds slopes of chords: within D̄ ± ρ on a box, from the pieces that its range meets, and a chord
that leaves the range by more than there is room is off by at most the largest slope there is. So

    δ = D̄ A δ + [noise],    |noise| ≤ |D̄| ε + ρ p + (what leaves the range) + |η|,   p ≥ |A δ + ε|,

a linear system in the noises alone: on every box one symbol for each unit, taken through D̄ A with
signs. Boxes go side by side, in the first axis, and the arithmetics in the last; what rounding does
to the products here is at most γ_n times the same products of absolute values.

Rests on proofs_check: error-recursion, layerwise-to-network, carried-errors, accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy import sparse

from proofs_check.certificates import ranges
from proofs_check.certificates.activations import Bend, Windows
from proofs_check.certificates.affine import Form, View
from proofs_check.certificates.arithmetic import (
    TINY,
    UNIT,
    Floats,
    above,
    dot,
    gamma,
    plus,
    side_by_side,
    times,
    upper,
)
from proofs_check.certificates.between import Between, Kind
from proofs_check.certificates.cuts import Cuts
from proofs_check.certificates.rationals import Interval, Range, RationalNorm, Rationals, root
from proofs_check.certificates.reading import Claims, Segment
from proofs_check.certificates.report import CheckFailed, NotCheckable
from reconstruct.networks import LiveNorm, Network, Node
from reconstruct.networks.activations import Line, MaxPool, Unitwise

KINDS: dict[str, Kind] = {"float64_bound": np.float64, "float32_bound": np.float32}
MOST_WORK = 2.0**41  # products: minutes
BATCH = 64  # boxes at once
HELD = 2**20  # values of a layer on the boxes of a batch: each of some tens of arrays has 8 MiB


# --- cuts -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Step:
    """What was compared at a cut, or at the output: the target's form, |A| and |A' − A| over the
    same columns, how far the two forms are apart at the target's values, the name of what the cut
    takes; of a cut also the candidate's node and its meaning."""

    name: str
    form: Form
    size: Floats
    difference: Floats
    local: Floats
    value: str
    node: Node | None
    bend: Bend | Windows | None


class Recursion(Cuts):
    """The recursion on the boxes of a certificate, in each arithmetic that has a figure there."""

    arithmetics: tuple[str, ...] = ("bound", *KINDS)

    def __init__(
        self,
        claims: Claims,
        target: Network,
        candidate: Network,
        norms: Mapping[str, RationalNorm] | None = None,
    ) -> None:
        super().__init__(claims, target, candidate, norms)
        sharp = {*self.partner.values(), target.output}
        lo, hi = (np.stack([getattr(box, end) for box in claims.domain]) for end in ("lo", "hi"))
        self.ranges = ranges.Ranges(target, lo, hi, sharp=sharp)
        if claims.tree is not None:
            if len(claims.domain) > 1:
                raise CheckFailed("tree", "a partition is one of a single box")
            boxes = ranges.boxes_of(claims.domain[0], claims.tree)
            self.ranges = ranges.Ranges(target, *boxes, known=self.ranges.values, lean=True)
        self.steps: list[Step] = []  # what was found at the cuts, for whoever carries errors on
        self.rows: dict[Step, ranges.Rows] = {}
        self.reached: dict[str, Range] = {}
        given = {name for name in KINDS if getattr(claims, name) is not None}
        names = [name for name in self.arithmetics if name in {"bound", *given}]
        self.walk = Walk(self, names, None)  # the whole domain as one box

    def run(self) -> None:
        """What is claimed of the cuts, and of the outputs, has to follow."""
        self.linearise()
        super().run()
        if len(self.claims.segments) != len(self.steps):
            raise CheckFailed("segments", f"there are {len(self.steps)} segments, and no others")

    def compare(self, name: str, node: Node | None, value: str, ours: Form, theirs: Form) -> None:
        """What the two forms differ by at a cut; `value` is what the cut takes."""
        gap = theirs.minus(ours)
        ours = ours.over(gap.layout, ours.unit)
        local = np.maximum(*map(np.abs, self._range(gap, gap.floats(), gap.positions > 1)))
        bend: Bend | Windows | None = None
        if node is not None and isinstance(node.op, Unitwise):
            bend = self.theirs.bend(node)
        elif node is not None and isinstance(node.op, MaxPool):
            bend = Windows(node.op, self.target.sizes[value])
        found = ours.largest(), gap.largest(), local, value, node, bend
        self.steps.append(Step(name, ours, *found))

    def passed(self) -> None:
        """The errors behind the last cut, and the claims of its segment."""
        step, number = self.steps[-1], len(self.steps) - 1
        views = [view for view, _ in step.form.parts()]
        before = [np.max(self.walk.errors[v.source][0], initial=0.0) for v in views]
        difference = step.difference
        figures = difference[:, :-1], difference[:, -1], before, self.walk.take(step)[0]
        names = step.name, step.name if step.node is None else step.node.name
        derived = Segment(*names, *(float(np.max(part, initial=0.0)) for part in figures))
        self.claims.check_segment(number, derived)

    def _range(self, form: Form, floats: Range, quick: bool = False) -> Range:
        """Bounds of a form over the domain, one for each unit; `quick`: by intervals alone."""
        if quick:
            low, high = ranges.over_boxes(form, floats, self.ranges.values)
            return low.min(axis=0), high.max(axis=0)
        return self.ranges.worst(ranges.unrolled(form, floats, self.target.sizes))

    # --- an inner activation: how far can a unit be from its line? ------------------------------

    def inner(self, node: Node) -> None:
        """How far units of z may be from their line at h', within e of the target's h: by intervals
        node by node first, and by its form F where these leave a doubt.

        Node by node z(h) is between ends that an error moves by `by`. Of the form it is known that
        z(h') is F h' + d but for its radius, so that |F| e is all that e moves. Who takes ends of
        the one and errors of the other has to count the radius at h and at h': activations before
        may be off their lines at one of them alone.
        """
        value, bend = self.walk.between.until(node), self.theirs.bend(node)
        (lo,), (hi,), by = value.lo, value.hi, value.by
        doubt = bend.deviation(*ranges.widened(lo, hi, by[0, 0]))
        if doubt.any():
            found = self.theirs.each_block(node.inputs[0], self._moved)
            low, high, most, off = (np.concatenate(p, axis=-1) for p in zip(*found, strict=True))
            by = np.minimum(by, plus(most, off))
            met = ranges.met((lo, hi), (low, high))
            for (left, right), error in (((low, high), most), (met, by)):
                other = bend.deviation(*ranges.widened(left, right, error[0, 0]))
                doubt = np.minimum(doubt, other)
            self.walk.between.values[node.inputs[0]] = replace(value, by=by)
            self.reached[node.name] = met  # on its boxes intervals alone may say less
        self.theirs.doubts[node.name] = doubt

    def _moved(self, form: Form) -> tuple[Floats, Floats, Floats, Floats]:
        """Bounds of a form over the domain, how far errors move it, and twice what its radius may
        make of the target's values and of those with errors."""
        floats, errors = form.floats(), {n: e[:, 0] for n, e in self.walk.errors.items()}
        by = moved(form, floats, errors.__getitem__)
        off = np.repeat(2.0 * form.radius[None, :, -1], form.positions, axis=1)
        if form.radius.any():
            for view, part in form.parts():
                far = np.maximum(*map(np.abs, self.ranges.over_all(view.source)))
                far = plus(far, errors[view.source])
                off = plus(off, 2.0 * _applied(form.radius[:, part], view, far))
        shape = len(self.walk.names), 1, form.rows * form.positions
        by, off = (np.broadcast_to(part[:, None], shape) for part in (by, off))
        return *self._range(form, floats), by, off

    def live(self, node: Node, op: LiveNorm) -> None:
        """An inner live norm as the map gamma∘P z/ρ + beta, ρ² from eps to eps + |P z|²/n."""
        lo, hi, by, _ = self._moved(self.theirs.centred(node, op))
        lo, hi = ranges.widened(lo, hi, by[0, 0])
        size = np.maximum(np.abs(lo), np.abs(hi))
        if op.positions > 1 or not np.isfinite(size).all():
            raise NotCheckable(f"{node.name!r} is a norm of live statistics that may be anything")
        square = sum((Fraction(x) ** 2 for x in size.tolist()), Fraction(0))
        scales = nearly_constant(op, square, self.theirs.bits)
        self.theirs.scales[node.name] = Rationals.between(scales, self.theirs.bits)

    def linearise(self) -> None:
        """The same for the target's own activations that are not cut."""
        for node in self.ours.inner():
            if node.name in self.ranges.values:
                reached = self.ranges.over_all(node.inputs[0])
                self.ours.doubts[node.name] = self.ours.bend(node).deviation(*reached)

    # --- for the walk on each box -----------------------------------------------------------------

    def signed(self, boxes: int) -> bool:
        """Whether errors are taken through the maps with their signs: not where a cut looks at
        several units at once, or where it would take too long."""
        cuts = list(self.partner.values())
        if not cuts or any(isinstance(self.ours.nodes[name].op, MaxPool) for name in cuts):
            return False
        sizes = [self.target.sizes[name] for name in cuts]
        before = np.cumsum(sizes)
        work = sum(b * m * k for b, k, m in zip(before, sizes, sizes[1:], strict=False))
        return bool(boxes * work < MOST_WORK)

    def unrolled(self, step: Step) -> ranges.Rows:
        """The target's form at a cut over single units, made once for all boxes."""
        if step not in self.rows:
            self.rows[step] = ranges.unrolled(step.form, step.form.floats(), self.target.sizes)
        return self.rows[step]


def nearly_constant(op: LiveNorm, square: Fraction, bits: int) -> list[Interval]:
    """gamma/(n·ρ) of each unit where |n·P z|² is no more than `square`; ρ² is no less than eps."""
    n = op.channels
    if op.eps == 0:
        raise NotCheckable(f"{op.kind} without eps is nowhere nearly a map")
    (least, _), (_, most) = (root(Fraction(op.eps) + more, bits) for more in (0, square / n**3))
    ends = 1 / (n * most), 1 / (n * least)
    return [(min(g * e for e in ends), max(g * e for e in ends)) for g in map(Fraction, op.gamma)]


# --- the walk on each box -------------------------------------------------------------------------


def figures(recursion: Recursion) -> dict[str, float]:
    """The figures that are claimed, after a recursion that is done, infinity where there is none:
    over all boxes as one, and box by box what does not follow from that."""
    found = recursion.walk.figures()
    names = [name for name in found if not _settled(name, found[name], recursion.claims)]
    if names and recursion.ranges.boxes > 1:
        batch = max(1, min(BATCH, HELD // max(recursion.candidate.sizes.values())))

        def walk(at: int) -> dict[str, float]:
            return Walk(recursion, names, slice(at, at + batch)).run()

        parts = list(side_by_side(walk, range(0, recursion.ranges.boxes, batch)))
        found |= {name: min(found[name], max(part[name] for part in parts)) for name in names}
    return found


def _settled(name: str, found: float, claims: Claims) -> bool:
    """Whether a figure covers its claim; of floats one above the tolerance nearly has to: it says
    that nothing is certified, and boxes take long."""
    wanted: float = getattr(claims, name)
    above = name != "bound" and claims.tolerance is not None and wanted > claims.tolerance
    return found <= (2 * wanted if above else wanted)


class Walk:
    """The errors in some arithmetics from cut to cut on some boxes, or, without `rows`, on all of
    them as one: (arithmetics, boxes, units)."""

    def __init__(self, recursion: Recursion, names: Sequence[str], rows: slice | None) -> None:
        self.recursion, self.names, self.rows = recursion, names, rows
        self.boxes = 1 if rows is None else len(range(recursion.ranges.boxes)[rows])
        self.signed = recursion.signed(1 if rows is None else recursion.ranges.boxes)
        self.errors: dict[str, Floats] = {}
        self.steps: dict[str, Step] = {}  # by the names of their cuts, and what is known of them:
        self.middle: dict[str, Floats] = {}  # D̄, (boxes, units)
        self.noise: dict[str, Floats] = {}
        self.reached: dict[str, Floats] = {}  # sums of what arrives, (arithmetics, boxes)
        kinds = [KINDS.get(name) for name in names]
        self.between = Between(recursion.theirs, recursion.used, kinds, recursion.reached)
        source = recursion.target.source
        nothing = np.zeros((len(names), self.boxes, recursion.target.sizes[source]))
        self.know(source, recursion.candidate.source, nothing)

    def run(self) -> dict[str, float]:
        for step in self.recursion.steps:
            self.take(step)
        return self.figures()

    def figures(self) -> dict[str, float]:
        """The largest errors at the output, for each arithmetic."""
        pairs = zip(self.names, self.output, strict=True)
        return {name: float(error.max(initial=0.0)) for name, error in pairs}

    def know(self, ours: str, theirs: str, error: Floats) -> None:
        """The errors of a value are known."""
        self.errors[ours] = error
        self.between.settle(theirs, *self.ends(ours), error)

    def ends(self, name: str) -> Range:
        """Where a value of the target is: (boxes, units)."""
        if self.rows is None:
            lo, hi = self.recursion.ranges.over_all(name)
            return lo[None], hi[None]
        lo, hi = self.recursion.ranges.values[name]
        return lo[self.rows], hi[self.rows]

    def take(self, step: Step) -> Floats:
        """The errors behind a cut, or at the output."""
        total, fresh = self._arriving(step)
        node, name = step.node, step.name
        if node is None:
            self.output = total
            return total
        if isinstance(step.bend, Windows):  # which is not rounded
            passed = step.bend.largest(total)
        else:
            bent, behind = chords(step.bend, *self.ends(step.value)), np.zeros(total.shape)
            if isinstance(node.op, Unitwise):
                size = np.maximum(*map(np.abs, self.ends(step.value)))
                places = self.between.places
                behind[places] = self.between.behind(node.op, total[places], size)
            noise, slope = plus(bent.noise(total), behind), np.abs(bent.middle)
            passed = plus(times(np.full(1, bent.lipschitz), total), behind)
            passed = np.minimum(passed, plus(times(slope, total), noise))
            if self.signed:
                rounded = times(total, np.full(1, 4 * UNIT))  # of coefficients, by D̄
                lost = self._lost(step)
                self.noise[name] = plus(times(slope, plus(fresh, rounded, lost)), noise)
                self.reached[name] = plus(total, lost).sum(axis=2)
                self.steps[name], self.middle[name] = step, bent.middle
        self.know(name, node.name, passed)
        return passed

    def _arriving(self, step: Step) -> tuple[Floats, Floats]:
        """|ĥ − h| in front of a cut, or at the output, and what of it is new there."""
        count = len(self.names) * self.boxes, len(step.local)
        carried, apart = np.zeros(count), np.broadcast_to(step.local, count)
        fresh = np.broadcast_to(np.repeat(step.difference[:, -1], step.form.positions), count)
        for view, part in step.form.parts():
            p = self.errors[view.source]
            far = plus(np.maximum(*map(np.abs, self.ends(view.source))), p)
            p, far = (x.reshape(-1, x.shape[2]) for x in (p, far))
            carried = plus(carried, _applied(step.size[:, part], view, p))
            fresh = plus(fresh, _applied(step.difference[:, part], view, far))
            apart = plus(apart, _applied(step.difference[:, part], view, p))
        shape = len(self.names), self.boxes, len(step.local)
        carried, fresh = carried.reshape(shape), np.minimum(fresh, apart).reshape(shape).copy()
        if places := self.between.places:
            value = self.between.until(step.node)
            fresh[places] = plus(fresh[places], self.between.error(value))
        total = plus(carried, fresh)
        if self.signed:
            total = np.minimum(total, plus(fresh, self._with_signs(step)))
        return total, fresh

    def _with_signs(self, step: Step) -> Floats:
        """Errors of the cuts before that arrive at a cut: its map is carried back to the noises."""
        shape = len(self.names), self.boxes, len(step.local)
        found, waiting = self._lost(step), dict[str, Floats]()
        for term in self.recursion.unrolled(step).terms:
            dense = term.matrix.toarray() if sparse.issparse(term.matrix) else term.matrix
            waiting[term.source] = np.asarray(dense)[None]
        for name in reversed(self.noise):
            if name not in waiting:
                continue
            a = waiting.pop(name)  # (boxes, rows, units)
            found = upper(found + self._weighed(a, self.noise[name]))
            a = a * self.middle[name][:, None]
            rows = self.recursion.unrolled(self.steps[name])
            for source, matrix in ((term.source, term.matrix) for term in rows.terms):
                moved = ranges.through(a, matrix)
                # what underflows: in the product by D̄ it meets A δ, in this one δ
                most = self.errors[source].sum(axis=2) + self.reached[name]
                found = upper(found + (a.shape[2] + 4) * TINY * most[..., None])
                if source in waiting:
                    moved = waiting[source] + moved
                    found = upper(found + UNIT * self._weighed(moved, self.errors[source]))
                waiting[source] = moved
        return np.broadcast_to(np.where(np.isnan(found), np.inf, found), shape)

    def _weighed(self, a: Floats, sizes: Floats) -> Floats:
        """|a| of (boxes, rows, units) times sizes: (arithmetics, boxes, rows)."""
        return np.moveaxis(np.abs(a) @ np.moveaxis(sizes, 0, -1), -1, 0)

    def _lost(self, step: Step) -> Floats:
        """What is not known of the map to a cut, and what products of coefficients with it lose."""
        found: Floats = np.zeros((len(self.names), self.boxes, len(step.local)))
        for term in self.recursion.unrolled(step).terms:
            p = self.errors[term.source].reshape(-1, term.matrix.shape[1])
            lost = times(ranges.weigh(p, abs(term.matrix)), np.full(1, gamma(len(step.local) + 4)))
            if term.error is not None:
                lost = plus(lost, ranges.weigh(p, term.error))
            found = plus(found, lost.reshape(found.shape))
        return found


def moved(form: Form, floats: Range, errors: Callable[[str], Floats]) -> Floats:
    """|F| e: how far errors of the sources may move the rows of a form, (n, units)."""
    by: Floats = np.zeros((1, form.rows * form.positions))
    for view, part in form.parts():
        size = plus(np.abs(floats[0][:, part]), floats[1][:, part])
        by = plus(by, _applied(size, view, errors(view.source)))
    return by


def _applied(matrix: Floats, view: View, values: Floats) -> Floats:
    """A matrix times what a view sees on each box, from above: (boxes, rows · positions); no number
    is negative."""
    boxes, (columns, positions) = len(values), view.index.shape
    if not values.any():  # as at the input, which has no error
        return np.zeros((boxes, len(matrix) * positions))
    seen = np.where(view.index >= 0, values[:, view.index], 0.0)  # boxes, columns, positions
    found = dot(matrix, seen.transpose(1, 0, 2).reshape(columns, -1))
    return found.reshape(len(matrix), boxes, -1).transpose(1, 0, 2).reshape(boxes, -1)


# --------------------------------------------------------------------------------------------------
# Slopes of chords: how an activation passes on the difference of two of its inputs.
#
# f(ẑ) − f(z) = d (ẑ − z), d between the least and the largest slope of the pieces between z and ẑ.


@dataclass(frozen=True, eq=False)
class Chords:
    """Slopes of chords on ranges (boxes, m): `middle` ± `radius`; off by `more` for each unit by
    which a chord leaves the range beyond `room`, and nowhere steeper than `lipschitz`."""

    middle: Floats
    radius: Floats
    room: Floats
    more: Floats
    lipschitz: float = 1.0

    def noise(self, before: Floats) -> Floats:
        """What `middle` leaves out of errors of at most `before`, (arithmetics, boxes, m)."""
        beyond = np.where(before <= self.room, 0.0, above(before - self.room))
        return plus(times(self.radius, before), times(self.more, beyond))


def chords(bend: Bend | Windows | None, lo: Floats, hi: Floats) -> Chords:
    zero = np.zeros(lo.shape)
    if not isinstance(bend, Bend):
        return Chords(np.ones(lo.shape), zero, zero, zero)
    lines = [piece for piece in bend.pieces if isinstance(piece, Line)]
    if len(lines) < len(bend.pieces):  # a curve rises by anything up to the constant
        return Chords(zero, np.full(lo.shape, bend.lipschitz), zero, zero, bend.lipschitz)
    slopes = [piece.slope for piece in lines]
    least, most = np.full(lo.shape, np.inf), np.full(lo.shape, -np.inf)
    room = np.full(lo.shape, np.inf)
    # A range that ends at a kink, where a box was cut there, has no room at all: every error would
    # leave it. So a piece that is so near counts as met.
    near = 2.0**-30 * np.maximum(np.abs(lo), np.abs(hi))
    for piece in lines:
        met = ~((hi < piece.lo - near) | (lo > piece.hi + near))
        least = np.where(met, np.minimum(least, piece.slope), least)
        most = np.where(met, np.maximum(most, piece.slope), most)
        away = np.maximum(np.where(lo >= piece.hi, lo - piece.hi, piece.lo - hi), 0.0)
        room = np.where(met, room, np.minimum(room, away))
    unknown = ~(least <= most)  # a range that is a kink, or no range
    least = np.where(unknown, min(slopes), least)
    most = np.where(unknown, max(slopes), most)
    # Half of a subnormal slope is rounded; a slope that is known is taken as it is.
    middle = np.where(least == most, least, 0.5 * least + 0.5 * most)
    radius = np.where(least == most, 0.0, above(np.maximum(most - middle, middle - least)))
    far = above(np.maximum(max(slopes) - middle, middle - min(slopes)))
    more = upper(np.maximum(far - radius, 0.0))
    return Chords(middle, radius, room * (1 - 4 * UNIT), more, bend.lipschitz)
