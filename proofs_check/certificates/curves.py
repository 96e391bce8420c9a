"""Smooth activations in rational arithmetic: the checker's own values, slopes and least values.

Everything comes from the series of e^z (z ≤ 0), log(1 + x), arctan(1/x) and of the normal
distribution, which are one function (`series`) of integers rounded outward. SiLU and GELU fall to
one minimum and rise from there: at a zero of the derivative SiLU is z + 1 and GELU −z²·φ(z), so
that a bracket of the zero bounds the minimum. Their largest slopes are below 11/10 and 113/100 (at
±2.3994 and √2).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import ceil, floor, inf

from proofs_check.certificates.rationals import Interval, root
from proofs_check.certificates.report import NotCheckable

DEEP = -800  # e^z is below 2^-1100 from here on

SLOPES = {
    "Sigmoid": Fraction(1, 4),
    "Tanh": Fraction(1),
    "Softplus": Fraction(1),
    "Silu": Fraction(11, 10),
    "HardSwish": Fraction(3, 2),
    "Gelu": Fraction(113, 100),
}
# where the minimum lies, and a number below it
DIPS = {
    "HardSwish": (Fraction(-15001, 10**4), Fraction(-14999, 10**4), Fraction(-3750000001, 10**10)),
    "Silu": (Fraction(-12785, 10**4), Fraction(-12784, 10**4), Fraction(-2784645428, 10**10)),
    "Gelu": (Fraction(-7518, 10**4), Fraction(-7517, 10**4), Fraction(-1699712075, 10**10)),
}

# From where to where a curve is z, and how nearly. What is left falls from 1 on (Tanh: rises with
# |z|), so that its value at the finite end, by `value`, bounds it: tests do that.
NEARLY = {
    "Tanh": (-(2.0**-28), 2.0**-28, 2.0**-85),
    "Softplus": (42.0, inf, 2.0**-60),
    "Silu": (46.0, inf, 2.0**-60),
    "HardSwish": (3.0, inf, 0.0),
    "Gelu": (9.0, inf, 2.0**-59),
}


def value(kind: str, z: Fraction, bits: int) -> Interval:
    """Rationals around the activation at z."""
    if kind == "HardSwish":
        found = z * min(max(z / 6 + Fraction(1, 2), Fraction(0)), Fraction(1))
        return found, found
    if kind == "Tanh":
        low, high = _sigmoid(2 * z, bits)
        return 2 * low - 1, 2 * high - 1
    if kind == "Softplus":
        low, high = exponential(-abs(z), bits)
        rest = max(z, Fraction(0))
        return rest + _log1p(low, bits)[0], rest + _log1p(high, bits)[1]
    low, high = _normal(z, bits) if kind == "Gelu" else _sigmoid(z, bits)
    return (low, high) if kind == "Sigmoid" else (min(z * low, z * high), max(z * low, z * high))


def _sigmoid(z: Fraction, bits: int) -> Interval:
    low, high = exponential(-abs(z), bits)
    return (1 / (1 + high), 1 / (1 + low)) if z >= 0 else (low / (1 + low), high / (1 + high))


def _log1p(x: Fraction, bits: int) -> Interval:
    """log(1 + x) = 2·(y + y³/3 + y⁵/5 + …), y = x/(2 + x) ≤ 1/3, for 0 ≤ x ≤ 1."""
    y = x / (2 + x)
    top, bottom = (y * y).as_integer_ratio()
    low, high = series(y, lambda n: (top * (2 * n - 1), bottom * (2 * n + 1)), bits)
    return 2 * low, 2 * high


def _normal(z: Fraction, bits: int) -> Interval:
    """Φ(z) = 1/2 + φ(z)·(z + z³/3 + z⁵/15 + …) for z ≥ 0; beyond 40 next to 1."""
    if z < 0:
        low, high = _normal(-z, bits)
        return 1 - high, 1 - low
    if z > 40:
        return 1 - Fraction(1, 1 << 1100), Fraction(1)
    work = bits + 32 + 2 * int(z * z)  # φ(z) is small: as many digits more behind the point
    top, bottom = (z * z).as_integer_ratio()
    sums = series(z, lambda n: (top, bottom * (2 * n + 1)), work)
    power, root_ = exponential(-z * z / 2, work), _root_of_two_pi(work)
    half = Fraction(1, 2)
    low, high = power[0] * sums[0] / root_[1], power[1] * sums[1] / root_[0]
    return half + max(low, Fraction(0)), min(half + high, Fraction(1))


@cache
def _root_of_two_pi(bits: int) -> Interval:
    """√(2π), π by Machin's formula 16·arctan(1/5) − 4·arctan(1/239)."""
    (a, b), (c, d) = _arctan(5, bits + 16), _arctan(239, bits + 16)
    return root(2 * (16 * a - 4 * d), bits)[0], root(2 * (16 * b - 4 * c), bits)[1]


def _arctan(x: int, bits: int) -> Interval:
    """arctan(1/x) = 1/x − 1/(3x³) + 1/(5x⁵) − …"""
    return series(Fraction(1, x), lambda n: (1 - 2 * n, (2 * n + 1) * x * x), bits)


def exponential(z: Fraction, bits: int) -> Interval:
    """Rationals around e^z for z ≤ 0, about 2^-bits apart: (e^(z/2^k))^(2^k), |z/2^k| ≤ 1/2."""
    if z > 0:
        raise NotCheckable("an exponential is only evaluated below 0")
    if z < DEEP:
        return Fraction(0), Fraction(1, 2**1100)
    halvings = int(-z).bit_length() + 1
    work = bits + 2 * halvings + 16
    top, bottom = (z / 2**halvings).as_integer_ratio()
    ends = series(Fraction(1), lambda n: (top, bottom * n), work)
    low, high = (int(end * (1 << work)) for end in ends)
    for _ in range(halvings):
        low, high = low * low >> work, -(-high * high >> work)
    return Fraction(low, 1 << work), Fraction(high, 1 << work)


def series(first: Fraction, ratio: Callable[[int], tuple[int, int]], bits: int) -> Interval:
    """Multiples of 2^-bits around t_0 + t_1 + …, t_0 = `first` ≥ 0 and t_n = t_(n−1)·p/q, p and q
    being ratio(n), q > 0.

    Once |p/q| is at most 1/2 all that follow have to be: what is left out is then no more than the
    last term. Sizes of terms are rounded down and up.
    """
    one, top, bottom, sign, n = 1 << bits, 1, 1, 1, 0
    low, high = floor(first * one), ceil(first * one)
    least, most = low, high
    while high > 1 or 2 * abs(top) > bottom:
        n += 1
        top, bottom = ratio(n)
        low, high = low * abs(top) // bottom, -(-high * abs(top) // bottom)
        sign = sign if top > 0 else -sign
        least, most = least + min(sign * low, sign * high), most + max(sign * low, sign * high)
    return Fraction(least - high, one), Fraction(most + high, one)
