"""An evaluator in exact rationals, written apart from the package: the soundness oracle."""

from __future__ import annotations

from fractions import Fraction
from math import inf, isfinite, isnan, lcm

import numpy as np

from reconstruct.networks import (
    Add,
    Clip,
    LeakyRelu,
    MaxPool,
    Mixing,
    Network,
    Norm,
    Placement,
    Relu,
    Scaling,
    Select,
    dense,
)


def rational_values(network: Network, point) -> dict[str, list[Fraction]]:
    """The exact value of every node at one point, every float taken as the rational it is."""
    values = {network.source: [Fraction(float(x)) for x in point]}
    for node in network.nodes:
        values[node.name] = _apply(node.op, [values[i] for i in node.inputs])
    return values


def rational_forms(forms, value: list[Fraction], offsets) -> list[Fraction]:
    """`forms·value + offsets`, exactly: integers over one denominator, reduced at the end."""
    right, below = _over_one(value)
    found = []
    for row, c in zip(dense(forms).tolist(), np.asarray(offsets).tolist(), strict=True):
        left, unit = _over_one([Fraction(a) for a in row])
        total = sum(a * v for a, v in zip(left, right, strict=True))
        found.append(Fraction(total, unit * below) + Fraction(c))
    return found


def _over_one(values: list[Fraction]) -> tuple[list[int], int]:
    common = lcm(*(v.denominator for v in values))
    return [v.numerator * (common // v.denominator) for v in values], common


def _apply(op, inputs: list[list[Fraction]]) -> list[Fraction]:
    first = inputs[0]
    if isinstance(op, Mixing):
        return rational_forms(op.weight, first, op.bias)
    if isinstance(op, Norm):
        return [_norm(op, i, z) for i, z in enumerate(first)]
    if isinstance(op, Add):
        return [sum(parts, Fraction(0)) for parts in zip(*inputs, strict=True)]
    if isinstance(op, Select):
        return first[op.start : op.stop]
    if isinstance(op, Placement):
        return [first[i] if i >= 0 else Fraction(0) for i in op.index.tolist()]
    if isinstance(op, MaxPool):
        return [max(first[i] for i in places if i >= 0) for places in op.windows.T.tolist()]
    if isinstance(op, Scaling):
        numbers = zip(first, op.factor, op.divisor, op.offset, strict=True)
        return [z * Fraction(f) / Fraction(d) + Fraction(c) for z, f, d, c in numbers]
    if isinstance(op, Relu):
        return [max(z, Fraction(0)) for z in first]
    if isinstance(op, LeakyRelu):
        return [z if z >= 0 else Fraction(op.slope) * z for z in first]
    if isinstance(op, Clip):
        return [min(max(z, Fraction(op.lo)), Fraction(op.hi)) for z in first]
    raise TypeError(f"no exact value for {op!r}")


def _norm(op: Norm, i: int, z: Fraction) -> Fraction:
    """Needs var + eps to be the square of a rational, as the tests' norms have it."""
    total = Fraction(float(op.var[i])) + Fraction(op.eps)
    root = Fraction(int(np.round(float(total) ** 0.5 * 2**20)), 2**20)
    assert root * root == total, "choose var and eps with a rational square root"
    gamma, beta, mean = (Fraction(float(a[i])) for a in (op.gamma, op.beta, op.mean))
    return gamma * (z - mean) / root + beta


def holds(bounds, exact: list[Fraction]) -> bool:
    """`lo ≤ exact ≤ hi` with no slack at all; infinite bounds hold, NaN does not."""
    ends = (np.asarray(end).tolist() for end in bounds)
    for lo, hi, value in zip(*ends, exact, strict=True):
        if isnan(lo) or isnan(hi) or lo == inf or hi == -inf:
            return False
        if isfinite(lo) and Fraction(lo) > value:
            return False
        if isfinite(hi) and Fraction(hi) < value:
            return False
    return True
