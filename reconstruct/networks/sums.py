"""Where branches meet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.errors import InputError
from reconstruct.networks.operation import ANYWHERE, Operation, register
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.rounding import down, up


@dataclass(frozen=True)
class Add(Operation):
    """The sum of two or more values of one size: a skip connection, or two branches that meet."""

    kind = "Add"

    def size(self, *inputs: int) -> int:
        if len(inputs) < 2 or len(set(inputs)) != 1:
            raise InputError(f"Add needs two or more values of one size, but got sizes {inputs}")
        return inputs[0]

    def __call__(self, *values: Array) -> Array:
        total = values[0]
        for value in values[1:]:
            total = total + value
        return total

    def stands(self, *counts: int) -> int | None:
        known = {count for count in counts if count != ANYWHERE}
        return max(known, default=1) if len(known) <= 1 else None

    def image(self, *inputs: Range) -> Range:
        """Sums of lower and of upper bounds; a sum of two floats never underflows."""
        lo, hi = inputs[0]
        for other_lo, other_hi in inputs[1:]:
            with np.errstate(all="ignore"):
                lo = np.where((lo == 0) | (other_lo == 0), lo + other_lo, down(lo + other_lo))
                hi = np.where((hi == 0) | (other_hi == 0), hi + other_hi, up(hi + other_hi))
            lo, hi = np.where(np.isnan(lo), -np.inf, lo), np.where(np.isnan(hi), np.inf, hi)
        return lo, hi


register("Add", lambda part, settings: Add())
