"""What a method hands back to `solve`, which adds the sizes and the time."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.khatri_rao.status import Status
from reconstruct.khatri_rao.structure import StructuralObstruction


@dataclass(frozen=True, eq=False)
class Outcome:
    """The fields of `Solution` that depend on the method."""

    s: NDArray[np.float64]
    status: Status
    solver: str
    residual: float
    rank: int | None
    condition: float | None
    history: tuple[float, ...]
    obstruction: StructuralObstruction | None = None

    def replace(self, **changes: Any) -> Outcome:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)
