"""The exact certificate: with rational norms, f and g are the same function on the box.

Floats are dyadic rationals, the solver's gammas and betas are rationals, and √(v + ε) has to be
rational (drawn networks have v + ε = 1). Then every composed map is a matrix of integers over one
denominator, and `A' = A`, `c' = c` is checked with ==, cut by cut, as the recursion goes. What is
left is that inner activations stay on their line: the lower bound of such a unit comes from
outward-rounded floats, each of which is itself a rational number, so `bound ≥ 0` is a statement
about rationals too. With no error at any cut, the target's own bounds need no widening, and f ≡ g
on the box follows.

With live norms and eps = 0 the same holds for every input, whatever the domain. In front of a live
norm that both networks have, the target's value is x = W h + b, and the candidate's
y = A (s∘P z/ρ + t) + c, z = F h + d, as long as t_j ≥ |s_j|·√(n − 1) keeps the inner activation on
its line (√n where no mean is taken away). Both norms are then the same if

    Q A diag(s) P [F | d] = Q [W | b]   and   Q (A t + c) = 0,

compared as matrices of integers over one denominator, by ==. Where P z = 0 the target's own norm is
not defined either.

Rests on proofs_check: live-layers-exact, live-norm-cap.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, lcm
from typing import Any

import numpy as np

from reconstruct.bounds import Reach
from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.arithmetic import NotRational, Rational, RationalNorm
from reconstruct.certificates.error_recursion import Recursion
from reconstruct.certificates.forms import Composites, Form, merge
from reconstruct.networks import Activation, LiveNorm, Network, Node
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.exact import RationalMatrix


def prove_identity(
    known: Reach, network: Network, norms: Mapping[str, RationalNorm], alignment: Alignment
) -> str:
    """Proves that `network`, with `norms` in place of its own, equals the network whose values are
    `known` on a box, and says how; raises `NotRational` where it cannot."""
    with np.errstate(over="ignore", invalid="ignore"):
        _Proof(known, network, alignment, rules=(Rational(), Rational(norms))).run()
    return "every composed map is equal, every inner unit on its line"


class _Proof(Recursion):
    """The recursion over the rationals, where no map may differ: forms of units that may leave
    their line do not exist there."""

    def _compare(
        self,
        ours: Form[Any],
        theirs: Form[Any],
        names: tuple[str, str],
        inside: str,
        op: Activation | None = None,
    ) -> Array:
        if not self._gap(ours, theirs)[1].matrix.is_zero():
            raise NotRational(f"the maps to {inside!r} are not equal as rational matrices")
        return np.zeros(self.target.sizes[names[0] or inside])


def prove_live_identity(
    target: Network, network: Network, norms: Mapping[str, RationalNorm], alignment: Alignment
) -> str:
    """The same at every input, for networks with live norms."""
    _LiveProof(target, network, norms, alignment).run()
    return "equal for every input at which the target is defined"


class _LiveProof:
    def __init__(
        self,
        target: Network,
        network: Network,
        norms: Mapping[str, RationalNorm],
        alignment: Alignment,
    ) -> None:
        alignment.check(target, network)
        self.network, self.partner = network, {c: t for t, c in alignment.pairs}
        self.target, self.norms, used = target, norms, network.needed()
        self.nodes = [node for node in network.nodes if node.name in used]
        live = {n.name: n.op for n in self.nodes if isinstance(n.op, LiveNorm)}
        self.inner = {name: op for name, op in live.items() if name not in self.partner}
        if any(op.eps or op.positions > 1 for op in live.values()):
            raise NotRational("only norms without eps, of all units, do not see a positive factor")
        if clash := self.inner.keys() & {target.source, *target.sizes}:
            # They go by their own names among the target's values: no name may mean both.
            raise NotRational(f"inner norms {sorted(clash)} are called like values of the target")
        sources = alignment.candidate_sources(target, network)
        arithmetic = Rational(norms)
        self.ours = Composites(target, alignment.target_sources(target), arithmetic)
        self.theirs = Composites(network, {**sources, **{n: n for n in self.inner}}, arithmetic)

    def run(self) -> None:
        for node in self.nodes:
            op = node.op
            if node.name in self.partner:
                (ours,) = self.target.node(self.partner[node.name]).inputs[:1]
                self._equal(ours, node.inputs[0], op if isinstance(op, LiveNorm) else None)
            elif isinstance(op, Activation) and node.name not in self.inner:
                self._active(node, op)
        self._equal(self.target.output, self.network.output, None)

    def _active(self, node: Node, op: Activation) -> None:
        """t_j ≥ |s_j|·√(n − 1), squared: every unit is on its line for every input."""
        norm = self.inner.get(node.inputs[0])
        if norm is None or op.piece.lo > 0 or op.rest or op.piece.hi < inf:
            raise NotRational(f"{node.name!r} is not active for every input")
        scales, shifts = self._numbers(node.inputs[0], norm)
        cap = norm.channels - norm.centred
        for s, t in zip(scales.numbers, shifts.numbers, strict=True):
            if t < 0 or t * t < cap * s * s:
                raise NotRational(f"a unit of {node.name!r} may leave its line at some input")
        self.theirs.deviations[node.name] = 0 * norm.beta

    def _numbers(self, name: str, norm: LiveNorm) -> tuple[RationalMatrix, RationalMatrix]:
        """s and t over one denominator: the rational ones, or those of the file."""
        known = self.norms.get(name)
        if known is None:
            made = RationalMatrix.exact(norm.gamma), RationalMatrix.exact(norm.beta)
        else:
            made = RationalMatrix.of(known.gamma), RationalMatrix.of(known.beta)
        common = lcm(made[0].denominator, made[1].denominator)
        scales, shifts = (RationalMatrix(part.over(common), common) for part in made)
        return scales, shifts

    def _equal(self, ours: str, theirs: str, norm: LiveNorm | None) -> None:
        """The two values, or what the norm behind them sees of them."""
        first, second = self.ours.form(ours, 1), self.theirs.form(theirs, 1)
        views = [view for view in second.layout if view.source in self.inner]
        if views and (norm is None or len(second.layout) > 1):
            raise NotRational(
                f"{theirs!r} is divided by a deviation that no norm behind it takes away"
            )
        if views:
            second = self._through(views[0].source, second, norm)
        first, second = merge(self.ours.arithmetic, first, second)
        gap = second.matrix - first.matrix
        if not (gap if norm is None else _centred(gap, norm)).is_zero():
            raise NotRational(f"the maps to {ours!r} are not equal as rational matrices")

    def _through(
        self, name: str, form: Form[RationalMatrix], norm: LiveNorm | None
    ) -> Form[RationalMatrix]:
        """A diag(s) P [F | d], after it was shown that A t + c is lost behind the norm."""
        assert norm is not None
        inner = self.inner[name]
        s, t = self._numbers(name, inner)
        below = self.theirs.form(self.network.node(name).inputs[0], 1)
        A, c = form.matrix[:, :-1], form.constant
        if not _centred((A @ t[:, None])[:, 0] + c, norm).is_zero():
            raise NotRational(f"shifts behind {name!r} do not cancel")
        scaled = (A * s[None, :]) @ _centred(below.matrix, inner)
        return Form(below.layout, scaled)


def _centred(matrix: RationalMatrix, norm: LiveNorm) -> RationalMatrix:
    """P of the columns, or the columns themselves where the norm takes no mean away."""
    if not norm.centred:
        return matrix
    n = len(matrix.numbers)
    numbers = matrix.numbers * n - matrix.numbers.sum(axis=0)
    return RationalMatrix(numbers, matrix.denominator * n)
