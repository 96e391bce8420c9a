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
from fractions import Fraction
from math import lcm
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.error_recursion import Reachable, deviation
from reconstruct.networks import (
    Activation,
    Add,
    Diagonal,
    Mixing,
    Network,
    Node,
    Norm,
    Operation,
    Select,
)
from reconstruct.numbers.double_double import upward
from reconstruct.numbers.dyadic import integers

Integers = NDArray[Any]


class RationalNorm(Protocol):
    """The gammas and betas of a norm layer as rational numbers."""

    @property
    def gamma(self) -> tuple[Fraction, ...]: ...

    @property
    def beta(self) -> tuple[Fraction, ...]: ...


@dataclass(frozen=True)
class Identity:
    """Whether f ≡ g was proved, and if not, where it failed; `margin` as in `Segment`."""

    holds: bool
    reason: str
    margin: float | None = None


class _Failed(Exception):
    pass


@dataclass(frozen=True, eq=False)
class _Form:
    """Matrices `parts[source]`/denominator and the constant `parts[""]`/denominator."""

    parts: Mapping[str, Integers]
    denominator: int

    def plus(self, other: _Form) -> _Form:
        """The sum, over the least common denominator."""
        common = lcm(self.denominator, other.denominator)
        a, b = self._over(common), other._over(common)
        names = dict.fromkeys([*a, *b])
        total = {n: a[n] + b[n] if n in a and n in b else a.get(n, b.get(n)) for n in names}
        return _Form({n: part for n, part in total.items() if part is not None}, common)

    def _over(self, common: int) -> dict[str, Integers]:
        factor = common // self.denominator
        return {name: part * factor for name, part in self.parts.items()}

    def times(self, rows: Integers, denominator: int) -> _Form:
        """Each row scaled by a rational of its own."""
        parts = {name: part * rows[:, None] for name, part in self.parts.items()}
        return _Form(parts, self.denominator * denominator)

    def equals(self, other: _Form) -> bool:
        negative = _Form({n: -part for n, part in other.parts.items()}, other.denominator)
        return not any(part.any() for part in self.plus(negative).parts.values())


def prove_identity(
    target: Network,
    network: Network,
    norms: Mapping[str, RationalNorm],
    reach: Reachable,
    alignment: Alignment,
) -> Identity:
    """Is `network`, with `norms` in place of its own, equal to `target` on the box of `reach`?"""
    try:
        return _Proof(target, network, norms, reach, alignment).run()
    except _Failed as failure:
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
        self.target, self.network, self.reach = target, network, reach
        self.partner = {c: t for t, c in alignment.pairs}
        self.ours = _Forms(target, dict(alignment.target_sources(target)), {})
        self.theirs = _Forms(network, dict(alignment.candidate_sources(target, network)), norms)
        self.margin = np.inf

    def run(self) -> Identity:
        used = self.network.needed()
        for node in self.target.nodes:
            if isinstance(node.op, Activation) and node.name not in self.ours.sources:
                self._on_line(node, *self.reach.bounds(node.inputs[0]))
        for node in self.network.nodes:
            if node.name in self.partner:
                self._compare(self.partner[node.name], node)
            elif isinstance(node.op, Activation) and node.name in used:
                self._on_line(node, *self._range(self.theirs.of(node.inputs[0])))
        last = self.ours.of(self.target.output), self.theirs.of(self.network.output)
        if not last[0].equals(last[1]):
            raise _Failed("the maps to the output are not equal as rational matrices")
        margin = float(self.margin) if np.isfinite(self.margin) else None
        return Identity(True, "every composed map is equal, every inner unit on its line", margin)

    def _compare(self, name: str, node: Node) -> None:
        inside = self.target.node(name).inputs
        if isinstance(node.op, Add):
            pair = self.ours.sum_of(inside), self.theirs.sum_of(node.inputs)
        else:
            pair = self.ours.of(inside[0]), self.theirs.of(node.inputs[0])
        if not pair[0].equals(pair[1]):
            raise _Failed(f"the maps to {name!r} are not equal as rational matrices")

    def _range(self, form: _Form) -> tuple[Any, Any]:
        """Bounds of a form over the box: floats near it, their error added outward."""
        lo, hi = (end[:, 0] for end in _between(form.parts[""], form.denominator))
        for source, part in form.parts.items():
            if not source:
                continue
            low, high = _between(part, form.denominator)
            below, above = self.reach.functionals(source, low)
            least, most = self.reach.bounds(source)
            size = np.maximum(np.abs(least), np.abs(most))
            doubt = upward((high - low) @ size)
            lo, hi = np.nextafter(lo + below, -np.inf), np.nextafter(hi + above, np.inf)
            lo, hi = np.nextafter(lo - doubt, -np.inf), np.nextafter(hi + doubt, np.inf)
        return lo, hi

    def _on_line(self, node: Node, lo: Any, hi: Any) -> None:
        assert isinstance(node.op, Activation)
        doubt, margin = deviation(node.op, lo, hi)
        self.margin = min(self.margin, margin)
        if doubt.any():
            unit = int(np.argmax(doubt))
            raise _Failed(f"unit {unit} of {node.name!r} may leave its line by {doubt[unit]:.3g}")


def _between(numbers: Integers, denominator: int) -> tuple[Any, Any]:
    """Floats below and above N/D: the rounded quotient and its neighbours."""
    near = np.asarray(numbers / denominator).astype(np.float64)
    return np.nextafter(near, -np.inf), np.nextafter(near, np.inf)


class _Forms:
    """The exact forms of a network's nodes over its sources."""

    def __init__(
        self, network: Network, sources: Mapping[str, str], norms: Mapping[str, RationalNorm]
    ) -> None:
        self.network, self.sources, self.norms = network, sources, norms
        self._cache: dict[str, _Form] = {}

    def of(self, name: str) -> _Form:
        if name not in self._cache:
            self._cache[name] = self._make(name)
        return self._cache[name]

    def sum_of(self, names: tuple[str, ...]) -> _Form:
        total = self.of(names[0])
        for name in names[1:]:
            total = total.plus(self.of(name))
        return total

    def _make(self, name: str) -> _Form:
        size = self.network.sizes[name]
        if name in self.sources:
            eye = np.eye(size, dtype=np.int64).astype(object)
            nothing = np.zeros((size, 1), dtype=np.int64).astype(object)
            return _Form({self.sources[name]: eye, "": nothing}, 1)
        node = self.network.node(name)
        return self._apply(node.op, node)

    def _apply(self, op: Operation, node: Node) -> _Form:
        if isinstance(op, Add):
            return self.sum_of(node.inputs)
        form = self.of(node.inputs[0])
        if isinstance(op, Select):
            parts = {name: part[op.block] for name, part in form.parts.items()}
            return _Form(parts, form.denominator)
        if isinstance(op, Mixing):
            weight, shift = integers(op.tile(0, op.shape[0]))
            parts = {name: weight @ part for name, part in form.parts.items()}
            return _Form(parts, form.denominator << shift).plus(_constant(op.bias))
        if isinstance(op, Diagonal):
            factors, offsets = self._factors(node.name, op)
            return form.times(*_over_one(factors)).plus(_column(*_over_one(offsets)))
        assert isinstance(op, Activation)
        slope = [Fraction(op.piece.slope)] * self.network.sizes[node.name]
        return form.times(*_over_one(slope))

    def _factors(self, name: str, op: Diagonal) -> tuple[list[Fraction], list[Fraction]]:
        """`(s, t)` as rationals, with the solver's gammas and betas where it gave some."""
        rational = self.norms.get(name)
        if rational is not None and isinstance(op, Norm):
            return _with_norm(name, op, rational)
        scale, shift = op.rationals(64)
        if any(lo != hi for lo, hi in scale):
            raise _Failed(_irrational(name))
        return [s for s, _ in scale], [t for t, _ in shift]


def _with_norm(name: str, op: Norm, norm: RationalNorm) -> tuple[list[Fraction], list[Fraction]]:
    scales, shifts = [], []
    parts = zip(norm.gamma, norm.beta, op.mean, op.rational_deviations(), strict=True)
    for gamma, beta, mean, root in parts:
        if root is None:
            raise _Failed(_irrational(name))
        scales += [gamma / root] * op.positions
        shifts += [beta - gamma / root * Fraction(float(mean))] * op.positions
    return scales, shifts


def _irrational(name: str) -> str:
    return (
        f"norm {name!r} has a √(var + eps) that is not rational, so that its map cannot be "
        "compared exactly; use statistics with var + eps = 1"
    )


def _over_one(values: list[Fraction]) -> tuple[Integers, int]:
    common = lcm(*(value.denominator for value in values))
    whole = [value.numerator * (common // value.denominator) for value in values]
    return np.array(whole, dtype=object), common


def _column(numbers: Integers, denominator: int) -> _Form:
    return _Form({"": numbers[:, None]}, denominator)


def _constant(values: Any) -> _Form:
    numbers, shift = integers(values)
    return _column(numbers, 1 << shift)
