"""Numbers for people: few digits, and a bound is never printed smaller than it is."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

DASH = "–"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
PREFIXES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def number(value: float | None, digits: int = 2) -> str:
    """The value rounded to `digits`, or a dash for what is not known or no finite number."""
    return _shown(value, digits, ROUND_HALF_EVEN)


def at_most(value: float | None, digits: int = 2) -> str:
    """An upper bound: rounded up, so that what is printed is a bound too."""
    return _shown(value, digits, ROUND_CEILING)


def at_least(value: float | None, digits: int = 2) -> str:
    """A lower bound: rounded down."""
    return _shown(value, digits, ROUND_FLOOR)


def pretty(text: str) -> str:
    """`3.1e-08` as 3.1·10⁻⁸, for a page."""
    mantissa, sign, exponent = text.partition("e")
    if not sign:
        return text
    power = "10" + str(int(exponent)).translate(SUPERSCRIPTS)
    return power if mantissa == "1" else f"{mantissa}·{power}"


def percent(share: float) -> str:
    """A share of 1 as `100 %`, what is a little less not so, and the least ones as that."""
    part = 100 * share
    if 0 < part < 0.01:
        return "< 0.01 %"
    if 99 < part < 100:
        return f"{min(part, 99.99):.2f} %"
    return f"{number(part)} %"


def duration(seconds: float | None) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds is None:
        return DASH
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def size(count: int | None) -> str:
    """Bytes with a decimal prefix."""
    if count is None:
        return DASH
    for unit, name in PREFIXES:
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count} bytes"


def _shown(value: float | None, digits: int, rounding: str) -> str:
    if value is None or not math.isfinite(value):
        return DASH
    if value == 0:
        return "0"
    exact = Decimal(value)
    kept = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding).normalize()
    if -4 <= kept.adjusted() < max(digits, 5):  # 610, not 6.1e+02
        return f"{kept:f}"
    mantissa, _, exponent = f"{kept:e}".partition("e")  # may lie beyond the floats
    return f"{mantissa}e{int(exponent):+03d}"
