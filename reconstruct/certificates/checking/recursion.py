"""The error recursion, repeated by the checker: cut by cut in the order of the candidate."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from reconstruct.certificates.checking.claims import CheckFailed, Claims
from reconstruct.certificates.checking.forms import Form, Forms, grown, to_floats, up
from reconstruct.certificates.checking.reachable import Reachable
from reconstruct.networks import Activation, Add, Box, Network, Relu

Norms = dict[str, tuple[list[Fraction], list[Fraction]]]


class Recursion:
    """The recursion for the candidate as its file has it, or with rational `norms` instead.

    With rational norms the claim is that the two networks are equal: every difference of forms
    has to be zero and every inner activation on its line, without any doubt.
    """

    def __init__(self, claims: Claims, norms: Norms | None = None) -> None:
        self.exact = norms is not None
        self.claims, self.target, self.candidate = claims, claims.target, claims.candidate
        pairs = _alignment(claims)
        self.partner = {c: t for t, c in pairs}
        source = self.target.source
        self.ours = Forms(self.target, {source: source, **{t: t for t, _ in pairs}})
        names = {self.candidate.source: source, **{c: t for t, c in pairs}}
        self.theirs = Forms(self.candidate, names, norms)
        self.errors = {source: np.zeros(self.target.size_in)}
        boxes = [claims.domain, *_sub_boxes(claims)]
        self.reach = [Reachable(source, box.lo, box.hi) for box in boxes]
        self.segment = 0

    def run(self) -> float:
        """An upper bound of |candidate − target| on the domain."""
        for node in self.candidate.nodes:
            if node.name in self.partner:
                self._cut(node, self.partner[node.name])
            elif isinstance(node.op, Activation):
                self._inner(self.theirs, node, self.errors)
        self._linearise(None)
        ours, theirs = (f.whole(f.network.output) for f in (self.ours, self.theirs))
        error = self._compare("output", "output", ours, theirs, 1.0)
        if not self.exact and len(self.claims.document["segments"]) != self.segment:
            raise CheckFailed("segments", f"there are {self.segment} segments, and no others")
        return float(np.max(error))

    # --- a cut: compare the two forms, then learn where the target's value can be ---------------

    def _cut(self, node: Any, name: str) -> None:
        self._linearise(name)
        if isinstance(node.op, Add):
            forms = self.ours.sum_of(name), self.theirs.sum_of(node.name)
            op, lipschitz = None, 1.0
        else:
            (inside,) = self.target.node(name).inputs
            forms = self.ours.whole(inside), self.theirs.whole(node.inputs[0])
            op, lipschitz = node.op, node.op.lipschitz
        self.errors[name] = self._compare(name, node.name, *forms, lipschitz)
        floats = forms[0].floats()
        for index, reach in enumerate(self.reach):
            hints = self.claims.lines(name, len(self.errors[name])) if index == 0 else None
            reach.add_cut(name, forms[0], floats, op, hints)

    def _compare(self, name: str, other: str, ours: Form, theirs: Form, slope: float) -> Any:
        """e = slope·(Σ_j |A_j| e_j + |A'_j − A_j|(max|h_j| + e_j) + |c' − c|), and the claims."""
        gap = theirs.plus(ours, sign=-1)
        if self.exact:
            if gap.integers.any() or gap.radius.any():
                raise CheckFailed("exact_norms", f"the maps to {name!r} are not equal")
            return np.zeros(len(gap.integers))
        ours = ours.over(gap.layout, gap.denominator)
        difference, size = _magnitude(gap), _magnitude(ours)
        error = difference[:, -1]
        before, residual = 0.0, 0.0
        for source, part in gap.parts():
            e = self.errors[source]
            error = error + size[:, part] @ e + difference[:, part] @ up(self._largest(source) + e)
            before = max(before, float(np.max(e, initial=0.0)))
            residual = max(residual, float(np.max(difference[:, part], initial=0.0)))
        error = up(slope * up(error))
        derived = (residual, float(np.max(difference[:, -1])), before, float(np.max(error)))
        self.claims.check_segment(self.segment, (name, other), *derived)
        self.segment += 1
        return error

    # --- an inner activation: how far can a unit be from its line? ------------------------------

    def _inner(self, forms: Forms, node: Any, errors: dict[str, Any]) -> None:
        """z = F h' + d, h' within e of the target's h: bounds of F h + d, widened by |F| e."""
        piece, doubts = node.op.piece, []
        for start, stop in forms.blocks(node.inputs[0]):
            form = forms.rows(node.inputs[0], start, stop)
            middle, error = floats = form.floats()
            lo, hi = _met([reach.of_form(form, floats) for reach in self.reach])
            wider = np.zeros(len(lo))
            for source, part in form.parts():
                e = errors.get(source, np.zeros(middle[:, part].shape[1]))
                wider = wider + (np.abs(middle[:, part]) + error[:, part]) @ e
            ends = [
                s * (r - e) for s, r, e in ((-1, lo, piece.lo), (1, hi, piece.hi)) if np.isfinite(e)
            ]
            outside = np.max([np.full_like(lo, -np.inf), *ends], axis=0) + up(wider)
            outside = outside + 2.0**-50 * (np.abs(lo) + np.abs(np.where(hi < np.inf, hi, 0.0)))
            steep = 1.0 if isinstance(node.op, Relu) else node.op.lipschitz + abs(piece.slope)
            doubts.append(np.where(outside <= 0, 0.0, up(steep * outside)))  # NaN is no proof
        forms.doubts[node.name] = np.concatenate(doubts)
        if self.exact and forms.doubts[node.name].any():
            raise CheckFailed("exact_norms", f"a unit of {node.name!r} may leave its line")

    def _linearise(self, until: str | None) -> None:
        """The same, with e = 0, for the target's activations before `until` that are not cut."""
        for node in self.target.nodes:
            if node.name == until:
                return
            inner = isinstance(node.op, Activation) and node.name not in self.ours.sources
            if inner and node.name not in self.ours.doubts:
                self._inner(self.ours, node, {})

    def _largest(self, source: str) -> Any:
        """max|h| of a source of the target: on the whole box, or over the parts if smaller."""
        lo, hi = _met([(reach.lo[source], reach.hi[source]) for reach in self.reach])
        return np.maximum(np.abs(lo), np.abs(hi))


def _met(ranges: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Bounds on the whole box, met with the worst over its parts (if there are any)."""
    (lo, hi), parts = ranges[0], ranges[1:]
    if parts:
        lo = np.maximum(lo, np.min([part[0] for part in parts], axis=0))
        hi = np.minimum(hi, np.max([part[1] for part in parts], axis=0))
    return lo, hi


def _magnitude(form: Form) -> Any:
    """An upper bound of every entry's absolute value; an exact zero stays zero."""
    return grown(np.abs(to_floats(form.integers, form.denominator)) + form.radius)


def _alignment(claims: Claims) -> list[tuple[str, str]]:
    """The pairs of nodes, after checking that each pair has one operation and one size."""
    pairs = claims.pairs()
    order: tuple[list[int], list[int]] = ([], [])
    networks: tuple[Network, Network] = (claims.target, claims.candidate)
    for pair in pairs:
        nodes = []
        for network, name, places in zip(networks, pair, order, strict=True):
            names = [n.name for n in network.nodes]
            if name not in names:
                raise CheckFailed("alignment", f"there is no node {name!r}")
            places.append(names.index(name))
            nodes.append(network.node(name))
        sizes = [n.sizes[name] for n, name in zip(networks, pair, strict=True)]
        if (
            not isinstance(nodes[0].op, Activation | Add)
            or nodes[0].op != nodes[1].op
            or len(set(sizes)) > 1
        ):
            raise CheckFailed("alignment", f"{pair[0]!r} and {pair[1]!r} are not alike")
    if any(places != sorted(set(places)) for places in order):
        raise CheckFailed("alignment", "the cuts are not in the order of the networks")
    return pairs


def _sub_boxes(claims: Claims) -> list[Box]:
    """The cells of the grid, which cover the domain: neighbours share their edge."""
    grid = claims.grid()
    return list(claims.domain.split(grid)) if grid else []
