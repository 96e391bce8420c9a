"""Smooth activations in rational arithmetic: the checker's own values, slopes and least values.

Everything comes from `exponential` (e^z for z ≤ 0), the series of log(1 + x) and of the normal
distribution, all in integers rounded outward. SiLU and GELU fall to one minimum and rise from
there: at a zero of the derivative SiLU is z + 1 and GELU −z²·φ(z), so that a bracket of the zero
bounds the minimum. Their largest slopes are below 11/10 and 113/100 (at ±2.3994 and √2).
"""

from __future__ import annotations

from fractions import Fraction
from math import inf, isqrt

from proofs_check.certificates.rationals import Interval
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
    size = abs(z)
    if kind == "HardSwish":
        found = z * min(max(z / 6 + Fraction(1, 2), Fraction(0)), Fraction(1))
        return found, found
    if kind == "Tanh":
        low, high = exponential(-2 * size, bits)
        ends = (1 - high) / (1 + high), (1 - low) / (1 + low)
        return ends if z >= 0 else (-ends[1], -ends[0])
    if kind == "Gelu":
        low, high = _normal(size, bits)
        if z < 0:
            low, high = 1 - high, 1 - low
        return _times(z, low, high)
    low, high = exponential(-size, bits)
    if kind == "Softplus":
        rest = _log1p(low, bits)[0], _log1p(high, bits)[1]
        return max(z, Fraction(0)) + rest[0], max(z, Fraction(0)) + rest[1]
    ends = (1 / (1 + high), 1 / (1 + low)) if z >= 0 else (low / (1 + low), high / (1 + high))
    return ends if kind == "Sigmoid" else _times(z, *ends)


def _times(z: Fraction, low: Fraction, high: Fraction) -> Interval:
    return min(z * low, z * high), max(z * low, z * high)


def _log1p(x: Fraction, bits: int) -> Interval:
    """log(1 + x) = 2·(y + y³/3 + y⁵/5 + …), y = x/(2 + x) ≤ 1/3, for 0 ≤ x ≤ 1."""
    one = 1 << bits
    low = high = 0
    ends = []
    for up in (0, 1):
        y = (
            -(-x.numerator * one // (2 * x.denominator + x.numerator))
            if up
            else (x.numerator * one // (2 * x.denominator + x.numerator))
        )
        total, power, n = 0, y, 1
        while power > n:
            total += -(-power // n) if up else power // n
            power = -(-power * y * y // (one * one)) if up else power * y * y // (one * one)
            n += 2
        # what is left: each term is below 1/n of a unit and falls ninefold
        ends.append(2 * (total + (2 if up else 0)))
    low, high = ends
    return Fraction(low, one), Fraction(high, one)


def _normal(z: Fraction, bits: int) -> Interval:
    """Φ(z) for z ≥ 0: 1/2 + φ(z)·(z + z³/3 + z⁵/15 + …); beyond 40 next to 1."""
    if z > 40:
        return 1 - Fraction(1, 1 << 1100), Fraction(1)
    work = bits + 32 + 2 * int(z * z)  # φ(z) is small: as many digits more behind the point
    one = 1 << work
    sums = []
    for up in (0, 1):
        step = z * z
        term = _scaled(z, one, up)
        total, n = term, 1
        while term > 1 or n < 2 * step:
            n += 2
            part = step / n
            term = _divided(term * part.numerator, part.denominator, up)
            total += term
        # behind n ≥ 2z² terms halve: what is left is no more than the last one, and a unit
        sums.append(total + (2 * term + 2 if up else 0))
    low, high = exponential(-z * z / 2, work)
    least, most = _root_of_two_pi(work)
    inner = low * Fraction(sums[0], one) / most, high * Fraction(sums[1], one) / least
    half = Fraction(1, 2)
    return half + inner[0], min(half + inner[1], Fraction(1))


def _scaled(value: Fraction, one: int, up: int) -> int:
    return _divided(value.numerator * one, value.denominator, up)


def _divided(top: int, bottom: int, up: int) -> int:
    return -(-top // bottom) if up else top // bottom


def _root_of_two_pi(bits: int) -> Interval:
    """√(2π) by Machin's formula, 4 units of 2^-bits wide for each arctangent's terms."""
    one = 1 << bits + 16
    low, high = (16 * _arctan(5, one, up) - 4 * _arctan(239, one, 1 - up) for up in (0, 1))
    root = isqrt(2 * low * one), isqrt(2 * high * one) + 1
    return Fraction(root[0], one), Fraction(root[1], one)


def _arctan(x: int, one: int, up: int) -> int:
    """arctan(1/x)·one, from below or above: every term is off by less than 2."""
    total, power, n, sign = 0, one // x, 1, 1
    while power:
        total += sign * (power // n)
        power //= x * x
        n, sign = n + 2, -sign
    return total + (2 * n if up else -2 * n)


def exponential(z: Fraction, bits: int) -> Interval:
    """Rationals around e^z for z ≤ 0, about 2^-bits apart: (e^(z/2^k))^(2^k) in integers.

    With 0 ≤ y = −z/2^k ≤ 1/2 the terms y^n/n! fall by half or more: what is left out is no more
    than the last term. Terms and squares are rounded down and up to multiples of 2^-work.
    """
    if z > 0:
        raise NotCheckable("an exponential is only evaluated below 0")
    if z < DEEP:
        return Fraction(0), Fraction(1, 2**1100)
    halvings = int(-z).bit_length() + 1
    one = 1 << (bits + 2 * halvings + 16)
    y = -z / 2**halvings
    low = high = below_term = above_term = one
    n = 0
    while above_term > 1:
        n += 1
        below_term = below_term * y.numerator // (y.denominator * n)
        above_term = -(-above_term * y.numerator // (y.denominator * n))
        if n % 2:
            low, high = low - above_term, high - below_term
        else:
            low, high = low + below_term, high + above_term
    low, high = low - above_term, high + above_term
    for _ in range(halvings):
        low, high = low * low // one, -(-high * high // one)
    return Fraction(low, one), Fraction(high, one)
