"""What an evaluation of the candidate in floats does, from one cut to the next.

Parameters are rounded to the format, sums are taken in any order, products fused with them or not;
a norm goes by its formula, as a scale and a shift that are computed first, or folded into the map
before it. In all of these ways a computed value is a sum of terms t, each times (1 + θ),
|θ| ≤ γ_k ≤ ku/(1 − count·u): k ≤ count counts the roundings that a term can meet. So with
gross = Σ|t| and weight = Σ k|t|

    |computed − exact| ≤ moved + weight·u/(1 − count·u),

and each operation says what becomes of these numbers; what underflows goes to `moved`:

    map W, b      moved' = |W| moved,  gross' = |W| gross + |b|,
                  weight' = |W| weight + (n + 2) gross'
    norm s, t     moved' = |s| moved,  gross' = |s| gross + |s μ| + |β|,
                  weight' = |s| weight + 12 gross', and more where it may be folded into a map
    scaling       the same with its factor over its divisor and its offset, and 6
    sum of q      sums of all three, and (q − 1) gross' more

An inner live norm (`_live`) is the line gamma∘P z/√eps + beta up to its defect |u|·|P z|²/(2·n·eps)
and to what it rounds, in any order, the variance in one pass or in two: 2n + 24 roundings of
|gamma|·(|u|·(1 + mean z²/eps) + (|z| + mean|z|)/√eps) + |beta|. In one pass ρ² errs by (3n +
8)·u·mean z²; where that may be more than eps/4 nothing is known, its root may be of a negative
number.

An inner activation takes F ĥ + d up to what was lost before, which tells where its values are:
there, and behind a live norm, the count starts at 0 again. At a cut the target's range tells that,
widened by the errors.

Rests on proofs_check: norm-rounding, accumulated-rounding, norm-is-affine, live-eps,
live-norm-rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from proofs_check.certificates.affine import Forms
from proofs_check.certificates.arithmetic import Floats, above, below, plus, times
from proofs_check.certificates.ranges import mapped
from proofs_check.certificates.rationals import Range, plain
from reconstruct.networks import LiveNorm, Node
from reconstruct.networks.activations import Line, Unitwise
from reconstruct.networks.maps import Cast, Diagonal, Mixing, Norm, Placement, Scaling, Select
from reconstruct.networks.operation import Add

Kind = type[np.float64] | type[np.float32]

# Roundings of a term. A map casts W, multiplies, and adds n products and a bias. A norm casts v and
# ε, adds them, takes the root and its inverse, casts γ and multiplies: 6 for s; then cast μ and
# subtract, a product, and a sum, or two for a shift that is computed first: 10; folded into a map,
# s W is a product more and s (b − μ) + β a difference, a product and a sum: 12. Where √(v + ε) is 1
# and nothing has to be cast, a product and a sum are left.
MAP, NORM, PLAIN, SCALING = 2, 12, 2, 6
# A live norm of n units: n + 1 for the mean, 2 for a difference; 3n + 7 for a variance in one pass,
# which its root halves; 10 for casts, the root, quotients and products.
LIVE = 24
# of a cast: the digits of its type, the exponent of half its smallest number, its largest number
CASTS = {
    11: (11, -25, 65504.0),
    8: (8, -134, float.fromhex("0x1.fep127")),
    24: (24, -150, float.fromhex("0x1.fffffep127")),
}


class NoBound(Exception):
    """There is an operation here whose rounding is not known, or an overflow that may be."""


def upper(x: Floats) -> Floats:
    """A non-negative expression of fewer than 2^20 roundings, from above."""
    return above(x * (1 + 2.0**-30) + 2.0**-1050)


@dataclass(frozen=True, eq=False)
class Value:
    """A computed value on some boxes, (boxes, units): `reach` is at least all that was computed on
    the way to it since it was known by its ends."""

    moved: Floats
    gross: Floats
    weight: Floats
    reach: float
    count: int

    @property
    def parts(self) -> tuple[Floats, Floats, Floats]:
        return self.moved, self.gross, self.weight

    @classmethod
    def within(cls, lo: Floats, hi: Floats, moved: Floats) -> Value:
        size = np.maximum(np.abs(lo), np.abs(hi))
        reach = float(size.sum(axis=1).max() * (1 + 2.0**-20))
        return cls(moved, size, np.zeros_like(size), reach, 0)


Inner = Callable[[Node], tuple[Range, Floats]]


class Evaluation:
    """The candidate in one format; `inner` tells the range of what an inner activation takes at the
    target's values, and how far the errors at the cuts before may move it."""

    def __init__(self, forms: Forms, kind: Kind, used: set[str], inner: Inner) -> None:
        self.forms, self.kind, self.inner = forms, kind, inner
        kinds = np.finfo(kind)
        self.unit, self.tiny = float(kinds.eps) / 2, float(kinds.tiny)
        self.limit = float(kinds.max) / 4
        self.values: dict[str, Value] = {}
        self.maps: dict[str, Value] = {}  # what maps computed that are cuts
        nodes = [node for node in forms.network.nodes if node.name in used]
        self.left = iter(nodes)
        self.last = {name: node for node in nodes for name in node.inputs}  # who looks at it last

    def settle(self, name: str, lo: Floats, hi: Floats, error: Floats) -> None:
        """The value of a cut, or of the input: within these ends, up to errors that are known."""
        ends = below(lo - error), above(hi + error)
        self.values[name] = Value.within(*ends, np.zeros_like(ends[0]))

    def until(self, cut: Node | None) -> Floats:
        """How far the value that a cut takes, or the output, is off what exact arithmetic makes of
        the computed values at the cuts before."""
        for node in self.left:
            if node is not cut:
                self.values[node.name] = self._made(node)
            elif isinstance(node.op, Add | Diagonal | Mixing):
                self.maps[node.name] = self._made(node)
                return self.error(self.maps[node.name])
            else:
                return self.error(self.values[node.inputs[0]])
        return self.error(self.values[self.forms.network.output])

    def error(self, value: Value) -> Floats:
        part = value.count * self.unit
        share = self.unit / (1 - part) * (1 + 2.0**-40) if part < 0.5 else np.inf
        return upper(value.moved + share * value.weight)

    def behind(self, op: Unitwise, error: Floats, size: Floats) -> Floats:
        """What an activation's own rounding adds: casts of its slopes and one product."""
        lines = [piece for piece in op.pieces if isinstance(piece, Line)]
        kinks = [piece.hi for piece in lines[:-1]]
        if len(lines) < len(op.pieces) or any(p.intercept for p in lines) or any(kinks):
            raise NoBound(f"the rounding of {type(op).__name__} is not known here")
        slopes = np.abs([piece.slope for piece in lines])
        if np.isin(slopes, (0.0, 1.0)).all():
            return np.zeros_like(error)
        if not (slopes[slopes > 0] > 4 * self.tiny).all():
            raise NoBound(f"a slope of {type(op).__name__} leaves the format")
        return upper(upper(size + error) * (4 * self.unit * slopes.max()) + 2 * self.tiny)

    def _made(self, node: Node) -> Value:
        """What a node computes; what nobody looks at any more is given up: of wide hidden layers
        all values would not fit."""
        value = self._required(self._step(node), node.name)
        for name in {name for name in node.inputs if self.last[name] is node}:
            del self.values[name]
        return value

    def _required(self, value: Value, name: str) -> Value:
        most = float(np.max(upper(value.gross + self.error(value)), initial=0.0))
        if not most < self.limit / 4 or not value.reach < self.limit / 4:
            raise NoBound(f"{name!r} may overflow {self.kind.__name__}")
        return replace(value, reach=max(value.reach, most))

    # --- operations -----------------------------------------------------------------------------

    def _step(self, node: Node) -> Value:
        op, taken = node.op, [self.values[name] for name in node.inputs]
        first = taken[0]
        if isinstance(op, Mixing):
            return self._map(op, first)
        if isinstance(op, Norm | Scaling):
            return self._diagonal(node, op, first)
        if isinstance(op, Cast):
            return self._cast(node, op, first)
        if isinstance(op, Add):
            more = len(taken) - 1
            moved, gross, weight = (
                upper(sum(p)) for p in zip(*(v.parts for v in taken), strict=True)
            )
            reach, count = max(v.reach for v in taken), max(v.count for v in taken) + more
            return Value(moved, gross, upper(weight + more * gross), reach, count)
        if isinstance(op, Unitwise):
            return self._activation(node, op, first)
        if isinstance(op, LiveNorm):
            return self._live(node.name, op, first)
        if isinstance(op, Select | Placement):
            index = op.index if isinstance(op, Placement) else np.arange(op.start, op.stop)
            moved, gross, weight = (np.where(index >= 0, p[:, index], 0.0) for p in first.parts)
            return Value(moved, gross, weight, first.reach, first.count)
        raise NoBound(f"the rounding of {type(op).__name__} is not known here")

    def _map(self, op: Mixing, value: Value) -> Value:
        parts = np.concatenate(value.parts)
        (found,) = mapped(op, lambda matrix, x: (np.abs(matrix) @ x,), parts)
        moved, gross, weight = np.split(found, 3)
        terms, largest = int(op.summands), float(op.largest)
        if not largest < self.limit:
            raise NoBound("a weight overflows")
        # each product and each cast of a weight may lose `tiny`, times what it meets
        lost = self.tiny * (terms + 4) * (1 + value.reach) * (1 + largest)
        reach = (1 + value.reach) * (1 + largest)
        gross = upper(gross + np.abs(op.bias))
        weight = upper(weight + (terms + MAP) * gross)
        return Value(upper(moved + lost), gross, weight, reach, value.count + terms + MAP)

    def _diagonal(self, node: Node, op: Norm | Scaling, value: Value) -> Value:
        before = self.forms.nodes.get(node.inputs[0])
        folded = before is not None and isinstance(before.op, Mixing)
        if folded and node.inputs[0] in self.maps:  # then nothing is rounded at the cut itself
            own = self.maps[node.inputs[0]]
            gross = np.maximum(value.gross, own.gross)
            value = Value(value.moved, gross, own.weight, max(value.reach, own.reach), own.count)
        parts: tuple[Floats, ...]
        scale, off, *_ = self.forms.factors(node.name, op)
        scale = plus(np.abs(scale), off)
        if isinstance(op, Norm):
            gamma, mean, beta = (np.abs(op.spread(p)) for p in (op.gamma, op.mean, op.beta))
            divisor, constant = op.spread(op.var + op.eps), beta + scale * mean
            count = PLAIN if self._plain(op) else NORM
            if not self.tiny * 2.0**20 <= divisor.min() or not divisor.max() < self.limit:
                raise NoBound(f"the variances of {node.name!r} leave the format")
            parts = scale, gamma, mean, beta, 1.001 / np.sqrt(divisor)
        else:
            count, constant = SCALING, np.abs(op.offset)
            numbers = op.factor, op.divisor, op.offset, 1 / op.divisor
            parts = scale, *(np.abs(part) for part in numbers)
            sizes = np.concatenate(parts[1:4])
            if not ((sizes == 0) | ((sizes > 4 * self.tiny) & (sizes < self.limit))).all():
                raise NoBound(f"the numbers of {node.name!r} leave the format")
        # more than all that is computed on the way, whichever it is
        reach = float(np.prod([1 + np.max(part) for part in parts])) * (1 + value.reach)
        moved = upper(scale * value.moved + 16 * self.tiny * reach)
        gross = upper(scale * value.gross + constant)
        more = value.count if folded else 0  # a shift that is folded in is added with the products
        weight = upper(scale * value.weight + count * gross + more * constant)
        return Value(moved, gross, weight, reach, value.count + count)

    def _plain(self, op: Norm) -> bool:
        """Whether v + ε = 1 and μ = 0, and no number is rounded to be one of the format."""
        parts = op.gamma, op.beta, op.var, np.array([op.eps])
        held = all(np.array_equal(p.astype(self.kind).astype(np.float64), p) for p in parts)
        return held and plain(op)

    def _cast(self, node: Node, op: Cast, value: Value) -> Value:
        """To a narrower type, perhaps by way of float32: u·|z| and half the smallest number."""
        digits, least, top = CASTS[op.digits]
        computed = upper(value.gross + self.error(value))
        if not float(np.max(computed, initial=0.0)) < top:
            raise NoBound(f"{node.name!r} may overflow {op.to}")
        moved = (computed * 2.0**-digits + 2.0**least) * (1.0 + 2.0**-12)
        moved, gross = upper(self.error(value) + moved), upper(computed + moved)
        return Value(moved, gross, np.zeros_like(gross), value.reach, 0)

    def _activation(self, node: Node, op: Unitwise, value: Value) -> Value:
        """A line, but for what may leave it."""
        (lo, hi), by = self.inner(node)
        error, bend = self.error(value), self.forms.bend(node)
        slope = bend.slope
        left, right = bend.line(slope)
        low, high = below(lo - upper(by + error)), above(hi + upper(by + error))
        beyond = np.maximum(np.maximum(above(left - low), above(high - right)), 0.0)
        beyond = np.where((low >= left) & (high <= right), 0.0, beyond)
        size = np.maximum(np.abs(low), np.abs(high))
        own = self.behind(op, error, size)
        off = times(beyond, np.full(beyond.shape, bend.steepness(slope)))
        ends = bend.range(low, high)
        moved = upper(error * abs(slope) + off + own)
        return Value.within(below(ends[0] - own), above(ends[1] + own), moved)

    def _live(self, name: str, op: LiveNorm, value: Value) -> Value:
        """The line of a norm whose input is small against √eps: the forms let ρ be √eps."""
        n, eps, error = op.channels, float(op.eps), self.error(value)
        size, gamma = upper(value.gross + error), np.abs(op.gamma)
        share = (2 * n + LIVE) * self.unit
        if op.positions > 1 or not (eps > 4 * self.tiny and share < 0.5):
            raise NoBound(f"the rounding of the live norm {name!r} is not known here")
        root = float(below(np.sqrt(eps)))

        def spread(z: Floats) -> Floats:  # |P z|/√eps
            return upper((z + z.mean(axis=1, keepdims=True) * op.centred) / root)

        u = spread(size)
        defect = upper(u * (u * u).mean(axis=1, keepdims=True) / 2)
        square = (size * size).mean(axis=1, keepdims=True) / eps
        if not (upper((3 * n + 8) * self.unit * square) <= 0.25).all():
            raise NoBound(f"a variance of {name!r} in one pass may be negative")
        terms = u * (1 + square) + (size + size.mean(axis=1, keepdims=True)) / root
        rounded = upper(share / (1 - share) * (gamma * upper(terms) + np.abs(op.beta)))
        scale = float(above((1 + gamma.max()) / root))
        wide = (1 + gamma.max()) * (1 + size.max())
        rounded = upper(rounded + 4 * n**1.5 * self.tiny * wide / min(eps, 1.0))
        moved = upper(gamma * upper(spread(error) + defect) + rounded)
        most = upper(gamma * u + np.abs(op.beta) + rounded)  # of what is computed, too
        if not max(scale, (1 + float(size.max())) ** 2 * n, eps) < self.limit / 4:
            raise NoBound(f"{name!r} may overflow {self.kind.__name__}")
        return Value.within(-most, most, moved)
