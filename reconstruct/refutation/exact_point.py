"""The value of a network at a point in exact arithmetic.

Floats are dyadic rationals, so affine maps, sums, ReLU, LeakyReLU and Clip are evaluated without
any rounding. A norm is exact where √(v + ε) makes its scale a dyadic rational (in drawn networks
it is 1); otherwise, and for exp in Elu and Selu, the value is an interval of rationals that is as
narrow as `bits` asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reconstruct.errors import InputError
from reconstruct.networks import (
    Add,
    Affine,
    Clip,
    LeakyRelu,
    Network,
    Norm,
    Op,
    Relu,
    Select,
    Selu,
    dense,
)
from reconstruct.numbers.dyadic import Dyadic, Integers, integers

BITS = 256

Interval = tuple[Fraction, Fraction]


def evaluate_exact(network: Network, x: ArrayLike) -> tuple[Fraction, ...]:
    """The value at x as rational numbers; an InputError where it is not known to be rational."""
    values = Evaluator(network)(x)
    if any(lo != hi for lo, hi in values):
        raise InputError(
            "an exact value needs norms whose √(var + eps) is rational and no exponentials, but "
            "this network has others; use `enclose`, which gives an interval of rationals"
        )
    return tuple(lo for lo, _ in values)


def enclose(network: Network, x: ArrayLike, bits: int = BITS) -> tuple[Interval, ...]:
    """An interval of rationals around each output at x; of no width where the value is exact."""
    return Evaluator(network, bits)(x)


class Evaluator:
    """A network ready for exact evaluation at many points: its numbers as integers, once."""

    def __init__(self, network: Network, bits: int = BITS) -> None:
        self.network, self.bits = network, bits
        self._weights: dict[str, tuple[Integers, int]] = {}
        self._norms: dict[str, tuple[Dyadic, Dyadic]] = {}

    def __call__(self, x: ArrayLike) -> tuple[Interval, ...]:
        point = np.asarray(x, dtype=np.float64)
        if point.shape != (self.network.size_in,) or not np.all(np.isfinite(point)):
            raise InputError(
                f"exact evaluation needs one point of {self.network.size_in} finite numbers, but "
                f"got shape {point.shape}"
            )
        values = {self.network.source: Dyadic.exact(point)}
        for node in self.network.nodes:
            inputs = [values[i] for i in node.inputs]
            values[node.name] = self._apply(node.name, node.op, inputs).trimmed(self.bits)
        return values[self.network.output].fractions()

    def _apply(self, name: str, op: Op, inputs: list[Dyadic]) -> Dyadic:
        value = inputs[0]
        if isinstance(op, Affine):
            if name not in self._weights:
                self._weights[name] = integers(dense(op.weight))
            return value.times(*self._weights[name]) + Dyadic.exact(op.bias)
        if isinstance(op, Norm):
            if name not in self._norms:
                self._norms[name] = effective_norm(op, self.bits)
            scale, shift = self._norms[name]
            return value * scale + shift
        if isinstance(op, Add):
            total = value
            for other in inputs[1:]:
                total = total + other
            return total
        if isinstance(op, Select):
            low = value.low[op.start : op.stop]
            exact = value.low is value.high
            return Dyadic(low, low if exact else value.high[op.start : op.stop], value.shift)
        return _activation(op, value, self.bits)


def root_bounds(value: Fraction, bits: int) -> Interval:
    """Rationals around √value, equal when the root is rational."""
    p, q = value.numerator, value.denominator
    root = Fraction(isqrt(p), isqrt(q))
    if root * root == value:
        return root, root
    places = bits + max(0, q.bit_length() - p.bit_length())
    floor = isqrt((p << (2 * places)) // q)
    return Fraction(floor, 1 << places), Fraction(floor + 1, 1 << places)


def effective_norm(norm: Norm, bits: int) -> tuple[Dyadic, Dyadic]:
    """`s = γ/√(v + ε)` and `t = β − s μ` as intervals of dyadic numbers, exact where they are."""
    scales, shifts = [], []
    for g, b, mean, var in zip(norm.gamma, norm.beta, norm.mean, norm.var, strict=True):
        low, high = root_bounds(Fraction(float(var)) + Fraction(norm.eps), bits)
        ends = sorted((Fraction(float(g)) / low, Fraction(float(g)) / high))
        scales.append((ends[0], ends[1]))
        parts = sorted(-end * Fraction(float(mean)) for end in ends)
        shifts.append((Fraction(float(b)) + parts[0], Fraction(float(b)) + parts[1]))
    return _dyadic(scales, bits), _dyadic(shifts, bits)


def _dyadic(intervals: Sequence[Interval], bits: int) -> Dyadic:
    """The intervals over one power of two, rounded outward where that is needed."""
    ends = [end for pair in intervals for end in pair]
    if all(end.denominator & (end.denominator - 1) == 0 for end in ends):
        places = max(end.denominator.bit_length() - 1 for end in ends)
    else:
        small = max(
            (e.denominator.bit_length() - e.numerator.bit_length() for e in ends if e), default=0
        )
        places = bits + max(0, small)
    scale = 1 << places
    low = np.array([lo.numerator * scale // lo.denominator for lo, _ in intervals], dtype=object)
    high = np.array(
        [-(-hi.numerator * scale // hi.denominator) for _, hi in intervals], dtype=object
    )
    return Dyadic(low, low if bool(np.all(low == high)) else high, places)


def _activation(op: Any, value: Dyadic, bits: int) -> Dyadic:
    if isinstance(op, Relu):
        return _ends(value, lambda v: np.maximum(v, 0))
    if isinstance(op, Clip):
        return _clipped(op, value)
    if isinstance(op, LeakyRelu):
        factor, shift = integers(np.array([op.slope]))
        wide = value.at(value.shift)
        bent = _ends(wide, lambda v: np.where(v >= 0, v << shift, v * int(factor[0])))
        if op.slope < 0 and bent.low is not bent.high:  # a valley: the least value may be inside
            least = np.where((value.low < 0) & (value.high > 0), 0, np.minimum(bent.low, bent.high))
            bent = Dyadic(least, np.maximum(bent.low, bent.high), bent.shift)
        return Dyadic(bent.low, bent.high, value.shift + shift)
    return _exponential(op, value, bits)


def _clipped(op: Clip, value: Dyadic) -> Dyadic:
    """Both ends applied in turn; an end at infinity clips nothing."""
    for end, pick in ((op.lo, np.maximum), (op.hi, np.minimum)):
        if np.isfinite(end):
            whole, shift = integers(np.array([end]))
            value = value.at(max(shift, value.shift))
            limit = int(whole[0]) << (value.shift - shift)
            value = _ends(value, lambda v, pick=pick, limit=limit: pick(v, limit))
    return value


def _ends(value: Dyadic, monotone: Any) -> Dyadic:
    """A rising function applied to both ends."""
    low = monotone(value.low)
    return Dyadic(low, low if value.low is value.high else monotone(value.high), value.shift)


def _exponential(op: Any, value: Dyadic, bits: int) -> Dyadic:
    """Elu and Selu: `gain·z` above 0 and `gain·alpha·(exp(z) − 1)` below, both rising for
    alpha ≥ 0; for alpha < 0 the pieces are bounded together."""
    gain = Fraction(op.gamma) if isinstance(op, Selu) else Fraction(1)
    alpha = Fraction(op.alpha)
    pairs = []
    for lo, hi in value.fractions():
        below = [alpha * (e - 1) for z in (lo, hi) for e in exp_bounds(min(z, Fraction(0)), bits)]
        above = [max(z, Fraction(0)) for z in (lo, hi)]
        ends = ([] if lo >= 0 else below) + (above if hi >= 0 else [])
        pairs.append((min(gain * e for e in ends), max(gain * e for e in ends)))
    return _dyadic(pairs, bits)


def exp_bounds(z: Fraction, bits: int) -> Interval:
    """Rationals around exp(z) for z ≤ 0: Taylor's series of z/2^r, squared r times.

    With 0 ≤ y = −z/2^r ≤ 1/2 the series alternates, so two partial sums in a row enclose it;
    every step is rounded outward to 2^−places.
    """
    halvings = max(0, (-z.numerator // z.denominator).bit_length() + 1)
    if halvings > 20:
        return Fraction(0), Fraction(1, 1 << bits)
    places = bits + 2 * halvings + 16
    one = 1 << places
    y_low = -z.numerator * one // (z.denominator << halvings)
    y_high = y_low + 1
    low = _series(y_high, places)[0]
    high = _series(y_low, places)[1]
    for _ in range(halvings):
        low, high = low * low >> places, -(-high * high >> places)
    return Fraction(max(low, 0), one), Fraction(min(high, one), one)


def _series(y: int, places: int) -> tuple[int, int]:
    """Bounds of exp(−y·2^−places)·2^places for 0 ≤ y·2^−places ≤ 1/2 + 2^−places.

    A term's floor errs by at most e' = e/2 + 1 ≤ 2; the alternating rest is below its first term.
    """
    total, term, index = 0, 1 << places, 0
    while term > 1:
        total += term if index % 2 == 0 else -term
        index += 1
        term = term * y // (index << places)
    return total - 2 * index - 6, total + 2 * index + 6
