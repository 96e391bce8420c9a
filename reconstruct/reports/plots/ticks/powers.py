"""Ticks of logarithmic axes: powers of ten or of two, and on short axes what lies between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from reconstruct.reports.plots.digits import decimal, plain, raised, scientific
from reconstruct.reports.plots.ticks.evenly import even_ticks
from reconstruct.reports.plots.ticks.tick import Tick, Ticks

SHORT = 300  # up to this ratio of its ends an axis has room for multiples of a power
MULTIPLES = ((1, 2, 5), (1, 3))
STRIDES = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000)
LARGEST = {10: 308, 2: 1023}  # exponents of float64
WRITTEN_OUT = 13  # powers of two up to 8,192


@lru_cache(1024)
def power_ticks(low: float, high: float, most: int) -> Ticks:
    """Powers of ten, and on a short axis 2 and 5 times a power; 0 < low < high."""
    powers = exponents(low, high, 10)
    if high / SHORT <= low:
        tried = [_multiples(low, high, sizes) for sizes in MULTIPLES]
        for ticks in tried:
            if 2 <= len(ticks.ticks) <= most:
                return ticks
        if len(tried[0].ticks) < 2:  # so short that even steps look even
            return even_ticks(low, high, most)
        if len(powers) < 2:
            return tried[0].thinned(most)
    kept = strided(powers, most)
    return Ticks(tuple(Tick(float(f"1e{n}"), raised(10, n)) for n in kept))


def _multiples(low: float, high: float, sizes: Sequence[int]) -> Ticks:
    """These multiples of the powers of ten, written out if all of them are short."""
    around = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    pairs = [(size, n, float(f"{size}e{n}")) for n in around for size in sizes]
    kept = [(size, n, value) for size, n, value in pairs if low <= value <= high]
    word = decimal if all(plain(size, n) for size, n, _ in kept) else scientific
    return Ticks(tuple(Tick(value, word(size, n)) for size, n, value in kept))


def doubling_ticks(low: float, high: float, most: int) -> Ticks:
    """Powers of two: 1/2, 1, 2, 4."""
    kept = strided(exponents(low, high, 2), most)
    if len(kept) < 2:
        return even_ticks(low, high, most)
    return Ticks(tuple(Tick(math.ldexp(1.0, n), _power_of_two(n)) for n in kept))


def _power_of_two(exponent: int) -> str:
    if abs(exponent) > WRITTEN_OUT:
        return raised(2, exponent)
    return f"{2**exponent:,}" if exponent >= 0 else f"1/{2**-exponent:,}"


def exponents(low: float, high: float, base: int) -> list[int]:
    """Those of the powers from low to high: logarithms are rounded, so all near them are tried."""
    first, last = (math.log(end) / math.log(base) for end in (low, high))
    around = range(math.floor(first) - 1, min(math.ceil(last) + 1, LARGEST[base]) + 1)
    return [n for n in around if low <= float(Fraction(base) ** n) <= high]


def strided(found: list[int], most: int) -> list[int]:
    """At most so many exponents, multiples of one number if two of them are."""
    kept = found
    for stride in STRIDES:
        kept = [n for n in found if n % stride == 0]
        if len(kept) <= most:
            break
    if len(kept) < 2 <= len(found):
        return [found[0], found[-1]]
    return kept
