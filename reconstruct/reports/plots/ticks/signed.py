"""Ticks of an axis that is logarithmic on both sides of 0."""

from __future__ import annotations

from reconstruct.reports.plots.digits import readable
from reconstruct.reports.plots.ticks.evenly import even_ticks
from reconstruct.reports.plots.ticks.powers import STRIDES, exponents
from reconstruct.reports.plots.ticks.tick import Tick, Ticks


def signed_ticks(low: float, high: float, near: float, most: int) -> Ticks:
    """0 and powers of ten of both signs beyond `near`; the largest ones are kept longest."""
    reach = max(abs(low), abs(high))
    powers = exponents(near, reach, 10)[::-1] if reach > near else []
    kept: list[tuple[int, int]] = []
    for stride in STRIDES:
        sizes = powers[::stride]
        pairs = [*((-1, n) for n in sizes), (0, 0), *((1, n) for n in sizes[::-1])]
        kept = [(sign, n) for sign, n in pairs if low <= sign * float(f"1e{n}") <= high]
        if len(kept) <= most:
            break
    if not 2 <= len(kept) <= most:
        return even_ticks(low, high, most)
    return Ticks(tuple(Tick(sign * float(f"1e{n}"), readable(sign, n)) for sign, n in kept))
