"""The figures of a layered proof: real arithmetic, float64 and float32, side by side.

What f does wrong in front of a cut is the residual of its maps and, in floats, the rounding of the
nodes in between. Each of these errors reaches the output through the target's maps; `carrying`
follows them there with signs and on leaves, and the recursion through absolute values bounds them
where that is better or `carrying` does not apply. Beside f's figures stand those of the target
itself, by the same analysis: what its own evaluation in floats may do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from reconstruct.bounds import Reach
from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.carrying import Carrier, Noise
from reconstruct.certificates.error_recursion import Arrival, Layered
from reconstruct.certificates.forms import UNITS, Composites
from reconstruct.certificates.roundoff import Evaluated, Roundoff
from reconstruct.certificates.views import Form
from reconstruct.networks import Activation, Network
from reconstruct.numbers.double_double import Array, Enclosure, upward

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


@dataclass(frozen=True, eq=False)
class _Cut:
    """A pair of nodes, the target's form in front of it, and its activation (None: a sum)."""

    ours: str
    theirs: str
    inside: str
    form: Form[Enclosure]
    op: Activation | None


@dataclass(frozen=True, eq=False)
class _Wrong:
    """Errors in front of a cut, all of them and the new ones, and new ones behind it."""

    total: Array
    fresh: Array
    behind: Array

    def passed(self, op: Activation | None) -> Array:
        """The error behind the cut, through the Lipschitz constant."""
        return upward((self.total if op is None else op.carried(self.total)) + self.behind)


@dataclass(frozen=True, eq=False)
class _Real:
    """Errors in real arithmetic: those of the recursion, which is done."""

    arrivals: Mapping[str, Arrival]
    reason = ""

    def at(self, cut: _Cut | None) -> _Wrong:
        arrival = self.arrivals["" if cut is None else cut.ours]
        op = None if cut is None else cut.op
        passed = arrival.total if op is None else op.carried(arrival.total)
        return _Wrong(arrival.total, arrival.fresh, np.zeros_like(passed))

    def settle(self, cut: _Cut, error: Array) -> None:
        """Nothing waits for it."""


@dataclass(frozen=True, eq=False)
class _Floats:
    """Errors of an evaluation; without `arrivals` it is the target's own, with no residuals."""

    evaluation: Roundoff
    arrivals: Mapping[str, Arrival] | None = None

    def at(self, cut: _Cut | None) -> _Wrong:
        found = (
            self.evaluation.until(None)
            if cut is None
            else self.evaluation.until(self._name(cut), cut.op)
        )
        fresh = found.local
        if self.arrivals is not None:
            arrival = self.arrivals["" if cut is None else cut.ours]
            moved = arrival.moved(self.evaluation.source_errors)
            fresh = upward(fresh + arrival.fresh + moved)
        return _Wrong(upward(found.carried + fresh), fresh, found.behind)

    def settle(self, cut: _Cut, error: Array) -> None:
        self.evaluation.settle(self._name(cut), error)

    def _name(self, cut: _Cut) -> str:
        return cut.ours if self.arrivals is None else cut.theirs

    @property
    def reason(self) -> str:
        return self.evaluation.reason


Mode = _Real | _Floats


def figures(known: Reach, candidate: Network, alignment: Alignment, layered: Layered) -> Figures:
    """All figures of a layered proof."""
    ours = evaluated(candidate, layered)
    modes: list[Mode] = [_Real(layered.arrivals)]
    modes += [_Floats(Roundoff(ours, kind), layered.arrivals) for kind in FLOATS]
    if _all_cut(known.network, {ours for ours, _ in alignment.pairs}):
        own = Evaluated(known.network, layered.own, layered.sizes, {})
        modes += [_Floats(Roundoff(own, kind)) for kind in FLOATS]
    found = _run(known, _cuts(known.network, layered, alignment), modes, layered.own)
    real = min(found[0], layered.bound)
    shown = [
        None if mode.reason or not isfinite(bound) else bound
        for mode, bound in zip(modes, found, strict=True)
    ]
    floats = tuple(None if bound is None else max(bound, real) for bound in shown[1:3])
    reasons = tuple(mode.reason or "it is not finite" for mode in modes[1:3])
    return Figures(real, floats, tuple(shown[3:]) or (None, None), reasons)


def error_of(known: Reach, alignment: Alignment, layered: Layered, evaluation: Roundoff) -> float:
    """The largest error of one evaluation of the candidate at its output."""
    mode = _Floats(evaluation, layered.arrivals)
    (found,) = _run(known, _cuts(known.network, layered, alignment), [mode], layered.own)
    return found


def evaluated(candidate: Network, layered: Layered) -> Evaluated:
    """What the recursion knows of the candidate's values."""
    return Evaluated(candidate, layered.composites, layered.magnitudes, layered.ranges)


def _all_cut(target: Network, cuts: set[str]) -> bool:
    """Whether the target is affine between its cuts."""
    used = target.needed()
    return all(n.name in cuts for n in target.activation_nodes() if n.name in used)


def _cuts(target: Network, layered: Layered, alignment: Alignment) -> list[_Cut]:
    found = []
    for ours, theirs in alignment.pairs:
        op = layered.arrivals[ours].op
        inside = ours if op is None else target.node(ours).inputs[0]
        form = layered.own.own(ours) if op is None else _taken(layered, inside)
        found.append(_Cut(ours, theirs, inside, form, op))
    return found


def _taken(layered: Layered, inside: str) -> Form[Enclosure]:
    """The form of what an activation takes; units of a large cut as they are, without a matrix."""
    size = layered.own.network.sizes[inside]
    large = size > UNITS and layered.own.moves(inside)
    return layered.own.form(inside, size if large else None)


def _run(
    known: Reach, cuts: list[_Cut], modes: list[Mode], forms: Composites[Enclosure]
) -> list[float]:
    """The largest error of each mode at the output."""
    end = forms.form(known.network.output)
    carrier = _carrier(known, cuts, end, len(modes))
    for cut in cuts:
        wrong = [mode.at(cut) for mode in modes]
        errors = [one.passed(cut.op) for one in wrong]
        if carrier is not None:
            carried = carrier.add(cut.ours, cut.inside, cut.form, cut.op, _noise(wrong))
            errors = [np.fmin(error, carried[:, i]) for i, error in enumerate(errors)]
        for mode, error in zip(modes, errors, strict=True):
            mode.settle(cut, error)
    wrong = [mode.at(None) for mode in modes]
    totals = [one.total for one in wrong]
    if carrier is not None:
        carried = carrier.end(end, _noise(wrong).before)
        totals = [np.fmin(total, carried[:, i]) for i, total in enumerate(totals)]
    return [float(np.max(total, initial=0.0)) for total in totals]


def _noise(wrong: list[_Wrong]) -> Noise:
    """The modes as columns."""
    parts = ([w.fresh for w in wrong], [w.behind for w in wrong], [w.total for w in wrong])
    return Noise(*(np.stack(part, axis=1) for part in parts))


def _carrier(known: Reach, cuts: list[_Cut], end: Form[Enclosure], modes: int) -> Carrier | None:
    """What carries errors through the target; None where it bends between the cuts (its ranges are
    then known better here than to whoever knows the cuts alone), where its maps look through
    windows, or bend otherwise than unit by unit, or where it would take too long."""
    whole = all(
        view.index is None for form in (*(c.form for c in cuts), end) for view in form.layout
    )
    unitwise = all(cut.op is None or cut.op.unitwise for cut in cuts)
    carrier = Carrier(known, modes)
    sizes = [cut.form.matrix.shape[0] for cut in cuts]
    affine = _all_cut(known.network, {cut.ours for cut in cuts})
    return carrier if cuts and affine and whole and unitwise and carrier.bears(sizes) else None
