"""The candidate between two cuts, node by node: ranges, what errors move, what floats round.

Each node says what becomes of six things: where its value is while those at the cuts are the
target's (`lo`, `hi`), how far errors at the cuts move it (`by`), and, for every format, what an
evaluation does. Parameters are rounded to the format, sums are taken in any order, products fused
with them or not; a norm goes by its formula, as a scale and a shift that are computed first, or
folded into the map before it. In all of these ways a computed value is a sum of terms t, each times
(1 + θ), |θ| ≤ γ_k ≤ ku/(1 − count·u): k ≤ count counts the roundings that a term can meet. So with
gross = Σ|t| and weight = Σ k|t|

    |computed − exact| ≤ moved + weight·u/(1 − count·u),

and each operation says what becomes of these numbers; what underflows goes to `moved`, which is
infinite where a format may overflow or its rounding is not known:

    map W, b      moved' = |W| moved,  gross' = |W| gross + |b|,
                  weight' = |W| weight + (n + 2) gross'
    norm s, t     moved' = |s| moved,  gross' = |s| gross + |s μ| + |β|,
                  weight' = |s| weight + 12 gross', and more where it may be folded into a map
    scaling       the same with its factor over its divisor and its offset, and 6
    shift alone   moved' = moved + weight·u/(1 − count·u) + u·|z + t|, and starts again
    sum of q      sums of all three, and (q − 1) gross' more
    maximum       the largest of each, which is not rounded

An inner live norm (`_live`) is the line gamma∘P z/√eps + beta up to its defect |u|·|P z|²/(2·n·eps)
and to what it rounds, in any order, the variance in one pass or in two: 2n + 24 roundings of
|gamma|·(|u|·(1 + mean z²/eps) + (|z| + mean|z|)/√eps) + |beta|. In one pass ρ² errs by (3n +
8)·u·mean z²; where that may be more than eps/4 nothing is known, its root may be of a negative
number.

An inner activation takes F ĥ + d up to what was lost before, which tells where its values are:
there, behind a live norm, and where an activation is shifted, the count starts at 0 again. At a cut
the target's range tells that, widened by the errors.

Rests on proofs_check: norm-rounding, accumulated-rounding, norm-is-affine, live-eps,
live-norm-rounding, window-maximum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from proofs_check.certificates.activations import Windows
from proofs_check.certificates.affine import Forms
from proofs_check.certificates.arithmetic import (
    Floats,
    Tally,
    above,
    below,
    dot,
    plus,
    times,
    upper,
)
from proofs_check.certificates.ranges import added, mapped, met, product, stretched
from proofs_check.certificates.rationals import Range, plain
from proofs_check.certificates.report import NotCheckable
from reconstruct.networks import LiveNorm, Node
from reconstruct.networks.activations import Line, MaxPool, Unitwise
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


@dataclass(frozen=True, eq=False)
class Value:
    """`lo`, `hi` on some boxes, (boxes, units); `by` in each arithmetic, (arithmetics, boxes,
    units); `rounded` holds moved, gross and weight in each format, (3, formats, boxes, units).
    `reach` is at least all that was computed on the way to it since it was known by its ends, and
    `count` its roundings, both (formats, 1, 1)."""

    lo: Floats
    hi: Floats
    by: Floats
    rounded: Floats
    reach: Floats
    count: Floats


class Between:
    """The candidate in some arithmetics, None for that of the reals; `known` are ranges of what
    inner activations take that were found otherwise."""

    def __init__(
        self,
        forms: Forms,
        used: set[str],
        kinds: Sequence[Kind | None],
        known: Mapping[str, Range],
    ) -> None:
        self.forms, self.known = forms, known
        self.kinds = [kind for kind in kinds if kind is not None]
        self.places = [place for place, kind in enumerate(kinds) if kind is not None]
        kinds_of = [np.finfo(kind) for kind in self.kinds]
        numbers = [(about.eps / 2, about.tiny, about.max / 4) for about in kinds_of]
        columns = np.array(numbers, dtype=np.float64).reshape(-1, 3, 1, 1)
        self.unit, self.tiny, self.limit = columns.swapaxes(0, 1)
        self.values: dict[str, Value] = {}
        self.maps: dict[str, Value] = {}  # what maps computed that are cuts
        nodes = [node for node in forms.network.nodes if node.name in used]
        self.wanted = set(used) if self.kinds else set[str]()
        for node in reversed(nodes):  # of the reals only what is in front of inner activations
            name, inner = node.name, isinstance(node.op, Unitwise)
            if name not in forms.sources and (inner or name in self.wanted):
                self.wanted.update(node.inputs)
        self.left = iter(nodes)
        self.next = next(self.left, None)
        self.last = {name: node for node in nodes for name in node.inputs}  # who looks at it last

    def settle(self, name: str, lo: Floats, hi: Floats, error: Floats) -> None:
        """The value of a cut, or of the input: within these ends, up to errors that are known,
        (arithmetics, boxes, units)."""
        far = error[self.places]
        self.values[name] = self._within(
            lo, hi, error, below(lo - far), above(hi + far), np.zeros_like(far)
        )

    def until(self, node: Node | None) -> Value:
        """What a node takes, or the output; of a map that is a cut, what it computes itself."""
        while self.next is not None and self.next is not node:
            name = self.next.name
            if name in self.wanted and name not in self.values:
                self.values[name] = self._required(self._made(self.next))
            for taken in self.next.inputs:  # of wide hidden layers all values would not fit
                if self.last[taken] is self.next:
                    self.values.pop(taken, None)
            self.next = next(self.left, None)
        if node is None:
            return self.values[self.forms.network.output]
        if isinstance(node.op, Add | Diagonal | Mixing):
            self.maps[node.name] = self._required(self._made(node))
            return self.maps[node.name]
        return self.values[node.inputs[0]]

    def error(self, value: Value) -> Floats:
        """How far a computed value is off what exact arithmetic makes of the computed values at the
        cuts before: (formats, boxes, units)."""
        moved, _, weight = value.rounded
        part = value.count * self.unit
        share = np.where(part < 0.5, self.unit / (1 - part) * (1 + 2.0**-40), np.inf)
        return upper(moved + share * weight)

    def behind(self, op: Unitwise, error: Floats, size: Floats) -> Floats:
        """What an activation's own rounding adds: casts of its slopes and one product."""
        lines = [piece for piece in op.pieces if isinstance(piece, Line)]
        kinks = [piece.hi for piece in lines[:-1]]
        slopes = np.abs([piece.slope for piece in lines])
        if len(lines) < len(op.pieces) or any(p.intercept for p in lines) or any(kinks):
            return np.full_like(error, np.inf)  # its rounding is not known here
        if np.isin(slopes, (0.0, 1.0)).all():
            return np.zeros_like(error)
        held = np.all(slopes[slopes > 0] > 4 * self.tiny, axis=2, keepdims=True)
        lost = upper(upper(size + error) * (4 * self.unit * slopes.max()) + 2 * self.tiny)
        return np.where(held, lost, np.inf)

    def _within(
        self, lo: Floats, hi: Floats, by: Floats, low: Floats, high: Floats, moved: Floats
    ) -> Value:
        """A value whose computed ones are between `low` and `high`, `moved` by what was rounded."""
        size = np.maximum(np.abs(low), np.abs(high))
        reach = size.sum(axis=2).max(axis=1, initial=0.0)[:, None, None] * (1 + 2.0**-20)
        rounded = np.stack([moved, size, np.zeros_like(size)])
        return Value(lo, hi, by, rounded, reach, np.zeros_like(reach))

    def _required(self, value: Value) -> Value:
        """Nothing is known of a format that may overflow."""
        moved, gross, weight = value.rounded
        most = upper(gross + self.error(value)).max(axis=(1, 2), initial=0.0)[:, None, None]
        fits = (most < self.limit / 4) & (value.reach < self.limit / 4)
        rounded = np.stack([np.where(fits, moved, np.inf), gross, weight])
        return replace(value, rounded=rounded, reach=np.maximum(value.reach, most))

    # --- operations -----------------------------------------------------------------------------

    def _made(self, node: Node) -> Value:
        op, taken = node.op, [self.values[name] for name in node.inputs]
        first = taken[0]
        if isinstance(op, Mixing):
            return self._map(op, first)
        if isinstance(op, Cast):
            return self._cast(op, first)
        if isinstance(op, Diagonal):
            return self._diagonal(node, op, first)
        if isinstance(op, Unitwise):
            return self._activation(node, op, first)
        if isinstance(op, LiveNorm):
            return self._live(op, first)
        if isinstance(op, Add):
            return self._sum(taken)
        if isinstance(op, MaxPool):
            pool = Windows(op, first.lo.shape[1])
            by, rounded = (pool.largest(part) for part in (first.by, first.rounded))
            ends = pool.range(first.lo, first.hi)
            return Value(*ends, by, rounded, first.reach, first.count)
        if isinstance(op, Select | Placement):
            index = op.index if isinstance(op, Placement) else np.arange(op.start, op.stop)
            parts = first.lo, first.hi, first.by, first.rounded
            lo, hi, by, rounded = (np.where(index >= 0, p[..., index], 0.0) for p in parts)
            return Value(lo, hi, by, rounded, first.reach, first.count)
        raise NotCheckable(f"{node.name!r}: {type(op).__name__} is not an operation known here")

    def _map(self, op: Mixing, value: Value) -> Value:
        bias = np.asarray(op.bias, dtype=np.float64)
        start = np.broadcast_to(bias, (len(value.lo), len(bias)))
        ends = Tally(start, np.zeros(start.shape)).add(*mapped(op, product, value.lo, value.hi))
        by, rounded = (part.reshape(-1, len(value.lo[0])) for part in (value.by, value.rounded))

        def sizes(matrix: Floats, by: Floats, rounded: Floats) -> tuple[Floats, Floats]:
            return dot(np.abs(matrix), by), np.abs(matrix) @ rounded

        some, rounded = mapped(op, sizes, by if by.any() else by[:0], rounded)
        by = np.zeros((*value.by.shape[:2], len(bias)))
        if len(some):  # at the input there is no error
            by = some.reshape(by.shape)
        moved, gross, weight = rounded.reshape(*value.rounded.shape[:3], len(bias))
        terms, largest = int(op.summands), float(op.largest)
        reach = (1 + value.reach) * (1 + largest)
        # each product and each cast of a weight may lose `tiny`, times what it meets
        lost = np.where(largest < self.limit, self.tiny * (terms + 4) * reach, np.inf)
        gross = upper(gross + np.abs(bias))
        weight = upper(weight + (terms + MAP) * gross)
        rounded = np.stack([upper(moved + lost), gross, weight])
        return Value(*ends.ends(), by, rounded, reach, value.count + terms + MAP)

    def _sum(self, taken: list[Value]) -> Value:
        more = len(taken) - 1
        ends, by = added(*((v.lo, v.hi) for v in taken)), plus(*(v.by for v in taken))
        moved, gross, weight = upper(np.sum([v.rounded for v in taken], axis=0))
        rounded = np.stack([moved, gross, upper(weight + more * gross)])
        reach = np.max([v.reach for v in taken], axis=0)
        count = np.max([v.count for v in taken], axis=0)
        return Value(*ends, by, rounded, reach, count + more)

    def _diagonal(self, node: Node, op: Diagonal, value: Value) -> Value:
        scale, off, shift, doubt = self.forms.factors(node.name, op)
        ends = stretched(value.lo, value.hi, scale, off, shift, doubt)
        scale, by = plus(np.abs(scale), off), times(value.by, plus(np.abs(scale), off))
        if not self.kinds:
            return Value(*ends, by, value.rounded, value.reach, value.count)
        before = self.forms.nodes.get(node.inputs[0])
        folded = before is not None and isinstance(before.op, Mixing)
        bent = before is None or isinstance(before.op, Unitwise)
        if bent and all(_only_shifts(op, kind) for kind in self.kinds):
            error = upper(self.error(value) + by[self.places])
            low, high = below(ends[0] - error), above(ends[1] + error)
            lost = upper(self.unit * np.maximum(np.abs(low), np.abs(high)))
            moved = upper(self.error(value) + lost)
            return self._within(*ends, by, below(low - lost), above(high + lost), moved)
        moved, gross, weight = value.rounded
        count, reach = value.count, value.reach
        parts: tuple[Floats, ...]
        if folded and node.inputs[0] in self.maps:  # then nothing is rounded at the cut itself
            own = self.maps[node.inputs[0]]
            gross, weight = np.maximum(gross, own.rounded[1]), own.rounded[2]
            count, reach = own.count, np.maximum(reach, own.reach)
        if isinstance(op, Norm):
            gamma, mean, beta = (np.abs(op.spread(p)) for p in (op.gamma, op.mean, op.beta))
            divisor, constant = op.spread(op.var + op.eps), beta + scale * mean
            own_count = [PLAIN if _plain(op, kind) else NORM for kind in self.kinds]
            fits = (self.tiny * 2.0**20 <= divisor.min()) & (divisor.max() < self.limit)
            parts = scale, gamma, mean, beta, 1.001 / np.sqrt(divisor)
        elif isinstance(op, Scaling):
            own_count, constant = [SCALING] * len(self.kinds), np.abs(op.offset)
            numbers = op.factor, op.divisor, op.offset, 1 / op.divisor
            parts = scale, *(np.abs(part) for part in numbers)
            sizes = np.concatenate(parts[1:4])
            fits = (sizes == 0) | ((sizes > 4 * self.tiny) & (sizes < self.limit))
            fits = fits.all(axis=2, keepdims=True)
        else:  # its rounding is not known
            own_count, constant, parts = [0] * len(self.kinds), scale, (scale,)
            fits = np.zeros(self.unit.shape, dtype=bool)
        counts = np.array(own_count, dtype=np.float64).reshape(-1, 1, 1)
        # more than all that is computed on the way, whichever it is
        reach = float(np.prod([1 + np.max(part) for part in parts])) * (1 + reach)
        moved = np.where(fits, upper(scale * moved + 16 * self.tiny * reach), np.inf)
        gross = upper(scale * gross + constant)
        more = count if folded else 0.0  # a shift that is folded in is added with the products
        weight = upper(scale * weight + counts * gross + more * constant)
        rounded = np.stack([moved, gross, weight])
        return Value(*ends, by, rounded, reach, count + counts)

    def _cast(self, op: Cast, value: Value) -> Value:
        """To a narrower type, perhaps by way of float32: u·|z| and half the smallest number."""
        digits, least, top = CASTS[op.digits]
        computed = upper(value.rounded[1] + self.error(value))
        fits = computed.max(axis=(1, 2), keepdims=True, initial=0.0) < top
        lost = (computed * 2.0**-digits + 2.0**least) * (1.0 + 2.0**-12)
        moved = np.where(fits, upper(self.error(value) + lost), np.inf)
        rounded = np.stack([moved, upper(computed + lost), np.zeros_like(moved)])
        return replace(value, rounded=rounded, count=0 * value.count)

    def _activation(self, node: Node, op: Unitwise, value: Value) -> Value:
        """A line, but for what may leave it."""
        lo, hi = value.lo, value.hi
        if node.name in self.known:
            lo, hi = met((lo, hi), self.known[node.name])
        error, bend = self.error(value), self.forms.bend(node)
        slope, far = bend.slope, value.by[self.places]
        left, right = bend.line(slope)
        low, high = below(lo - upper(far + error)), above(hi + upper(far + error))
        # of two values one may be off the line on either side
        beyond = plus(*(np.maximum(above(x), 0.0) for x in (left - low, high - right)))
        beyond = np.where((low >= left) & (high <= right), 0.0, beyond)
        own = self.behind(op, error, np.maximum(np.abs(low), np.abs(high)))
        off = times(beyond, np.full(1, bend.steepness(slope)))
        if not np.isinf(own).all():
            low, high = bend.range(low, high)
        moved = upper(error * abs(slope) + off + own)
        by = times(value.by, np.full(1, bend.lipschitz))
        return self._within(*bend.range(lo, hi), by, below(low - own), above(high + own), moved)

    def _live(self, op: LiveNorm, value: Value) -> Value:
        """The line of a norm whose input is small against √eps: the forms let ρ be √eps."""
        n, eps, error = op.channels, float(op.eps), self.error(value)
        size, gamma = upper(value.rounded[1] + error), np.abs(op.gamma)
        share = (2 * n + LIVE) * self.unit
        root = float(below(np.sqrt(eps)))

        def spread(z: Floats) -> Floats:  # |P z|/√eps
            return upper((z + z.mean(axis=2, keepdims=True) * op.centred) / root)

        u = spread(size)
        defect = upper(u * (u * u).mean(axis=2, keepdims=True) / 2)
        square = (size * size).mean(axis=2, keepdims=True) / eps
        terms = u * (1 + square) + (size + size.mean(axis=2, keepdims=True)) / root
        rounded = upper(share / (1 - share) * (gamma * upper(terms) + np.abs(op.beta)))
        scale = float(above((1 + gamma.max()) / root))
        largest = size.max(axis=(1, 2), keepdims=True, initial=0.0)
        wide = (1 + gamma.max()) * (1 + largest)
        rounded = upper(rounded + 4 * n**1.5 * self.tiny * wide / min(eps, 1.0))
        moved = upper(gamma * upper(spread(error) + defect) + rounded)
        most = upper(gamma * u + np.abs(op.beta) + rounded)  # of what is computed, too
        one_pass = upper((3 * n + 8) * self.unit * square)  # above 1/4 a variance may be negative
        fits = (eps > 4 * self.tiny) & (share < 0.5) & (op.positions == 1)
        fits = fits & (one_pass <= 0.25).all(axis=(1, 2), keepdims=True)
        fits = fits & (np.maximum(max(scale, eps), (1 + largest) ** 2 * n) < self.limit / 4)
        moved = np.where(fits, moved, np.inf)
        anything = np.full_like(value.lo, np.inf)  # its line is known in forms alone
        by = np.full_like(value.by, np.inf)
        return self._within(-anything, anything, by, -most, most, moved)


def _plain(op: Norm, kind: Kind) -> bool:
    """Whether v + ε = 1 and μ = 0, and no number is rounded to be one of the format."""
    parts = op.gamma, op.beta, op.var, np.array([op.eps])
    held = all(np.array_equal(p.astype(kind).astype(np.float64), p) for p in parts)
    return held and plain(op)


def _only_shifts(op: Diagonal, kind: Kind) -> bool:
    """Whether it adds numbers of the format, and does nothing else."""
    if not isinstance(op, Scaling) or not ((op.factor == 1).all() and (op.divisor == 1).all()):
        return False
    return np.array_equal(op.offset.astype(kind).astype(np.float64), op.offset)
