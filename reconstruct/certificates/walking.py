"""From cut to cut: what each arithmetic does wrong in front of them, and how far that reaches.

A *mode* is one arithmetic: f in real numbers, f in a format, g in a format. At every cut it tells
its new errors; they are carried on (`carrying`), and what they come to there is told back to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from reconstruct.certificates.carrying import Carrier, Noise, bearable
from reconstruct.certificates.error_recursion import Arrival, Layered
from reconstruct.certificates.forms import UNITS
from reconstruct.certificates.on_leaves import Indices, OnLeaves
from reconstruct.certificates.roundoff import Roundoff
from reconstruct.certificates.views import Form
from reconstruct.networks import Activation, Network
from reconstruct.numbers.double_double import Array, Enclosure, upward


@dataclass(frozen=True, eq=False)
class CutPair:
    """A pair of nodes, the target's form in front of it and its activation (None: a sum)."""

    ours: str
    theirs: str
    inside: str
    form: Form[Enclosure]
    op: Activation | None


@dataclass(frozen=True, eq=False)
class Wrong:
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

    def at(self, cut: CutPair | None) -> Wrong:
        arrival = self.arrivals["" if cut is None else cut.ours]
        op = None if cut is None else cut.op
        passed = arrival.total if op is None else op.carried(arrival.total)
        return Wrong(arrival.total[None], arrival.fresh[None], np.zeros_like(passed)[None])

    def settle(self, cut: CutPair, error: Array) -> None:
        """Nothing waits for it."""


@dataclass(frozen=True, eq=False)
class Floats:
    """Errors of an evaluation; without `arrivals` it is the target's own, with no residuals."""

    evaluation: Roundoff
    arrivals: Mapping[str, Arrival] | None = None

    def at(self, cut: CutPair | None) -> Wrong:
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
        return Wrong(upward(found.carried + fresh), fresh, found.behind)

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
        self.borne = self._borne(facts.known.network)

    def run(self, facts: OnLeaves, rows: Indices, modes: list[Mode]) -> Array:
        """The largest error of each mode at the output, (modes, leaves), on leaves by number."""
        carrier = self._carrier(facts.count, len(rows), len(modes))
        for cut in self.cuts:
            wrong = [mode.at(cut) for mode in modes]
            errors = [one.passed(cut.op) for one in wrong]
            if carrier is not None:
                taken = facts.range(cut.inside, rows)
                carried = carrier.add(cut.ours, cut.form, cut.op, taken, _noise(wrong))
                errors = [np.fmin(error, carried[..., i]) for i, error in enumerate(errors)]
            for mode, error in zip(modes, errors, strict=True):
                mode.settle(cut, error if facts.apart else error.max(axis=0, keepdims=True))
        wrong = [mode.at(None) for mode in modes]
        totals = [one.total for one in wrong]
        if carrier is not None:
            carried = carrier.end(self.end, _stacked([one.fresh for one in wrong]))
            totals = [np.fmin(total, carried[..., i]) for i, total in enumerate(totals)]
        worst = [total.max(axis=1, initial=0.0) for total in totals]
        return np.stack([np.broadcast_to(one, len(rows)) for one in worst])

    def _carrier(self, leaves: int, rows: int, modes: int) -> Carrier | None:
        """Whoever carries errors on `rows` of all leaves; None where that cannot be."""
        sizes = [cut.form.matrix.shape[0] for cut in self.cuts]
        if not (self.borne and bearable(leaves, modes, sizes)):
            return None
        return Carrier(rows, modes)

    def _borne(self, target: Network) -> bool:
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
    large = size > UNITS and layered.own.moves(inside)
    return layered.own.form(inside, size if large else None)


def _noise(wrong: list[Wrong]) -> Noise:
    """The modes as columns."""
    parts = ("fresh", "behind", "total")
    return Noise(*(_stacked([getattr(one, part) for one in wrong]) for part in parts))


def _stacked(parts: list[Array]) -> Array:
    """The modes as columns, (1 or leaves, m, modes)."""
    return np.stack(np.broadcast_arrays(*parts), axis=2)
