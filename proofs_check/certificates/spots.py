"""Where values are: over the whole domain, or on each of some leaves.

Rounding is in proportion to what is added up, and on a leaf that is less than over all of them. The
target's values have the ranges of the leaf there; a hidden unit takes F h + d of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from proofs_check.certificates.affine import Form
from proofs_check.certificates.arithmetic import Floats, dot, plus
from proofs_check.certificates.ranges import Ranges, interval
from proofs_check.certificates.recursion import Recursion, at_position, moved
from proofs_check.certificates.rounded import Inner
from proofs_check.certificates.step import Step
from proofs_check.certificates.threads import side_by_side
from reconstruct.networks import Node

Range = tuple[Floats, Floats]
Errors = dict[str, Floats]
Numbers = npt.NDArray[np.intp]


class Spots(Protocol):
    """What is known on boxes side by side: (1, units) where it holds on all of them."""

    @property
    def count(self) -> int:
        """How many leaves there are."""

    def largest(self, source: str) -> Floats:
        """max|h| of a source of the target."""

    def taken(self, step: Step) -> Floats:
        """max|z|, z what a cut takes, or the output."""

    def chord(self, step: Step) -> Range:
        """The range of what a cut takes, leaf by leaf."""

    def inner(self, errors: Errors, node: Node) -> Inner:
        """What an inner activation takes, and how far errors of the cuts before may move it."""

    def kept(self, error: Floats) -> Floats:
        """Errors on leaves as they count for what follows."""


@dataclass(frozen=True, eq=False)
class Everywhere:
    """Over the whole domain; chords are told apart by leaf in any case."""

    recursion: Recursion

    @property
    def count(self) -> int:
        leaves = self.recursion.leaves
        return 1 if leaves is None else leaves.boxes

    def largest(self, source: str) -> Floats:
        return self.recursion.largest(source)[None]

    def taken(self, step: Step) -> Floats:
        return step.largest[None]

    def chord(self, step: Step) -> Range:
        leaves = self.recursion.leaves
        if leaves is not None:
            return leaves.values[step.value]
        assert step.taken is not None
        return step.taken[0][None], step.taken[1][None]

    def inner(self, errors: Errors, node: Node) -> Inner:
        forms, inside = self.recursion.theirs, node.inputs[0]
        positions = forms.positions(inside)
        lo, hi = (end[None] for end in self.recursion.inner[node.name])
        met = {view.source for view, _ in forms.rows(inside, 0, 1, positions).parts()}
        if not any(errors[source].any() for source in met):
            return Inner(lo, hi, np.zeros(lo.shape))
        here = {source: errors[source][0] for source in met}

        def one(span: tuple[int, int]) -> Floats:
            form = forms.rows(inside, *span, positions)
            return moved(form, form.floats(), here)

        by = np.concatenate(list(side_by_side(one, forms.blocks(inside, positions))))
        return Inner(lo, hi, by[None])

    def kept(self, error: Floats) -> Floats:
        return np.asarray(error.max(axis=0, keepdims=True))


@dataclass(frozen=True, eq=False)
class OnLeaves:
    """What all groups of leaves share: the forms that hidden units take, as floats."""

    recursion: Recursion
    forms: dict[str, tuple[Form, Range]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        theirs = self.recursion.theirs
        for name in self.recursion.inner:
            inside = theirs.nodes[name].inputs[0]
            form = theirs.rows(inside, 0, theirs.network.sizes[inside], 1)
            self.forms[name] = form, form.floats()

    def at(self, rows: Numbers) -> _SomeLeaves:
        """What is known on the leaves of these numbers."""
        leaves = self.recursion.leaves
        assert leaves is not None
        return _SomeLeaves(self, leaves, rows)


@dataclass(frozen=True, eq=False)
class _SomeLeaves:
    shared: OnLeaves
    leaves: Ranges
    rows: Numbers

    @property
    def count(self) -> int:
        return len(self.rows)

    def largest(self, source: str) -> Floats:
        recursion = self.shared.recursion
        lo, hi = (end[self.rows] for end in self.leaves.values[source])
        return np.minimum(np.maximum(np.abs(lo), np.abs(hi)), recursion.largest(source))

    def taken(self, step: Step) -> Floats:
        if step.node is None:
            return step.largest[None]
        lo, hi = self.chord(step)
        return np.minimum(np.maximum(np.abs(lo), np.abs(hi)), step.largest)

    def chord(self, step: Step) -> Range:
        lo, hi = self.leaves.values[step.value]
        return lo[self.rows], hi[self.rows]

    def inner(self, errors: Errors, node: Node) -> Inner:
        form, floats = self.shared.forms[node.name]
        rows = at_position(form, floats, 0)
        there = {t.source: self.leaves.values[t.source] for t in rows.terms}
        here = {name: (lo[self.rows], hi[self.rows]) for name, (lo, hi) in there.items()}
        lo, hi = interval(rows, here)
        below, above = self.shared.recursion.inner[node.name]
        by = np.zeros((1, form.rows))
        for view, part in form.parts():
            if errors[view.source].any():
                size = plus(np.abs(floats[0][:, part]), floats[1][:, part])
                by = plus(by, dot(errors[view.source], size.T))
        return Inner(np.maximum(lo, below), np.minimum(hi, above), by)

    def kept(self, error: Floats) -> Floats:
        return error
