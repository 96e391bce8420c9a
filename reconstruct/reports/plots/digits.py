"""Whole numbers times powers of ten as words, none of them rounded."""

from __future__ import annotations

from reconstruct.reports.numbers import SUPERSCRIPTS

MINUS = "−"


def raised(base: int, exponent: int) -> str:
    """10⁻⁸ as one word that any font can show."""
    return f"{base}{str(exponent).translate(SUPERSCRIPTS)}"


def decimal(number: int, exponent: int) -> str:
    """number · 10^exponent written out: 1,200 or −0.05."""
    sign, size = MINUS if number < 0 else "", abs(number)
    if size == 0:
        return "0"
    if exponent >= 0:
        return f"{sign}{size * 10**exponent:,}"
    whole, part = divmod(size, 10**-exponent)
    return f"{sign}{whole:,}.{part:0{-exponent}d}"


def scientific(number: int, exponent: int) -> str:
    """number · 10^exponent as 10⁻⁸, 2·10⁻⁸ or −1.25·10³."""
    if number == 0:
        return "0"
    digits = str(abs(number))
    power = raised(10, exponent + len(digits) - 1)
    first, rest = digits[0], digits[1:].rstrip("0")
    mantissa = f"{first}.{rest}" if rest else first
    return (MINUS if number < 0 else "") + (power if mantissa == "1" else f"{mantissa}·{power}")


def magnitude(number: int, exponent: int) -> int:
    """The power of ten of the first digit; 0 has that of its last one."""
    return len(str(abs(number))) - 1 + exponent


def plain(number: int, exponent: int, least: int = -2, most: int = 4) -> bool:
    """Whether a number is read more easily without a power of ten."""
    return number == 0 or least <= magnitude(number, exponent) < most


def readable(number: int, exponent: int) -> str:
    """Written out where that is short, else with a power of ten."""
    while number and number % 10 == 0:
        number, exponent = number // 10, exponent + 1
    short = plain(number, exponent) and exponent >= -4
    return decimal(number, exponent) if short else scientific(number, exponent)
