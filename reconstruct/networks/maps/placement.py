"""Moving units about: each value is one of the inputs, or nothing."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from reconstruct.errors import InputError
from reconstruct.networks.maps.map import Map, RoundingError
from reconstruct.networks.operation import Operation, Part, one, set_once
from reconstruct.numbers.arrays import Array, Range, Vector, frozen_array
from reconstruct.numbers.exact import Dyadic
from reconstruct.numbers.rounding import SLACK, TINY, gamma


class Picking(Map):
    """Each value is one of the inputs, or 0: nothing is rounded, and nothing to be rebuilt."""

    @abstractmethod
    def taken(self, values: Array) -> Array:
        """The values (…, k) that are picked, (…, m)."""

    @property
    @abstractmethod
    def units(self) -> int:
        """How many values are picked."""

    def __call__(self, *values: Array) -> Array:
        return self.taken(values[0])

    def image(self, lo: Array, hi: Array) -> Range:
        return self.taken(lo), self.taken(hi)

    def pull_error(self, reach: Array) -> RoundingError:
        none = np.zeros((1, self.units))
        return RoundingError(none, none, np.zeros(1))

    def absolute(self, reach: Array) -> Array:
        return self.taken(reach)

    def exact(self, value: Dyadic, bits: int) -> Dyadic:
        return value.rising(self.taken)

    @property
    def shift(self) -> Vector:
        return np.zeros(self.units)


@dataclass(frozen=True, eq=False)
class Placement(Picking):
    """`y_i = h[index_i]`, and 0 where the index is −1: padding, subsampling, joining channels.

    `inputs` is the number of values that it takes. Inside a frozen network it stands where it
    stands in the target.
    """

    kind = "Placement"
    windowed = True
    keys: ClassVar[dict[str, str]] = {"index": "index"}

    index: Array
    inputs: int

    def __init__(self, index: ArrayLike, inputs: int) -> None:
        places = np.asarray(index)
        if places.ndim != 1 or not places.size or places.dtype.kind not in "iu":
            raise InputError(f"a placement needs a list of whole numbers, but got {places.dtype}")
        if places.min() < -1 or places.max() >= inputs:
            raise InputError(
                f"a placement of {inputs} values needs places from 0 to {inputs - 1}, or -1 for "
                f"none, but has {places.min()} to {places.max()}"
            )
        set_once(self, index=frozen_array(places, np.int64), inputs=int(inputs))

    def size(self, *inputs: int) -> int:
        one(inputs, "a placement", self.inputs)
        return len(self.index)

    @cached_property
    def _rows(self) -> Any:
        """The 0/1 matrix, in CSR."""
        kept = np.flatnonzero(self.index >= 0)
        entries = (np.ones(len(kept)), (kept, self.index[kept]))
        return sparse.csr_array(entries, shape=(len(self.index), self.inputs))

    @cached_property
    def _copies(self) -> int:
        """How often an input is used at most: the terms of a pull."""
        used = self.index[self.index >= 0]
        return int(np.bincount(used).max()) if used.size else 0

    @property
    def units(self) -> int:
        return len(self.index)

    def taken(self, values: Array) -> Array:
        found = values[..., self.index]
        found[..., self.index < 0] = 0
        return found

    def pull(self, form: Array, size: int) -> Array:
        rows = form.reshape(-1, form.shape[-1])
        product = (self._rows.astype(form.dtype).T @ rows.T).T
        return np.asarray(product).reshape(*form.shape[:-1], size)

    def pull_error(self, reach: Array) -> RoundingError:
        """Nothing where no input is used twice; else the rounding of a sum of that many terms."""
        if self._copies < 2:
            return super().pull_error(reach)
        none = np.zeros((1, self.units))
        error = (gamma(self._copies) * SLACK) * (self.taken(reach) + TINY) + TINY  # never 0
        return RoundingError(none, error, np.zeros(1))

    def settings(self) -> dict[str, Any]:
        return {"takes": self.inputs}

    @classmethod
    def restored(cls, part: Part, settings: Any) -> Operation:
        return cls(part("index"), settings["takes"])


# --- selection ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Select(Picking):
    """`h ↦ h[start:stop]`: a block of the input, for the deep construction's skip connections."""

    kind = "Select"

    start: int
    stop: int

    def __post_init__(self) -> None:
        for end in (self.start, self.stop):
            if isinstance(end, bool) or not isinstance(end, int | np.integer):
                raise InputError(f"a selection needs whole numbers as its ends, but got {end!r}")

    @property
    def block(self) -> slice:
        return slice(self.start, self.stop)

    def size(self, *inputs: int) -> int:
        k = one(inputs, "a selection")
        if not 0 <= self.start < self.stop <= k:
            raise InputError(f"cannot select [{self.start}:{self.stop}] of {k} values")
        return self.stop - self.start

    @property
    def units(self) -> int:
        return self.stop - self.start

    def taken(self, values: Array) -> Array:
        return values[..., self.block]

    def pull(self, form: Array, size: int) -> Array:
        out = np.zeros((*form.shape[:-1], size), dtype=form.dtype)
        out[..., self.block] = form
        return out
