"""Rounding in a network's own evaluation, from one cut to the next.

Sums in any order, products fused with them or not, a norm by its formula, as a scale and a shift
computed first, or folded into the map before it; parameters are first rounded to the format. Boxes
stand side by side. Let `size` bound a value as exact arithmetic has it at the inputs of this
segment as they are, errors of the segments before included, `hidden` what roundings had done up to
the inner activations before it, and `local` what they did since. With Ĥ = size + hidden + local and
~ for rounded parameters,

    map       local' = |W̃| local + |W̃ − W| Ĥ + |b̃ − b| + γ_{n+1} (|W̃| Ĥ + |b̃|) + underflow
    norm      local' = |s| local + the larger of what it costs apart and folded + underflow
      apart     γ_a |s ẑ| + γ_c |s μ| + γ_b |β|, and u times all that is there at the last sum
      folded    (γ_{n+1+d} − γ_{n+1}) |s| (|W̃| Ĥ + |b̃|) + γ_{n+1+c} |s μ| + γ_{n+1+b} |β|
    scaling   the same with its factor over its divisor and its offset
    inner     hidden' = |slope| (hidden + local) + steepness·(what may leave the line)

and hidden' = |W| hidden elsewhere. For a, c, b, d see `Counts`. Expressions without a minus are
evaluated as they stand and then rounded up (`carrying.upper`).

Rests on proofs_check: norm-rounding, accumulated-rounding, norm-is-affine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import NamedTuple

import numpy as np

from proofs_check.certificates.affine import Forms, windows
from proofs_check.certificates.arithmetic import Floats, above, below, times
from proofs_check.certificates.carrying import upper
from proofs_check.certificates.columns import BITS, columns_of
from proofs_check.certificates.ranges import needed
from proofs_check.certificates.rounded import Format, Inner, Kind, NoBound, Value
from proofs_check.certificates.threads import side_by_side
from reconstruct.networks import Convolution, Network, Node
from reconstruct.networks.activations import Line, Unitwise
from reconstruct.networks.maps import (
    Cast,
    Dense,
    Diagonal,
    Mixing,
    Norm,
    Placement,
    Scaling,
    Select,
)
from reconstruct.networks.operation import Add

# --------------------------------------------------------------------------------------------------
# How often the parts of a norm or of a scaling are rounded when a program evaluates it.


@dataclass(frozen=True)
class Counts:
    """Roundings, casts included: of s z, s μ and the shift before the last sum, and of s W beyond
    those of W.

    A norm casts γ, casts v and ε, adds, takes the root, its inverse and a product: 6 for s. The
    formula then has z − μ and a product, a shift computed first a cast, a product and a difference;
    folded, s W is a product, and s (b − μ) + β a difference, a product and a sum. Where μ = 0 and
    v + ε = 1 exactly only γ z is left, and no cast where γ and β are numbers of the format; a
    scaling casts two numbers, and has a quotient, perhaps by an inverse, and a product. Where it
    multiplies by 1 and adds numbers of the format, there is nothing but its sum.
    """

    scaled: int
    centre: int
    shift: int
    folded: int


NORM = Counts(scaled=8, centre=9, shift=2, folded=8)
GAMMA_ALONE = Counts(scaled=2, centre=0, shift=1, folded=2)
GAMMA_HELD = Counts(scaled=1, centre=0, shift=0, folded=1)
SCALING = Counts(scaled=5, centre=0, shift=1, folded=5)
SHIFTED = Counts(scaled=0, centre=0, shift=0, folded=0)


# of a cast: the digits of its type, the exponent of half its smallest number, its largest number
CASTS = {
    11: (11, -25, 65504.0),
    8: (8, -134, float.fromhex("0x1.fep127")),
    24: (24, -150, float.fromhex("0x1.fffffep127")),
}


class Parts(NamedTuple):
    """Bounds of |s|, |s ẑ|, |s μ|, of the shift, and of what a map gives, all unit by unit."""

    scale: Floats
    scaled: Floats
    centre: Floats
    shift: Floats
    result: Floats


# --------------------------------------------------------------------------------------------------
# Sums that a graph spells out: which products they add up, and how often each may be rounded.
#
# A sum of q values rounds what it adds at most q − 1 times, in any order; a product of a map at
# most as often as the map has terms, its bias included. So a product that reaches the end of a tree
# through sums of q_1, q_2, … values from a map of k terms is rounded at most k + Σ(q_i − 1) times,
# and the whole is off by at most γ of the largest of these counts times the sum of all |products|.


@dataclass(eq=False)
class Spread:
    """A tree: its maps by the first column of `source` that they take, the most roundings of any
    product in it, and the names of what is computed for it alone."""

    source: str = ""
    width: int = 0
    maps: dict[int, Dense] = field(default_factory=dict)
    count: int = 0
    inside: set[str] = field(default_factory=set)

    def rows(self, start: int, stop: int) -> Floats:
        """Rows of the map that the tree is."""
        found = np.zeros((stop - start, self.width))
        for first, op in self.maps.items():
            found[:, first : first + op.shape[1]] = op.tile(start, stop)
        return found

    @property
    def offsets(self) -> Floats:
        """The biases of all maps, (maps, rows)."""
        return np.stack([np.asarray(op.bias, dtype=np.float64) for op in self.maps.values()])


class Trees:
    """The trees of a network whose values `opened` are looked at from outside."""

    def __init__(self, network: Network, opened: set[str]) -> None:
        self.network, self.opened = network, opened | {network.output}
        self.users: dict[str, int] = dict.fromkeys(network.sizes, 0)
        for node in network.nodes:
            for name in node.inputs:
                self.users[name] += 1
        self.nodes = {node.name: node for node in network.nodes}

    def found(self) -> dict[str, Spread]:
        """By the sums that they end in."""
        trees: dict[str, Spread] = {}
        inside: set[str] = set()
        for node in reversed(self.network.nodes):
            if isinstance(node.op, Add) and node.name not in inside:
                tree = Spread()
                if self._grow(tree, node, 0) and _disjoint(tree):
                    trees[node.name] = tree
                    inside |= tree.inside
        return trees

    def _own(self, name: str) -> Node | None:
        """A node whose value serves one other only."""
        alone = self.users[name] == 1 and name not in self.opened
        return self.nodes.get(name) if alone else None

    def _grow(self, tree: Spread, node: Node, above: int) -> bool:
        """All that a sum adds up, into the tree; false where that is anything else."""
        roundings = above + len(node.inputs) - 1
        for name in node.inputs:
            child = self._own(name)
            if child is None:
                return False
            tree.inside.add(name)
            grow = self._grow if isinstance(child.op, Add) else self._add_map
            if not grow(tree, child, roundings):
                return False
        return True

    def _add_map(self, tree: Spread, child: Node, above: int) -> bool:
        cut = self._own(child.inputs[0])
        if not isinstance(child.op, Dense) or cut is None or not isinstance(cut.op, Select):
            return False
        (source,), first = cut.inputs, cut.op.start
        if tree.maps and (source != tree.source or first in tree.maps):
            return False
        tree.source, tree.width = source, self.network.sizes[source]
        tree.inside.add(cut.name)
        tree.maps[first] = child.op
        count = child.op.shape[1] + int(bool(np.any(child.op.bias))) + above
        tree.count = max(tree.count, count)
        return True


def _disjoint(tree: Spread) -> bool:
    last = 0
    for first in sorted(tree.maps):
        if first < last:
            return False
        last = first + tree.maps[first].shape[1]
    return last <= tree.width


Product = Callable[[Floats, Floats], Floats]  # values (boxes, k) and rows of a map

BIAS = 1  # rounding of a sum of n products and a bias beyond n
TILE = 2**20  # entries of a map that are looked at together
MOST_ENTRIES = 2**29  # of a map, unrolled: seconds


class Evaluation:
    """A network in a format on some boxes; `settle` says where a cut's values are once its error is
    known."""

    def __init__(
        self, forms: Forms, inputs: Floats, kind: Kind, moved: Callable[[Node], Inner]
    ) -> None:
        self.network, self.forms, self.format = forms.network, forms, Format(kind)
        self.moved = moved
        nothing = np.zeros((1, inputs.shape[1]))
        self.values = {self.network.source: Value(inputs, nothing, nothing)}
        self.limits: dict[str, Floats] = {}  # bounds of sizes that are known otherwise
        used = needed(self.network)  # of others the recursion knows nothing
        inner = [n for n in self.network.nodes if isinstance(n.op, Unitwise) and n.name in used]
        self._feeds = {n.inputs[0]: n for n in inner if n.name not in forms.sources}
        self._known: dict[str, Inner] = {}
        self._gross: dict[str, Floats | None] = {}  # of maps that are cuts
        opened = {*forms.sources, *self._feeds, *(n.name for n in inner)}
        self._trees = Trees(self.network, opened).found()
        inside = {name for tree in self._trees.values() for name in tree.inside}
        self._left = iter([node for node in self.network.nodes if node.name not in inside])
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
        for root, tree in self._trees.items():
            last[tree.source] = max(last[tree.source], self._place[root])
        return last

    def settle(self, name: str, size: Floats) -> None:
        """The values of a cut as they are, errors included."""
        nothing = np.zeros((1, size.shape[1]))
        self.values[name] = Value(size, nothing, nothing, self._gross.get(name))

    def behind(self, op: Unitwise | None, value: Value) -> Floats:
        """What an activation's own rounding adds: casts of its slopes and one product."""
        if op is None:
            return np.zeros_like(value.size)
        lines = [piece for piece in op.pieces if isinstance(piece, Line)]
        kinks = [piece.hi for piece in lines[:-1]]
        if len(lines) < len(op.pieces) or any(p.intercept for p in lines) or any(kinks):
            raise NoBound(f"the rounding of {type(op).__name__} is not known here")
        slopes = np.array([piece.slope for piece in lines])
        if np.isin(slopes, (0.0, 1.0)).all():
            return np.zeros_like(value.size)
        moved = np.abs(self.format.cast(slopes) - slopes).max()
        share = float(above(moved + 2 * self.format.unit * max(1.0, np.abs(slopes).max())))
        return upper(value.computed * share + self.format.tiny)

    # --- nodes ----------------------------------------------------------------------------------

    def _step(self, node: Node) -> Value:
        op = node.op
        if node.name in self._trees:
            value = self._tree(self._trees[node.name])
            self._require(value.computed, node)
            return value
        first = self.values[node.inputs[0]]
        if isinstance(op, Mixing):
            value = self._map(op, first)
        elif isinstance(op, Norm):
            value = self._norm(node, op, first)
        elif isinstance(op, Scaling):
            value = self._scaling(node, op, first)
        elif isinstance(op, Cast):
            value = self._cast(node, op, first)
        elif isinstance(op, Add):
            value = self._sum([self.values[i] for i in node.inputs])
        elif isinstance(op, Unitwise):
            value = self._activation(node, op, first)
        elif isinstance(op, Select):
            part = slice(op.start, op.start + self.network.sizes[node.name])
            value = Value(*(v[:, part] for v in (first.size, first.hidden, first.local)))
        elif isinstance(op, Placement):
            parts, there = (first.size, first.hidden, first.local), op.index >= 0
            value = Value(*(np.where(there, v[:, op.index], 0.0) for v in parts))
        else:
            raise NoBound(f"the rounding of {type(op).__name__} is not known here")
        self._require(value.computed, node)
        return value

    def _require(self, size: Floats, node: Node) -> None:
        if not float(np.max(size, initial=0.0)) < self.format.limit:
            raise NoBound(f"{node.name!r} may overflow {np.dtype(self.format.dtype).name}")

    def _map(self, op: Mixing, value: Value) -> Value:
        if isinstance(op, Convolution) and op.groups > 1:
            return self._by_groups(op, value)
        if isinstance(op, Convolution) and op.positions > 1:
            return self._kernel(op, value)
        if op.shape[0] * op.shape[1] > MOST_ENTRIES:
            raise NoBound(f"a map of {op.shape[0]} × {op.shape[1]} entries is too large to look at")
        step = max(1, TILE // max(1, op.shape[1]))

        def tile(start: int) -> Value:
            part = slice(start, min(op.shape[0], start + step))
            weight = np.asarray(op.tile(part.start, part.stop), dtype=np.float64)
            biases = op.bias[None, part]
            return self._rows(weight, biases, value, int(op.summands) + BIAS, _plainly)

        return _joined(list(side_by_side(tile, range(0, op.shape[0], step))))

    def _kernel(self, op: Convolution, value: Value) -> Value:
        """A convolution, all positions at once: the columns are what the kernel meets there."""
        places = windows(op)
        kernel = np.asarray(op.kernel, dtype=np.float64).reshape(op.channels, -1)
        bias = np.asarray(op.channel_bias, dtype=np.float64)
        step = max(1, TILE // max(kernel.shape[1], op.positions))

        def product(values: Floats, weight: Floats) -> Floats:
            met = np.where(places >= 0, values[:, places], 0.0)
            return np.asarray(np.matmul(weight, met)).reshape(len(values), -1)

        found = []
        for i in range(0, len(kernel), step):
            rows = slice(i, i + step)
            biases = np.repeat(bias[rows], op.positions)[None]
            count = int(op.summands) + BIAS
            found.append(self._rows(kernel[rows], biases, value, count, product))
        return _joined(found)

    def _by_groups(self, op: Convolution, value: Value) -> Value:
        """A grouped map, all positions and groups at once: each kernel meets its own inputs."""
        places = windows(op).reshape(op.groups, -1, op.positions)
        kernel = np.asarray(op.kernel, dtype=np.float64).reshape(op.groups, -1, places.shape[1])
        biases = np.repeat(np.asarray(op.channel_bias, dtype=np.float64), op.positions)[None]

        def product(values: Floats, weight: Floats) -> Floats:
            met = np.where(places >= 0, values[:, places], 0.0)
            return np.asarray(np.matmul(weight, met)).reshape(len(values), -1)

        return self._rows(kernel, biases, value, int(op.summands) + BIAS, product)

    def _tree(self, tree: Spread) -> Value:
        """Sums that are spelled out, as the map that they are, with the roundings they have."""
        value, offsets = self.values[tree.source], tree.offsets
        rows = offsets.shape[1]
        step = max(1, TILE // tree.width)

        def tile(start: int) -> Value:
            stop = min(rows, start + step)
            weight, biases = tree.rows(start, stop), offsets[:, start:stop]
            return self._rows(weight, biases, value, tree.count, _plainly)

        found = _joined(list(side_by_side(tile, range(0, rows, step))))
        return Value(found.size, found.hidden, found.local)

    def _rows(
        self, weight: Floats, biases: Floats, value: Value, count: int, product: Product
    ) -> Value:
        """Some rows of a map, none of whose products is rounded more than `count` times, and its
        biases, (any number, rows)."""
        computed = value.computed
        cast, offsets = self.format.cast(weight), self.format.cast(biases)
        held = exact = np.abs(cast)
        rounded = upper(product(computed, held) + np.abs(offsets).sum(axis=0))
        local = rounded * self.format.gamma(count) + np.abs(offsets - biases).sum(axis=0)
        if value.local.any():
            local = local + product(value.local, held)
        if not np.array_equal(cast, weight):
            local = local + product(computed, np.abs(cast - weight))
            exact = np.abs(weight)
        hidden = np.zeros((1, biases.shape[1]))
        if value.hidden.any():
            hidden = upper(product(value.hidden, exact))
        terms = value.size.shape[1] + len(biases) + BIAS
        lost = terms * self.format.tiny * (1 + float(np.max(computed, initial=0.0)))
        if not float(np.max(rounded, initial=0.0)) < self.format.limit:
            raise NoBound("a sum may overflow")
        size = upper(product(value.size, exact) + np.abs(biases).sum(axis=0))
        return Value(size, hidden, upper(local + lost), rounded)

    def _norm(self, node: Node, op: Norm, value: Value) -> Value:
        numbers = columns_of(op, None, BITS, op.positions)
        scale, shift = (op.spread(part.largest()) for part in numbers)
        mean, beta, gamma = (np.abs(op.spread(p)) for p in (op.mean, op.beta, op.gamma))
        size = upper(scale * value.size + shift)
        size = np.minimum(size, self._limit(node.name, size))
        moved = scale * value.error
        scaled = upper(np.minimum(upper(scale * value.size), upper(size + shift)) + moved)
        inverse = np.maximum(1.0, 1.001 / op.spread(np.sqrt(op.var + op.eps)))
        room = upper((value.computed + mean) * inverse)
        entry, inputs = self._before(node)
        lost = 8.0 * self.format.tiny * (1.0 + scale + gamma + room + inputs)
        parts = Parts(scale, scaled, upper(scale * mean), beta, upper(size + moved))
        own = self._own(node, self._counts(op), parts)
        spread = op.var + op.eps
        least, most = float(spread.min()), float(spread.max())
        folded = float(np.max(upper(scale * max(1.0, entry)), initial=0.0))
        if not (least >= 2.0**20 * self.format.tiny and most < self.format.limit):
            raise NoBound(f"the variances of {node.name!r} leave the format")
        for part in (folded * np.ones(1), gamma, upper(room * np.maximum(gamma, 1.0))):
            self._require(part, node)
        local = upper(scale * value.local + own + lost)
        return Value(size, upper(scale * value.hidden), local)

    def _counts(self, op: Norm) -> Counts:
        """How often the parts of a norm are rounded."""
        if not self._gamma_alone(op):
            return NORM
        held = all(np.array_equal(self.format.cast(part), part) for part in (op.gamma, op.beta))
        return GAMMA_HELD if held else GAMMA_ALONE

    def _gamma_alone(self, op: Norm) -> bool:
        """Whether μ = 0 and v + ε = 1 exactly, all of them numbers of the format."""
        held = [*op.var.tolist(), op.eps]
        whole = {Fraction(v) + Fraction(op.eps) for v in set(held[:-1])} == {Fraction(1)}
        fits = np.array_equal(self.format.cast(np.array(held)), np.array(held))
        return whole and fits and not op.mean.any()

    def _own(self, node: Node, count: Counts, parts: Parts) -> Floats:
        """What a norm or a scaling rounds, apart or folded into the map before it."""
        gamma, (scale, scaled, centre, shift, result) = self.format.gamma, parts
        apart = scaled * gamma(count.scaled) + centre * gamma(count.centre)
        apart = upper(apart + shift * gamma(count.shift))
        apart = upper(apart + (result + apart) * gamma(1))
        self._require(upper(scaled + 2 * centre + shift), node)
        name = node.inputs[0]
        before = None if name == self.network.source else self.forms.nodes[name].op
        if not isinstance(before, Mixing):
            return apart
        whole = self.values[name].gross
        assert whole is not None  # every map has one
        gross = upper(scale * whole)
        self._require(upper(gross + 2 * centre + shift), node)
        summed = int(before.summands) + BIAS
        folded = gross * self.format.more(summed, count.folded)
        folded = folded + shift * gamma(summed + count.shift)
        folded = folded + centre * gamma(summed + count.centre)
        return np.maximum(apart, upper(folded))

    def _scaling(self, node: Node, op: Scaling, value: Value) -> Value:
        """A product, a quotient and a sum with numbers that are cast first, or folded into the map
        before: numbers that are normal in the format err by a unit each, and what underflows loses
        less than `tiny`, divided once more at most."""
        numbers = [np.abs(np.asarray(p)) for p in (op.factor, op.divisor, op.offset)]
        if not all(self.format.normal(part).all() for part in numbers):
            raise NoBound(f"the numbers of {node.name!r} leave the format")
        scale, shift = (part.largest() for part in columns_of(op, None, BITS))
        size = upper(scale * value.size + shift)
        size = np.minimum(size, self._limit(node.name, size))
        entry, inputs = self._before(node)
        product = upper(np.maximum(numbers[0], 1.0) * value.computed)
        for part in (product, upper(scale * max(1.0, entry))):
            self._require(part, node)
        lost = 8.0 * self.format.tiny * (1.0 + inputs + scale + above(1.0 / numbers[1]))
        result, scaled = upper(size + scale * value.error), upper(scale * value.computed)
        parts = Parts(scale, scaled, np.zeros_like(scale), shift, result)
        own = self._own(node, SHIFTED if self._shifts(op) else SCALING, parts)
        return Value(size, upper(scale * value.hidden), upper(scale * value.local + own + lost))

    def _cast(self, node: Node, op: Cast, value: Value) -> Value:
        """To a narrower type, perhaps by way of float32: u·|z| and half the smallest number."""
        digits, least, top = CASTS[op.digits]
        computed = value.computed
        if not float(np.max(computed, initial=0.0)) < top:
            raise NoBound(f"{node.name!r} may overflow {op.to}")
        twice = 1.0 + 2.0**-12
        moved = upper((computed * 2.0**-digits + 2.0**least) * twice)
        return Value(value.size, value.hidden, upper(value.local + moved))

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
            return upper(np.maximum(np.abs(known.lo), np.abs(known.hi)) + known.by)
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
        return float(before.op.largest), float(above(inputs.sum(axis=1).max() * 1.001))

    def _sum(self, values: list[Value]) -> Value:
        size, hidden, local = (
            upper(reduce(np.add, (getattr(value, part) for value in values)))
            for part in ("size", "hidden", "local")
        )
        rounded = (size + hidden + local) * self.format.gamma(len(values) - 1)
        return Value(size, hidden, upper(local + rounded))

    def _activation(self, node: Node, op: Unitwise, value: Value) -> Value:
        """A line but for what may leave it."""
        known, bend = self._inner(node), self.forms.bend(node)
        slope = float(op.piece.slope)
        ends = bend.line(slope)
        with np.errstate(all="ignore"):
            room = np.minimum(known.lo - ends[0], ends[1] - known.hi) * (1 - 2.0**-50)
            pushed = upper(known.by + value.error)
            beyond = np.where(pushed > room, above(pushed - np.maximum(room, 0.0)), 0.0)
        beyond = np.where(np.isnan(room), np.inf, np.maximum(beyond, 0.0))
        off = times(beyond, np.full(beyond.shape, bend.steepness(slope)))
        size = np.minimum(value.size, self._limit(node.inputs[0], value.size))
        self._limit_shifted(
            node, bend.range(below(known.lo - known.by), above(known.hi + known.by))
        )
        hidden = upper(value.error * abs(slope) + off + self.behind(op, value))
        return Value(upper(size * abs(slope)), hidden, np.zeros((1, hidden.shape[1])))


def _plainly(values: Floats, weight: Floats) -> Floats:
    return values @ weight.T


def _joined(parts: list[Value]) -> Value:
    """Rows one beside the other."""
    if len(parts) == 1:
        return parts[0]
    keys = ("size", "hidden", "local", "gross")
    return Value(*(np.concatenate([getattr(p, key) for p in parts], axis=1) for key in keys))
