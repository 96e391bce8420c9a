"""What happens when f is evaluated in float64 or float32: |fl(f)(x) − f(x)|, any order.

The model (docs/certificates.md): IEEE arithmetic, rounding to nearest, sums in any order, products
fused with sums or not; parameters are first rounded to the precision; a norm is evaluated by its
formula, as a precomputed scale and shift, or folded into the affine map before it.

Two errors travel side by side. `carried` is the error of the cuts before, taken through the
composed map A' of the segment (which is as small as the target's own map); `local` is what the
nodes of this segment add, taken through |W| node by node. At a cut somebody else says how large
the error is there (see `figures`). With |ĥ| ≤ H + carried + local = Ĥ,

    affine:  local' = |W̃| local + |W̃ − W| Ĥ + |b̃ − b| + γ_{n+2} (|W̃| Ĥ + |b̃|)
    norm:    local' = |s| local + what its own rule says (`networks/maps/diagonal.py`)
    inner:   local' = |slope| local + what the error may push beyond the linear piece

n products and a bias meet n + 1 roundings; one is to spare.

Rests on proofs_check: accumulated-rounding, norm-rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from reconstruct.bounds.interval import image
from reconstruct.certificates.forms import Composites
from reconstruct.networks import (
    Activation,
    Add,
    Convolution,
    Diagonal,
    Map,
    Mixing,
    Network,
    Node,
)
from reconstruct.networks.maps.map import Fed, Summed
from reconstruct.numbers.double_double import Array, Enclosure, upward
from reconstruct.numbers.in_order import in_order
from reconstruct.numbers.precision import Precision

ELEMENTS = 2**20  # entries of a map that are looked at together
KERNEL_ELEMENTS = 2**21  # entries of a kernel that are held in float64 at once
BIAS = 2  # roundings of a sum of n products beyond n: one for its bias, one to spare


@dataclass(frozen=True, eq=False)
class Evaluated:
    """A network and what is known of it in real arithmetic: the forms of its nodes between the
    cuts, bounds of |value|, and the ranges of what its inner activations take."""

    network: Network
    forms: Composites[Enclosure]
    magnitudes: Mapping[str, Array]
    ranges: Mapping[str, tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class Arriving:
    """Errors in front of a cut: `carried` from the cuts before, `local` of this segment, and what
    the activation itself adds behind it."""

    carried: Array
    local: Array
    behind: Array


@dataclass(frozen=True, eq=False)
class Value:
    """Bounds of |value|, of the two errors, and of every partial result on the way."""

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
    """The errors of a network evaluated in `dtype`, from one cut to the next.

    `until` goes on to a cut and tells what arrives there; `settle` takes the error that the cut
    has in the end, from whoever knows the least one. `reason` says why there is no bound, if so.
    """

    def __init__(self, known: Evaluated, dtype: Any) -> None:
        self.known, self.network, self.precision = known, known.network, Precision(dtype)
        self.sources = known.forms.sources
        self.reason = ""
        size = known.magnitudes[self.network.source]
        nothing = np.zeros(self.network.size_in)
        self.values = {self.network.source: Value(size, nothing, nothing, size)}
        self.source_errors = {self.sources[self.network.source]: nothing}
        used = self.network.needed()
        self._left = iter([node for node in self.network.nodes if node.name in used])
        self._last = self._last_looks()

    def until(self, cut: str | None, op: Activation | None = None) -> Arriving:
        """What arrives in front of a cut, `op` its activation (None: a sum); None: the output."""
        with np.errstate(over="ignore", invalid="ignore"):
            for node in self._left:
                if node.name == cut:
                    return self._arriving(node, op)
                self._keep(node.name, self._step(node))
        value = self.values[self.network.output]
        return Arriving(value.carried, value.local, np.zeros_like(value.local))

    def settle(self, cut: str, error: Array) -> None:
        """The error of a cut's value, rounding of its activation included."""
        before = self._cut
        size = before.size
        self.source_errors[self.sources[cut]] = error
        self._keep(cut, Value(size, error, np.zeros_like(error), before.peak))

    def _arriving(self, node: Node, op: Activation | None) -> Arriving:
        """The errors at the input of an activation, or of a sum or a scaling that is a cut."""
        if op is None:
            value = self._cut = self._step(node)
            return Arriving(value.carried, value.local, np.zeros_like(value.local))
        value = self.values[node.inputs[0]]
        own = op.rounding(value.computed, self.precision)
        peak = op.carried(value.peak)
        self._cut = Value(op.magnitude(value.size), value.carried, value.local, peak)
        return Arriving(value.carried, value.local, own)

    def _keep(self, name: str, value: Value) -> None:
        known = self._known(name, value.size)
        value = Value(np.minimum(value.size, known), value.carried, value.local, value.peak)
        self.values[name] = value
        top = float(np.max(np.maximum(value.peak, value.computed), initial=0.0))
        if not top < self.precision.largest / 4 and not self.reason:
            kind = np.dtype(self.precision.dtype).name
            self.reason = f"node {name!r} may overflow {kind}"
        here = self._place[name]
        for old in [n for n in self.values if self._last[n] <= here]:
            del self.values[old]  # of wide layers on images all would not fit

    def _last_looks(self) -> dict[str, float]:
        """The place of the last node that looks at a value; a norm looks through a map too."""
        place = self._place = {node.name: i for i, node in enumerate(self.network.nodes)}
        last: dict[str, float] = dict.fromkeys(self.network.sizes, -1.0)
        for node in self.network.nodes:
            after = [place[n.name] for n in self.network.consumers(node.name)]
            for name in node.inputs:
                last[name] = max(last[name], place[node.name], *after)
        return last | {self.network.output: np.inf}

    def _known(self, name: str, size: Array) -> Array:
        """What is known of a value's magnitude, unit by unit; `size` where nothing is."""
        known = self.known.magnitudes.get(name)
        return size if known is None else np.repeat(known, len(size) // len(known))

    def _step(self, node: Node) -> Value:
        op, first = node.op, self.values[node.inputs[0]]
        if isinstance(op, Mixing):
            return self._mixing(node, op, first)
        if isinstance(op, Diagonal):
            return self._diagonal(node, op, first)
        if isinstance(op, Add):
            return self._sum([self.values[i] for i in node.inputs])
        if isinstance(op, Activation):
            return self._activation(op, node.name, first)
        assert isinstance(op, Map)  # units are moved about, and nothing is computed
        moved = (first.size, first.carried, first.local, first.peak)
        return Value(*(op.absolute(part) for part in moved))

    def _sum(self, values: list[Value]) -> Value:
        size = upward(np.sum([v.size for v in values], axis=0))
        rough = upward(np.sum([v.computed for v in values], axis=0))
        local = np.sum([v.local for v in values], axis=0)
        local = upward(local + self.precision.gamma(len(values) - 1) * rough)
        return Value(size, upward(np.sum([v.carried for v in values], axis=0)), local, rough)

    # --- affine maps ----------------------------------------------------------------------------

    def _mixing(self, node: Node, op: Mixing, value: Value) -> Value:
        """Products in blocks of rows, so that a wide map is never copied whole."""
        if isinstance(op, Convolution):
            return self._convolution(node, op, value)

        def rows(span: tuple[int, int]) -> tuple[Array, ...]:
            return self._rows(op.tile(*span), op.bias[slice(*span)], value)

        results = list(in_order(rows, op.spans(ELEMENTS)))
        size, carried, local, peak = (np.concatenate(part) for part in zip(*results, strict=True))
        if not self.known.forms.moves(node.inputs[0]):
            carried = np.minimum(carried, self._through_composite(node.name))
        return Value(size, carried, local, peak)

    def _rows(self, weight: Array, bias: Array, value: Value) -> tuple[Array, ...]:
        cast, offset = self.precision.cast(weight), self.precision.cast(bias)
        moved = None if np.array_equal(cast, weight) else np.abs(cast - weight) @ value.computed
        exact = np.abs(weight)
        held = exact if moved is None else np.abs(cast)
        size = upward(exact @ value.size + np.abs(bias))
        rounded = upward(held @ value.computed + np.abs(offset))
        terms = weight.shape[1] + BIAS
        local = held @ value.local + self.precision.gamma(terms) * rounded
        local = local + (0.0 if moved is None else moved) + np.abs(offset - bias)
        lost = terms * self.precision.tiny * (1 + float(np.max(value.computed, initial=0.0)))
        return size, upward(exact @ value.carried), upward(local + lost), rounded

    def _convolution(self, node: Node, op: Convolution, value: Value) -> Value:
        """The same for a kernel, at all positions at once, a tile of channels at a time."""
        step = max(1, KERNEL_ELEMENTS // op.summands) if op.groups == 1 else op.channels
        results = [
            self._channels(op, slice(start, start + step), value)
            for start in range(0, op.channels, step)
        ]
        size, carried, local, peak = (np.concatenate(part) for part in zip(*results, strict=True))
        if not self.known.forms.moves(node.inputs[0]):
            carried = np.minimum(carried, self._through_composite(node.name))
        return Value(size, carried, local, peak)

    def _channels(self, op: Convolution, part: slice, value: Value) -> tuple[Array, ...]:
        kernel = op.kernel[part].astype(np.float64, copy=False)
        bias = np.repeat(op.offsets[part], op.positions)
        cast, offset = self.precision.cast(kernel), self.precision.cast(bias)
        exact, rough, moved = (
            Convolution(np.abs(entries), op.geometry, None, op.groups)
            for entries in (kernel, cast, cast - kernel)
        )
        size = upward(exact.linear(value.size[None])[0] + np.abs(bias))
        rounded = upward(rough.linear(value.computed[None])[0] + np.abs(offset))
        terms = op.summands + BIAS
        local = rough.linear(value.local[None])[0] + self.precision.gamma(terms) * rounded
        local = local + moved.linear(value.computed[None])[0] + np.abs(offset - bias)
        lost = terms * self.precision.tiny * (1 + float(np.max(value.computed, initial=0.0)))
        return size, upward(exact.linear(value.carried[None])[0]), upward(local + lost), rounded

    def _through_composite(self, name: str) -> Array:
        """|A'| times the errors of the sources: far below |M2||s||M1| times them."""
        form = self.known.forms.form(name)
        parts = [m.magnitude() @ v(self.source_errors[v.source]) for v, m in form.parts()]
        return upward(np.sum([part.ravel() for part in parts], axis=0))

    # --- diagonal maps and activations ----------------------------------------------------------

    def _diagonal(self, node: Node, op: Diagonal, value: Value) -> Value:
        """Scaled errors, and what the map says of its own evaluation."""
        scale, shift = (part.magnitude() for part in op.enclosed())
        size = upward(scale * value.size + shift)
        size = np.minimum(size, self._known(node.name, size))
        size = np.minimum(size, self._behind_inner(node, op, size))
        fed = Fed(value.size, value.error, size, self._before(node))
        own = op.rounding(fed, self.precision)
        local = upward(scale * value.local + own.error)
        return Value(size, upward(scale * value.carried), local, own.peak)

    def _behind_inner(self, node: Node, op: Diagonal, size: Array) -> Array:
        """What is known of a magnitude behind an inner activation, whose range is known."""
        name = node.inputs[0]
        ends = self.known.ranges.get(name)
        if ends is None:
            return size
        lo, hi = (np.repeat(end, len(size) // len(end)) for end in ends)
        low, high = op.image(*image(self.network.node(name).op, (lo, hi)))
        return np.maximum(np.abs(low), np.abs(high))

    def _before(self, node: Node) -> Summed | None:
        """The sums that this map may be folded into."""
        name = node.inputs[0]
        op = None if name == self.network.source else self.network.node(name).op
        if not isinstance(op, Mixing):
            return None
        (taken,) = self.network.node(name).inputs
        inputs = float(upward(np.sum(self.values[taken].computed)))
        return Summed(op.summands + BIAS, op.largest, inputs, self.values[name].peak)

    def _activation(self, op: Activation, name: str, value: Value) -> Value:
        own = op.rounding(value.computed, self.precision)
        size, peak = op.magnitude(value.size), op.carried(value.peak)
        beyond = op.steepness * np.maximum(value.error - self._margin(op, name, value), 0.0)
        slope = abs(op.piece.slope)
        local = upward(slope * value.local + own + beyond)
        return Value(size, upward(slope * value.carried), local, peak)

    def _margin(self, op: Activation, name: str, value: Value) -> Array:
        """How far the inputs of an inner activation stay, in real arithmetic, within its piece."""
        lo, hi = (np.repeat(e, len(value.size) // len(e)) for e in self.known.ranges[name])
        return np.maximum(np.minimum(lo - op.piece.lo, op.piece.hi - hi), 0.0)
