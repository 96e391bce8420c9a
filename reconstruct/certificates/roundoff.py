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

from reconstruct.certificates.error_recursion import Layered
from reconstruct.networks import Activation, Add, Diagonal, Mixing, Network, Node, Norm, Select
from reconstruct.numbers.double_double import Array, upward
from reconstruct.numbers.precision import Precision

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
        used = self.network.needed()
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
        if isinstance(op, Mixing):
            return self._mixing(node, op, first)
        if isinstance(op, Norm):
            return self._norm(op, node, first)
        if isinstance(op, Diagonal):
            return self._scaling(op, first)
        if isinstance(op, Select):
            part = op.block
            return _Value(
                first.size[part], first.carried[part], first.local[part], first.peak[part]
            )
        if isinstance(op, Add):
            return self._sum([self.values[i] for i in node.inputs])
        assert isinstance(op, Activation)
        return self._activation(op, node.name, first)

    def _sum(self, values: list[_Value]) -> _Value:
        size = upward(np.sum([v.size for v in values], axis=0))
        rough = upward(np.sum([v.computed for v in values], axis=0))
        local = np.sum([v.local for v in values], axis=0)
        local = upward(local + self.precision.gamma(len(values)) * rough)
        return _Value(size, upward(np.sum([v.carried for v in values], axis=0)), local, rough)

    # --- affine maps ----------------------------------------------------------------------------

    def _mixing(self, node: Node, op: Mixing, value: _Value) -> _Value:
        """Products in blocks of rows, so that a wide map is never copied whole."""
        results = []
        for start, stop, weight in op.tiles(2**22):
            results.append(self._rows(weight, op.bias[start:stop], value))
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

    # --- norms, scalings and activations --------------------------------------------------------

    def _norm(self, op: Norm, node: Node, value: _Value) -> _Value:
        """|s z| is bounded by |output| + |t| too, which is far less once z is correlated."""
        name = node.name
        scale, shift = (part.magnitude() for part in op.enclosed())
        mean, beta, gamma = (op.spread(part) for part in (op.mean, op.beta, op.gamma))
        centre = upward(scale * np.abs(mean))
        size = upward(scale * value.size + shift)
        size = np.minimum(size, self.layered.magnitudes.get(name, size))
        moved = upward(scale * value.error)
        scaled = upward(np.minimum(scale * value.size, size + shift) + moved)
        rough = upward(scaled + 2 * centre + np.abs(beta))
        local = scale * value.local + self.precision.gamma(NORM) * upward(rough + size)
        if not self._representable(op, node, scale):
            local = local + np.inf  # a statistic that rounds away or overflows: nothing is known
        centred = upward(value.computed + np.abs(mean))
        inverse = np.maximum(1.0, 1.0 / op.spread(op.deviation))
        fed = centred * inverse + self._fed(node)
        lost = 8 * self.precision.tiny * (1 + scale + np.abs(gamma) + fed)
        steps = np.maximum(np.abs(gamma), 1.0) * inverse
        peak = upward(np.maximum(rough, centred * steps))
        return _Value(size, upward(scale * value.carried), upward(local + lost), peak)

    def _scaling(self, op: Diagonal, value: _Value) -> _Value:
        """Casts of factor, divisor and offset, a product, a quotient and a sum: γ_8 of all terms.

        |z·factor| and |z·factor/divisor| may lie far apart, so the peak takes both.
        """
        scale, shift = (part.magnitude() for part in op.enclosed())
        size = upward(scale * value.size + shift)
        rough = upward(scale * value.computed + shift)
        numbers = [np.abs(part) for part in op.arrays().values()]
        fits = all(np.all(self._normal(part)) for part in numbers)
        local = scale * value.local + self.precision.gamma(8) * rough
        lost = 8 * self.precision.tiny * (1 + scale + 1 / np.minimum(1.0, _least(numbers)))
        local = upward(local + lost) if fits else np.full_like(local, np.inf)
        peak = upward(rough + value.computed * np.maximum(1.0, np.max(numbers, axis=0)))
        return _Value(size, upward(scale * value.carried), local, peak)

    def _normal(self, values: Array) -> Array:
        """Whether numbers stay normal in the format, so that a cast errs by u relative."""
        small, large = self.precision.tiny, self.precision.largest / 4
        return np.asarray((values == 0) | ((values >= small) & (values < large)))

    def _representable(self, op: Norm, node: Node, scale: Array) -> bool:
        """No parameter of the norm, nor of the map it is folded into, leaves the format's range."""
        inside = self._mixing_before(node)
        largest = 1.0 if inside is None else max(1.0, inside[0].largest)
        spread = op.var + op.eps
        tops = (spread, np.abs(op.gamma), upward(scale * largest))
        high = max(float(np.max(part, initial=0.0)) for part in tops)
        low = float(np.min(spread, initial=1.0))
        return low >= 2.0**20 * self.precision.tiny and high < self.precision.largest / 4

    def _fed(self, node: Node) -> float:
        """Σ|h| of the affine map before a norm: what the underflow of a folded weight meets."""
        inside = self._mixing_before(node)
        return 0.0 if inside is None else float(np.sum(self.values[inside[1]].computed))

    def _mixing_before(self, node: Node) -> tuple[Mixing, str] | None:
        """The map that a norm may be folded into, and the name of its input."""
        if node.inputs[0] == self.network.source:
            return None
        before = self.network.node(node.inputs[0])
        return (before.op, before.inputs[0]) if isinstance(before.op, Mixing) else None

    def _activation(self, op: Activation, name: str, value: _Value) -> _Value:
        own = op.rounding(value.computed, self.precision)
        size = op.magnitude(value.size)
        if name in self.sources:
            error = upward(op.lipschitz * value.error + own)
            return _Value(size, error, np.zeros_like(error), value.peak)
        lo, hi = self.layered.ranges[name]
        margin = np.maximum(np.minimum(lo - op.piece.lo, op.piece.hi - hi), 0.0)
        beyond = op.steepness * np.maximum(value.error - margin, 0.0)
        slope = abs(op.piece.slope)
        local = upward(slope * value.local + own + beyond)
        return _Value(size, upward(slope * value.carried), local, value.peak)


def _least(numbers: list[Array]) -> float:
    """The smallest magnitude that is not zero."""
    found = [float(np.min(part[part > 0], initial=1.0)) for part in numbers]
    return min(found)
