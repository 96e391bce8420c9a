"""The errors, from cut to cut: in real arithmetic, in float64 and in float32, one walk for all.

Let h be the target's values at the cuts and h' = h + δ, |δ| ≤ e, the candidate's. With the forms
A h + c of the target and A' h' + c' of the candidate,

    e_pre ≤ max|(A' − A) h + c' − c| + Σ_j (|A_j| + |A'_j − A_j|) e_j,      e = Lip(f)·e_pre.

`Recursion` composes the forms, shows that inner activations stay on their lines, and takes the
errors along (`_Walk`) on the whole domain as one box, in each arithmetic. Of what is claimed and
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
from dataclasses import dataclass
from fractions import Fraction
from math import inf

import numpy as np

from proofs_check.certificates import ranges
from proofs_check.certificates.activations import Bend, Windows
from proofs_check.certificates.affine import Form, View
from proofs_check.certificates.arithmetic import (
    UNIT,
    Floats,
    Matrix,
    above,
    dot,
    plus,
    times,
)
from proofs_check.certificates.cuts import Cuts
from proofs_check.certificates.evaluation import Evaluation, Kind, NoBound, upper
from proofs_check.certificates.rationals import Interval, Range, RationalNorm, Rationals, root
from proofs_check.certificates.reading import Claims, Segment
from proofs_check.certificates.report import CheckFailed, NotCheckable
from reconstruct.networks import LiveNorm, Network, Node
from reconstruct.networks.activations import Line, MaxPool, Unitwise

KINDS: dict[str, Kind] = {"float64_bound": np.float64, "float32_bound": np.float32}
MOST_WORK = 2.0**41  # products: minutes
BATCH = 64  # boxes at once
HELD = 2**20  # values of a layer on the boxes of a batch: each of some tens of arrays has 8 MiB
LEAST = 2.0**-1000  # noise at least: then what underflows is far below what noises come to


# --- cuts -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Step:
    """What was compared at a cut, or at the output: the target's form, |A| and |A' − A| by parts,
    how far the two forms are apart at the target's values, the name and the largest |z| of what the
    cut takes; of a cut also the candidate's node and its meaning."""

    name: str
    form: Form
    parts: list[tuple[View, slice]]
    positions: int
    size: Floats
    difference: Floats
    local: Floats
    value: str
    largest: Floats
    node: Node | None
    bend: Bend | Windows | None

    def passed(self, total: Floats, behind: Floats) -> Floats:
        """Errors behind the cut, by the Lipschitz constant: (boxes, units)."""
        if self.bend is None:
            return plus(total, behind)
        if isinstance(self.bend, Windows):  # which is not rounded
            return self.bend.largest(total)
        return plus(times(total, np.full(total.shape, self.bend.lipschitz)), behind)


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
        self.walk = _Walk(self, names, None)  # the whole domain as one box

    def run(self) -> None:
        """What is claimed of the cuts, and of the outputs, has to follow."""
        self.linearise()
        super().run()
        if len(self.claims.segments) != len(self.steps):
            raise CheckFailed("segments", f"there are {len(self.steps)} segments, and no others")

    def compare(self, name: str, node: Node | None, value: str, ours: Form, theirs: Form) -> None:
        """What the two forms differ by at a cut; `value` is what the cut takes."""
        gap = theirs.minus(ours)
        difference, size = gap.largest(), ours.over(gap.layout, ours.unit).largest()
        local = np.maximum(*map(np.abs, self._range(gap, gap.floats(), gap.positions > 1)))
        bend: Bend | Windows | None = None
        if node is not None and isinstance(node.op, Unitwise):
            bend = self.theirs.bend(node)
        elif node is not None and isinstance(node.op, MaxPool):
            bend = Windows(node.op, self.target.sizes[value])
        largest = np.maximum(*map(np.abs, self.ranges.over_all(value)))
        found = gap.parts(), gap.positions, size, difference, local, value, largest
        self.steps.append(Step(name, ours, *found, node, bend))

    def passed(self) -> None:
        """The errors behind the last cut, and the claims of its segment."""
        step, number = self.steps[-1], len(self.steps) - 1
        before = [np.max(self.walk.errors(v.source)[0], initial=0.0) for v, _ in step.parts]
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
        """z = F h' + d, h' within e of the target's h: bounds of F h + d, widened by |F| e; by
        intervals node by node first, and by lines where these leave a doubt."""
        lo, hi, by = self.walk.inner(node)
        bend = self.theirs.bend(node)
        doubt = bend.deviation(*ranges.widened(lo[0], hi[0], by[0]))
        if doubt.any():
            found = self.theirs.each_block(node.inputs[0], self._moved)
            low, high, moved = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
            lo, hi, by = np.maximum(lo, low), np.minimum(hi, high), np.minimum(by, moved)
            doubt = bend.deviation(*ranges.widened(lo[0], hi[0], by[0]))
            self.walk.looked[node.name] = lo, hi, by
            self.reached[node.name] = lo, hi  # on its boxes intervals alone may say less
        self.theirs.doubts[node.name] = doubt

    def _moved(self, form: Form) -> ranges.Moved:
        """Bounds of a form over the domain, and how far errors move it."""
        floats = form.floats()
        lo, hi = self._range(form, floats)
        return lo[None], hi[None], moved(form, floats, self.walk.errors)

    def live(self, node: Node, op: LiveNorm) -> None:
        """An inner live norm as the map gamma∘P z/ρ + beta, ρ² from eps to eps + |P z|²/n."""
        form = self.theirs.centred(node, op)
        floats = form.floats()
        lo, hi = ranges.widened(
            *self._range(form, floats), moved(form, floats, self.walk.errors)[0]
        )
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
    names = [name for name in found if not found[name] <= getattr(recursion.claims, name)]
    if names and recursion.ranges.boxes > 1:
        batch = max(1, min(BATCH, HELD // max(recursion.candidate.sizes.values())))
        walks = (
            _Walk(recursion, names, slice(at, at + batch))
            for at in range(0, recursion.ranges.boxes, batch)
        )
        parts = [walk.run() for walk in walks]
        found |= {name: min(found[name], max(part[name] for part in parts)) for name in names}
    return found


class _Arithmetic:
    """One arithmetic on some boxes: errors behind the cuts so far; of a format its evaluation."""

    def __init__(self, walk: _Walk, number: int, kind: Kind | None) -> None:
        self.walk, self.number, self.known = walk, number, True
        self.errors: dict[str, Floats] = {}
        self.evaluation = None
        if kind is not None:
            recursion = walk.recursion
            self.evaluation = Evaluation(recursion.theirs, kind, recursion.used, self._inner)

    def know(self, ours: str, theirs: str, error: Floats) -> None:
        """The errors of a value are known."""
        self.errors[ours] = error
        if self.evaluation is not None:
            self.evaluation.settle(theirs, *self.walk.far[ours], error)

    def cut(self, step: Step) -> tuple[Floats, Floats, Floats]:
        """In front of a cut all errors and the new ones, and what is new behind it: (boxes, m)."""
        shape = self.walk.boxes, len(step.local)
        carried = behind = np.zeros(shape)
        fresh = np.broadcast_to(np.repeat(step.difference[:, -1], step.positions), shape)
        apart = np.broadcast_to(step.local, shape)
        for view, part in step.parts:
            p, (lo, hi) = self.errors[view.source], self.walk.far[view.source]
            far = plus(np.maximum(np.abs(lo), np.abs(hi)), p)
            carried = plus(carried, _applied(step.size[:, part], view, p))
            fresh = plus(fresh, _applied(step.difference[:, part], view, far))
            apart = plus(apart, _applied(step.difference[:, part], view, p))
        fresh = np.minimum(fresh, apart)
        if self.evaluation is not None and self.known:
            try:
                fresh = plus(fresh, self.evaluation.until(step.node))
                if step.node is not None and isinstance(step.node.op, Unitwise):
                    total = plus(fresh, carried)
                    behind = self.evaluation.behind(step.node.op, total, step.largest)
            except NoBound:
                self.known = False
        return plus(carried, fresh), fresh, behind

    def _inner(self, node: Node) -> tuple[Range, Floats]:
        """What an inner activation takes at the target's values, and how far errors move it."""
        lo, hi, by = self.walk.inner(node)
        return (lo, hi), by[self.number * self.walk.boxes :][: self.walk.boxes]


def moved(form: Form, floats: Range, errors: Callable[[str], Floats]) -> Floats:
    """|F| e: how far errors of the sources may move the rows of a form, (boxes, units)."""
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


class _Walk:
    """All arithmetics from cut to cut on some boxes, or, without `rows`, on all of them as one."""

    def __init__(self, recursion: Recursion, names: Sequence[str], rows: slice | None) -> None:
        self.recursion, self.names, self.rows = recursion, names, rows
        self.boxes = 1 if rows is None else len(range(recursion.ranges.boxes)[rows])
        self.signed = recursion.signed(1 if rows is None else recursion.ranges.boxes)
        self.far: dict[str, Range] = {}  # where values of the target are
        self.piece = ranges.Piece(recursion.theirs, recursion.used)
        self.looked: dict[str, ranges.Moved] = {}  # what inner activations take
        self.symbols = np.zeros((self.boxes, 0, len(names)))
        self.forms: dict[str, Floats] = {}  # what becomes of the symbols, (boxes, symbols, m)
        self.sizes: dict[str, Floats] = {}  # the same of absolute values, (boxes, m, modes)
        self.reached: dict[str, Floats] = {}
        self.terms = 16
        self.output: list[Floats] = []
        self.modes = [_Arithmetic(self, i, KINDS.get(name)) for i, name in enumerate(names)]
        source = recursion.target.source
        nothing = np.zeros((self.boxes, recursion.target.sizes[source]))
        self.know(source, recursion.candidate.source, [nothing] * len(names))

    def run(self) -> dict[str, float]:
        for step in self.recursion.steps:
            self.take(step)
        return self.figures()

    def figures(self) -> dict[str, float]:
        """The largest errors at the output, for each arithmetic."""
        pairs = zip(self.names, self.modes, self.output, strict=True)
        return {n: float(e.max(initial=0.0)) if mode.known else inf for n, mode, e in pairs}

    def take(self, step: Step) -> list[Floats]:
        """The errors behind a cut, or at the output, in each arithmetic."""
        found = [mode.cut(step) for mode in self.modes]
        passed = [step.passed(total, behind) for total, _, behind in found]
        if self.signed:
            given = [np.stack(parts, axis=2) for parts in zip(*found, strict=True)]
            last = step.node is None
            sharper = self._arriving(step, given[1])[0] if last else self._add(step, *given)
            passed = [np.minimum(e, sharper[..., i]) for i, e in enumerate(passed)]
        if step.node is None:
            self.output = passed
        else:
            self.know(step.name, step.node.name, passed)
        return passed

    def know(self, ours: str, theirs: str, errors: Sequence[Floats]) -> None:
        """The errors of a value are known."""
        self.looked.clear()  # hidden layers are wide, and nothing in front of the cut is left
        self.far[ours] = self.ends(ours)
        for mode, error in zip(self.modes, errors, strict=True):
            mode.know(ours, theirs, error)
        self.piece.settle(theirs, *self.far[ours], np.concatenate(errors))

    def errors(self, name: str) -> Floats:
        """Those of all arithmetics one below the other: (modes · boxes, units)."""
        return np.concatenate([mode.errors[name] for mode in self.modes])

    def ends(self, name: str) -> Range:
        """Where a value of the target is: (boxes, units)."""
        if self.rows is None:
            lo, hi = self.recursion.ranges.over_all(name)
            return lo[None], hi[None]
        lo, hi = self.recursion.ranges.values[name]
        return lo[self.rows], hi[self.rows]

    def inner(self, node: Node) -> ranges.Moved:
        """What an inner activation takes at the target's values, by intervals on each box and as it
        was found over all boxes; and how far errors move it, (modes · boxes, units)."""
        if node.name not in self.looked:
            lo, hi, by = self.piece.before(node)
            if node.name in self.recursion.reached:
                low, high = self.recursion.reached[node.name]
                lo, hi = np.maximum(lo, low), np.minimum(hi, high)
            self.looked[node.name] = lo, hi, by
        return self.looked[node.name]

    def _add(self, step: Step, total: Floats, fresh: Floats, behind: Floats) -> Floats:
        """|ĥ − h| at a cut; its noise becomes symbols."""
        arriving, forms, size, fresh = self._arriving(step, fresh)
        before = np.minimum(arriving, total)
        bent = chords(step.bend, *self.ends(step.value))
        slope, first, units = np.abs(bent.middle)[..., None], forms.shape[1], forms.shape[2]
        new = upper(bent.noise(before) + behind)
        own = upper(_times(slope, fresh) + new) + LEAST
        whole = np.zeros((self.boxes, first + units, units))
        whole[:, :first] = forms * bent.middle[:, None]
        whole[:, first + np.arange(units), np.arange(units)] = 1.0
        self.symbols = np.concatenate([self.symbols, own], axis=1)
        self.forms[step.name], self.sizes[step.name] = whole, upper(_times(slope, size) + own)
        self.reached[step.name] = upper(_times(slope, before) + new)
        return self.reached[step.name]

    def _arriving(self, step: Step, fresh: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """What comes to a cut, or to the output: from above, by symbols, by absolute values; and
        what is new there with what is not known of the maps."""
        forms = np.zeros((self.boxes, self.symbols.shape[1], fresh.shape[1]))
        size = np.zeros(fresh.shape)
        for term in self.recursion.unrolled(step).terms:
            if term.source not in self.forms:
                continue  # the input, which has no error
            self.terms += term.matrix.shape[1] + 8
            before = self.forms[term.source]
            forms[:, : before.shape[1]] += ranges.through(before, term.matrix.T)
            size = size + _weighed(abs(term.matrix), self.sizes[term.source])
            if term.error is not None:
                fresh = upper(fresh + _weighed(term.error, self.reached[term.source]))
        # Entries of forms are sums of at most `terms` products; underflow takes at most 2^-1074 of
        # each, which later maps and a symbol multiply, where `size` has LEAST and the same maps.
        peak = self.symbols.max(axis=(0, 1), initial=0.0)
        slip = 2 * self.terms * UNIT + self.terms**2 * 2.0**-72 * peak
        reached = np.abs(forms).transpose(0, 2, 1) @ self.symbols
        found = upper(reached + upper(slip * size) + fresh)
        return np.where(np.isnan(found), np.inf, found), forms, size, fresh


def _weighed(matrix: Matrix, values: Floats) -> Floats:
    """A matrix times values of each box and arithmetic, (boxes, units, modes)."""
    return ranges.through(values.transpose(0, 2, 1), matrix.T).transpose(0, 2, 1)


# --------------------------------------------------------------------------------------------------
# Slopes of chords: how an activation passes on the difference of two of its inputs.
#
# f(ẑ) − f(z) = d (ẑ − z), d between the least and the largest slope of the pieces between z and ẑ.


@dataclass(frozen=True, eq=False)
class Chords:
    """Slopes of chords on ranges (boxes, m): `middle` ± `radius`; off by `more` for each unit by
    which a chord leaves the range beyond `room`."""

    middle: Floats
    radius: Floats
    room: Floats
    more: Floats

    def noise(self, before: Floats) -> Floats:
        """What `middle` leaves out of errors of at most `before`, (boxes, m, modes)."""
        radius, room, more = (part[..., None] for part in (self.radius, self.room, self.more))
        beyond = np.where(before <= room, 0.0, before - np.minimum(room, before))
        return upper(_times(radius, before) + _times(more, beyond))


def chords(bend: Bend | Windows | None, lo: Floats, hi: Floats) -> Chords:
    zero = np.zeros(lo.shape)
    if not isinstance(bend, Bend):
        return Chords(np.ones(lo.shape), zero, zero, zero)
    lines = [piece for piece in bend.pieces if isinstance(piece, Line)]
    if len(lines) < len(bend.pieces):  # a curve rises by anything up to the constant
        return Chords(zero, np.full(lo.shape, bend.lipschitz), zero, zero)
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
    middle = 0.5 * least + 0.5 * most
    radius = np.where(least == most, 0.0, above(np.maximum(most - middle, middle - least)))
    far = above(np.maximum(max(slopes) - middle, middle - min(slopes)))
    return Chords(middle, radius, room * (1 - 4 * UNIT), upper(np.maximum(far - radius, 0.0)))


def _times(x: Floats, y: Floats) -> Floats:
    """The product, where zero times anything is zero."""
    return np.where(x == 0, 0.0, x * y)
