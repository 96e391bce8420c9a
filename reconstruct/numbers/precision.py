"""A floating-point format: its unit roundoff, its range, and what a cast to it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reconstruct.numbers.arrays import Array
from reconstruct.numbers.double_double import upward


@dataclass(frozen=True)
class Precision:
    """A floating-point format: its unit roundoff, smallest normal and largest number."""

    dtype: Any

    @property
    def unit(self) -> float:
        return float(np.finfo(self.dtype).eps) / 2

    @property
    def tiny(self) -> float:
        return float(np.finfo(self.dtype).tiny)

    @property
    def largest(self) -> float:
        return float(np.finfo(self.dtype).max)

    def gamma(self, n: int) -> float:
        """`γ_n = n·u/(1 − n·u)`, or ∞ where it says nothing."""
        nu = n * self.unit
        return float(upward(nu / (1 - nu))) if nu < 0.5 else np.inf

    def more(self, n: int, extra: int) -> float:
        """A bound of `γ_{n+extra} − γ_n`: what some further roundings of n-fold ones cost."""
        rest = 1 - (n + extra) * self.unit
        return float(upward(extra * self.unit / rest**2)) if rest > 0.5 else np.inf

    def cast(self, values: Array) -> Array:
        """The values rounded to this format, as float64 again."""
        with np.errstate(over="ignore"):
            return np.asarray(values.astype(self.dtype), dtype=np.float64)

    def moved(self, value: float) -> float:
        """How far the cast moves a number; ∞ where it overflows."""
        return abs(float(self.cast(np.array([value]))[0]) - value)

    def normal(self, values: Array) -> Array:
        """Whether numbers stay normal in the format, so that a cast errs by u relative."""
        size = np.abs(values)
        return np.asarray((size == 0) | ((size >= self.tiny) & (size < self.largest / 4)))
