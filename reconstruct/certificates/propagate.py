"""Propagate errors from cut to cut, with their signs, in three arithmetics at once.

The same walk serves real arithmetic, float64 and float32: they differ in their *local* errors,
what f does otherwise in front of a cut than the target's own map. In real arithmetic that is the
residual of its maps (`error_recursion`), in floats the rounding of the nodes in between besides
(`roundoff`). From there all errors go through the target's maps to the output. The order of this
file: slopes of chords, errors with signs, the walk over the cuts, the figures of a certificate.

Rests on proofs_check: carried-errors, accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from reconstruct.certificates.error_recursion import Arrival, Layered
from reconstruct.certificates.forms import LIMITS as FORM_LIMITS
from reconstruct.certificates.on_boxes import Indices, OnBoxes
from reconstruct.certificates.roundoff import CutErrors, CutPair, Roundoff
from reconstruct.certificates.views import Form
from reconstruct.networks import Activation
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import UNDERFLOW, Enclosure, upward
from reconstruct.numbers.parallel import parallel_map
from reconstruct.numbers.rounding import UNIT

# --------------------------------------------------------------------------------------------------
# Slopes of chords: how an activation passes on the difference of two inputs.
#
# For z in a range and ẑ near it, f(ẑ) − f(z) = d·(ẑ − z) with d between the least and the largest
# slope of the pieces that lie between them. On a range within one piece d is known.


@dataclass(frozen=True, eq=False)
class Secants:
    """Slopes of chords of an activation on ranges: within `middle` ± `radius`, (boxes, m).

    A chord that leaves the range by more than `margin` may be off by `more` for each unit beyond.
    """

    middle: Array
    radius: Array
    margin: Array
    more: Array

    def noise(self, before: Array) -> Array:
        """What `middle` times an error of at most `before`, (boxes, m, modes), leaves out."""
        margin = np.minimum(self.margin[..., None], before)  # no less than nothing is beyond
        beyond = before - margin
        return upward(self.radius[..., None] * before + self.more[..., None] * beyond)

    def part(self, rows: slice) -> Secants:
        """The same on some boxes."""
        return Secants(*(a[rows] for a in (self.middle, self.radius, self.margin, self.more)))


def secants(op: Activation | None, lo: Array, hi: Array) -> Secants:
    """The slopes of `op` (None: the identity) on the ranges `lo ≤ z ≤ hi`."""
    one, none = np.ones_like(lo), np.zeros_like(lo)
    if op is None:
        return Secants(one, none, none, none)
    lines = op.lines
    if not lines:  # an exponential rises by anything up to the constant
        return Secants(none, one * op.lipschitz, none, none)
    least, most = min(p.slope for p in lines), max(p.slope for p in lines)
    small, large = np.full_like(lo, np.inf), np.full_like(lo, -np.inf)
    margin = np.full_like(lo, np.inf)
    for piece in lines:
        meets = (lo < piece.hi) & (hi > piece.lo)
        small = np.where(meets, np.minimum(small, piece.slope), small)
        large = np.where(meets, np.maximum(large, piece.slope), large)
        with np.errstate(invalid="ignore"):
            margin = np.where((piece.hi <= lo), np.minimum(margin, lo - piece.hi), margin)
            margin = np.where((piece.lo >= hi), np.minimum(margin, piece.lo - hi), margin)
    known = small <= large
    small, large = np.where(known, small, least), np.where(known, large, most)
    middle = (small + large) / 2
    radius = np.maximum(large - middle, middle - small)
    most_off = np.maximum(most - middle, middle - least)
    return Secants(middle, upward(radius), margin * (1 - 2 * UNIT), upward(most_off - radius))


# --------------------------------------------------------------------------------------------------
# Propagate errors from cut to cut with their signs, box by box of the partition.
#
# A network that makes the error ε_i, |ε_i| ≤ e_i, in front of each cut is the target with ε_i added
# there. With h the target's values, ĥ the disturbed ones and A the target's maps between the cuts,
#
#     ẑ − z = Σ_j A_j (ĥ_j − h_j) + ε,      ĥ − h = D (ẑ − z) + (own rounding),
#
# D the slopes of chords of the activation. Where a unit stays on one piece, D is known; elsewhere
# it is a middle D̄ ± ρ, and ρ|ẑ − z| is a new error. So ĥ − h is a sum of errors through products
# of *signed* maps A D̄ A D̄ …, of which absolute values are taken once, at the end. Ranges, and
# with them the slopes, are those of a box of the partition.


@dataclass(frozen=True)
class SignedLimits:
    """Up to where errors are carried with their signs."""

    batch: int = 64  # boxes at once: their forms stay in cache
    work: float = 2.0**39  # products for one bound: about a minute
    kept: int = 2**26  # numbers that are held for all boxes: half a gigabyte


LIMITS = SignedLimits()

Parts = tuple[tuple[str, Array], ...]


@dataclass(frozen=True, eq=False)
class _Cut:
    """A cut that is done: its maps by source, its slopes and the noise (boxes, m, modes) behind
    it."""

    name: str
    parts: Parts
    slopes: Secants
    noise: Array


@dataclass(frozen=True, eq=False)
class _Spread:
    """Errors of a value: `forms` (boxes, symbols, m), and `total` (boxes, m, modes) the same
    through absolute values, against which rounding is measured; and what no entry of the forms has
    lost more of by underflow."""

    forms: Array
    total: Array
    lost: float


class SignedErrors:
    """Errors through the target on so many `boxes`, cut after cut; `modes` of them side by side.

    Products of maps are rounded by at most γ_n times the products of their absolute values, n the
    terms of all sums on the way.
    """

    def __init__(self, boxes: int, modes: int) -> None:
        self.boxes, self.modes = boxes, modes
        self.reached: dict[str, Array] = {}  # |ĥ − h| of the cuts so far, over all boxes
        self._cuts: list[_Cut] = []
        self._terms = 16

    def add(
        self,
        name: str,
        form: Form[Enclosure],
        op: Activation | None,
        taken: Range,
        noise: CutErrors,
    ) -> Array:
        """Bounds of |ĥ − h| at a cut, (boxes, m, modes), as are the errors that are new there.

        `form` gives z over the sources; its range on the boxes, `taken`, tells the slopes of `op`
        (None: a sum).
        """
        parts, doubt = self._parts(form)
        slopes = secants(op, *taken)
        shape = (self.boxes, form.matrix.shape[0], self.modes)
        kept, found = np.empty(shape), np.empty(shape)
        given = upward(noise.fresh + doubt), noise.behind, noise.total
        fresh, behind, most = (np.broadcast_to(part, shape) for part in given)

        def one(rows: slice) -> None:
            own = slopes.part(rows)
            middle = np.abs(own.middle)[..., None]
            before = np.fmin(self._arriving(rows, parts, fresh[rows]), most[rows])
            new = own.noise(before)
            kept[rows] = _number(middle * fresh[rows] + behind[rows] + new)
            found[rows] = _number(middle * before + new + behind[rows])

        self._on_all(one)
        self.reached[name] = found.max(axis=0)
        self._cuts.append(_Cut(name, parts, slopes, kept))
        return found

    def end(self, form: Form[Enclosure], noise: Array) -> Array:
        """Bounds of the error at the output, (boxes, m, modes)."""
        parts, doubt = self._parts(form)
        found = np.empty((self.boxes, form.matrix.shape[0], self.modes))
        fresh = np.broadcast_to(upward(noise + doubt), found.shape)

        def one(rows: slice) -> None:
            found[rows] = self._arriving(rows, parts, fresh[rows])

        self._on_all(one)
        return found

    def _parts(self, form: Form[Enclosure]) -> tuple[Parts, Array]:
        """The maps by source as floats; what they are not known to is noise, (m, modes)."""
        parts, noise = [], np.zeros((form.matrix.shape[0], self.modes))
        for view, matrix in form.parts():
            if view.source in self.reached:  # the input has no error
                parts.append((view.source, matrix.high))
                unknown = np.abs(matrix.low) + matrix.radius
                if unknown.any():
                    noise = noise + unknown @ self.reached[view.source]
                self._terms += view.columns + 8
        return tuple(parts), upward(noise)

    def _on_all(self, one: Callable[[slice], None]) -> None:
        """On all boxes, batch by batch."""

        def quietly(rows: slice) -> None:
            with np.errstate(all="ignore"):
                one(rows)

        batches = [
            slice(i, min(self.boxes, i + LIMITS.batch)) for i in range(0, self.boxes, LIMITS.batch)
        ]
        list(parallel_map(quietly, batches))

    def _arriving(self, rows: slice, parts: Parts, noise: Array) -> Array:
        """|ẑ − z| at the input of a cut on some boxes, (boxes, m, modes), `noise` new there."""
        values: dict[str, _Spread] = {}
        sizes = np.zeros((rows.stop - rows.start, 0, self.modes))
        for cut in self._cuts:
            own, middle = cut.noise[rows], cut.slopes.middle[rows]
            spread = self._image(cut.parts, values, sizes, own.shape[1])
            first, units = sizes.shape[1], own.shape[1]
            forms = np.zeros((len(own), first + units, units))
            np.multiply(spread.forms, middle[:, None], out=forms[:, :first])
            forms[:, first + np.arange(units), np.arange(units)] = 1.0
            total = np.abs(middle)[..., None] * spread.total + own
            lost = float(np.max(np.abs(middle), initial=0.0)) * spread.lost + UNDERFLOW
            values[cut.name] = _Spread(forms, total, lost)
            sizes = np.concatenate([sizes, own], axis=1)
        spread = self._image(parts, values, sizes, noise.shape[1])
        reached = np.matmul(np.abs(spread.forms).transpose(0, 2, 1), sizes)
        rounding = 2 * self._terms * UNIT * spread.total
        underflow = spread.lost * sizes.sum(axis=1)[:, None]
        return _number(reached + noise + rounding + underflow)

    def _image(self, parts: Parts, values: dict[str, _Spread], sizes: Array, units: int) -> _Spread:
        """What maps make of the errors of their sources."""
        count, symbols = sizes.shape[:2]
        forms, total = np.zeros((count, symbols, units)), np.zeros((count, units, self.modes))
        lost = 0.0
        for source, matrix in parts:
            value, size = values[source], np.abs(matrix)
            own, inner = value.forms.shape[1:]
            product = value.forms.reshape(-1, inner) @ matrix.T
            forms[:, :own] += product.reshape(count, own, units)
            total += np.matmul(size, value.total) + UNDERFLOW
            lost += float(np.max(size.sum(axis=1), initial=0.0)) * value.lost + UNDERFLOW
        return _Spread(forms, total, float(upward(lost)) if parts else 0.0)


def within_limits(boxes: int, modes: int, sizes: list[int]) -> bool:
    """Whether cuts of these sizes can be carried within the limits of time and memory."""
    before = np.cumsum([0, *sizes])[:-1]
    products = float(
        np.sum(before[:-1] * sizes[:-1] * np.array(sizes[1:]) * np.arange(len(sizes), 1, -1))
    )
    return boxes * products < LIMITS.work and boxes * sum(sizes) * (modes + 6) < LIMITS.kept


def _number(values: Array) -> Array:
    """The values rounded up; +inf where they are not numbers."""
    return np.where(np.isnan(values), np.inf, upward(values))


# --------------------------------------------------------------------------------------------------
# From cut to cut: the local errors of each arithmetic in front of them, and how far that reaches.
#
# A *mode* is one arithmetic: f in real numbers, f in a format, g in a format. At every cut it tells
# its new errors; they are propagated, and what they come to there is told back to it.


@dataclass(frozen=True, eq=False)
class Real:
    """Errors in real arithmetic: those of the recursion, which is done."""

    arrivals: Mapping[str, Arrival]
    reason = ""

    def at(self, cut: CutPair | None) -> CutErrors:
        found = self.arrivals["" if cut is None else cut.ours]
        return CutErrors(found.total[None], found.fresh[None], np.zeros((1, len(found.behind))))

    def settle(self, cut: CutPair, error: Array) -> None:
        """Nothing waits for it."""


Mode = Real | Roundoff


class Walk:
    """The cuts of both networks, on all boxes or on some."""

    def __init__(self, facts: OnBoxes) -> None:
        self.facts = facts
        self.cuts = [_cut(facts.layered, *pair) for pair in facts.layered.alignment.pairs]
        self.end = facts.layered.own.form(facts.target.output)
        used, cuts = facts.target.needed(), {cut.ours for cut in self.cuts}
        bends = {node.name for node in facts.target.activation_nodes()}
        self.affine = used & bends <= cuts  # the target, between its cuts

    def modes(self, rows: Indices) -> list[Mode]:
        """Real arithmetic, the candidate in floats, and the target where it is affine."""
        facts, arrivals = self.facts, self.facts.layered.arrivals
        made: list[Mode] = [Real(arrivals)]
        made += [Roundoff(facts.of_candidate(rows), kind, arrivals) for kind in FLOATS]
        if self.affine:
            made += [Roundoff(facts.of_target(rows), kind) for kind in FLOATS]
        return made

    def run(self, rows: Indices, modes: list[Mode]) -> Array:
        """The largest error of each mode at the output, on boxes by number."""
        carrier = self._carrier(len(rows), len(modes))
        for cut in self.cuts:
            errors_here = [mode.at(cut) for mode in modes]
            errors = [one.passed(cut.op) for one in errors_here]
            if carrier is not None:
                taken = self.facts.range(cut.inside, rows)
                carried = carrier.add(cut.ours, cut.form, cut.op, taken, _side_by_side(errors_here))
                errors = [np.fmin(error, carried[..., i]) for i, error in enumerate(errors)]
            for mode, error in zip(modes, errors, strict=True):
                whole = error if self.facts.apart else error.max(axis=0, keepdims=True)
                mode.settle(cut, whole)
        errors_here = [mode.at(None) for mode in modes]
        totals = [one.total for one in errors_here]
        if carrier is not None:
            carried = carrier.end(self.end, _stacked([one.fresh for one in errors_here]))
            totals = [np.fmin(total, carried[..., i]) for i, total in enumerate(totals)]
        return np.array([total.max(initial=0.0) for total in totals])

    def _carrier(self, boxes: int, modes: int) -> SignedErrors | None:
        """Whoever propagates errors with signs on some boxes; None where that takes too much, or
        where the target bends between the cuts (its ranges are then known better here than to
        whoever knows the cuts alone), looks through windows, or bends not unit by unit."""
        forms = (*(cut.form for cut in self.cuts), self.end)
        whole = all(view.index is None for form in forms for view in form.layout)
        unitwise = all(cut.op is None or cut.op.unitwise for cut in self.cuts)
        sizes = [cut.form.matrix.shape[0] for cut in self.cuts]
        if not (sizes and self.affine and whole and unitwise):
            return None
        return SignedErrors(boxes, modes) if within_limits(self.facts.count, modes, sizes) else None


def _cut(layered: Layered, ours: str, theirs: str) -> CutPair:
    """The pair, with the form of what an activation takes; units of a large cut as they are,
    without a matrix."""
    op, own = layered.arrivals[ours].op, layered.own
    if op is None:
        return CutPair(ours, theirs, ours, own.own(ours), op)
    (inside,) = own.network.node(ours).inputs
    size = own.network.sizes[inside]
    large = size > FORM_LIMITS.units and own.moves(inside)
    return CutPair(ours, theirs, inside, own.form(inside, size if large else None), op)


def _side_by_side(errors_here: list[CutErrors]) -> CutErrors:
    """The modes as columns."""
    parts = ("total", "fresh", "behind")
    return CutErrors(*(_stacked([getattr(one, part) for one in errors_here]) for part in parts))


def _stacked(parts: list[Array]) -> Array:
    """The modes as columns, (1 or boxes, m, modes)."""
    return np.stack(np.broadcast_arrays(*parts), axis=2)


# --------------------------------------------------------------------------------------------------
# The figures of a layered proof: real arithmetic, float64 and float32, side by side.
#
# The local error of f in front of a cut is the residual of its maps and, in floats, the rounding of
# the nodes in between. Each of these errors reaches the output through the target's maps;
# the signed walk follows them there on the boxes of the partition, and the recursion through
# absolute values bounds them where that is better or the signed walk does not apply. The magnitudes
# that round are those of a box, too (`on_boxes`). Beside f's figures stand those of the target
# itself, by the same analysis: what its own evaluation in floats may do.

FLOATS: tuple[Any, ...] = (np.float64, np.float32)


@dataclass(frozen=True)
class Figures:
    """Bounds of |f − g| in real arithmetic and of |fl(f) − g|; of the target, |fl(g) − g|.

    None where there is no bound, with the reason in `reasons` by the name of the type.
    """

    real: float
    floats: tuple[float | None, ...]
    target: tuple[float | None, ...]
    reasons: tuple[str, ...] = ()


def figures(
    layered: Layered, tick: Callable[[int, int], None] = lambda done, total: None
) -> Figures:
    """All figures of a layered proof; `tick` is told how many groups of boxes are done."""
    facts = OnBoxes(layered)
    walk, groups = Walk(facts), facts.groups()

    def on(rows: Indices) -> tuple[Array, list[str]]:
        modes = walk.modes(rows)
        return walk.run(rows, modes), [mode.reason for mode in modes]

    found = []
    for one in parallel_map(on, groups):
        found.append(one)
        tick(len(found), len(groups))
    worst = np.max([errors for errors, _ in found], axis=0)
    reasons = [next(filter(None, why), "") for why in zip(*(r for _, r in found), strict=True)]
    real = min(float(worst[0]), layered.bound)
    shown = [
        None if why or not isfinite(bound) else float(bound)
        for bound, why in zip(worst, reasons, strict=True)
    ]
    floats = tuple(None if bound is None else max(bound, real) for bound in shown[1:3])
    told = tuple(why or "it is not finite" for why in reasons[1:3])
    return Figures(real, floats, tuple(shown[3:]) or (None, None), told)
