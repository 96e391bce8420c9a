"""Outward rounding: what is true of real numbers, from floating-point arithmetic.

The model: IEEE binary64 with gradual underflow, rounding to nearest, sums in any order, products
fused with sums or not. With u = 2^-53 and η = 2^-1074 (the smallest positive number),

    fl(x ∘ y) = (x ∘ y)(1 + δ) + ε,   |δ| ≤ u,   |ε| ≤ η/2,   ε = 0 for sums,

and therefore, for a matrix product with n terms per entry,

    |fl(A B) − A B| ≤ γ_n |A||B| + n·η,   γ_n = n·u/(1 − n·u).

A sum that overflows gives ±inf or NaN and never comes back, so a result that is not finite is
read as "no bound": lower bound −inf, upper bound +inf.

Rests on proofs_check: accumulated-rounding.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from scipy import sparse

from reconstruct.errors import InputError
from reconstruct.numbers.arrays import Array, Matrix

UNIT = 2.0**-53
TINY = 2.0**-1074
SAFE = 2.0**-1020  # a product whose factors' magnitudes multiply to at least this never underflows
PART = 2**20  # entries that are looked at together
SLACK = 1.0 + 2.0**-8  # covers second-order terms of an error term, for up to 2^40 summands


def gradual_underflow() -> bool:
    """Whether arithmetic in this process keeps numbers below the smallest normal one.

    A library compiled with -ffast-math may have set the processor to flush them to zero, and then
    no outward rounding holds. Tried in vectors, single numbers and matrix products.
    """
    for kind in (np.float64, np.float32):
        least = np.full(67, np.finfo(kind).tiny)
        half = least * kind(0.5)
        whole = np.array_equal(half + half, least) and bool((half != 0).all())
        product = least[:64].reshape(8, 8) @ np.diag(np.full(8, kind(0.5)))
        if not (
            whole
            and half[0] + half[1] == least[0]
            and np.array_equal(product + product, least[:64].reshape(8, 8))
        ):
            return False
    return sys.float_info.min / 2 > 0


def require_gradual_underflow() -> None:
    """Refuses to prove anything where outward rounding does not hold."""
    if not gradual_underflow():
        raise InputError(
            "a proof needs gradual underflow, but this process flushes numbers below 2^-1022 to "
            "zero; unload what was compiled with -ffast-math (see LD_PRELOAD) and try again"
        )


def up(x: Any) -> Array:
    """The next float64 above: `x + y ≤ up(fl(x + y))`, and so for products and quotients."""
    with np.errstate(over="ignore", under="ignore"):  # above the largest float is infinity
        return np.asarray(np.nextafter(x, np.inf))


def down(x: Any) -> Array:
    """The next float64 below: `down(fl(x + y)) ≤ x + y`, and so for products and quotients."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.nextafter(x, -np.inf))


def gamma(n: int) -> float:
    """An upper bound of `γ_n = n·u/(1 − n·u)`.

    n·u and 1 − n·u are exact (small integers times a power of two); the quotient is rounded up.
    """
    if not 0 <= n < 2**40:
        raise ValueError(f"a sum of {n} terms is outside of what the rounding bounds cover")
    return float(up(n * UNIT / (1.0 - n * UNIT))) if n else 0.0


def magnitude(lo: Array, hi: Array) -> Array:
    """The largest |x| over `lo ≤ x ≤ hi`; exact."""
    return np.maximum(np.abs(lo), np.abs(hi))


def smallest(values: Matrix) -> float:
    """The smallest magnitude among the entries that are not zero (+inf if there are none)."""
    entries = np.ravel(values.data if sparse.issparse(values) else np.asarray(values))
    parts = (np.abs(entries[i : i + PART]) for i in range(0, len(entries), PART))
    return min((float(np.min(p, initial=np.inf, where=p > 0)) for p in parts), default=np.inf)


def underflow(terms: int, *factors: float) -> float:
    """A bound of what underflow does to a sum of that many products, at most `terms·η`.

    `factors` are the smallest non-zero magnitudes of the two factors; when their product is
    large enough nothing underflows, and a zero result is then an exact zero. (A fused sum that
    cancels into the subnormal range errs by η/2 ≤ u·|product|, which γ_n already counts.)
    """
    left, right = factors
    with np.errstate(over="ignore", under="ignore"):
        return 0.0 if left * right >= SAFE else terms * TINY


def inflate(x: Array, factor: float, extra: float = 0.0) -> Array:
    """At least `factor·x + extra` for x, factor, extra ≥ 0, and exactly 0 if both terms are."""
    scaled = np.where(x == 0, 0.0, up(x * factor))
    return scaled if extra == 0 else up(scaled + extra)


def widen(centre: Array, radius: Array) -> tuple[Array, Array]:
    """`(lo, hi)` that hold `centre ± radius`; a radius of 0 leaves the centre as it is."""
    with np.errstate(all="ignore"):
        lo = np.where(radius == 0, centre, down(centre - radius))
        hi = np.where(radius == 0, centre, up(centre + radius))
    return np.where(np.isnan(lo), -np.inf, lo), np.where(np.isnan(hi), np.inf, hi)


def midpoint(lo: Array, hi: Array) -> tuple[Array, Array]:
    """`(centre, radius)` with `[lo, hi] ⊆ [centre − radius, centre + radius]`.

    Any centre will do; the radius is the larger distance to an end, rounded up unless it is an
    exact zero (fl(x − y) = 0 only if x = y, by gradual underflow).
    """
    centre = 0.5 * lo + 0.5 * hi
    far = np.maximum(hi - centre, centre - lo)
    return centre, np.where(far == 0, 0.0, up(far))


def times(lo: Array, hi: Array, factor: Array) -> tuple[Array, Array]:
    """Bounds of `x·factor` for `lo ≤ x ≤ hi`, with 0·∞ = 0; exact where the factor is 0 or 1."""
    with np.errstate(all="ignore"):
        ends = np.stack([lo * factor, hi * factor])
    ends = np.where(factor == 0, 0.0, ends)
    small, large = ends.min(axis=0), ends.max(axis=0)
    exact = (factor == 0) | (factor == 1)
    return np.where(exact, small, down(small)), np.where(exact, large, up(large))


def sum_error(x: Array, y: Array, total: Array) -> Array:
    """Knuth's TwoSum: exactly `x + y − total` when `total = fl(x + y)`."""
    part = total - x
    return np.asarray((x - (total - part)) + (y - part))
