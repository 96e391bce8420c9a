"""The exact certificate: with rational norms, f and g are the same function on the box.

Floats are dyadic rationals, the solver's gammas and betas are rationals, and √(v + ε) has to be
rational (drawn networks have v + ε = 1). Then every composed map is a matrix of integers over one
denominator, and `A' = A`, `c' = c` is checked with ==. What is left is that inner activations stay
on their line: the lower bound of such a unit comes from outward-rounded floats, each of which is
itself a rational number, so `bound ≥ 0` is a statement about rationals too. With no error at any
cut, the target's own bounds need no widening, and f ≡ g on the box follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.arithmetic import NotRational, Rational, RationalNorm
from reconstruct.certificates.error_recursion import Reachable, deviation
from reconstruct.certificates.forms import Composites
from reconstruct.certificates.views import Form, merge
from reconstruct.networks import Activation, Network, Node
from reconstruct.numbers.arrays import Range
from reconstruct.numbers.double_double import upward
from reconstruct.numbers.rational_matrix import RationalMatrix


@dataclass(frozen=True)
class Identity:
    """Whether f ≡ g was proved, and if not, where it failed; `margin` as in `Segment`."""

    holds: bool
    reason: str
    margin: float | None = None


class _Failed(Exception):
    pass


def prove_identity(
    target: Network,
    network: Network,
    norms: Mapping[str, RationalNorm],
    reach: Reachable,
    alignment: Alignment,
) -> Identity:
    """Is `network`, with `norms` in place of its own, equal to `target` on the box of `reach`?"""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return _Proof(target, network, norms, reach, alignment).run()
    except (_Failed, NotRational) as failure:
        return Identity(False, str(failure))


class _Proof:
    def __init__(
        self,
        target: Network,
        network: Network,
        norms: Mapping[str, RationalNorm],
        reach: Reachable,
        alignment: Alignment,
    ) -> None:
        alignment.check(target, network)
        self.target, self.network, self.reach = target, network, reach
        self.partner = {c: t for t, c in alignment.pairs}
        self.ours = Composites(target, alignment.target_sources(target), Rational())
        sources = alignment.candidate_sources(target, network)
        self.theirs = Composites(network, sources, Rational(norms))
        self.margin = np.inf

    def run(self) -> Identity:
        used = self.network.needed()
        inner = self.target.needed() - self.ours.sources.keys()
        for node in self.target.activation_nodes():
            if node.name in inner:
                self._on_line(self.ours, node, self.reach.bounds(node.inputs[0]))
        for node in self.network.nodes:
            if node.name in self.partner:
                self._compare(self.partner[node.name], node)
            elif isinstance(node.op, Activation) and node.name in used:
                self._on_line(self.theirs, node, self._range(node.inputs[0]))
        outputs = self.target.output, self.network.output
        count = max(self.ours.positions(outputs[0]), self.theirs.positions(outputs[1]))
        last = self.ours.form(outputs[0], count), self.theirs.form(outputs[1], count)
        self._equal(*last, "the maps to the output")
        margin = float(self.margin) if np.isfinite(self.margin) else None
        return Identity(True, "every composed map is equal, every inner unit on its line", margin)

    def _compare(self, name: str, node: Node) -> None:
        """The same map before an activation, or the same sum."""
        if isinstance(node.op, Activation):
            (inside,) = self.target.node(name).inputs
            count = max(self.ours.positions(inside), self.theirs.positions(node.inputs[0]))
            pair = self.ours.form(inside, count), self.theirs.form(node.inputs[0], count)
        else:
            count = max(self.ours.own_positions(name), self.theirs.own_positions(node.name))
            pair = self.ours.own(name, count), self.theirs.own(node.name, count)
        self._equal(*pair, f"the maps to {name!r}")

    def _equal(self, ours: Form[RationalMatrix], theirs: Form[RationalMatrix], what: str) -> None:
        first, second = merge(self.ours.arithmetic, ours, theirs)
        if not (first.matrix - second.matrix).is_zero():
            raise _Failed(f"{what} are not equal as rational matrices")

    def _range(self, name: str) -> Range:
        """Bounds of a value over the box, block of rows by block."""
        spans = self.theirs.spans(name)
        ends = [self._bounds(self.theirs.block(name, span)) for span in spans]
        return np.concatenate([lo for lo, _ in ends]), np.concatenate([hi for _, hi in ends])

    def _bounds(self, form: Form[RationalMatrix]) -> Range:
        """Floats near the numbers of a form, their error added outward."""
        lo, hi = form.constant.between()
        for view, part in form.parts():
            low, high = part.between()
            if view.index is None:
                below, above = self.reach.functionals(view.source, low)
            else:
                below, above = self.reach.windows(view.source, low, view.index)
            least, most = self.reach.bounds(view.source)
            size = view.worst(np.maximum(np.abs(least), np.abs(most)))
            doubt = upward((high - low) @ size)
            lo, hi = np.nextafter(lo + below, -np.inf), np.nextafter(hi + above, np.inf)
            lo, hi = np.nextafter(lo - doubt, -np.inf), np.nextafter(hi + doubt, np.inf)
        return form.spread(lo), form.spread(hi)

    def _on_line(self, forms: Composites[RationalMatrix], node: Node, ends: Range) -> None:
        assert isinstance(node.op, Activation)
        doubt, margin = deviation(node.op, *ends)
        self.margin = min(self.margin, margin)
        forms.deviations[node.name] = doubt
        if doubt.any():
            unit = int(np.argmax(doubt))
            raise _Failed(f"unit {unit} of {node.name!r} may leave its line by {doubt[unit]:.3g}")
