"""Interval arithmetic, node by node, on many boxes at once: bounds have shape (boxes, size)."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from scipy import sparse

from reconstruct.bounds.relaxations import value_range
from reconstruct.networks.activations import Array
from reconstruct.networks.ops import Add, Affine, Matrix, Norm, Op, Select
from reconstruct.numbers.rounding import (
    SLACK,
    down,
    gamma,
    inflate,
    norm_scale,
    norm_shift,
    smallest,
    times,
    underflow,
    up,
    widen,
)

Range: TypeAlias = tuple[Array, Array]


def image(op: Op, *inputs: Range) -> Range:
    """Bounds of what `op` gives for inputs within their bounds."""
    if isinstance(op, Affine):
        return affine(op.weight, op.bias, *inputs[0])
    if isinstance(op, Norm):
        return _norm(op, *inputs[0])
    if isinstance(op, Add):
        return _add(inputs)
    if isinstance(op, Select):
        lo, hi = inputs[0]
        return lo[:, op.start : op.stop], hi[:, op.start : op.stop]
    return value_range(op, *inputs[0])


def affine(weight: Matrix, bias: Array, lo: Array, hi: Array) -> Range:
    """Bounds of `W h + b` for `lo ≤ h ≤ hi`: `W⁺lo + W⁻hi + b` and `W⁺hi + W⁻lo + b`.

    The rounding error is at most γ_{2k+1} times the same sum over magnitudes, plus underflow.
    A coordinate without finite bounds makes every row that uses it unbounded, and no other.
    """
    wide = weight.astype(np.float64, copy=False)
    unbounded = ~(np.isfinite(lo) & np.isfinite(hi))
    if unbounded.any():
        lo, hi = np.where(unbounded, 0.0, lo), np.where(unbounded, 0.0, hi)
    plus, minus = (wide.maximum(0), wide.minimum(0)) if sparse.issparse(wide) else _parts(wide)
    lost = underflow(2 * wide.shape[1], smallest(wide), min(smallest(lo), smallest(hi)))
    below, _ = _signed_sum(plus, minus, bias, lo, hi, lost)
    _, above = _signed_sum(plus, minus, bias, hi, lo, lost)
    if unbounded.any():
        touched = _apply(abs(wide) > 0, unbounded.astype(np.float64)) > 0
        below, above = np.where(touched, -np.inf, below), np.where(touched, np.inf, above)
    return below, above


def _signed_sum(
    plus: Matrix, minus: Matrix, bias: Array, first: Array, second: Array, lost: float
) -> Range:
    """Bounds of `W⁺·first + W⁻·second + b`, and infinite ones where the sum overflows."""
    terms = 2 * int(plus.shape[1]) + 1
    with np.errstate(all="ignore"):
        centre = _apply(plus, first) + _apply(minus, second) + bias
        size = _apply(plus, np.abs(first)) - _apply(minus, np.abs(second)) + np.abs(bias)
        radius = inflate(size, gamma(terms) * SLACK, 2.0 * lost)
    lo, hi = widen(centre, radius)
    bad = ~np.isfinite(centre)
    return (np.where(bad, -np.inf, lo), np.where(bad, np.inf, hi)) if bad.any() else (lo, hi)


def _parts(weight: Array) -> tuple[Array, Array]:
    return np.maximum(weight, 0.0), np.minimum(weight, 0.0)


def _apply(weight: Matrix, rows: Array) -> Array:
    """`weight @ row` for every row."""
    if sparse.issparse(weight):
        return np.asarray((weight @ rows.T).T)
    return np.asarray(rows @ weight.T)


def _norm(op: Norm, lo: Array, hi: Array) -> Range:
    """`s∘z + t` with both s and t known to within their own bounds."""
    scale_lo, scale_hi = norm_scale(op)
    first, second = times(lo, hi, scale_lo), times(lo, hi, scale_hi)
    shift_lo, shift_hi = norm_shift(op)
    plain = (shift_lo == 0) & (shift_hi == 0)
    with np.errstate(all="ignore"):
        below = np.minimum(first[0], second[0])
        above = np.maximum(first[1], second[1])
        lower = np.where(plain, below, down(below + shift_lo))
        upper = np.where(plain, above, up(above + shift_hi))
    return np.where(np.isnan(lower), -np.inf, lower), np.where(np.isnan(upper), np.inf, upper)


def _add(inputs: tuple[Range, ...]) -> Range:
    """Sums of lower and of upper bounds; a sum of two floats never underflows."""
    lo, hi = inputs[0]
    for other_lo, other_hi in inputs[1:]:
        with np.errstate(all="ignore"):
            lo = np.where((lo == 0) | (other_lo == 0), lo + other_lo, down(lo + other_lo))
            hi = np.where((hi == 0) | (other_hi == 0), hi + other_hi, up(hi + other_hi))
        lo, hi = np.where(np.isnan(lo), -np.inf, lo), np.where(np.isnan(hi), np.inf, hi)
    return lo, hi
