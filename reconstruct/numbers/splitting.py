"""Matrix products to about 2⁻¹⁰⁰ on an ordinary float64 BLAS, by error-free splitting.

Each operand is cut into slices of integers of at most 20 bits, relative to its row (left) or
column (right) maximum: `A = 2^e Σ_p 2^(−20(p+1)) A_p`. All pairs of one scale, p + q = l, are one
product, `[A_0 … A_l] [B_l; …; B_0]`. With at most 2¹³ terms to its sums, 2¹³·2²⁰·2²⁰ = 2⁵³, so it
is a matrix of integers that float64 holds exactly, whatever the order of summation and with or
without fused operations. The exact products are then added from the smallest to the largest; what
was never multiplied is bounded and goes into the radius. (Ozaki, Ogita, Oishi and Rump's splitting,
with integers instead of offsets.)

Rests on proofs_check: exact-splitting.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from reconstruct.numbers.arrays import Array, everywhere
from reconstruct.numbers.double_double import Enclosure, constant, two_sum, upward
from reconstruct.numbers.rounding import UNIT

BITS = 20
SLICES = 5  # 100 bits
CHUNK = 3 * 2**9  # SLICES·CHUNK ≤ 2¹³ and 2·BITS + 13 = 53: what is exact rests on this
ORDINARY = 900  # exponents up to which a power of two times a number neither over- nor underflows


def product(left: Array, right: Enclosure) -> Enclosure:
    """`left @ right` as an enclosure, for floats and an enclosure: matrices, or rows of them."""
    starts = range(0, max(1, left.shape[-1]), CHUNK)
    parts = (_short_product(left[..., i : i + CHUNK], right[..., i : i + CHUNK, :]) for i in starts)
    return reduce(Enclosure.__add__, parts)


def _short_product(left: Array, right: Enclosure) -> Enclosure:
    high, low = two_sum(right.high, right.low)  # now |low| ≤ u·|high|
    e, rows = _slices(left, everywhere(0.0, left.shape), axis=-1)
    f, columns = _slices(high, low, axis=-2)
    sums = _exact_sums(rows, columns)
    exponent = e + f
    centre, tail = _scaled(sums.high, exponent), _scaled(sums.low, exponent)
    dropped = _dropped(len(rows), len(columns)) * left.shape[-1]
    radius = _scaled(sums.radius + dropped, exponent)
    return Enclosure(centre, tail, upward(radius + _doubt(left, right.radius)))


def _doubt(left: Array, radius: Array) -> Array:
    """`|left| radius` from above but for rounding, quickly for columns of one number."""
    sizes = np.abs(left).sum(axis=-1, keepdims=True)
    everyone = constant(radius)
    if everyone is not None:
        return np.asarray(sizes * everyone)
    most = radius.max(axis=-2, keepdims=True, initial=0.0)
    doubt = sizes * most
    least = radius.min(axis=-2, keepdims=True, initial=np.inf)
    mixed = np.flatnonzero((least != most).reshape(-1, most.shape[-1]).any(axis=0))
    if len(mixed):
        doubt[..., mixed] = np.abs(left) @ radius[..., mixed]
    return np.asarray(doubt)


def _scaled(values: Array, exponent: Array) -> Array:
    """`values·2^exponent`: by a product, which is as exact, where the power is a float."""
    if np.all(np.abs(exponent) <= ORDINARY):
        return np.asarray(values * np.ldexp(1.0, exponent))
    return np.ldexp(values, exponent)


def _slices(high: Array, low: Array, axis: int) -> tuple[Array, list[Array]]:
    """Exponents e and integer slices q_p with `high + low = 2^e Σ_p 2^(−BITS(p+1)) q_p + rest`.

    There are at least two slices, and a rest only after SLICES of them, at most 2^(e − 101).
    |q_p| ≤ 2^BITS: the first slice by the choice of e, the others because |rest| ≤ 1/2 is
    scaled by 2^BITS, and `low` joins the third slice, where it is at most 2⁷.
    """
    top = np.max(np.abs(high), axis=axis, keepdims=True, initial=0.0)
    exponent = np.frexp(top)[1]
    rest = _scaled(high, BITS - exponent)
    tail = _scaled(low, 3 * BITS - exponent)
    slices: list[Array] = []
    for index in range(SLICES):
        if index == 2:
            rest, tail = two_sum(rest, tail)
        whole = np.rint(rest)
        slices.append(whole)
        rest = (rest - whole) * 2.0**BITS
        if index == 3:  # the last crumbs: one rounding below 2⁻¹⁰⁰ of the maximum
            rest = rest + tail * 2.0 ** (2 * BITS)
        if index >= 1 and not rest.any() and not tail.any():
            break
    return exponent, slices


def _exact_sums(rows: list[Array], columns: list[Array]) -> Enclosure:
    """Σ_{p+q < SLICES} 2^(−BITS(p+q+2)) A_p B_q, each scale exact, the smallest first."""
    left, right = np.concatenate(rows, axis=-1), np.concatenate(columns[::-1], axis=-2)
    n, last = rows[0].shape[-1], len(columns) - 1
    high, low, radius = np.zeros((3, *left.shape[:-1], right.shape[-1]))
    for level in reversed(range(SLICES)):
        p = slice(max(0, level - last), min(level + 1, len(rows)))
        if p.start < p.stop:  # the slices B_q, q = level − p, lie below each other
            q = slice(last - level + p.start, last - level + p.stop)
            exact = left[..., p.start * n : p.stop * n] @ right[..., q.start * n : q.stop * n, :]
            high, error = two_sum(high, exact * 2.0 ** (-BITS * (level + 2)))
            low = low + error
            radius += UNIT * np.abs(low)
    return Enclosure(*two_sum(high, low), radius)


def _dropped(p: int, q: int) -> float:
    """What one term of the sum loses, relative to 2^(e+f): slices that never met, and rests.

    The pairs with i + j ≥ SLICES are dropped. In these i, j ≥ 1, so that |A_i| and |B_j| are at
    most 2^(BITS−1), or 2⁷ more where `low` joined: they come to hardly more than a quarter of what
    is counted for them here. A rest, at most half of 2^(−BITS·SLICES) for each factor, is there
    only beside SLICES slices, of which the last meets the second of the other factor, and where
    both factors have one, four such pairs are counted: the other three quarters, but for that, hold
    the rests and the rounding of the last crumbs.
    """
    return sum(2.0 ** (-BITS * (i + j)) for i in range(p) for j in range(q) if i + j >= SLICES)
