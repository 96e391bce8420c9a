"""Propagate errors from cut to cut, with their signs, in several arithmetics side by side.

The same walk serves real arithmetic, float64 and float32: they differ in their *local* errors,
what f does otherwise in front of a cut than the target's own map. In real arithmetic that is the
residual of its maps (`error_recursion`), in floats the rounding of the nodes in between besides
(`roundoff`). From there all errors go through the target's maps to the output. A network that makes
the error ε_i, |ε_i| ≤ e_i, in front of each cut is the target with ε_i added there. With h the
target's values, ĥ the disturbed ones and A the target's maps between the cuts,

    ẑ − z = Σ_j A_j (ĥ_j − h_j) + ε,      ĥ − h = D (ẑ − z) + (own rounding),

D the slopes of chords of the activation. Where a unit stays on one piece, D is known; elsewhere
it is a middle D̄ ± ρ, and ρ|ẑ − z| is a new error. So ĥ − h is a sum of errors, one symbol for each
unit of a cut, through products of *signed* maps A D̄ A D̄ …, of which absolute values are taken once,
at the end; where that does not apply errors pass as |A| e. The walk is made on the domain as one
box, and then on each box of the partition, whose ranges tell the slopes and the magnitudes that
round.

Rests on proofs_check: carried-errors, accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.bounds import Reach
from reconstruct.bounds.propagation import meet
from reconstruct.certificates.alignment import alignments
from reconstruct.certificates.error_recursion import Cut, Recursion, bound_layers
from reconstruct.certificates.forms import Form
from reconstruct.certificates.roundoff import Roundoff, Value
from reconstruct.errors import UnsupportedError
from reconstruct.networks import Activation, Network
from reconstruct.networks.blocks import spelled_sums
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import Enclosure, upward
from reconstruct.numbers.parallel import parallel_map
from reconstruct.numbers.rounding import UNIT, magnitude, midpoint

Indices = NDArray[np.intp]  # the numbers of boxes
FLOATS: tuple[Any, ...] = (np.float64, np.float32)


@dataclass(frozen=True)
class WalkLimits:
    """What is looked at box by box, and how much of it at a time.

    Rounding on boxes makes the float32 bound of HCAS 39 times smaller, that of cersyve 1.8 times;
    networks of long sums, whose roundings are counted so often anyway, gain nothing, and those of
    float64 in blocks of 72 a third, for a fifth of a run.
    """

    longest: int = 64  # terms of a sum whose rounding is looked at box by box
    weights: float = 2.0**36  # of the candidate times boxes, for the same: minutes
    products: float = 2.0**39  # of signed maps on all boxes: about a minute
    batch: int = 64  # boxes at once: their forms stay in cache
    elements: int = 2**18  # hidden units on boxes that are looked at together
    spare: float = 1.02  # times the error is a margin wanted: larger shifts are rounded by more


LIMITS = WalkLimits()

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
# What is known on boxes.


@dataclass(frozen=True, eq=False)
class Affine:
    """What an inner activation takes: c + Σ A_j h_j within `doubt`, A_j by source."""

    maps: tuple[tuple[str, Array], ...]
    constant: Array
    doubt: Array

    @classmethod
    def of(
        cls, form: Form[Enclosure], sizes: Mapping[str, Array], errors: Mapping[str, Array]
    ) -> Affine:
        """The form in floats, over the target's values of the sources, of at most these `sizes`:
        the candidate's lie around them, so that its errors are a part of what is not known."""
        constant, maps = form.constant, []
        doubt = np.abs(constant.low) + constant.radius
        for view, matrix in form.parts():
            main, rest = np.abs(matrix.high), np.abs(matrix.low) + matrix.radius
            rest, error = rest + 4 * (view.columns + 8) * UNIT * main, errors[view.source]
            doubt = doubt + main @ error + rest @ upward(sizes[view.source] + error)
            maps.append((view.source, matrix.high))
        return cls(tuple(maps), constant.high, upward(doubt + 8 * UNIT * np.abs(constant.high)))

    def on(self, ranges: Mapping[str, Range]) -> Range:
        """Its ranges for values of the sources in these, by intervals."""
        middle, radius = self.constant, self.doubt
        for source, matrix in self.maps:
            centre, half = midpoint(*ranges[source])
            middle = middle + centre @ matrix.T
            radius = radius + half @ np.abs(matrix).T
        radius = upward(radius)
        return middle - radius, middle + radius


class OnBoxes:
    """A layered proof and what is known of its values on each box of the partition."""

    def __init__(self, layered: Recursion) -> None:
        self.layered, self.target = layered, layered.known.network
        known, candidate = layered.known, layered.candidate
        self.parts = None if known.partition is None else known.parts
        self.count = 1 if self.parts is None else self.parts.boxes
        longest = max((getattr(n.op, "summands", 0) for n in candidate.nodes), default=0)
        bearable = self.count * float(candidate.weights) <= LIMITS.weights
        self.apart = self.parts is not None and longest <= LIMITS.longest and bearable
        kept = {name for node in candidate.activation_nodes() for name in node.inputs}
        self.trees = spelled_sums(candidate, {*layered.theirs.sources, *kept})
        used, cuts = self.target.needed(), {cut.ours for cut in layered.cuts}
        self.affine = used & {n.name for n in self.target.activation_nodes()} <= cuts
        self.taken = {n: self._taken(n) for n in layered.ranges} if self.apart else {}

    def _taken(self, name: str) -> Affine | None:
        """What an inner activation takes, where it is dense in the target's cuts."""
        layered = self.layered
        (inside,) = layered.candidate.node(name).inputs
        if layered.theirs.positions(inside) > 1:
            return None
        form = layered.theirs.form(inside)
        if any(view.index is not None for view in form.layout):
            return None
        return Affine.of(form, layered.sizes, layered.errors)

    def groups(self) -> list[Indices]:
        """The numbers of the boxes, some at a time."""
        widest = max(self.layered.candidate.sizes.values()) if self.apart else 1
        step = max(1, min(LIMITS.batch, LIMITS.elements // widest))
        return [np.arange(i, min(i + step, self.count)) for i in range(0, self.count, step)]

    def range(self, name: str, rows: Indices | None) -> Range:
        """The range of a value of the target on some boxes, or on the domain, (boxes, units)."""
        known = self.layered.known
        if rows is None or self.parts is None:
            lo, hi = known.bounds(name)
            return lo[None], hi[None]
        lo, hi = self.parts.values[name]
        return meet((lo[rows], hi[rows]), known.whole.values[name])

    def inner(self, rows: Indices | None) -> dict[str, Range]:
        """The ranges of what activations of the candidate take, by the value's name."""
        layered, found = self.layered, dict[str, Range]()
        for cut in layered.cuts:
            if cut.op is not None:
                lo, hi = self.range(cut.inside, rows)
                (inside,) = layered.candidate.node(cut.theirs).inputs
                most = upward(magnitude(lo, hi) + cut.total)
                found[inside] = -most, most
        ranges = {} if rows is None else {n: self.range(n, rows) for n in layered.sizes}
        for name, (lo, hi) in layered.ranges.items():
            (inside,) = layered.candidate.node(name).inputs
            found[inside] = lo[None], hi[None]
            taken = None if rows is None else self.taken[name]
            if taken is not None:
                found[inside] = meet(found[inside], taken.on(ranges))
        return found


# --------------------------------------------------------------------------------------------------
# The walk over the cuts.


class Mode:
    """One arithmetic on some boxes: errors behind the cuts so far; of a format its evaluation.

    Without a `dtype` it is real arithmetic; `own` is the target in floats, without residuals.
    Without an evaluation what is `rounded` in front of each cut, and behind it, is that of a mode
    that was walked on the whole domain.
    """

    def __init__(self, dtype: Any, evaluation: Roundoff | None = None, own: bool = False) -> None:
        self.dtype, self.evaluation, self.own = dtype, evaluation, own
        self.errors: dict[str, Array] = {} if evaluation is None else evaluation.errors
        self.rounded: dict[str, tuple[Array, Array]] = {}
        self.before = ""  # why there is no bound on the whole domain, which rounds for its boxes

    @property
    def reason(self) -> str:
        """Why there is no bound."""
        return self.before if self.evaluation is None else self.evaluation.reason

    def of_boxes(self) -> Mode:
        """The same arithmetic on boxes of the domain that this one was walked on."""
        mode = Mode(self.dtype, None, self.own)
        mode.rounded, mode.before = self.rounded, self.reason
        return mode

    def at(self, cut: Cut, known: Array) -> tuple[Array, Array, Array]:
        """In front of a cut all errors and the new ones, and what is new behind it, each (1 or
        boxes, m); `known` bounds what the target's activation takes."""
        carried, moved = cut.arriving(self.errors)
        fresh = np.zeros((1, len(cut.local))) if self.own else cut.local[None]
        if self.dtype is None:
            return upward(carried + fresh), fresh, np.zeros((1, 1))
        if not self.own:  # the residual is that at errors in real arithmetic
            fresh = upward(fresh + moved)
        if self.evaluation is not None:
            name = cut.ours if self.own else cut.theirs
            self.value = self.evaluation.until(name, cut.op is None)
            behind = np.zeros((1, 1))
            if cut.op is not None:
                there = upward(known + upward(carried + fresh + self.value.local))
                behind = cut.op.rounding(there, self.evaluation.precision)
            self.rounded[cut.ours] = self.value.local, behind
        local, behind = self.rounded[cut.ours]
        fresh = upward(fresh + local)
        return upward(carried + fresh), fresh, behind

    def settle(self, cut: Cut, size: Array, error: Array) -> None:
        """The errors behind a cut, where the target's value is at most `size`."""
        self.errors[cut.ours] = error
        if self.evaluation is not None and cut.ours:
            # of a sum or a map partial results are known, and what it may be folded into counts
            peak = size if cut.op is not None else self.value.peak
            own = np.zeros_like(error)
            name = cut.ours if self.own else cut.theirs
            self.evaluation.keep(name, Value(size, error, own, peak))


class Walk:
    """All modes from cut to cut, on the domain as one box or, after the `whole` of it, on boxes by
    number."""

    def __init__(
        self,
        facts: OnBoxes,
        rows: Indices | None,
        whole: Walk | None = None,
        spare: float = 0.0,
    ) -> None:
        self.facts, self.rows, layered = facts, rows, facts.layered
        self.modes: list[Mode]
        if whole is not None and not facts.apart:
            self.modes = [mode.of_boxes() for mode in whole.modes]
        else:
            of_candidate = layered.candidate, layered.theirs, facts.trees, facts.inner(rows)
            self.modes = [Mode(None)]
            self.modes += [Mode(kind, Roundoff(*of_candidate, kind, spare)) for kind in FLOATS]
            if facts.affine:
                of_target = facts.target, layered.ours, dict[str, Any](), dict[str, Range]()
                self.modes += [Mode(kind, Roundoff(*of_target, kind), own=True) for kind in FLOATS]
        self.boxes = 1 if rows is None else len(rows)
        self.signed = self._signed()
        self._symbols = np.zeros((self.boxes, 0, len(self.modes)))
        self._forms: dict[str, Array] = {}  # what becomes of the symbols, (boxes, symbols, m)
        self._sizes: dict[str, Array] = {}  # the same through absolute values, (boxes, m, modes)
        self._reached: dict[str, Array] = {}  # |ĥ − h|
        self._terms = 16

    def run(self) -> Array:
        """The largest error of each mode at the output."""
        source = self.facts.target.source
        size = magnitude(*self.facts.range(source, self.rows))
        none = np.zeros_like(size)
        for mode in self.modes:
            mode.errors[source] = none
            if mode.evaluation is not None:
                start = mode.evaluation.network.source
                mode.evaluation.keep(start, Value(size, none, none, size))
        errors: list[Array] = []
        with np.errstate(all="ignore"):
            for cut in self.facts.layered.cuts:
                errors = self._cut(cut)
        pairs = zip(self.modes, errors, strict=True)
        return np.array([np.inf if m.reason else e.max(initial=0.0) for m, e in pairs])

    def _cut(self, cut: Cut) -> list[Array]:
        """The errors behind a cut in each mode."""
        taken = self.facts.range(cut.inside, self.rows)
        found = [mode.at(cut, magnitude(*taken)) for mode in self.modes]
        errors = [
            upward((total if cut.op is None else cut.op.carried(total)) + behind)
            for total, _, behind in found
        ]
        if self.signed:
            parts = (np.broadcast_arrays(*part) for part in zip(*found, strict=True))
            given = (np.stack(part, axis=2) for part in parts)
            sharper = self._carried(cut, secants(cut.op, *taken), *given)
            errors = [np.fmin(error, sharper[..., i]) for i, error in enumerate(errors)]
        size = magnitude(*self.facts.range(cut.ours, self.rows)) if cut.ours else np.zeros((1, 1))
        for mode, error in zip(self.modes, errors, strict=True):
            mode.settle(cut, size, error)
        return errors

    def _signed(self) -> bool:
        """Whether errors keep their signs: not where that takes too much, or where the target bends
        between the cuts (its ranges are then known better to the forms than to whoever knows the
        cuts alone), looks through windows, or bends not unit by unit."""
        cuts = self.facts.layered.cuts
        whole = all(view.index is None for cut in cuts for view in cut.form.layout)
        unitwise = all(cut.op is None or cut.op.unitwise for cut in cuts)
        sizes = np.array([len(cut.local) for cut in cuts])
        products = float(np.sum(np.cumsum(sizes)[:-1] * sizes[:-1] * sizes[1:]))
        few = self.facts.count * products < LIMITS.products
        return len(cuts) > 1 and self.facts.affine and whole and unitwise and few

    def _carried(
        self, cut: Cut, slopes: Secants, total: Array, fresh: Array, behind: Array
    ) -> Array:
        """Bounds of |ĥ − h| behind a cut, (boxes, m, modes), as are the errors that are given.

        Entries of forms are sums of at most `terms` products: rounding takes γ_terms of the same
        products of absolute values. Underflow takes at most 2^-1074 of each, which later maps and a
        symbol multiply; `sizes` have at least 2^-1000 there (`upward`), through the same maps.
        """
        units = fresh.shape[1]
        forms = np.zeros((self.boxes, self._symbols.shape[1], units))
        sizes: Array = np.zeros((self.boxes, units, len(self.modes)))
        for view, matrix in cut.form.parts():
            if view.source not in self._forms:
                continue  # the input has no error
            before, unknown = self._forms[view.source], np.abs(matrix.low) + matrix.radius
            product = before.reshape(-1, view.columns) @ matrix.high.T
            forms[:, : before.shape[1]] += product.reshape(*before.shape[:2], units)
            sizes += np.abs(matrix.high) @ self._sizes[view.source]
            if unknown.any():  # what a map is not known to is noise
                fresh = fresh + unknown @ self._reached[view.source]
            self._terms += view.columns + 8
        fresh = upward(fresh)
        reached = np.matmul(np.abs(forms).transpose(0, 2, 1), self._symbols)
        peak = self._symbols.max(axis=(0, 1), initial=0.0)
        slip = 2 * self._terms * UNIT + self._terms**2 * 2.0**-72 * peak
        before = np.fmin(_number(reached + slip * upward(sizes) + fresh), total)
        middle = np.abs(slopes.middle)[..., None]
        new = slopes.noise(before) + behind
        own = _number(middle * fresh + new)
        whole = np.zeros((self.boxes, forms.shape[1] + units, units))
        np.multiply(forms, slopes.middle[:, None], out=whole[:, : forms.shape[1]])
        whole[:, forms.shape[1] + np.arange(units), np.arange(units)] = 1.0
        self._symbols = np.concatenate([self._symbols, own], axis=1)
        self._forms[cut.ours], self._sizes[cut.ours] = whole, upward(middle * sizes + own)
        self._reached[cut.ours] = _number(middle * before + new)
        return self._reached[cut.ours]


def _number(values: Array) -> Array:
    """The values rounded up; +inf where they are not numbers."""
    return np.where(np.isnan(values), np.inf, upward(values))


# --------------------------------------------------------------------------------------------------
# The figures of a layered proof: real arithmetic, float64 and float32, side by side, and the
# target's own, by the same analysis: what its evaluation in floats may do.


@dataclass(frozen=True)
class Figures:
    """Bounds of |f − g| in real arithmetic and, in both formats, of |fl(f) − g| and |fl(g) − g|.

    None where there is no bound, with the reasons for the candidate in `reasons`.
    """

    real: float
    floats: tuple[float | None, ...]
    reasons: tuple[str, ...]


def figures(
    layered: Recursion, tick: Callable[[int, int], None] = lambda done, total: None
) -> Figures:
    """All figures of a layered proof; `tick` is told how many groups of boxes are done."""
    facts = OnBoxes(layered)
    whole = Walk(facts, None)
    found, groups, parts = whole.run(), facts.groups(), []
    if facts.parts is not None:
        for part in parallel_map(lambda rows: Walk(facts, rows, whole).run(), groups):
            parts.append(part)
            tick(len(parts), len(groups))
        found = np.fmin(found, np.max(parts, axis=0))
    real = min(float(found[0]), layered.bound)
    found[1:3] = np.maximum(found[1:3], real)
    floats = (*(float(bound) if isfinite(bound) else None for bound in found[1:]), None, None)
    reasons = tuple(mode.reason or "it is not finite" for mode in whole.modes[1:3])
    return Figures(real, floats[:4], reasons)


# --------------------------------------------------------------------------------------------------
# Headroom: a hidden unit is shifted so far that it stays on its piece in real arithmetic, and a
# little more. What rounding did before it may push it further: then its error passes through |M2|
# instead of the composed map, and a bound of the evaluation says nothing. So it is told by how much
# shifts have to grow. Nothing is proved here: whoever raises the shifts has the network certified.


def lacking_headroom(known: Reach, network: Network, dtype: Any) -> Mapping[str, Array]:
    """By inner activation what its units lack in an evaluation in `dtype`, 0 where nothing, so that
    no error that can be excluded pushes any unit off its piece.

    `known` bounds the target with its units scaled as the network's are. Empty where the error
    would not be bounded even then.
    """
    for alignment in alignments(known.network, network, known.box):
        try:
            found = _lacking(OnBoxes(bound_layers(known, network, alignment)), dtype)
        except UnsupportedError:
            continue
        if found is not None:
            return found
    return {}


def _lacking(facts: OnBoxes, dtype: Any) -> Mapping[str, Array] | None:
    """The most that units lack on any box; None where the error is not bounded."""
    place, most = 1 + FLOATS.index(dtype), dict[str, Array]()

    def on(rows: Indices | None) -> tuple[float, Mapping[str, Array]]:
        walk = Walk(facts, rows, spare=LIMITS.spare)
        error, evaluation = float(walk.run()[place]), walk.modes[place].evaluation
        assert evaluation is not None
        return error, evaluation.lacking

    groups: list[Indices | None] = [*facts.groups()] if facts.apart else [None]
    for error, lacking in parallel_map(on, groups):
        if not isfinite(error):
            return None
        for name, part in lacking.items():
            most[name] = np.maximum(most.get(name, 0.0), part)
    return most
