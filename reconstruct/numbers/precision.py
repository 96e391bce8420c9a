"""A floating-point format, and how far an activation's evaluation in it may be from the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from reconstruct.networks import Activation, Clip, LeakyRelu, Relu, Selu
from reconstruct.numbers.double_double import Array, upward


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
    exp and expm1 the model assumes 8 units in the last place. Casts of alpha and gamma are
    counted as they are: below the smallest normal number they err by more than a unit roundoff.
    """
    if isinstance(op, Relu):
        return np.zeros_like(computed)
    if isinstance(op, Clip):
        ends = [end for end in (op.lo, op.hi) if np.isfinite(end)]
        return np.full_like(computed, max((_moved(end, precision) for end in ends), default=0.0))
    if isinstance(op, LeakyRelu):
        moved = _moved(op.slope, precision)
        slope = max(1.0, abs(op.slope))
        return upward((moved + 2 * precision.unit * slope) * computed + precision.tiny)
    gain = op.gamma if isinstance(op, Selu) else 1.0
    scale, bend = _moved(gain, precision), _moved(op.alpha, precision)
    cast = scale * (computed + abs(op.alpha) + bend) + abs(gain) * bend
    tiny = 4 * precision.tiny * (1 + abs(gain))
    return upward(32 * precision.unit * (op.lipschitz * (1 + computed)) + cast + tiny)


def _moved(value: float, precision: Precision) -> float:
    """How far the cast moves a number; ∞ where it overflows."""
    return abs(float(precision.cast(np.array([value]))[0]) - value)
