"""The figures of a certificate: f in real arithmetic, in float64 and in float32, proved again.

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

Rests on proofs_check: error-recursion, carried-errors, accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from proofs_check.certificates.activations import Bend
from proofs_check.certificates.affine import Form, View
from proofs_check.certificates.arithmetic import UNIT, Floats, above, dot, plus
from proofs_check.certificates.evaluation import Evaluation, Kind, NoBound, Range, upper
from proofs_check.certificates.ranges import needed, over_boxes
from proofs_check.certificates.recursion import Recursion, Step
from proofs_check.certificates.threads import side_by_side
from reconstruct.networks import Node
from reconstruct.networks.activations import Line

KINDS: dict[str, Kind] = {"float64_bound": np.float64, "float32_bound": np.float32}
MOST_WORK = 2.0**41  # products: minutes
BATCH = 64  # boxes at once
LEAST = 2.0**-1000  # noise at least: then what underflows is far below what noises come to


def figures(recursion: Recursion, names: Sequence[str]) -> dict[str, float]:
    """The figures of these names after a recursion that is done, infinity where there is none."""
    shared = _Shared(recursion)
    starts = range(0, shared.boxes, BATCH)
    parts = [slice(start, start + BATCH) for start in starts]
    found = [_Walk(shared, names, part).run() for part in parts]
    return dict(zip(names, np.maximum.reduce(found).tolist(), strict=True))


class _Shared:
    """What all boxes share."""

    def __init__(self, recursion: Recursion) -> None:
        self.recursion, self.used = recursion, needed(recursion.candidate)
        self.boxes = recursion.ranges.boxes
        self.signed = self._signed()
        self._held: dict[str, list[tuple[Form, Range]]] = {}

    def ranges(self, name: str, rows: slice) -> Range:
        """Where a value of the target is on some boxes."""
        lo, hi = self.recursion.ranges.values[name]
        return lo[rows], hi[rows]

    def forms(self, name: str) -> list[tuple[Form, Range]]:
        """What an inner activation takes, in blocks: kept where many boxes look at it."""
        if name in self._held:
            return self._held[name]
        theirs = self.recursion.theirs
        positions = theirs.positions(name)

        def one(span: tuple[int, int]) -> tuple[Form, Range]:
            form = theirs.rows(name, *span, positions)
            return form, form.floats()

        found = list(side_by_side(one, theirs.blocks(name, positions)))
        if self.boxes > BATCH:
            self._held[name] = found
        return found

    def _signed(self) -> bool:
        """Whether errors are taken through the maps with their signs: not where a cut looks at
        several units at once, or where it would take too long."""
        *cuts, _ = self.recursion.steps
        if not cuts or not all(s.bend is None or isinstance(s.bend, Bend) for s in cuts):
            return False
        sizes = [self.recursion.target.sizes[step.name] for step in cuts]
        before = np.cumsum(sizes)
        work = sum(b * m * k for b, k, m in zip(before, sizes, sizes[1:], strict=False))
        return bool(self.boxes * work < MOST_WORK)


class _Mode:
    """One arithmetic on some boxes: errors behind the cuts so far; of a format its evaluation."""

    def __init__(self, shared: _Shared, rows: slice, kind: Kind | None) -> None:
        self.shared, self.rows, self.known = shared, rows, True
        recursion = shared.recursion
        self.far: dict[str, Range] = {}
        self.errors: dict[str, Floats] = {}
        self.evaluation = None
        if kind is not None:
            inner = self._inner
            self.evaluation = Evaluation(recursion.theirs, kind, shared.used, inner)
        lo, hi = shared.ranges(recursion.target.source, rows)
        sources = recursion.target.source, recursion.candidate.source
        self._know(*sources, (lo, hi), np.zeros_like(lo))

    def cut(self, step: Step) -> tuple[Floats, Floats, Floats]:
        """In front of a cut all errors and the new ones, and what is new behind it: (boxes, m)."""
        shape = len(self.errors[self.shared.recursion.target.source]), len(step.local)
        carried = behind = np.zeros(shape)
        fresh = np.broadcast_to(np.repeat(step.difference[:, -1], step.positions), shape)
        apart = np.broadcast_to(step.local, shape)
        for view, part in step.parts:
            p, (lo, hi) = self.errors[view.source], self.far[view.source]
            far = plus(np.maximum(np.abs(lo), np.abs(hi)), p)
            carried = plus(carried, _applied(step.size[:, part], view, p))
            fresh = plus(fresh, _applied(step.difference[:, part], view, far))
            apart = plus(apart, _applied(step.difference[:, part], view, p))
        fresh = np.minimum(fresh, apart)
        if self.evaluation is not None and self.known:
            try:
                fresh = plus(fresh, self.evaluation.until(step.node))
                if step.op is not None:
                    behind = self.evaluation.behind(step.op, plus(fresh, carried), step.largest)
            except NoBound:
                self.known = False
        return plus(carried, fresh), fresh, behind

    def settle(self, step: Step, error: Floats) -> None:
        """The errors behind a cut are known."""
        assert step.node is not None
        ends = self.shared.ranges(step.name, self.rows)
        self._know(step.name, step.node.name, ends, error)

    def _know(self, ours: str, theirs: str, ends: Range, error: Floats) -> None:
        self.errors[ours], self.far[ours] = error, ends
        if self.evaluation is not None:
            self.evaluation.settle(theirs, *ends, error)

    def _inner(self, node: Node) -> tuple[Range, Floats]:
        """What an inner activation takes at the target's values, and how far errors move it."""
        lo, hi = self.shared.recursion.inner[node.name]  # over all boxes, by lines too
        if self.shared.boxes == 1 and not any(error.any() for error in self.errors.values()):
            return (lo[None], hi[None]), np.zeros((1, len(lo)))  # in front of the first cut
        found = [self._within(*block) for block in self.shared.forms(node.inputs[0])]
        low, high, by = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
        return (np.maximum(lo, low), np.minimum(hi, high)), by

    def _within(self, form: Form, floats: Range) -> tuple[Floats, Floats, Floats]:
        """Bounds of a form on each box by intervals, and how far the errors so far move it."""
        by = np.zeros((1, form.rows * form.positions))
        for view, part in form.parts():
            size = plus(np.abs(floats[0][:, part]), floats[1][:, part])
            by = plus(by, _applied(size, view, self.errors[view.source]))
        if self.shared.boxes == 1:
            return np.full(by.shape, -np.inf), np.full(by.shape, np.inf), by
        return (*over_boxes(form, floats, self.far), by)


def _applied(matrix: Floats, view: View, values: Floats) -> Floats:
    """A matrix times what a view sees on each box, from above: (boxes, rows · positions); no number
    is negative."""
    if view.index.shape[1] == 1:
        index = view.index[:, 0]
        return dot(np.where(index >= 0, values[:, index], 0.0), matrix.T)
    seen = np.where(view.index >= 0, values[:, view.index], 0.0)  # boxes, columns, positions
    found = dot(matrix, seen.transpose(1, 0, 2).reshape(view.columns, -1))
    return found.reshape(len(matrix), len(values), -1).transpose(1, 0, 2).reshape(len(values), -1)


class _Walk:
    """All arithmetics from cut to cut on some boxes."""

    def __init__(self, shared: _Shared, names: Sequence[str], rows: slice) -> None:
        self.shared, self.rows = shared, rows
        self.modes = [_Mode(shared, rows, KINDS.get(name)) for name in names]
        self.boxes = len(range(shared.boxes)[rows])
        self.symbols = np.zeros((self.boxes, 0, len(names)))
        self.forms: dict[str, Floats] = {}  # what becomes of the symbols, (boxes, symbols, m)
        self.sizes: dict[str, Floats] = {}  # the same of absolute values, (boxes, m, modes)
        self.reached: dict[str, Floats] = {}
        self.terms = 16

    def run(self) -> Floats:
        """The errors at the output, one for each arithmetic."""
        *cuts, last = self.shared.recursion.steps
        for step in cuts:
            found = [mode.cut(step) for mode in self.modes]
            passed = [_passed(step, total, behind) for total, _, behind in found]
            if self.shared.signed:
                given = (np.stack(parts, axis=2) for parts in zip(*found, strict=True))
                sharper = self._add(step, *given)
                passed = [np.minimum(e, sharper[..., i]) for i, e in enumerate(passed)]
            for mode, error in zip(self.modes, passed, strict=True):
                mode.settle(step, error)
        found = [mode.cut(last) for mode in self.modes]
        total, fresh, _ = (np.stack(parts, axis=2) for parts in zip(*found, strict=True))
        if self.shared.signed:
            total = np.minimum(total, self._arriving(last, fresh)[0])
        known = [mode.known for mode in self.modes]
        return np.where(known, total.max(axis=(0, 1), initial=0.0), np.inf)

    def _add(self, step: Step, total: Floats, fresh: Floats, behind: Floats) -> Floats:
        """|ĥ − h| at a cut; its noise becomes symbols."""
        arriving, forms, size, fresh = self._arriving(step, fresh)
        before = np.minimum(arriving, total)
        chords = _chords(step, *self.shared.ranges(step.value, self.rows))
        slope, first, units = np.abs(chords.middle)[..., None], forms.shape[1], forms.shape[2]
        new = upper(chords.noise(before) + behind)
        own = upper(_times(slope, fresh) + new) + LEAST
        whole = np.zeros((self.boxes, first + units, units))
        whole[:, :first] = forms * chords.middle[:, None]
        whole[:, first + np.arange(units), np.arange(units)] = 1.0
        self.symbols = np.concatenate([self.symbols, own], axis=1)
        self.forms[step.name], self.sizes[step.name] = whole, upper(_times(slope, size) + own)
        self.reached[step.name] = upper(_times(slope, before) + new)
        return self.reached[step.name]

    def _arriving(self, step: Step, fresh: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """What comes to a cut, or to the output: from above, by symbols, by absolute values; and
        what is new there with what is not known of the maps."""
        middle, error = step.form.floats()
        forms = np.zeros((self.boxes, self.symbols.shape[1], fresh.shape[1]))
        size = np.zeros(fresh.shape)
        for view, part in step.form.parts():
            if view.source not in self.forms:
                continue  # the input, which has no error
            units = self.shared.recursion.target.sizes[view.source]
            matrix, doubt = _unrolled(view, (middle[:, part], error[:, part]), units)
            self.terms += units + 8
            before = self.forms[view.source]
            flat = before.reshape(-1, units) @ matrix.T
            forms[:, : before.shape[1]] += flat.reshape(self.boxes, -1, len(matrix))
            size = size + np.abs(matrix) @ self.sizes[view.source]
            if doubt.any():
                fresh = upper(fresh + doubt @ self.reached[view.source])
        # Entries of forms are sums of at most `terms` products; underflow takes at most 2^-1074 of
        # each, which later maps and a symbol multiply, where `size` has LEAST and the same maps.
        peak = self.symbols.max(axis=(0, 1), initial=0.0)
        slip = 2 * self.terms * UNIT + self.terms**2 * 2.0**-72 * peak
        reached = np.abs(forms).transpose(0, 2, 1) @ self.symbols
        found = upper(reached + upper(slip * size) + fresh)
        return np.where(np.isnan(found), np.inf, found), forms, size, fresh


def _unrolled(view: View, numbers: Range, size: int) -> Range:
    """Rows over the columns of a view as rows over the units, position after position of each."""
    pairs = [view.unrolled(numbers, place, size) for place in range(view.index.shape[1])]
    middle, error = (np.stack(part, axis=1).reshape(-1, size) for part in zip(*pairs, strict=True))
    return middle, error


def _passed(step: Step, total: Floats, behind: Floats) -> Floats:
    """The error behind a cut, by the Lipschitz constant."""
    if step.bend is None:
        return plus(total, behind)
    if isinstance(step.bend, Bend):
        return plus(upper(step.bend.lipschitz * total), behind)
    return np.stack([step.bend.largest(row) for row in total])


# --------------------------------------------------------------------------------------------------
# Slopes of chords: how an activation passes on the difference of two of its inputs.
#
# f(ẑ) − f(z) = d (ẑ − z), d between the least and the largest slope of the pieces between z and ẑ.


@dataclass(frozen=True, eq=False)
class _Chords:
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


def _chords(step: Step, lo: Floats, hi: Floats) -> _Chords:
    zero, bend = np.zeros(lo.shape), step.bend
    if not isinstance(bend, Bend):
        return _Chords(np.ones(lo.shape), zero, zero, zero)
    lines = [piece for piece in bend.pieces if isinstance(piece, Line)]
    if len(lines) < len(bend.pieces):  # a curve rises by anything up to the constant
        return _Chords(zero, np.full(lo.shape, bend.lipschitz), zero, zero)
    slopes = [piece.slope for piece in lines]
    least, most = np.full(lo.shape, np.inf), np.full(lo.shape, -np.inf)
    room = np.full(lo.shape, np.inf)
    for piece in lines:
        met = ~((hi <= piece.lo) | (lo >= piece.hi))
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
    return _Chords(middle, radius, room * (1 - 4 * UNIT), upper(np.maximum(far - radius, 0.0)))


def _times(x: Floats, y: Floats) -> Floats:
    """The product, where zero times anything is zero."""
    return np.where(x == 0, 0.0, x * y)
