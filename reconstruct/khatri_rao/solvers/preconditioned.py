"""What the inner iteration runs on: `P K` with an invertible `P` on `m × k` matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import DTypeLike

from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.solvers.cgls import LinearMap
from reconstruct.khatri_rao.storage import Matrix, Vector


class Preconditioned(LinearMap, Protocol):
    """`P K`, with the condition of P as `spread`."""

    @property
    def spread(self) -> float: ...

    def precondition(self, Y: Matrix) -> Matrix:
        """`P Y`."""
        ...


@dataclass(frozen=True)
class Plain:
    """K as it is."""

    operator: KhatriRao
    spread: float = 1.0

    def round_trip(self, Y: Matrix, dtype: DTypeLike = np.float64) -> tuple[Vector, Matrix]:
        """`Kᵀ Y` and `K Kᵀ Y`."""
        return self.operator.round_trip(Y, dtype)

    def dot(self, a: Vector, b: Vector) -> float:
        """`⟨a, b⟩` over hidden units."""
        return self.operator.inner(a, b)

    def precondition(self, Y: Matrix) -> Matrix:
        """`Y`."""
        return Y
