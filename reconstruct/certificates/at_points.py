"""How far two networks are apart at given inputs: both are evaluated there, to about 2^-100.

In `error_recursion` an error e passes a map as |A| e, which deep networks multiply by 10 at every
layer. At a point nothing has to be assumed: the target's values h are known to the last digit, and
so are the candidate's, if its maps between two cuts are composed first: there it is wide, and
evaluated node by node what cancels in its sums would be lost. From cut to cut

    ĥ' = f(A' ĥ + c'),      e = |ĥ − h|,

and the errors e are only needed to see that no inner activation leaves its line by them.

Rests on proofs_check: error-recursion, layerwise-to-network.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reconstruct.bounds import Reach
from reconstruct.bounds.at_points import enclosures, value_of
from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.arithmetic import Rigorous
from reconstruct.certificates.error_recursion import Recursion
from reconstruct.certificates.forms import Form
from reconstruct.networks import Activation, MatrixProduct, Network, Node, Operation
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.double_double import Enclosure
from reconstruct.numbers.rounding import up


def bound_at_points(
    known: Reach,
    candidate: Network,
    alignment: Alignment,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> float:
    """The largest |candidate − target| at the points of `known`, from above."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return _AtPoints(known, candidate, alignment, tick).run().bound


def bound_by_values(
    target: Network,
    candidate: Network,
    x: Array,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> float:
    """The same node by node: for norms by live statistics, which no cut makes affine. Radii grow by
    what cancels in the candidate's sums, from 2^-100 on."""
    worst = 0.0
    for done, row in enumerate(x):
        tick(done, len(x))
        with np.errstate(all="ignore"):
            theirs = enclosures(candidate, row)[candidate.output]
        worst = max(worst, float(np.max(_apart(target, row, theirs))))
    return worst


def _apart(target: Network, x: Array, theirs: Enclosure) -> Array:
    """|candidate − target| at an input, from above, unit by unit."""
    with np.errstate(all="ignore"):
        gap = (theirs - enclosures(target, x)[target.output]).magnitude()
    return np.where(np.isnan(gap), np.inf, gap)


class _AtPoints(Recursion):
    """The recursion with the candidate's values at the cuts, one enclosure for each point."""

    def __init__(
        self,
        known: Reach,
        candidate: Network,
        alignment: Alignment,
        tick: Callable[[int, int], None],
    ) -> None:
        super().__init__(known, candidate, alignment, tick)
        assert known.parts is not None
        self.parts = known.parts.values
        self.x, _ = self.parts[self.target.source]
        self.values = {self.target.source: [Enclosure.exact(x) for x in self.x]}

    def _compare(
        self,
        ours: Form[Enclosure],
        theirs: Form[Enclosure],
        names: tuple[str, str],
        inside: str,
        op: Activation | None = None,
    ) -> Array:
        gap = self._gap(ours, theirs)[1]
        wrong = any(self.errors[view.source].any() for view in gap.layout)
        same = gap.matrix.is_zero() and not wrong
        taken = [[value] for value in self._at_all(theirs)]
        return self._settled(names[0], op, taken, same)

    def _multiplied(self, node: Node, name: str, op: MatrixProduct) -> Array:
        """The error of a product of two values, each by its own form."""
        inside = self.target.node(name).inputs
        pairs = [self._pair(*names) for names in zip(inside, node.inputs, strict=True)]
        taken = zip(*(self._at_all(theirs) for _, theirs in pairs), strict=True)
        return self._settled(name, op, [list(factors) for factors in taken], False)

    def _settled(
        self,
        name: str,
        op: Operation | None,
        taken: list[list[Enclosure]],
        same: bool,
    ) -> Array:
        """The errors of the values behind a cut, of what it takes at each point; none where both
        networks do the same with the same."""
        found = [one[0] if op is None else value_of(op, one) for one in taken]
        self.values[name] = found
        if same:
            return np.zeros(found[0].shape)
        if not name:  # the output, to the last digit
            pairs = zip(self.x, found, strict=True)
            return np.asarray(np.max([_apart(self.target, x, value) for x, value in pairs], axis=0))
        lo, hi = self.parts[name]
        low, high = (np.stack(ends) for ends in zip(*(v.ends() for v in found), strict=True))
        worst = np.maximum(up(high - lo), up(hi - low)).max(axis=0)
        return np.where(np.isnan(worst), np.inf, worst)

    def _at_all(self, form: Form[Enclosure]) -> list[Enclosure]:
        """The value of a form at each point, unit by unit."""
        return [self._at(form, point) for point in range(len(self.x))]

    def _at(self, form: Form[Enclosure], point: int) -> Enclosure:
        total = form.constant[:, None]
        for view, matrix in form.parts():
            value = self.values[view.source][point]
            total = total + Rigorous().times(matrix, value.each(view.columns_of))
        return total.each(np.ravel)
