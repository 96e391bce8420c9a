"""What happens when f is evaluated in float64 or float32: |fl(f)(x) − f(x)|, any order.

The model (docs/certificates.md): IEEE arithmetic, rounding to nearest, sums in any order, products
fused with sums or not; parameters are first rounded to the precision; a norm is evaluated by its
formula, as a precomputed scale and shift, or folded into the affine map before it.

Two errors travel side by side. `carried` is the error of the sources before, taken through the
composed map A' of the segment (which is as small as the target's own map); `local` is what the
nodes of this segment add, taken through |W| node by node. With |ĥ| ≤ H + carried + local = Ĥ,

    affine:  local' = |W̃| local + |W̃ − W| Ĥ + |b̃ − b| + γ_{n+16} (|W̃| Ĥ + |b̃|)
    norm:    local' = |s| local + γ_14 (|s ẑ| + 2|s μ| + |β| + |output|)
    inner:   local' = |slope| local + what the error may push beyond the linear piece
    cut:     carried = Lip·(carried + local) + the activation's own rounding, local = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from reconstruct.certificates.alignment import needed
from reconstruct.certificates.error_recursion import Layered, steepness
from reconstruct.networks import ACTIVATIONS, Activation, Add, Affine, Network, Node, Norm, Select
from reconstruct.numbers.double_double import Array, effective, upward
from reconstruct.numbers.precision import Precision, evaluation_error

FOLDED = 16  # roundings of a folded norm's scale: √, ÷, v + ε, casts, the product; some to spare
NORM = 14


@dataclass(frozen=True)
class Roundoff:
    """`bound` ≥ |fl(f)_j − f_j| for every output, or None with the `reason` why there is none."""

    bound: float | None
    reason: str = ""


@dataclass(frozen=True, eq=False)
class _Value:
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


def roundoff(network: Network, layered: Layered, dtype: Any) -> Roundoff:
    """Bound |fl(f) − f| for the candidate of a layered bound, evaluated in `dtype`."""
    precision = Precision(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        return _Forward(network, layered, precision).run()


class _Forward:
    def __init__(self, network: Network, layered: Layered, precision: Precision) -> None:
        self.network, self.layered, self.precision = network, layered, precision
        self.sources = layered.composites.sources
        size = layered.magnitudes[network.source]
        nothing = np.zeros(network.size_in)
        self.values = {network.source: _Value(size, nothing, nothing, size)}
        self.source_errors = {self.sources[network.source]: nothing}

    def run(self) -> Roundoff:
        used = needed(self.network)
        for node in self.network.nodes:
            if node.name not in used:
                continue
            value = self._step(node)
            known = self.layered.magnitudes.get(node.name, value.size)
            value = _Value(np.minimum(value.size, known), value.carried, value.local, value.peak)
            if node.name in self.sources:
                value = _Value(value.size, value.error, np.zeros_like(value.error), value.peak)
                self.source_errors[self.sources[node.name]] = value.carried
            self.values[node.name] = value
            top = float(np.max(np.maximum(value.peak, value.computed), initial=0.0))
            if not top < self.precision.largest / 4:
                kind = np.dtype(self.precision.dtype).name
                return Roundoff(None, f"node {node.name!r} may overflow {kind}")
        return Roundoff(float(np.max(self.values[self.network.output].error, initial=0.0)))

    def _step(self, node: Node) -> _Value:
        op, first = node.op, self.values[node.inputs[0]]
        if isinstance(op, Affine):
            return self._affine(node, op, first)
        if isinstance(op, Norm):
            return self._norm(op, node, first)
        if isinstance(op, Select):
            part = slice(op.start, op.stop)
            return _Value(
                first.size[part], first.carried[part], first.local[part], first.peak[part]
            )
        if isinstance(op, Add):
            return self._sum([self.values[i] for i in node.inputs])
        assert isinstance(op, ACTIVATIONS)
        return self._activation(op, node.name, first)

    def _sum(self, values: list[_Value]) -> _Value:
        size = upward(np.sum([v.size for v in values], axis=0))
        rough = upward(np.sum([v.computed for v in values], axis=0))
        local = np.sum([v.local for v in values], axis=0)
        local = upward(local + self.precision.gamma(len(values)) * rough)
        return _Value(size, upward(np.sum([v.carried for v in values], axis=0)), local, rough)

    # --- affine maps ----------------------------------------------------------------------------

    def _affine(self, node: Node, op: Affine, value: _Value) -> _Value:
        """Products in blocks of rows, so that a wide map is never copied whole."""
        results = []
        step = max(1, 2**22 // op.weight.shape[1])
        for start in range(0, op.weight.shape[0], step):
            block = op.weight[start : start + step]
            block = block.toarray() if sparse.issparse(block) else block
            weight = np.asarray(block, dtype=np.float64)
            results.append(self._rows(weight, op.bias[start : start + step], value))
        size, carried, local, peak = (np.concatenate(part) for part in zip(*results, strict=True))
        if node.inputs[0] not in self.sources:
            carried = np.minimum(carried, self._through_composite(node.name))
        return _Value(size, carried, local, peak)

    def _rows(self, weight: Array, bias: Array, value: _Value) -> tuple[Array, ...]:
        cast, offset = self.precision.cast(weight), self.precision.cast(bias)
        size = upward(np.abs(weight) @ value.size + np.abs(bias))
        rounded = upward(np.abs(cast) @ value.computed + np.abs(offset))
        terms = weight.shape[1] + FOLDED
        local = np.abs(cast) @ value.local + self.precision.gamma(terms) * rounded
        local = local + np.abs(cast - weight) @ value.computed + np.abs(offset - bias)
        lost = terms * self.precision.tiny * (1 + float(np.max(value.computed, initial=0.0)))
        return size, upward(np.abs(weight) @ value.carried), upward(local + lost), rounded

    def _through_composite(self, name: str) -> Array:
        """|A'| times the errors of the sources: far below |M2||s||M1| times them."""
        form = self.layered.composites.form(name)
        parts = (m.magnitude() @ self.source_errors[source] for source, m in form.parts())
        return upward(sum(parts))

    # --- norms and activations ------------------------------------------------------------------

    def _norm(self, op: Norm, node: Node, value: _Value) -> _Value:
        """|s z| is bounded by |output| + |t| too, which is far less once z is correlated."""
        name = node.name
        scale, shift = (part.magnitude() for part in effective(op))
        centre = upward(scale * np.abs(op.mean))
        size = upward(scale * value.size + shift)
        size = np.minimum(size, self.layered.magnitudes.get(name, size))
        moved = upward(scale * value.error)
        scaled = upward(np.minimum(scale * value.size, size + shift) + moved)
        rough = upward(scaled + 2 * centre + np.abs(op.beta))
        local = scale * value.local + self.precision.gamma(NORM) * upward(rough + size)
        if not self._representable(op, node, scale):
            local = local + np.inf  # a statistic that rounds away or overflows: nothing is known
        centred = upward(value.computed + np.abs(op.mean))
        inverse = np.maximum(1.0, 1.0 / op.deviation)
        fed = centred * inverse + self._fed(node)
        lost = 8 * self.precision.tiny * (1 + scale + np.abs(op.gamma) + fed)
        steps = np.maximum(np.abs(op.gamma), 1.0) * inverse
        peak = upward(np.maximum(rough, centred * steps))
        return _Value(size, upward(scale * value.carried), upward(local + lost), peak)

    def _representable(self, op: Norm, node: Node, scale: Array) -> bool:
        """No parameter of the norm, nor of the map it is folded into, leaves the format's range."""
        inside = self._affine_before(node)
        largest = 1.0 if inside is None else max(1.0, float(abs(inside[0].weight).max()))
        spread = op.var + op.eps
        tops = (spread, np.abs(op.gamma), upward(scale * largest))
        high = max(float(np.max(part, initial=0.0)) for part in tops)
        low = float(np.min(spread, initial=1.0))
        return low >= 2.0**20 * self.precision.tiny and high < self.precision.largest / 4

    def _fed(self, node: Node) -> float:
        """Σ|h| of the affine map before a norm: what the underflow of a folded weight meets."""
        inside = self._affine_before(node)
        return 0.0 if inside is None else float(np.sum(self.values[inside[1]].computed))

    def _affine_before(self, node: Node) -> tuple[Affine, str] | None:
        """The affine map that a norm may be folded into, and the name of its input."""
        for before in self.network.nodes:
            if before.name == node.inputs[0] and isinstance(before.op, Affine):
                return before.op, before.inputs[0]
        return None

    def _activation(self, op: Activation, name: str, value: _Value) -> _Value:
        own = evaluation_error(op, value.computed, self.precision)
        size = upward(op.lipschitz * value.size)
        if name in self.sources:
            error = upward(op.lipschitz * value.error + own)
            return _Value(size, error, np.zeros_like(error), value.peak)
        lo, hi = self.layered.ranges[name]
        margin = np.maximum(np.minimum(lo - op.piece.lo, op.piece.hi - hi), 0.0)
        beyond = steepness(op) * np.maximum(value.error - margin, 0.0)
        slope = abs(op.piece.slope)
        local = upward(slope * value.local + own + beyond)
        return _Value(size, upward(slope * value.carried), local, value.peak)
