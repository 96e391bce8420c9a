"""The figures of a certificate: f in real arithmetic, in float64 and in float32, proved again.

What f does wrong in front of a cut is the residual of its maps and, in a format, what rounding did
since the cut before (`roundoff`). These errors go through the target's maps (`carrying`), or
through their absolute values where that is better:

    wrong = max|(A' − A) h + c' − c| + |A' − A| p + hidden + local,      |ẑ − z| ≤ |A| p + wrong,

p the errors of the cuts before. Magnitudes are those of the whole domain first; on the leaves where
a claim does not follow from them they are taken leaf by leaf (`spots`). A figure whose proof meets
an operation that is not known here is left to whoever claims it, and is told to be.

Rests on proofs_check: error-recursion, carried-errors, accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from proofs_check.certificates.arithmetic import Floats, dot, plus
from proofs_check.certificates.bends import Bend
from proofs_check.certificates.carrying import Chords, Maps, SignedErrors, upper
from proofs_check.certificates.ranges import needed
from proofs_check.certificates.recursion import Recursion
from proofs_check.certificates.rounded import Kind, NoBound, Value
from proofs_check.certificates.roundoff import Evaluation
from proofs_check.certificates.spots import Everywhere, Numbers, OnLeaves, Spots
from proofs_check.certificates.step import Step
from proofs_check.certificates.threads import side_by_side

KINDS: dict[str, Kind] = {"float64_bound": np.float64, "float32_bound": np.float32}
MOST_WORK = 2.0**41  # products: minutes
ELEMENTS = 2**18  # numbers of a value on leaves that are looked at together


@dataclass(eq=False)
class _Mode:
    """One arithmetic: its errors behind the cuts so far, (boxes, m); of a format its evaluation."""

    errors: dict[str, Floats]
    evaluation: Evaluation | None = None
    reason: str = ""
    limited: set[str] = field(default_factory=set)  # cuts in front of which sizes are known


@dataclass(frozen=True, eq=False)
class _CutErrors:
    """In front of a cut, (boxes, m): all errors and the new ones; and new ones behind it."""

    total: Floats
    fresh: Floats
    behind: Floats


@dataclass(eq=False)
class Figures:
    """The figures after a recursion that is done; `kinds` are the formats by the claim's field, and
    `claimed` what is to be shown of them."""

    recursion: Recursion
    kinds: Mapping[str, Kind]
    claimed: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.used = needed(self.recursion.candidate)

    def run(self) -> dict[str, float | None]:
        """Each figure; None where it is not proved here."""
        names = ["bound", *self.kinds]
        everywhere = Everywhere(self.recursion)
        coarse, reasons = self._walk(everywhere, names)
        worst = dict(zip(names, coarse.max(axis=1), strict=True))
        leaves = self.recursion.leaves
        short = [
            name
            for name in self.kinds
            if leaves is not None and name in self.claimed and worst[name] > self.claimed[name]
        ]
        for name in [name for name in short if not reasons[name]]:
            worst[name] = self._apart(name, coarse[names.index(name)])
        return {name: None if reasons[name] else float(worst[name]) for name in names}

    def _apart(self, name: str, coarse: Floats) -> float:
        """The same leaf by leaf where it is more than what is claimed."""
        beyond = np.flatnonzero(~(coarse <= self.claimed[name]))
        step = max(1, ELEMENTS // max(self.recursion.candidate.sizes.values()))
        groups = [beyond[i : i + step] for i in range(0, len(beyond), step)]
        facts = OnLeaves(self.recursion)

        def worst(rows: Numbers) -> float:
            found, reasons = self._walk(facts.at(rows), [name])
            return float(np.inf if reasons[name] else np.fmin(found[0], coarse[rows]).max())

        rest = float(np.max(coarse[coarse <= self.claimed[name]], initial=0.0))
        found = float(np.max([rest, *side_by_side(worst, groups)]))
        return np.inf if np.isnan(found) else found

    def _walk(self, spots: Spots, names: list[str]) -> tuple[Floats, dict[str, str]]:
        """The errors at the output, (modes, leaves), from cut to cut; and why there is none."""
        modes = [self._mode(spots, name) for name in names]
        *cuts, last = self.recursion.steps
        carrier = self._carrier(cuts, spots.count, len(modes))
        for step in cuts:
            for mode in modes:
                self._limit(spots, mode)
            wrong = [self._wrong(spots, mode, step) for mode in modes]
            errors = [_passed(step, one) for one in wrong]
            if carrier is not None:
                found = self._carried(carrier, spots, step, wrong)
                errors = [np.minimum(e, found[..., i]) for i, e in enumerate(errors)]
            for mode, error in zip(modes, errors, strict=True):
                self._settle(spots, mode, step, spots.kept(error))
        for mode in modes:
            self._limit(spots, mode)
        wrong = [self._wrong(spots, mode, last) for mode in modes]
        totals = [one.total for one in wrong]
        if carrier is not None:
            found = carrier.end(self._maps(last), _stacked([one.fresh for one in wrong]))
            totals = [np.minimum(total, found[..., i]) for i, total in enumerate(totals)]
        worst = [np.broadcast_to(total.max(axis=1, initial=0.0), spots.count) for total in totals]
        return np.stack(worst), {n: mode.reason for n, mode in zip(names, modes, strict=True)}

    def _mode(self, spots: Spots, name: str) -> _Mode:
        source = self.recursion.target.source
        errors = {source: np.zeros((1, self.recursion.target.size_in))}
        if name not in self.kinds:
            return _Mode(errors)
        inputs, forms = spots.largest(source), self.recursion.theirs
        moved = partial(spots.inner, errors)
        return _Mode(errors, Evaluation(forms, inputs, self.kinds[name], moved))

    # --- one cut in one arithmetic --------------------------------------------------------------

    def _limit(self, spots: Spots, mode: _Mode) -> None:
        """How large what a cut takes can be, as soon as the cuts before it are settled: an
        evaluation may come to it before it comes to the cut."""
        if mode.evaluation is None:
            return
        for step in self.recursion.steps:
            single = self._single(step)
            ready = all(view.source in mode.errors for view, _ in step.parts)
            if single is not None and ready and step.name not in mode.limited:
                late, carried = self._arriving(spots, mode, step)
                mode.evaluation.limits[single] = upper(spots.taken(step) + carried + late)
                mode.limited.add(step.name)

    def _single(self, step: Step) -> str | None:
        """The value that a cut takes, or the output; None for a sum that is itself the cut."""
        if step.node is None:
            return self.recursion.candidate.output
        return None if step.bend is None else step.node.inputs[0]

    def _arriving(self, spots: Spots, mode: _Mode, step: Step) -> tuple[Floats, Floats]:
        """In real arithmetic: what is new in front of a cut, and the errors of those before."""
        constant = np.repeat(step.difference[:, -1], step.positions)[None]
        late, carried = constant, np.zeros_like(constant)
        apart = step.local[None]
        for view, part in step.parts:
            p = mode.errors[view.source]
            far = upper(spots.largest(view.source) + p)
            met = [[view.met(row) for row in values] for values in (p, far)]
            carried = plus(carried, _images(step.size[:, part], met[0]))
            late = plus(late, _images(step.difference[:, part], met[1]))
            apart = plus(apart, _images(step.difference[:, part], met[0]))
        return np.minimum(late, apart), carried

    def _wrong(self, spots: Spots, mode: _Mode, step: Step) -> _CutErrors:
        late, carried = self._arriving(spots, mode, step)
        fresh, behind = late, np.zeros_like(late)
        evaluation = mode.evaluation
        if evaluation is not None and not mode.reason:
            try:
                size = upper(spots.taken(step) + carried + late)
                value = self._evaluated(evaluation, step, size)
                behind = evaluation.behind(step.op, value)
                fresh = upper(late + value.error)
            except NoBound as reason:
                mode.reason = str(reason)
        return _CutErrors(upper(carried + fresh), fresh, behind)

    def _evaluated(self, evaluation: Evaluation, step: Step, size: Floats) -> Value:
        """The value in front of a cut, or at the output; it is known not to exceed `size`."""
        node = step.node
        value = evaluation.until(None if node is None else node.name, self.used)
        if self._single(step) is None:
            return value
        return Value(np.minimum(value.size, size), value.hidden, value.local)

    def _settle(self, spots: Spots, mode: _Mode, step: Step, error: Floats) -> None:
        mode.errors[step.name] = error
        if mode.evaluation is not None and step.node is not None:
            size = upper(spots.largest(step.name) + error)
            mode.evaluation.settle(step.node.name, size)

    # --- what carries ---------------------------------------------------------------------------

    def _carrier(self, cuts: list[Step], count: int, modes: int) -> SignedErrors | None:
        """None where a cut looks at several units at once, or where it would take too long."""
        if not cuts or not all(step.bend is None or isinstance(step.bend, Bend) for step in cuts):
            return None
        leaves = self.recursion.leaves
        sizes = [self.recursion.target.sizes[step.name] for step in cuts]
        before = np.cumsum(sizes)
        work = sum(b * m * k for b, k, m in zip(before, sizes, sizes[1:], strict=False))
        all_of_them = 1 if leaves is None else leaves.boxes
        borne = all_of_them * work * len(cuts) < MOST_WORK
        return SignedErrors(count, modes) if borne else None

    def _carried(
        self, carrier: SignedErrors, spots: Spots, step: Step, wrong: list[_CutErrors]
    ) -> Floats:
        """What the errors come to behind a cut, (leaves, m, modes)."""
        most, after, fresh = (
            _stacked([getattr(one, part) for one in wrong]) for part in ("total", "behind", "fresh")
        )
        chords = self._chords(spots, step)
        return carrier.add(step.name, self._maps(step), chords, (fresh, after), most)

    def _maps(self, step: Step) -> Maps:
        middle, error = step.form.floats()
        sizes, maps = self.recursion.target.sizes, Maps()
        for view, part in step.form.parts():
            if view.source != self.recursion.target.source:  # the input has no error
                known, doubt = (view.forms(m[:, part], sizes[view.source]) for m in (middle, error))
                maps.append((view.source, known, doubt))
        return maps

    def _chords(self, spots: Spots, step: Step) -> Chords:
        bend = step.bend if isinstance(step.bend, Bend) else None
        return Chords.of(bend, *spots.chord(step))


def _images(matrix: Floats, met: list[Floats]) -> Floats:
    """A matrix times what it meets on each box, (boxes, rows · positions)."""
    return np.stack([dot(matrix, values).ravel() for values in met])


def _passed(step: Step, wrong: _CutErrors) -> Floats:
    """The error behind a cut, by the Lipschitz constant."""
    if step.bend is None:
        return upper(wrong.total + wrong.behind)
    if isinstance(step.bend, Bend):
        return upper(step.bend.lipschitz * wrong.total + wrong.behind)
    bend = step.bend
    return np.stack([bend.largest(row) for row in wrong.total])


def _stacked(parts: list[Floats]) -> Floats:
    """The arithmetics as columns."""
    return np.stack(np.broadcast_arrays(*parts), axis=2)
