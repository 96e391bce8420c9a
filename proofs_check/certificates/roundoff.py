"""Rounding in a network's own evaluation, from one cut to the next.

Sums in any order, products fused with them or not, a norm by its formula, as a scale and a shift
computed first, or folded into the map before it; parameters are first rounded to the format. Let
`size` bound a value as exact arithmetic has it at the inputs of this segment as they are, errors
of the segments before included, and `local` what this segment's roundings did to it since. With
Ĥ = size + local and ~ for rounded parameters,

    map       local' = |W̃| local + |W̃ − W| Ĥ + |b̃ − b| + γ_{n+1} (|W̃| Ĥ + |b̃|) + underflow
    norm      local' = |s| local + the larger of what it costs apart and folded + underflow
      apart     γ_a |s ẑ| + γ_c |s μ| + γ_b |β|, and u times all that is there at the last sum
      folded    (γ_{n+1+d} − γ_{n+1}) |s| (|W̃| Ĥ + |b̃|) + γ_{n+1+c} |s μ| + γ_{n+1+b} |β|
    scaling   the same with its factor over its divisor and its offset
    inner     local' = |slope| local + steepness·(what may leave the line)

For a, c, b, d see `Counts`.

Rests on proofs_check: accumulated-rounding, norm-rounding, norm-is-affine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from proofs_check.certificates.arithmetic import Floats, above, below, dot, plus, times
from proofs_check.certificates.columns import BITS, columns_of
from proofs_check.certificates.forms import Forms
from proofs_check.certificates.recursion import needed
from proofs_check.certificates.rounded import Format, Inner, Kind, NoBound, Value
from proofs_check.certificates.threads import side_by_side
from proofs_check.certificates.views import kernel_of, windows
from reconstruct.networks import Convolution, Node
from reconstruct.networks.activations import Line, Unitwise
from reconstruct.networks.maps import Diagonal, Mixing, Norm, Placement, Scaling, Select
from reconstruct.networks.sums import Add

BIAS = 1  # rounding of a sum of n products and a bias beyond n
TILE = 2**20  # entries of a map that are looked at together
MOST_ENTRIES = 2**29  # of a map, unrolled: seconds


@dataclass(frozen=True)
class Counts:
    """Roundings, casts included: of s z, s μ and the shift before the last sum, and of s W beyond
    those of W.

    A norm casts γ, casts v and ε, adds, takes the root, its inverse and a product: 6 for s. The
    formula then has z − μ and a product, a shift computed first a cast, a product and a difference;
    folded, s W is a product, and s (b − μ) + β a difference, a product and a sum. Where μ = 0 and
    v + ε = 1 exactly only γ z is left; a scaling casts two numbers, and has a quotient, perhaps by
    an inverse, and a product. Where it multiplies by 1 and adds numbers of the format, there is
    nothing but its sum.
    """

    scaled: int
    centre: int
    shift: int
    folded: int


NORM = Counts(scaled=8, centre=9, shift=2, folded=8)
GAMMA_ALONE = Counts(scaled=2, centre=0, shift=1, folded=2)
SCALING = Counts(scaled=5, centre=0, shift=1, folded=5)
SHIFTED = Counts(scaled=0, centre=0, shift=0, folded=0)


class _Parts(NamedTuple):
    """Bounds of |s|, |s ẑ|, |s μ|, of the shift, and of what a map gives, all unit by unit."""

    scale: Floats
    scaled: Floats
    centre: Floats
    shift: Floats
    result: Floats


class Evaluation:
    """A network in a format; `settle` says where a cut's values are once its error is known."""

    def __init__(
        self, forms: Forms, inputs: Floats, kind: Kind, moved: Callable[[Node], Inner]
    ) -> None:
        self.network, self.forms, self.format = forms.network, forms, Format(kind)
        self.moved = moved
        self.values = {self.network.source: Value(inputs, np.zeros(len(inputs)))}
        self.limits: dict[str, Floats] = {}  # bounds of sizes that are known otherwise
        used = needed(self.network)  # of others the recursion knows nothing
        inner = [n for n in self.network.nodes if isinstance(n.op, Unitwise) and n.name in used]
        self._feeds = {n.inputs[0]: n for n in inner if n.name not in forms.sources}
        self._known: dict[str, Inner] = {}
        self._gross: dict[str, Floats | None] = {}  # of maps that are cuts
        self._left = iter(self.network.nodes)
        self._place = {node.name: place for place, node in enumerate(self.network.nodes)}
        self._last = self._last_looks()
        self._users: dict[str, list[Node]] = {name: [] for name in self.network.sizes}
        for node in self.network.nodes:
            for name in node.inputs:
                self._users[name].append(node)

    def until(self, name: str | None, used: set[str]) -> Value:
        """The value that a cut takes, or of the output."""
        for node in self._left:
            if node.name not in used:
                continue
            if node.name == name:
                if isinstance(node.op, Add | Diagonal | Mixing):
                    value = self._step(node)
                    self._gross[node.name] = value.gross
                    return value
                return self.values[node.inputs[0]]
            self.values[node.name] = self._step(node)
            self._forget(node)
        return self.values[self.network.output]

    def _forget(self, node: Node) -> None:
        """Drops what no later node looks at: wide layers on images would not fit together."""
        here = self._place[node.name]
        for name in [n for n in self.values if self._last[n] <= here]:
            del self.values[name]
        self._known.pop(node.name, None)

    def _last_looks(self) -> dict[str, float]:
        """The place of the last node that looks at a value; a norm looks through a map too."""
        last = dict.fromkeys(self.network.sizes, -1.0) | {self.network.output: np.inf}
        users: dict[str, list[int]] = {name: [] for name in self.network.sizes}
        for node in self.network.nodes:
            for name in node.inputs:
                users[name].append(self._place[node.name])
        for node in self.network.nodes:
            for name in node.inputs:
                last[name] = max(last[name], self._place[node.name], *users[node.name])
        return last

    def settle(self, name: str, size: Floats) -> None:
        """The values of a cut as they are, errors included."""
        self.values[name] = Value(size, np.zeros(len(size)), self._gross.get(name))

    def behind(self, op: Unitwise | None, value: Value) -> Floats:
        """What an activation's own rounding adds: casts of its slopes and one product."""
        if op is None:
            return np.zeros(len(value.size))
        lines = [piece for piece in op.pieces if isinstance(piece, Line)]
        kinks = [piece.hi for piece in lines[:-1]]
        if len(lines) < len(op.pieces) or any(p.intercept for p in lines) or any(kinks):
            raise NoBound(f"the rounding of {type(op).__name__} is not known here")
        slopes = np.array([piece.slope for piece in lines])
        if np.isin(slopes, (0.0, 1.0)).all():
            return np.zeros(len(value.size))
        moved = np.abs(self.format.cast(slopes) - slopes).max()
        share = float(above(moved + 2 * self.format.unit * max(1.0, np.abs(slopes).max())))
        return plus(_by(value.computed, share), np.full(len(value.size), self.format.tiny))

    # --- nodes ----------------------------------------------------------------------------------

    def _step(self, node: Node) -> Value:
        op, first = node.op, self.values[node.inputs[0]]
        if isinstance(op, Mixing):
            value = self._map(op, first)
        elif isinstance(op, Norm):
            value = self._norm(node, op, first)
        elif isinstance(op, Scaling):
            value = self._scaling(node, op, first)
        elif isinstance(op, Add):
            value = self._sum([self.values[i] for i in node.inputs])
        elif isinstance(op, Unitwise):
            value = self._activation(node, op, first)
        elif isinstance(op, Select):
            part = slice(op.start, op.start + self.network.sizes[node.name])
            value = Value(first.size[part], first.local[part])
        elif isinstance(op, Placement):
            there = op.index >= 0
            value = Value(*(np.where(there, v[op.index], 0.0) for v in (first.size, first.local)))
        else:
            raise NoBound(f"the rounding of {type(op).__name__} is not known here")
        self._require(value.computed, node)
        return value

    def _require(self, size: Floats, node: Node) -> None:
        if not float(np.max(size, initial=0.0)) < self.format.limit:
            raise NoBound(f"{node.name!r} may overflow {np.dtype(self.format.dtype).name}")

    def _map(self, op: Mixing, value: Value) -> Value:
        if isinstance(op, Convolution) and op.positions > 1:
            return self._kernel(op, value)
        if op.shape[0] * op.shape[1] > MOST_ENTRIES:
            raise NoBound(f"a map of {op.shape[0]} × {op.shape[1]} entries is too large to look at")
        rows, terms = op.shape[0], int(op.summands) + BIAS
        step = max(1, TILE // max(1, op.shape[1]))
        columns = Value(value.size[:, None], value.local[:, None])

        def tile(start: int) -> Value:
            part = slice(start, min(rows, start + step))
            weight = np.asarray(op.tile(part.start, part.stop), dtype=np.float64)
            return self._rows(weight, op.bias[part], columns, terms)

        return _joined(list(side_by_side(tile, range(0, rows, step))))

    def _kernel(self, op: Convolution, value: Value) -> Value:
        """A convolution, all positions at once: the columns are what the kernel meets there."""
        places, kernel = windows(op), kernel_of(op)
        met = [np.where(places >= 0, v[places], 0.0) for v in (value.size, value.local)]
        step = max(1, TILE // max(kernel.shape[1], op.positions))
        terms, bias = int(op.summands) + BIAS, np.asarray(op.channel_bias, dtype=np.float64)
        found = [
            self._rows(kernel[i : i + step], bias[i : i + step], Value(met[0], met[1]), terms)
            for i in range(0, len(kernel), step)
        ]
        return _joined(found)

    def _rows(self, weight: Floats, bias: Floats, value: Value, terms: int) -> Value:
        """Rows of a map on columns of inputs: (rows, columns)."""
        computed, bias = value.computed, np.asarray(bias, dtype=np.float64)[:, None]
        cast, offset = self.format.cast(weight), self.format.cast(bias)
        held = exact = np.abs(cast)
        rounded = plus(dot(held, computed), np.abs(offset))
        local = _by(rounded, self.format.gamma(terms))
        if value.local.any():
            local = plus(local, dot(held, value.local))
        if not np.array_equal(cast, weight):
            moved = above(np.abs(cast - weight)) * (cast != weight)
            local, exact = plus(local, dot(moved, computed)), np.abs(weight)
        local = plus(local, above(np.abs(offset - bias)) * (offset != bias))
        lost = terms * self.format.tiny * (1 + float(np.max(computed, initial=0.0)))
        if not float(np.max(rounded, initial=0.0)) < self.format.limit:
            raise NoBound("a sum may overflow")
        size = plus(dot(exact, value.size), np.abs(bias))
        return Value(size, plus(local, np.full(local.shape, lost)), rounded)

    def _norm(self, node: Node, op: Norm, value: Value) -> Value:
        numbers = columns_of(op, None, BITS, op.positions)
        scale, shift = (op.spread(part.largest()) for part in numbers)
        mean, beta, gamma = (np.abs(op.spread(p)) for p in (op.mean, op.beta, op.gamma))
        size = plus(times(scale, value.size), shift)
        size = np.minimum(size, self._limit(node.name, size))
        moved = times(scale, value.local)
        scaled = plus(np.minimum(times(scale, value.size), plus(size, shift)), moved)
        inverse = np.maximum(1.0, 1.001 / op.spread(np.sqrt(op.var + op.eps)))
        centred = plus(value.computed, mean)
        entry, inputs = self._before(node)
        room = times(centred, inverse)
        lost = _by(plus(np.ones(len(scale)), scale, gamma, room, np.full(len(scale), inputs)), 8.0)
        counts = GAMMA_ALONE if self._gamma_alone(op) else NORM
        parts = _Parts(scale, scaled, times(scale, mean), beta, plus(size, moved))
        own = self._own(node, counts, parts)
        spread = op.var + op.eps
        least, most = float(spread.min()), float(spread.max())
        folded = float(np.max(times(scale, np.full(len(scale), max(1.0, entry))), initial=0.0))
        if not (least >= 2.0**20 * self.format.tiny and most < self.format.limit):
            raise NoBound(f"the variances of {node.name!r} leave the format")
        for part in (folded * np.ones(1), gamma, times(room, np.maximum(gamma, 1.0))):
            self._require(part, node)
        return Value(size, plus(moved, own, _by(lost, self.format.tiny)))

    def _gamma_alone(self, op: Norm) -> bool:
        """Whether μ = 0 and v + ε = 1 exactly, all of them numbers of the format."""
        held = [*op.var.tolist(), op.eps]
        whole = {Fraction(v) + Fraction(op.eps) for v in set(held[:-1])} == {Fraction(1)}
        fits = np.array_equal(self.format.cast(np.array(held)), np.array(held))
        return whole and fits and not op.mean.any()

    def _own(self, node: Node, counts: Counts, parts: _Parts) -> Floats:
        """What a norm or a scaling rounds, apart or folded into the map before it."""
        gamma, (scale, scaled, centre, shift, result) = self.format.gamma, parts
        apart = plus(_by(scaled, gamma(counts.scaled)), _by(centre, gamma(counts.centre)))
        apart = plus(apart, _by(shift, gamma(counts.shift)))
        apart = plus(apart, _by(plus(result, apart), gamma(1)))
        self._require(plus(scaled, centre, centre, shift), node)
        name = node.inputs[0]
        before = None if name == self.network.source else self.forms.nodes[name].op
        if not isinstance(before, Mixing):
            return apart
        whole = self.values[name].gross
        assert whole is not None  # every map has one
        gross = times(scale, whole)
        self._require(plus(gross, centre, centre, shift), node)
        summed = int(before.summands) + BIAS
        folded = _by(gross, self.format.more(summed, counts.folded))
        folded = plus(folded, _by(shift, gamma(summed + counts.shift)))
        folded = plus(folded, _by(centre, gamma(summed + counts.centre)))
        return np.maximum(apart, folded)

    def _scaling(self, node: Node, op: Scaling, value: Value) -> Value:
        """A product, a quotient and a sum with numbers that are cast first, or folded into the map
        before: numbers that are normal in the format err by a unit each, and what underflows loses
        less than `tiny`, divided once more at most."""
        numbers = [np.abs(np.asarray(p)) for p in (op.factor, op.divisor, op.offset)]
        if not all(self.format.normal(part).all() for part in numbers):
            raise NoBound(f"the numbers of {node.name!r} leave the format")
        scale, shift = (part.largest() for part in columns_of(op, None, BITS))
        size = plus(times(scale, value.size), shift)
        size = np.minimum(size, self._limit(node.name, size))
        moved, scaled = times(scale, value.local), times(scale, value.computed)
        entry, inputs = self._before(node)
        product = times(np.maximum(numbers[0], 1.0), value.computed)
        for part in (product, _by(scale, max(1.0, entry))):
            self._require(part, node)
        lost = plus(np.full(len(scale), 1.0 + inputs), scale, above(1.0 / numbers[1]))
        parts = _Parts(scale, scaled, np.zeros_like(scale), shift, plus(size, moved))
        own = self._own(node, SHIFTED if self._shifts(op) else SCALING, parts)
        return Value(size, plus(moved, own, _by(lost, 8.0 * self.format.tiny)))

    def _limit_shifted(self, node: Node, ends: tuple[Floats, Floats]) -> None:
        """Where values that lie between these ends are moved by what is added to them next."""
        for user in self._users[node.name]:
            if isinstance(user.op, Scaling) and self._shifts(user.op):
                low, high = below(ends[0] + user.op.offset), above(ends[1] + user.op.offset)
                self.limits[user.name] = np.maximum(np.abs(low), np.abs(high))

    def _shifts(self, op: Scaling) -> bool:
        """Whether it adds numbers of the format and does nothing else."""
        held = np.array_equal(self.format.cast(op.offset), op.offset)
        return held and bool(np.all(op.factor == 1) and np.all(op.divisor == 1))

    def _limit(self, name: str, size: Floats) -> Floats:
        """What else is known of a value: where an inner activation may take it."""
        if name in self._feeds:
            known = self._inner(self._feeds[name])
            return plus(np.maximum(np.abs(known.lo), np.abs(known.hi)), known.by)
        return self.limits.get(name, size)

    def _inner(self, node: Node) -> Inner:
        if node.name not in self._known:
            self._known[node.name] = self.moved(node)
        return self._known[node.name]

    def _before(self, node: Node) -> tuple[float, float]:
        """Of a map that a norm may be folded into: its largest entry, and Σ|ĥ|."""
        name = node.inputs[0]
        if name == self.network.source:
            return 1.0, 0.0
        before = self.forms.nodes[name]
        if not isinstance(before.op, Mixing):
            return 1.0, 0.0
        inputs = self.values[before.inputs[0]].computed
        return float(before.op.largest), float(above(inputs.sum() * 1.001))

    def _sum(self, values: list[Value]) -> Value:
        size, local = values[0].size, values[0].local
        for value in values[1:]:
            size, local = plus(size, value.size), plus(local, value.local)
        return Value(size, plus(local, _by(plus(size, local), self.format.gamma(len(values) - 1))))

    def _activation(self, node: Node, op: Unitwise, value: Value) -> Value:
        """A line but for what may leave it."""
        known, bend = self._inner(node), self.forms.bend(node)
        slope = float(op.piece.slope)
        ends = bend.line(slope)
        with np.errstate(all="ignore"):
            room = np.minimum(known.lo - ends[0], ends[1] - known.hi) * (1 - 2.0**-50)
            pushed = plus(known.by, value.local)
            beyond = np.where(pushed > room, above(pushed - np.maximum(room, 0.0)), 0.0)
        beyond = np.where(np.isnan(room), np.inf, np.maximum(beyond, 0.0))
        off = times(beyond, np.full(len(beyond), bend.steepness(slope)))
        size = _by(np.minimum(value.size, self._limit(node.inputs[0], value.size)), abs(slope))
        self._limit_shifted(
            node, bend.range(below(known.lo - known.by), above(known.hi + known.by))
        )
        return Value(size, plus(_by(value.local, abs(slope)), off, self.behind(op, value)))


def _joined(parts: list[Value]) -> Value:
    """Rows one below the other, position after position."""
    keys = ("size", "local", "gross")
    return Value(*(np.concatenate([getattr(p, key).ravel() for p in parts]) for key in keys))


def _by(values: Floats, factor: float) -> Floats:
    return times(values, np.full(np.shape(values), factor))
