"""A floating-point format, and how far an activation's evaluation in it may be from the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reconstruct.certificates.enclosures import Array, upward
from reconstruct.networks import Activation, Clip, LeakyRelu, Relu


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

    def cast(self, values: Array) -> Array:
        """The values rounded to this format, as float64 again."""
        with np.errstate(over="ignore"):
            return np.asarray(values.astype(self.dtype), dtype=np.float64)


def evaluation_error(op: Activation, computed: Array, precision: Precision) -> Array:
    """|fl(act)(ẑ) − act(ẑ)| for |ẑ| ≤ computed.

    ReLU is exact, Clip up to its cast ends, LeakyRelu up to its cast slope and one product. Of
    exp and expm1 the model assumes 8 units in the last place.
    """
    if isinstance(op, Relu):
        return np.zeros_like(computed)
    if isinstance(op, Clip):
        ends = np.array([op.lo, op.hi])
        return np.full_like(computed, float(np.max(np.abs(precision.cast(ends) - ends))))
    if isinstance(op, LeakyRelu):
        moved = abs(float(precision.cast(np.array([op.slope]))[0]) - op.slope)
        return upward((moved + 2 * precision.unit) * computed + precision.tiny)
    return upward(32 * precision.unit * (op.lipschitz * (1 + computed)) + 4 * precision.tiny)
