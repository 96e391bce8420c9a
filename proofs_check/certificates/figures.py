"""The figures of a certificate: f in real arithmetic, in float64 and in float32, proved again.

What f does wrong in front of a cut is the residual of its maps and, in a format, what rounding did
since the cut before (`roundoff`). These errors go through the target's maps (`carrying`), or
through their absolute values where that is better:

    wrong = |A' − A| (max|h| + p) + |c' − c| + local,      |ẑ − z| ≤ |A| p + wrong,

p the errors of the cuts before. A figure whose proof meets an operation that is not known here is
left to whoever claims it, and is told to be.

Rests on proofs_check: error-recursion, carried-errors, accumulated-rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from proofs_check.certificates.arithmetic import Floats, dot, plus, times
from proofs_check.certificates.bends import Bend
from proofs_check.certificates.carrying import Carrier, Maps
from proofs_check.certificates.chords import Chords
from proofs_check.certificates.recursion import Recursion, columns, moved, needed
from proofs_check.certificates.rounded import Inner, Kind, NoBound, Value
from proofs_check.certificates.roundoff import Evaluation
from proofs_check.certificates.step import Step
from proofs_check.certificates.threads import side_by_side
from reconstruct.networks import Node

KINDS: dict[str, Kind] = {"float64_bound": np.float64, "float32_bound": np.float32}
MOST_WORK = 2.0**41  # products: minutes


@dataclass(eq=False)
class _Mode:
    """One arithmetic: its errors behind the cuts so far; in a format, its evaluation."""

    errors: dict[str, Floats]
    evaluation: Evaluation | None = None
    reason: str = ""


@dataclass(frozen=True, eq=False)
class _Wrong:
    """In front of a cut: all errors, the new ones; and those that come new behind it."""

    total: Floats
    fresh: Floats
    behind: Floats


@dataclass(eq=False)
class Figures:
    """The figures after a recursion that is done; `kinds` are the formats by the claim's field."""

    recursion: Recursion
    kinds: dict[str, Kind]
    modes: dict[str, _Mode] = field(init=False)

    def __post_init__(self) -> None:
        source = self.recursion.target.source
        start = np.zeros(self.recursion.target.size_in)
        self.used = needed(self.recursion.candidate)
        self.modes = {"bound": _Mode({source: start})}
        for name, kind in self.kinds.items():
            forms = self.recursion.theirs
            inputs = self.recursion.largest(source)
            errors = {source: start}
            inner = partial(self._inner, errors)
            self.modes[name] = _Mode(errors, Evaluation(forms, inputs, kind, inner))

    def run(self) -> dict[str, float | None]:
        """Each figure; None where it is not proved here."""
        *cuts, last = self.recursion.steps
        carrier = self._carrier(cuts)
        for step in cuts:
            wrong = [self._wrong(mode, step) for mode in self.modes.values()]
            errors = [_passed(step, one) for one in wrong]
            if carrier is not None:
                fresh, behind, most = _stacked(wrong)
                chords = self._chords(step)
                found = carrier.add(step.name, self._maps(step), chords, (fresh, behind), most)
                errors = [np.minimum(e, found[:, i]) for i, e in enumerate(errors)]
            for mode, error in zip(self.modes.values(), errors, strict=True):
                self._settle(mode, step, error)
        wrong = [self._wrong(mode, last) for mode in self.modes.values()]
        totals = [one.total for one in wrong]
        if carrier is not None:
            found = carrier.end(self._maps(last), _stacked(wrong)[0])
            totals = [np.minimum(total, found[:, i]) for i, total in enumerate(totals)]
        return {
            name: None if mode.reason else float(np.max(total, initial=0.0))
            for (name, mode), total in zip(self.modes.items(), totals, strict=True)
        }

    # --- one cut in one arithmetic --------------------------------------------------------------

    def _wrong(self, mode: _Mode, step: Step) -> _Wrong:
        rows = len(step.difference) * step.positions
        residual = np.repeat(step.difference[:, -1:], step.positions, axis=1)
        arriving = np.zeros((len(step.difference), step.positions))
        for view, part in step.parts:
            p = mode.errors[view.source]
            far = plus(self.recursion.largest(view.source), p)
            met, reached = columns(view, p), columns(view, far)
            arriving = plus(arriving, dot(step.size[:, part], met))
            residual = plus(residual, dot(step.difference[:, part], reached))
        fresh, carried = residual.ravel(), arriving.ravel()
        behind = np.zeros(rows)
        if mode.evaluation is not None and not mode.reason:
            try:
                size = plus(step.largest, carried, fresh)
                value = self._evaluated(mode.evaluation, step, size)
                behind = mode.evaluation.behind(step.op, value)
                fresh = plus(fresh, value.local)
            except NoBound as reason:
                mode.reason = str(reason)
        return _Wrong(plus(carried, fresh), fresh, behind)

    def _evaluated(self, evaluation: Evaluation, step: Step, size: Floats) -> Value:
        """The value in front of a cut, or at the output; it is known not to exceed `size`."""
        node = step.node
        single = None
        if node is None:
            single = self.recursion.candidate.output
        elif step.bend is not None:
            (single,) = node.inputs
        if single is not None:
            evaluation.limits[single] = size
        value = evaluation.until(None if node is None else node.name, self.used)
        return value if single is None else Value(np.minimum(value.size, size), value.local)

    def _settle(self, mode: _Mode, step: Step, error: Floats) -> None:
        mode.errors[step.name] = error
        if mode.evaluation is not None and step.node is not None:
            size = plus(self.recursion.largest(step.name), error)
            mode.evaluation.settle(step.node.name, size)

    def _inner(self, errors: dict[str, Floats], node: Node) -> Inner:
        """How far errors of the cuts before may move what an inner activation takes."""
        forms, inside = self.recursion.theirs, node.inputs[0]
        positions = forms.positions(inside)
        known = self.recursion.inner[node.name]
        if not any(errors[v.source].any() for v, _ in forms.block(inside, 0, 1, positions).parts()):
            return Inner(*known, np.zeros(len(known[0])))

        def one(span: tuple[int, int]) -> Floats:
            form = forms.block(inside, *span, positions)
            return moved(form, form.floats(), errors)

        by = np.concatenate(list(side_by_side(one, forms.blocks(inside, positions))))
        return Inner(*known, by)

    # --- what carries ---------------------------------------------------------------------------

    def _carrier(self, cuts: list[Step]) -> Carrier | None:
        """None where a cut looks at several units at once, or where it would take too long."""
        if not cuts or not all(step.bend is None or isinstance(step.bend, Bend) for step in cuts):
            return None
        leaves = self.recursion.leaves
        count = 1 if leaves is None else len(leaves.lo)
        sizes = [self.recursion.target.sizes[step.name] for step in cuts]
        before = np.cumsum(sizes)
        work = sum(b * m * k for b, k, m in zip(before, sizes, sizes[1:], strict=False))
        return Carrier(count, len(self.modes)) if count * work * len(cuts) < MOST_WORK else None

    def _maps(self, step: Step) -> Maps:
        middle, error = step.form.floats()
        sizes, maps = self.recursion.target.sizes, Maps()
        for view, part in step.form.parts():
            if view.source != self.recursion.target.source:  # the input has no error
                known, doubt = (view.forms(m[:, part], sizes[view.source]) for m in (middle, error))
                maps.append((view.source, known, doubt))
        return maps

    def _chords(self, step: Step) -> Chords:
        bend = step.bend if isinstance(step.bend, Bend) else None
        leaves = self.recursion.leaves
        if leaves is not None:
            return Chords.of(bend, *leaves.taken[step.name])
        assert step.taken is not None
        return Chords.of(bend, *(end[None] for end in step.taken))


def _passed(step: Step, wrong: _Wrong) -> Floats:
    """The error behind a cut, by the Lipschitz constant."""
    if step.bend is None:
        return plus(wrong.total, wrong.behind)
    if isinstance(step.bend, Bend):
        rate = np.full(len(wrong.total), step.bend.lipschitz)
        return plus(times(rate, wrong.total), wrong.behind)
    return step.bend.largest(wrong.total)


def _stacked(wrong: list[_Wrong]) -> tuple[Floats, Floats, Floats]:
    """The arithmetics as columns."""
    fresh, behind, most = (
        np.stack([getattr(one, part) for one in wrong], axis=1)
        for part in ("fresh", "behind", "total")
    )
    return fresh, behind, most
