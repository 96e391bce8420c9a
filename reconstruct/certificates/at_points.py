"""How far two networks are apart at given inputs: errors with their signs.

In `error_recursion` an error e passes a map as |A| e, which deep networks multiply by 10 at every
layer. At a point nothing has to be assumed: the target's values h are known to the last digit, and
so is what the candidate does wrong there. With h = ĥ ± w and the error δ = δ̂ ± ρ of the cut before,

    A'h' + c' − (A h + c) = A δ + R (h + δ) + r = [A δ̂ + R ĥ + r] ± [|A| ρ + |R| (w + |δ̂| + ρ) + …],

where only the second bracket is multiplied on; it begins at the rounding of δ̂ itself, 10^-16 of an
error. A ReLU whose input is farther from 0 than the error hands δ on, or nothing.

Rests on proofs_check: error-recursion, product-errors, softmax-errors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reconstruct.bounds import Reach
from reconstruct.bounds.at_points import enclosures
from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.error_recursion import Recursion
from reconstruct.certificates.views import Form, View
from reconstruct.networks import Activation, MatrixProduct, Network, Node, Softmax
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import Enclosure, upward
from reconstruct.numbers.rounding import gamma, midpoint


def bound_at_points(
    known: Reach,
    candidate: Network,
    alignment: Alignment,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> float:
    """The largest |candidate − target| at the points of `known`, from above."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return _Signed(known, candidate, alignment, tick).run().bound


def bound_by_values(
    target: Network,
    candidate: Network,
    x: Array,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> float:
    """The same from both networks' values alone, node by node: for norms by live statistics, which
    no cut makes affine. Radii grow by what cancels in the candidate's sums, from 2^-100 on."""
    worst = 0.0
    with np.errstate(all="ignore"):
        for done, row in enumerate(x):
            tick(done, len(x))
            ours = enclosures(target, row)[target.output]
            gap = (enclosures(candidate, row)[candidate.output] - ours).magnitude()
            worst = max(worst, float(np.max(np.where(np.isnan(gap), np.inf, gap))))
    return worst


class _Signed(Recursion):
    """The recursion with one error vector for each point: middles and radii, (points, units)."""

    def __init__(
        self,
        known: Reach,
        candidate: Network,
        alignment: Alignment,
        tick: Callable[[int, int], None],
    ) -> None:
        super().__init__(known, candidate, alignment, tick)
        assert known.parts is not None
        self.values = known.parts.values
        start = np.zeros((known.parts.boxes, self.target.size_in))
        self.signed: dict[str, Range] = {self.target.source: (start, start)}

    def _compare(
        self,
        ours: Form[Enclosure],
        theirs: Form[Enclosure],
        names: tuple[str, str],
        inside: str,
        op: Activation | None = None,
    ) -> Array:
        middle, radius = self._difference(*self._gap(ours, theirs))
        if op is not None:
            middle, radius = self._behind(op, names[0], middle, radius)
        self.signed[names[0]] = middle, radius
        return np.asarray(upward(np.abs(middle) + radius).max(axis=0))

    def _multiplied(self, node: Node, name: str, op: MatrixProduct) -> Array:
        """The errors of both factors, and what the product makes of them."""
        inside = self.target.node(name).inputs
        pairs = [self._pair(*names) for names in zip(inside, node.inputs, strict=True)]
        first, second = (self._difference(*self._gap(*pair)) for pair in pairs)
        values = self.values[inside[0]], self.values[inside[1]]
        middle, radius = self.signed[name] = op.moved(values, (first, second))
        return np.asarray(upward(np.abs(middle) + radius).max(axis=0))

    def _difference(self, form: Form[Enclosure], gap: Form[Enclosure]) -> Range:
        """|theirs − ours| at every point, in front of an activation."""
        parts = [
            (view, matrix, difference)
            for (view, matrix), (_, difference) in zip(form.parts(), gap.parts(), strict=True)
        ]
        terms = form.matrix.shape[1] + 2 * len(parts) + 8
        found = [self._at(point, parts, gap.constant, terms) for point in range(self._points)]
        count = form.positions * form.matrix.shape[0]
        middles, radii = (
            np.stack([np.broadcast_to(f[i], f[1].shape) for f in found]) for i in (0, 1)
        )
        return middles.reshape(-1, count), radii.reshape(-1, count)

    @property
    def _points(self) -> int:
        return len(self.values[self.target.source][0])

    def _at(
        self,
        point: int,
        parts: list[tuple[View, Enclosure, Enclosure]],
        constant: Enclosure,
        terms: int,
    ) -> Range:
        """Middle and radius at one point, (rows, positions)."""
        middle = constant.high[:, None]
        size = np.abs(middle)
        doubt = (np.abs(constant.low) + constant.radius)[:, None]
        for view, matrix, difference in parts:
            d, rho = (_columns(view, part[point]) for part in self.signed[view.source])
            ends = (end[point] for end in self.values[view.source])
            h, w = (_columns(view, part) for part in midpoint(*ends))
            middle = middle + matrix.high @ d + difference.high @ h
            size = size + np.abs(matrix.high) @ np.abs(d) + np.abs(difference.high) @ np.abs(h)
            doubt = doubt + matrix.magnitude() @ rho + _unsure(matrix) @ np.abs(d)
            doubt = doubt + difference.magnitude() @ (w + np.abs(d) + rho)
            doubt = doubt + _unsure(difference) @ np.abs(h)
        return middle, upward(doubt + gamma(terms) * upward(size))

    def _behind(self, op: Activation, name: str, middle: Array, radius: Array) -> Range:
        """Errors behind an activation: of a ReLU with their signs, of others by its own rule."""
        error = upward(np.abs(middle) + radius)
        values = self.values[self.target.node(name).inputs[0]]
        if isinstance(op, Softmax):
            return op.moved(values, (middle, radius))
        if op.kind != "Relu":
            carried = np.stack([op.carried(row) for row in error])
            return np.zeros_like(carried), carried
        lo, hi = values
        active, dead = lo > error, hi < -error  # False where anything is not a number
        doubt = upward(radius + 0.5 * np.abs(middle))
        halved = np.where(dead, 0.0, 0.5 * middle)
        return (
            np.where(active, middle, halved),
            np.where(active, radius, np.where(dead, 0.0, doubt)),
        )


def _columns(view: View, values: Array) -> Array:
    return view(values).reshape(view.columns, -1)


def _unsure(matrix: Enclosure) -> Array:
    """What of a matrix is not in its first float."""
    return upward(np.abs(matrix.low) + matrix.radius)
