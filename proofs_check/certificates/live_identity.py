"""The identity of networks with live norms without eps: the same function of every input.

Value by value in the candidate's order: where both networks have the same activation, what is ahead
of it has to be the same, or, ahead of a live norm, to differ by a positive factor 1/ρ and a common
shift at most. There y = A (s∘P z/ρ + t) + c with z = F h + d, every unit of the activation between
being on its line because t_j ≥ |s_j|·√(n − 1), and x = W h + b:

    Q A diag(s) P [F | d] = Q [W | b],   Q (A t + c) = 0.

All in rationals, compared by ==. Nothing is bounded, so that no domain is needed.

Rests on proofs_check: live-layers-exact, live-norm-cap.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from proofs_check.certificates.affine import Form, Forms
from proofs_check.certificates.ranges import needed
from proofs_check.certificates.rationals import RationalNorm
from proofs_check.certificates.reading import Claims
from proofs_check.certificates.report import CheckFailed
from reconstruct.networks import LiveNorm, Network, Node, Operation
from reconstruct.networks.activations import Activation, Unitwise

FIELD = "exact_norms"
Rationals = npt.NDArray[np.object_]


def prove_live_identity(
    claims: Claims, target: Network, candidate: Network, norms: Mapping[str, RationalNorm]
) -> None:
    """The candidate, with rational norms in place of its own, is the target."""
    ours, theirs = ({node.name: node.op for node in net.nodes} for net in (target, candidate))
    for mine, other in claims.alignment:
        known = mine in ours and other in theirs and target.sizes[mine] == candidate.sizes[other]
        if not known or not _alike(ours[mine], theirs[other]):
            raise CheckFailed("alignment", f"{mine!r} and {other!r} are not alike")
    paired = set({other: mine for mine, other in claims.alignment}.values())  # in the last pair
    single = [n for n in needed(target) & ours.keys() if isinstance(ours[n], Activation)]
    _require(paired.issuperset(single), "an activation of the target has no partner")
    _require(not norms.keys() & {c for _, c in claims.alignment}, "a norm of both is no other")
    _Identity(claims, target, candidate, norms).run()


def _alike(ours: Operation, theirs: Operation) -> bool:
    """Two activations of the same pieces, or two live norms with the same numbers."""
    if isinstance(ours, Unitwise) and isinstance(theirs, Unitwise):
        return tuple(ours.pieces) == tuple(theirs.pieces)
    if not isinstance(ours, LiveNorm) or not isinstance(theirs, LiveNorm):
        return False
    first, second = ((op.centred, op.eps, op.positions) for op in (ours, theirs))
    pairs = (ours.gamma, theirs.gamma), (ours.beta, theirs.beta)
    return first == second and all(np.array_equal(a, b) for a, b in pairs)


class _Identity:
    def __init__(
        self,
        claims: Claims,
        target: Network,
        candidate: Network,
        norms: Mapping[str, RationalNorm],
    ) -> None:
        self.target, self.candidate, self.norms = target, candidate, norms
        self.partner = {c: t for t, c in claims.alignment}
        used = needed(candidate)
        self.nodes = [node for node in candidate.nodes if node.name in used]
        self.inner: dict[str, LiveNorm] = {}
        for node in self.nodes:
            if isinstance(node.op, LiveNorm):
                _require(not node.op.eps and node.op.positions == 1, f"{node.name!r} has an eps")
                if node.name not in self.partner:
                    self.inner[node.name] = node.op
        # Inner norms go by their own names among the target's values: no name may mean both.
        clash = self.inner.keys() & {target.source, *target.sizes}
        _require(not clash, f"inner norms {sorted(clash)} are called like values of the target")
        own = {target.source: target.source, **{t: t for t in self.partner.values()}}
        seen = {candidate.source: target.source, **self.partner, **{n: n for n in self.inner}}
        self.ours = Forms(target, own)
        self.theirs = Forms(candidate, seen, norms)

    def run(self) -> None:
        for node in self.nodes:
            if node.name in self.partner:
                (inside,) = self.ours.nodes[self.partner[node.name]].inputs
                behind = node.op if isinstance(node.op, LiveNorm) else None
                self._equal(inside, node.inputs[0], behind)
            elif isinstance(node.op, Unitwise):
                self._active(node, node.op)
        self._equal(self.target.output, self.candidate.output, None)

    def _active(self, node: Node, op: Unitwise) -> None:
        (inside,) = node.inputs
        bend, slope = self.theirs.bend(node), float(op.piece.slope)
        least, most = bend.line(slope)
        line = least <= 0 and most == np.inf and not bend.rest
        _require(inside in self.inner and line, f"{node.name!r} may leave its line")
        norm = self.inner[inside]
        for s, t in zip(*self._numbers(inside), strict=True):
            active = t >= 0 and t * t >= (norm.channels - norm.centred) * s * s
            _require(active, f"a unit of {node.name!r} may leave its line")
        self.theirs.doubts[node.name] = np.zeros(norm.channels)

    def _numbers(self, name: str) -> tuple[Rationals, Rationals]:
        norm = self.inner[name]
        parts = self.norms.get(name, (norm.gamma.tolist(), norm.beta.tolist()))
        s, t = (np.array([Fraction(x) for x in part], dtype=object) for part in parts)
        return s, t

    def _equal(self, ours: str, theirs: str, behind: LiveNorm | None) -> None:
        """The two values, or what the live norm `behind` them sees of them."""
        wanted, found = self.ours.whole(ours), self.theirs.whole(theirs)
        live = [view.source for view in found.layout if view.source in self.inner]
        if live:
            alone = behind is not None and len(found.layout) == 1
            _require(alone, f"{theirs!r} has a factor that no norm behind it takes away")
            assert behind is not None
            (name,) = live
            s, t = self._numbers(name)
            A, below = _numbers(found), self.theirs.whole(self.theirs.nodes[name].inputs[0])
            at = found.layout[0].index[:, 0]  # the units that are seen
            rest = A[:, :-1] @ t[at] + A[:, -1]
            _require(not _free(rest, behind).any(), f"shifts behind {name!r} do not cancel")
            layout = below.layout
            made = (A[:, :-1] * s[at]) @ _free(_numbers(below), self.inner[name])[at]
        else:
            layout, made = found.layout, _numbers(found)
        _require(layout == wanted.layout, f"{ours!r} and {theirs!r} look at other values")
        gap = made - _numbers(wanted)
        gap = gap if behind is None else _free(gap, behind)
        _require(not gap.any(), f"the maps to {ours!r} are not equal")


def _numbers(form: Form) -> Rationals:
    """The entries of a form, which have to be rational."""
    _require(not form.radius.any(), "a number is not rational")
    flat = [Fraction(n, form.unit) for n in form.whole.integers()]
    return np.array(flat, dtype=object).reshape(form.whole.shape)


def _free(values: Rationals, norm: LiveNorm) -> Rationals:
    """Without the mean of each column, where the norm takes it away."""
    return values - values.sum(axis=0) / Fraction(len(values)) if norm.centred else values


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise CheckFailed(FIELD, otherwise)
