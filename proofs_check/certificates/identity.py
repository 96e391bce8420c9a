"""Identities: the candidate with rational norms in place of its own is the target, by `==`.

On a domain: all differences of forms are 0, and no inner unit may leave its line there.

Of networks with live norms without eps, for every input: ahead of the same activation in both
networks the values have to be the same, or, ahead of a live norm, to differ by a positive factor
1/ρ and a common shift at most. There y = A (s∘P z/ρ + t) + c with z = F h + d, every unit of the
activation between being on its line because t_j ≥ |s_j|·√(n − 1), and x = W h + b:

    Q A diag(s) P [F | d] = Q [W | b],   Q (A t + c) = 0.

All in rationals. Nothing is bounded, so that no domain is needed.

Rests on proofs_check: layerwise-to-network, live-layers-exact, live-norm-cap.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from proofs_check.certificates.affine import Form, Forms
from proofs_check.certificates.cuts import Cuts
from proofs_check.certificates.ranges import needed
from proofs_check.certificates.rationals import RationalNorm
from proofs_check.certificates.reading import Claims
from proofs_check.certificates.recursion import Recursion
from proofs_check.certificates.report import CheckFailed
from reconstruct.networks import LiveNorm, Network, Node
from reconstruct.networks.activations import Activation

Fractions = npt.NDArray[np.object_]


class Identity(Recursion):
    """The two networks on the domain of a certificate: the recursion without any error."""

    arithmetics = ("bound",)

    def run(self) -> None:
        self.linearise()
        Cuts.run(self)

    def compare(self, name: str, node: Node | None, value: str, ours: Form, theirs: Form) -> None:
        gap = theirs.minus(ours)
        _require(not gap.whole.nonzero().any() and not gap.radius.any(), _unequal(name))
        if node is not None:
            self.walk.know(name, node.name, np.zeros((1, 1, self.target.sizes[name])))

    def passed(self) -> None:
        """There are no errors."""

    def inner(self, node: Node) -> None:
        super().inner(node)
        _require(not self.theirs.doubts[node.name].any(), _leaves(node))


class LiveIdentity(Cuts):
    """The two networks at every input; inner live norms are sources of forms, too."""

    kinds = (*Cuts.kinds, LiveNorm)

    def __init__(
        self,
        claims: Claims,
        target: Network,
        candidate: Network,
        norms: Mapping[str, RationalNorm],
    ) -> None:
        super().__init__(claims, target, candidate)
        single = {n.name for n in target.nodes if isinstance(n.op, Activation)} & needed(target)
        paired = single <= set(self.partner.values())
        _require(paired, "an activation of the target has no partner")
        _require(not norms.keys() & self.partner.keys(), "a norm of both is no other")
        self.norms, self.live_norms = norms, dict[str, LiveNorm]()
        for node in candidate.nodes:
            if isinstance(node.op, LiveNorm) and node.name in self.used:
                _require(not node.op.eps and node.op.positions == 1, f"{node.name!r} has an eps")
                if node.name not in self.partner:
                    self.live_norms[node.name] = node.op
        # Inner norms go by their own names among the target's values: no name may mean both.
        clash = self.live_norms.keys() & {target.source, *target.sizes}
        _require(not clash, f"inner norms {sorted(clash)} are called like values of the target")
        names = {**self.theirs.sources, **{name: name for name in self.live_norms}}
        self.theirs = Forms(candidate, names, norms)

    def live(self, node: Node, op: LiveNorm) -> None:
        """It is a source: what is ahead of it is looked at where it is mixed."""

    def forms(self, ours: str, theirs: str) -> tuple[Form, Form]:
        return self.ours.whole(ours), self.theirs.whole(theirs)

    def inner(self, node: Node) -> None:
        (inside,), bend = node.inputs, self.theirs.bend(node)
        least, most = bend.line(bend.slope)
        line = least <= 0 and most == np.inf and not bend.rest
        _require(inside in self.live_norms and line, _leaves(node))
        norm = self.live_norms[inside]
        s, t = self._numbers(inside)
        active = (t >= 0) & (t * t >= (norm.channels - norm.centred) * s * s)
        _require(bool(active.all()), _leaves(node))
        self.theirs.doubts[node.name] = np.zeros(norm.channels)

    def _numbers(self, name: str) -> tuple[Fractions, Fractions]:
        norm = self.live_norms[name]
        parts = self.norms.get(name, (norm.gamma.tolist(), norm.beta.tolist()))
        s, t = (np.array([Fraction(x) for x in part], dtype=object) for part in parts)
        return s, t

    def compare(self, name: str, node: Node | None, value: str, ours: Form, theirs: Form) -> None:
        """The two values, or what the live norm behind them sees of them."""
        behind = node.op if node is not None and isinstance(node.op, LiveNorm) else None
        layout, made = theirs.layout, theirs.fractions()
        live = [view.source for view in layout if view.source in self.live_norms]
        if live:
            what = f"{value!r} has a factor that no norm behind it takes away"
            _require(behind is not None and len(layout) == 1, what)
            assert behind is not None
            s, t = self._numbers(live[0])
            below = self.theirs.whole(self.theirs.nodes[live[0]].inputs[0])
            at = layout[0].index[:, 0]  # the units that are seen
            rest = made[:, :-1] @ t[at] + made[:, -1]
            _require(not _free(rest, behind).any(), f"shifts behind {live[0]!r} do not cancel")
            ahead = _free(below.fractions(), self.live_norms[live[0]])
            layout, made = below.layout, (made[:, :-1] * s[at]) @ ahead[at]
        _require(layout == ours.layout, f"both sides of {name!r} look at other values")
        gap = made - ours.fractions()
        _require(not (gap if behind is None else _free(gap, behind)).any(), _unequal(name))


def _free(values: Fractions, norm: LiveNorm) -> Fractions:
    """Without the mean of each column, where the norm takes it away."""
    return values - values.sum(axis=0) / Fraction(len(values)) if norm.centred else values


def _unequal(name: str) -> str:
    return f"the maps to {name!r} are not equal"


def _leaves(node: Node) -> str:
    return f"a unit of {node.name!r} may leave its line"


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise CheckFailed("exact_norms", otherwise)
