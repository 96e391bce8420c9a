"""A floating-point format, and what is known of values that are computed in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from proofs_check.certificates.arithmetic import Floats, Marks, above
from proofs_check.certificates.carrying import upper

Kind = type[np.float64] | type[np.float32]


class NoBound(Exception):
    """There is an operation here whose rounding is not known, or an overflow that may be."""


@dataclass(frozen=True)
class Format:
    """A floating-point format."""

    dtype: Kind

    @property
    def unit(self) -> float:
        return float(np.finfo(self.dtype).eps) / 2

    @property
    def tiny(self) -> float:
        return float(np.finfo(self.dtype).tiny)

    @property
    def limit(self) -> float:
        return float(np.finfo(self.dtype).max) / 4

    def gamma(self, n: int) -> float:
        part = n * self.unit
        return float(above(part / (1 - part)) * (1 + 2.0**-50)) if part < 0.5 else np.inf

    def more(self, n: int, extra: int) -> float:
        """γ_{n+extra} − γ_n = extra·u/((1 − (n + extra)u)(1 − nu)), or more."""
        rest = 1 - (n + extra) * self.unit
        return float(above(extra * self.unit / rest**2) * (1 + 2.0**-50)) if rest > 0.5 else np.inf

    def normal(self, values: Floats) -> Marks:
        """Whether numbers are zero or stay normal: then a cast errs by a unit, relative."""
        size = np.abs(values)
        return np.asarray((size == 0) | ((size >= 2 * self.tiny) & (size < self.limit)))

    def cast(self, values: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.asarray(np.asarray(values).astype(self.dtype), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Value:
    """|exact| ≤ size and |computed − exact| ≤ hidden + local, each (boxes, units); `hidden` had
    come together at inner activations. Of a map besides |W̃||ĥ| + |b̃| ≤ gross."""

    size: Floats
    hidden: Floats
    local: Floats
    gross: Floats | None = None

    @cached_property
    def error(self) -> Floats:
        return upper(self.hidden + self.local)

    @cached_property
    def computed(self) -> Floats:
        return upper(self.size + self.error)


@dataclass(frozen=True, eq=False)
class Inner:
    """What an inner activation takes, (boxes, units): its range at the target's values, and how far
    it may be moved by errors of the segments before."""

    lo: Floats
    hi: Floats
    by: Floats
