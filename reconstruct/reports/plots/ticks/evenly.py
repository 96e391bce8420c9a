"""Multiples of 1, 2 or 5 times a power of ten.

They are found with fractions, so no range is too short, too far from 0 or too large: two
neighbouring floats have their ticks, and so have −1e308 and 1e308.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from reconstruct.reports.plots.digits import decimal, magnitude, plain, raised, scientific
from reconstruct.reports.plots.ticks.tick import Tick, Ticks, stride

SIZES = (1, 2, 5)
DIGITS = 6  # of a label; one with more of them names the distance to a number nearby
LARGEST = 6  # labels below 10⁶ are written out


@dataclass(frozen=True)
class Grid:
    """Whole numbers times 10^exponent."""

    numbers: Sequence[int] = ()
    exponent: int = 0

    def named(self, labels: Sequence[str], note: str = "") -> Ticks:
        """The places as floats; two that are the same float are one."""
        named: dict[float, str] = {}
        for number, label in zip(self.numbers, labels, strict=True):
            named.setdefault(float(number * Fraction(10) ** self.exponent), label)
        return Ticks(tuple(Tick(value, label) for value, label in named.items()), note)


@lru_cache(1024)
def even_ticks(low: float, high: float, most: int, whole: bool = False) -> Ticks:
    """From two to `most` ticks between low and high; whole numbers alone if asked."""
    grid = even_grid(low, high, most, whole)
    if not grid.numbers:
        return Ticks()
    offset = _offset(grid.numbers)
    numbers = [n - offset for n in grid.numbers]
    largest = max(numbers, key=abs)
    short = plain(largest, grid.exponent, most=LARGEST)
    power = 0 if short else magnitude(largest, grid.exponent)
    note = [f"×{raised(10, power)}"] if power else []
    note += [_added(offset, grid.exponent)] if offset else []
    return grid.named([decimal(n, grid.exponent - power) for n in numbers], " ".join(note))


def even_grid(low: float, high: float, most: int, whole: bool = False) -> Grid:
    """The finest step that gives at most `most` places; part of a finer one if it gives none."""
    start, end = Fraction(low), Fraction(high)
    finer, found = Grid(), Grid()
    for size, exponent in _steps((end - start) / most, whole):
        step = size * Fraction(10) ** exponent
        places = range(math.ceil(start / step), math.floor(end / step) + 1)
        found = Grid(range(places.start * size, places.stop * size, size), exponent)
        if len(places) <= most:
            break
        finer = found
    if len(found.numbers) < 2 and len(finer.numbers):
        return Grid(finer.numbers[:: stride(len(finer.numbers), most)], finer.exponent)
    return found


def _steps(about: Fraction, whole: bool) -> Iterator[tuple[int, int]]:
    """Steps in ascending order, from a tenth of `about` on to more than all of the range."""
    digits = math.log10(about.numerator) - math.log10(about.denominator)
    first = math.floor(digits) - 1
    first = max(first, 0) if whole else first
    for exponent in range(first, first + 6):
        yield from ((size, exponent) for size in SIZES)


def _offset(numbers: Sequence[int]) -> int:
    """A round number below all of them, if they are long; else 0."""
    if magnitude(max(numbers, key=abs), 0) < DIGITS:
        return 0
    unit = int(10 ** len(str(numbers[-1] - numbers[0])))
    return numbers[0] // unit * unit


def _added(number: int, exponent: int) -> str:
    """+1,000.25 or −1.5·10⁹: what is added to every label."""
    while number % 10 == 0:
        number, exponent = number // 10, exponent + 1
    short = plain(number, exponent, most=LARGEST)
    words = decimal(number, exponent) if short else scientific(number, exponent)
    return words if number < 0 else f"+{words}"
