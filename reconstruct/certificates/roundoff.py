"""What happens when f is evaluated in float64 or float32: |fl(f)(x) − f(x)|, any order.

The model (docs/certificates.md): IEEE arithmetic, rounding to nearest, sums in any order, products
fused with sums or not; parameters are first rounded to the precision; a norm is evaluated by its
formula, as a precomputed scale and shift, or folded into the affine map before it.

Boxes stand side by side: arrays are (boxes, units), so that on a box only the magnitudes count
that occur there. Two errors travel along. `carried` is the error of the cuts before, taken
through the composed map A' of the segment (which is as small as the target's own map); `local` is
what was added since, taken through |W| node by node. At a cut the walk over the cuts says how large
the error is there (see `propagate`). With |ĥ| ≤ H + carried + local = Ĥ and
W̃ĥ − Wh = W (ĥ − h) + (W̃ − W) ĥ,

    affine:  local' = |W| local + |W̃ − W| Ĥ + |b̃ − b| + γ_{n+2} (|W̃| Ĥ + |b̃|)
    norm:    local' = |s| local + what its own rule says (`networks/maps/diagonal.py`)
    inner:   local' = |slope| local + what the error may push beyond the linear piece
    live:    local' = |gamma| (local + mean local)/√eps + what its own rule says, and how far the
             norm may be off that line (`networks/activations/live_norm.py`)

n products and a bias meet n + 1 roundings; one is to spare. A map without a bias may be given one
by what is folded into it; only what a graph spells out as a sum is known to have none.

Rests on proofs_check: accumulated-rounding, norm-rounding, live-eps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from reconstruct.certificates.forms import Composites
from reconstruct.networks import Activation, Add, Diagonal, LiveNorm, Map, Mixing, Network, Node
from reconstruct.networks.blocks import SpelledSum
from reconstruct.networks.maps.map import AccumulatedSum, InputBounds
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import Enclosure, upward
from reconstruct.numbers.precision import Precision
from reconstruct.numbers.rounding import magnitude

BIAS = 2  # roundings of a sum of n products beyond n: one for its bias, one to spare


@dataclass(frozen=True, eq=False)
class Value:
    """Bounds of |value|, of the two errors, and of every partial result on the way.

    What follows from these is not kept: a hidden layer may have millions of units.
    """

    size: Array
    carried: Array
    local: Array
    peak: Array

    @property
    def error(self) -> Array:
        return upward(self.carried + self.local)

    @property
    def computed(self) -> Array:
        """A bound of the computed value's magnitude."""
        return upward(self.size + self.error)


class Roundoff:
    """The errors of a network evaluated in `dtype`, from one cut to the next, on some boxes.

    In real arithmetic, `taken` are ranges of values that activations take, (1 or boxes, units), and
    `forms` the composed maps between the cuts. `errors` are those of the sources, `reason` says why
    there is no bound. With `spare` inner units are given as much of a margin as that multiple of
    their errors; what they lack of it is in `lacking`.
    """

    def __init__(
        self,
        network: Network,
        forms: Composites[Enclosure],
        trees: Mapping[str, SpelledSum],
        taken: Mapping[str, Range],
        dtype: Any,
        spare: float = 0.0,
    ) -> None:
        self.network, self.forms, self.taken = network, forms, taken
        self.precision, self.spare, self.trees = Precision(dtype), spare, trees
        self.errors: dict[str, Array] = {}
        self.lacking: dict[str, Array] = {}
        self.reason = ""
        self.values: dict[str, Value] = {}
        inside = {name for tree in trees.values() for name in tree.nodes}
        used = network.needed() - inside
        self._left = iter([node for node in network.nodes if node.name in used])
        self._last = self._last_looks()

    def until(self, name: str, itself: bool) -> Value:
        """What a cut takes, or the cut `itself` where it is a sum or a map; "" is the output."""
        for node in self._left:
            if node.name == name:
                return self._step(node) if itself else self.values[node.inputs[0]]
            self.keep(node.name, self._step(node))
        return self.values[self.network.output]

    def keep(self, name: str, value: Value) -> None:
        """The value of a node, no larger than what is known of it."""
        value = self.values[name] = replace(value, size=self._least(name, value.size))
        top = float(np.max([np.max(part, initial=0.0) for part in (value.peak, value.computed)]))
        if not top < self.precision.largest / 4 and not self.reason:
            kind = self.network.casts.get(name) or np.dtype(self.precision.dtype).name
            self.reason = f"node {name!r} may overflow {kind}"
        here = self._place.get(name, -1)
        for old in [n for n in self.values if self._last[n] <= here]:
            del self.values[old]  # of wide layers on images all would not fit

    def _least(self, name: str, size: Array) -> Array:
        """A bound of a value's magnitude, or what is known of it where that is less."""
        if name not in self.taken:
            return size
        return np.minimum(size, magnitude(*(_spread(end, size) for end in self.taken[name])))

    def _last_looks(self) -> dict[str, float]:
        """The place of the last node that looks at a value; a norm looks through a map too."""
        place = self._place = {node.name: i for i, node in enumerate(self.network.nodes)}
        last: dict[str, float] = dict.fromkeys(self.network.sizes, -1.0)
        for node in self.network.nodes:
            after = [place[n.name] for n in self.network.consumers(node.name)]
            for name in node.inputs:
                last[name] = max(last[name], place[node.name], *after)
        for root, tree in self.trees.items():
            last[tree.source] = max(last[tree.source], place[root])
        return last | {self.network.output: np.inf}

    def _step(self, node: Node) -> Value:
        op = node.op
        if node.name in self.trees:
            return self._mixing(node.name, self.trees[node.name].source, self.trees[node.name])
        first = self.values[node.inputs[0]]
        if isinstance(op, Mixing):
            return self._mixing(node.name, node.inputs[0], op)
        if isinstance(op, Diagonal):
            return self._diagonal(node, op, first)
        if isinstance(op, Add):
            return self._sum([self.values[i] for i in node.inputs])
        if isinstance(op, Activation):
            return self._activation(op, node, first)
        assert isinstance(op, Map)  # units are moved about, and nothing is computed
        moved = (first.size, first.carried, first.local, first.peak)
        return Value(*(op.absolute(part) for part in moved))

    def _sum(self, values: list[Value]) -> Value:
        size, rough = _total(v.size for v in values), _total(v.computed for v in values)
        own = self.precision.gamma(len(values) - 1) * rough
        local = upward(_total(v.local for v in values) + own)
        return Value(size, _total(v.carried for v in values), local, rough)

    # --- affine maps ----------------------------------------------------------------------------

    def _mixing(self, name: str, source: str, op: Mixing | SpelledSum) -> Value:
        """|W| of all errors and sizes at once, and what its sums round."""
        value, precision = self.values[source], self.precision
        parts = (value.size, value.computed, value.local, value.carried)
        boxes = max(map(len, parts))
        rows = np.concatenate([np.broadcast_to(part, (boxes, part.shape[1])) for part in parts])
        # `upward` has room for 2^20 roundings: where one follows, it covers those before
        times = upward(op.absolute(rows)).reshape(len(parts), boxes, -1)
        size, reached, local, carried = times
        biases = op.biases if isinstance(op, SpelledSum) else op.bias[None]
        cast = precision.cast(biases)
        # entries that the format does not hold are moved by a unit roundoff, or by all they are
        moved = 0.0 if _held(op, precision) else precision.unit
        moved = moved if op.largest < precision.largest / 2 else np.inf
        constant = np.abs(cast).sum(axis=0)
        rounded = upward((1 + moved) * reached + constant)
        count = op.roundings if isinstance(op, SpelledSum) else op.summands + BIAS
        local = local + moved * reached + precision.gamma(count) * rounded
        local = local + np.abs(cast - biases).sum(axis=0)
        terms = op.summands + len(biases) + BIAS
        lost = terms * precision.tiny * (1 + float(np.max(value.computed, initial=0.0)))
        size = upward(size + np.abs(biases).sum(axis=0))
        known: Any = np.inf
        if not (self.forms.moves(source) or name in self.forms.sources):
            # |A'| times the errors of the sources is far below |M2||s||M1| times them
            forms = self.forms.magnitudes(name)
            known = _total(view.reached(size, self.errors[view.source]) for view, size in forms)
        carried = np.minimum(carried, known)  # no part of `times`, which it would keep
        return Value(size, carried, upward(local + lost), rounded)

    # --- diagonal maps and activations ----------------------------------------------------------

    def _diagonal(self, node: Node, op: Diagonal, value: Value) -> Value:
        """Scaled errors, and what the map says of its own evaluation."""
        scale, shift = (part.magnitude() for part in op.enclosed())
        size = upward(scale * value.size + shift)
        size = np.minimum(self._least(node.name, size), self._behind_inner(node, op, size))
        incoming = InputBounds(value.size, value.error, size, self._before(node))
        own = op.rounding(incoming, self.precision)
        local = upward(scale * value.local + own.error)
        return Value(size, upward(scale * value.carried), local, own.peak)

    def _behind_inner(self, node: Node, op: Diagonal, size: Array) -> Array:
        """What is known of a magnitude behind an inner activation, whose range is known."""
        (name,) = node.inputs
        act = None if name == self.network.source else self.network.node(name)
        if act is None or not isinstance(act.op, Activation) or act.inputs[0] not in self.taken:
            return size
        lo, hi = (_spread(end, size) for end in self.taken[act.inputs[0]])
        return magnitude(*op.image(*act.op.image(lo, hi)))

    def _before(self, node: Node) -> AccumulatedSum | None:
        """The sums that this map may be folded into."""
        name = node.inputs[0]
        op = None if name == self.network.source else self.network.node(name).op
        if not isinstance(op, Mixing):
            return None
        (taken,) = self.network.node(name).inputs
        inputs = float(upward(np.sum(self.values[taken].computed, axis=1).max(initial=0.0)))
        return AccumulatedSum(op.summands + BIAS, op.largest, inputs, self.values[name].peak)

    def _activation(self, op: Activation, node: Node, value: Value) -> Value:
        """An inner activation: its line, and what may leave it."""
        own = op.rounding(value.computed, self.precision)
        if isinstance(op, LiveNorm):
            return self._live(op, value, own)
        if op.rest:  # what libraries round there, nothing bounds
            unknown = np.full_like(own, np.inf)
            return Value(unknown, unknown, unknown, unknown)
        size, peak = op.magnitude(value.size), op.carried(value.peak)
        beyond = op.steepness * np.maximum(value.error - self._margin(op, node, value), 0.0)
        slope = abs(op.piece.slope)
        local = upward(slope * value.local + own + beyond)
        return Value(size, upward(slope * value.carried), local, peak)

    def _live(self, op: LiveNorm, value: Value, own: Array) -> Value:
        """gamma∘P z/√eps + beta, which the forms allow ρ to be, and how far the norm is off it."""
        size = op.magnitude(value.size)
        carried, local = op.on_line(value.carried), op.on_line(value.local)
        local = upward(local + own + op.off_line(value.computed))
        # gamma/√eps may be computed first, and a variance in one pass begins with z²
        scale = np.abs(op.gamma).max() / np.sqrt(op.eps)
        square = op.channels * (1 + value.computed.max(initial=0.0)) ** 2
        return Value(size, carried, local, upward(op.magnitude(value.peak) + scale + square))

    def _margin(self, op: Activation, node: Node, value: Value) -> Array:
        """How far the inputs of an inner activation stay, in real arithmetic, within its piece."""
        lo, hi = (_spread(end, value.size) for end in self.taken[node.inputs[0]])
        margin = np.maximum(np.minimum(lo - op.piece.lo, op.piece.hi - hi), 0.0)
        if not self.spare:
            return margin
        wanted = self.spare * value.error
        self.lacking[node.name] = np.maximum(wanted - margin, 0.0).max(axis=0)
        return np.maximum(margin, wanted)


def _total(parts: Iterable[Array]) -> Array:
    """The sum, rounded up; boxes of some may stand for all."""
    return upward(reduce(np.add, parts))


def _held(op: Mixing | SpelledSum, precision: Precision) -> bool:
    """Whether all entries are numbers of the format."""
    blocks = [block for _, block in op.blocks] if isinstance(op, SpelledSum) else [op]
    arrays = [np.asarray(one) for block in blocks for one in block.arrays().values()]
    wide = (one for one in arrays if one.dtype.itemsize > np.dtype(precision.dtype).itemsize)
    return all(np.array_equal(precision.cast(one), one) for one in wide)


def _spread(known: Array, size: Array) -> Array:
    """What is known of channels as numbers of units."""
    return np.repeat(known, size.shape[-1] // known.shape[-1], axis=-1)
