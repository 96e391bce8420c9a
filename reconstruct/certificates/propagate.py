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
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from reconstruct.bounds import Reach
from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.error_recursion import Arrival, Layered
from reconstruct.certificates.forms import LIMITS as FORM_LIMITS
from reconstruct.certificates.on_leaves import Indices, OnLeaves
from reconstruct.certificates.roundoff import Roundoff
from reconstruct.certificates.views import Form
from reconstruct.networks import Activation, Network
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
    """Slopes of chords of an activation on ranges: within `middle` ± `radius`, (leaves, m).

    A chord that leaves the range by more than `margin` may be off by `more` for each unit beyond.
    """

    middle: Array
    radius: Array
    margin: Array
    more: Array

    def noise(self, before: Array) -> Array:
        """What `middle` times an error of at most `before`, (leaves, m, modes), leaves out."""
        margin = np.minimum(self.margin[..., None], before)  # no less than nothing is beyond
        beyond = before - margin
        return upward(self.radius[..., None] * before + self.more[..., None] * beyond)

    def part(self, rows: slice) -> Secants:
        """The same on some leaves."""
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
class NewErrors:
    """What is new at a cut, (1 or leaves, m, modes) each: in front of the activation and behind it,
    and what |ẑ − z| is known not to exceed."""

    before: Array
    behind: Array
    most: Array


@dataclass(frozen=True, eq=False)
class _Cut:
    """A cut that is done: its maps by source, its slopes and the noise (leaves, m, modes) behind
    it."""

    name: str
    parts: Parts
    slopes: Secants
    noise: Array


@dataclass(frozen=True, eq=False)
class _Spread:
    """Errors of a value: `forms` (leaves, symbols, m), and `total` (leaves, m, modes) the same
    through absolute values, against which rounding is measured; and what no entry of the forms has
    lost more of by underflow."""

    forms: Array
    total: Array
    lost: float


class SignedErrors:
    """Errors through the target on so many `leaves`, cut after cut; `modes` of them side by side.

    Products of maps are rounded by at most γ_n times the products of their absolute values, n the
    terms of all sums on the way.
    """

    def __init__(self, leaves: int, modes: int) -> None:
        self.leaves, self.modes = leaves, modes
        self.reached: dict[str, Array] = {}  # |ĥ − h| of the cuts so far, over all leaves
        self._cuts: list[_Cut] = []
        self._terms = 16

    def add(
        self,
        name: str,
        form: Form[Enclosure],
        op: Activation | None,
        taken: Range,
        noise: NewErrors,
    ) -> Array:
        """Bounds of |ĥ − h| at a cut, (leaves, m, modes).

        `form` gives z over the sources; its range on the leaves, `taken`, tells the slopes of `op`
        (None: a sum).
        """
        parts, doubt = self._parts(form)
        slopes = secants(op, *taken)
        shape = (self.leaves, form.matrix.shape[0], self.modes)
        kept, found = np.empty(shape), np.empty(shape)
        given = upward(noise.before + doubt), noise.behind, noise.most
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
        """Bounds of the error at the output, (leaves, m, modes)."""
        parts, doubt = self._parts(form)
        found = np.empty((self.leaves, form.matrix.shape[0], self.modes))
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
        """On all leaves, batch by batch."""

        def quietly(rows: slice) -> None:
            with np.errstate(all="ignore"):
                one(rows)

        batches = [
            slice(i, min(self.leaves, i + LIMITS.batch))
            for i in range(0, self.leaves, LIMITS.batch)
        ]
        list(parallel_map(quietly, batches))

    def _arriving(self, rows: slice, parts: Parts, noise: Array) -> Array:
        """|ẑ − z| at the input of a cut on some leaves, (leaves, m, modes), `noise` new there."""
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


def within_limits(leaves: int, modes: int, sizes: list[int]) -> bool:
    """Whether cuts of these sizes can be carried in within_limits time and memory."""
    before = np.cumsum([0, *sizes])[:-1]
    products = float(
        np.sum(before[:-1] * sizes[:-1] * np.array(sizes[1:]) * np.arange(len(sizes), 1, -1))
    )
    return leaves * products < LIMITS.work and leaves * sum(sizes) * (modes + 6) < LIMITS.kept


def _number(values: Array) -> Array:
    """The values rounded up; +inf where they are not numbers."""
    return np.where(np.isnan(values), np.inf, upward(values))


# --------------------------------------------------------------------------------------------------
# From cut to cut: the local errors of each arithmetic in front of them, and how far that reaches.
#
# A *mode* is one arithmetic: f in real numbers, f in a format, g in a format. At every cut it tells
# its new errors; they are propagated, and what they come to there is told back to it.


@dataclass(frozen=True, eq=False)
class CutPair:
    """A pair of nodes, the target's form in front of it and its activation (None: a sum)."""

    ours: str
    theirs: str
    inside: str
    form: Form[Enclosure]
    op: Activation | None


@dataclass(frozen=True, eq=False)
class CutErrors:
    """Errors in front of a cut, (1 or leaves, m): all of them, the new ones, and new ones behind
    it."""

    total: Array
    fresh: Array
    behind: Array

    def passed(self, op: Activation | None) -> Array:
        """The error behind the cut, through the Lipschitz constant."""
        return upward((self.total if op is None else op.carried(self.total)) + self.behind)


@dataclass(frozen=True, eq=False)
class Real:
    """Errors in real arithmetic: those of the recursion, which is done."""

    arrivals: Mapping[str, Arrival]
    reason = ""

    def at(self, cut: CutPair | None) -> CutErrors:
        arrival = self.arrivals["" if cut is None else cut.ours]
        op = None if cut is None else cut.op
        passed = arrival.total if op is None else op.carried(arrival.total)
        return CutErrors(arrival.total[None], arrival.fresh[None], np.zeros_like(passed)[None])

    def settle(self, cut: CutPair, error: Array) -> None:
        """Nothing waits for it."""


@dataclass(frozen=True, eq=False)
class Floats:
    """Errors of an evaluation; without `arrivals` it is the target's own, with no residuals."""

    evaluation: Roundoff
    arrivals: Mapping[str, Arrival] | None = None

    def at(self, cut: CutPair | None) -> CutErrors:
        found = (
            self.evaluation.until(None)
            if cut is None
            else self.evaluation.until(self._name(cut), cut.op)
        )
        fresh = upward(found.hidden + found.local)
        if self.arrivals is not None:
            arrival = self.arrivals["" if cut is None else cut.ours]
            moved = arrival.moved(self.evaluation.source_errors)
            fresh = upward(fresh + arrival.fresh + moved)
        return CutErrors(upward(found.carried + fresh), fresh, found.behind)

    def settle(self, cut: CutPair, error: Array) -> None:
        self.evaluation.settle(self._name(cut), error)

    def _name(self, cut: CutPair) -> str:
        return cut.ours if self.arrivals is None else cut.theirs

    @property
    def reason(self) -> str:
        return self.evaluation.reason


Mode = Real | Floats


class Walk:
    """The cuts of both networks, on all leaves or on some."""

    def __init__(self, facts: OnLeaves) -> None:
        layered = facts.layered
        self.cuts = _cuts(facts)
        self.end = layered.own.form(facts.known.network.output)
        self.propagates = self._propagates(facts.known.network)

    def run(self, facts: OnLeaves, rows: Indices, modes: list[Mode]) -> Array:
        """The largest error of each mode at the output, (modes, leaves), on leaves by number."""
        carrier = self._carrier(facts.count, len(rows), len(modes))
        for cut in self.cuts:
            errors_here = [mode.at(cut) for mode in modes]
            errors = [one.passed(cut.op) for one in errors_here]
            if carrier is not None:
                taken = facts.range(cut.inside, rows)
                carried = carrier.add(cut.ours, cut.form, cut.op, taken, _new_errors(errors_here))
                errors = [np.fmin(error, carried[..., i]) for i, error in enumerate(errors)]
            for mode, error in zip(modes, errors, strict=True):
                mode.settle(cut, error if facts.apart else error.max(axis=0, keepdims=True))
        errors_here = [mode.at(None) for mode in modes]
        totals = [one.total for one in errors_here]
        if carrier is not None:
            carried = carrier.end(self.end, _stacked([one.fresh for one in errors_here]))
            totals = [np.fmin(total, carried[..., i]) for i, total in enumerate(totals)]
        worst = [total.max(axis=1, initial=0.0) for total in totals]
        return np.stack([np.broadcast_to(one, len(rows)) for one in worst])

    def _carrier(self, leaves: int, rows: int, modes: int) -> SignedErrors | None:
        """Whoever carries errors on `rows` of all leaves; None where that cannot be."""
        sizes = [cut.form.matrix.shape[0] for cut in self.cuts]
        if not (self.propagates and within_limits(leaves, modes, sizes)):
            return None
        return SignedErrors(rows, modes)

    def _propagates(self, target: Network) -> bool:
        """Whether errors can be carried through the target: not where it bends between the cuts
        (its ranges are then known better here than to whoever knows the cuts alone), where its
        maps look through windows, or where it bends otherwise than unit by unit."""
        forms = (*(cut.form for cut in self.cuts), self.end)
        whole = all(view.index is None for form in forms for view in form.layout)
        unitwise = all(cut.op is None or cut.op.unitwise for cut in self.cuts)
        affine = all_cut(target, {cut.ours for cut in self.cuts})
        return bool(self.cuts) and affine and whole and unitwise


def all_cut(target: Network, cuts: set[str]) -> bool:
    """Whether the target is affine between its cuts."""
    used = target.needed()
    return all(n.name in cuts for n in target.activation_nodes() if n.name in used)


def _cuts(facts: OnLeaves) -> list[CutPair]:
    target, layered = facts.known.network, facts.layered
    found = []
    for ours, theirs in facts.alignment.pairs:
        op = layered.arrivals[ours].op
        inside = ours if op is None else target.node(ours).inputs[0]
        form = layered.own.own(ours) if op is None else _taken(layered, inside)
        found.append(CutPair(ours, theirs, inside, form, op))
    return found


def _taken(layered: Layered, inside: str) -> Form[Enclosure]:
    """The form of what an activation takes; units of a large cut as they are, without a matrix."""
    size = layered.own.network.sizes[inside]
    large = size > FORM_LIMITS.units and layered.own.moves(inside)
    return layered.own.form(inside, size if large else None)


def _new_errors(errors_here: list[CutErrors]) -> NewErrors:
    """The modes as columns."""
    parts = ("fresh", "behind", "total")
    return NewErrors(*(_stacked([getattr(one, part) for one in errors_here]) for part in parts))


def _stacked(parts: list[Array]) -> Array:
    """The modes as columns, (1 or leaves, m, modes)."""
    return np.stack(np.broadcast_arrays(*parts), axis=2)


# --------------------------------------------------------------------------------------------------
# The figures of a layered proof: real arithmetic, float64 and float32, side by side.
#
# The local error of f in front of a cut is the residual of its maps and, in floats, the rounding of
# the nodes in between. Each of these errors reaches the output through the target's maps;
# the signed walk follows them there on the boxes of the partition, and the recursion through
# absolute values bounds them where that is better or the signed walk does not apply. The magnitudes
# that round are those of a box, too (`on_leaves`). Beside f's figures stand those of the
# target itself, by the same
# analysis: what its own evaluation in floats may do.

Tick = Callable[[int, int], None]
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
    known: Reach,
    candidate: Network,
    alignment: Alignment,
    layered: Layered,
    tick: Tick = lambda done, total: None,
) -> Figures:
    """All figures of a layered proof; `tick` is told how many leaves are done."""
    found, reasons = _refined(OnLeaves(known, candidate, alignment, layered), tick)
    real = min(found[0], layered.bound)
    shown = [
        None if why or not isfinite(bound) else bound
        for bound, why in zip(found, reasons, strict=True)
    ]
    floats = tuple(None if bound is None else max(bound, real) for bound in shown[1:3])
    told = tuple(why or "it is not finite" for why in reasons[1:3])
    return Figures(real, floats, tuple(shown[3:]) or (None, None), told)


def _refined(facts: OnLeaves, tick: Tick) -> tuple[list[float], list[str]]:
    """The largest error of each mode, and why there is none: with magnitudes of the whole box, and
    in floats, where that pays, with those of each leaf."""
    walk, every = Walk(facts), np.arange(facts.count)
    modes = _modes(facts, every)
    coarse = walk.run(facts, every, modes)
    worst, reasons = coarse.max(axis=1), [mode.reason for mode in modes]
    if facts.pays:
        apart = _Apart(replace(facts, apart=True), walk, coarse, tick)
        worst = apart.worst([i for i, why in enumerate(reasons) if i and not why])
    return [float(error) for error in worst], reasons


@dataclass(frozen=True, eq=False)
class _Apart:
    """Leaves looked at apart; `coarse` (modes, leaves) bounds the errors as well."""

    facts: OnLeaves
    walk: Walk
    coarse: Array
    tick: Tick

    def worst(self, modes: list[int]) -> Array:
        """The largest error of every mode, those named looked at leaf by leaf.

        The worst leaves by `coarse` come first, as long as others could be worse than they. A mode
        whose figure is no less than the target's values are, already there, says nothing.
        """
        found: Array = self.coarse.max(axis=1)
        with np.errstate(all="ignore"):
            shares = np.nan_to_num(self.coarse[modes] / found[modes, None])
        order = np.argsort(-shares.max(axis=0, initial=0.0), kind="stable")
        first, *rest = self.facts.groups(order)
        errors = self._errors(first, modes)
        telling = [i for i, error in zip(modes, errors, strict=True) if error < self._size]
        if telling:
            start = np.array([e for e in errors if e < self._size])
            found[telling] = self._over(telling, start, len(first), order, rest)
        return found

    def _over(
        self, modes: list[int], worst: Array, done: int, order: Indices, groups: list[Indices]
    ) -> Array:
        """The largest errors, those of the first leaves known to be `worst`."""
        errors = parallel_map(lambda rows: self._errors(rows, modes), groups)
        for rows in groups:
            self.tick(done, len(order))
            if np.all(self.coarse[modes][:, order[done:]].max(axis=1) <= worst):
                break
            worst = np.maximum(worst, next(errors))
            done += len(rows)
        return worst

    def _errors(self, rows: Indices, modes: list[int]) -> Array:
        """The largest errors on some leaves."""
        made = _modes(self.facts, rows)
        found = self.walk.run(self.facts, rows, [made[i] for i in modes])
        return np.asarray(np.fmin(found, self.coarse[modes][:, rows]).max(axis=1))

    @cached_property
    def _size(self) -> float:
        """Of the target's values."""
        known = self.facts.known
        return max(float(np.max(np.abs(end))) for end in known.bounds(known.network.output))


def _modes(facts: OnLeaves, rows: Indices) -> list[Mode]:
    """Real arithmetic, the candidate in floats, and the target where it is affine between cuts."""
    ours, arrivals = facts.of_candidate(rows), facts.layered.arrivals
    made: list[Mode] = [Real(arrivals)]
    made += [Floats(Roundoff(ours, kind), arrivals) for kind in FLOATS]
    if all_cut(facts.known.network, {name for name, _ in facts.alignment.pairs}):
        own = facts.of_target(rows)
        made += [Floats(Roundoff(own, kind)) for kind in FLOATS]
    return made
