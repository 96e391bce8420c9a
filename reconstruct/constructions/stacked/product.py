"""The product of frozen matrices with diagonals between them, and its derivative.

    P(s) = M_L D_L M_{L-1} … D_1 M_0,      D_i = diag(s_i)

The derivative in s_i is `δ ↦ A_i diag(δ) B_i` with `A_i = M_L D_L … M_i` and `B_i = M_{i-1} … M_0`:
the Khatri-Rao matrix of A_i and B_i. Side by side these are the Jacobian J, which is applied
without being formed, and formed only while it is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reconstruct.numbers.arrays import Array, Vector

Scales = tuple[Vector, ...]


@dataclass(frozen=True, eq=False)
class Product:
    """The frozen factors `M_0` (n_1 × k), `M_1` (n_2 × n_1), …, `M_L` (m × n_L), in float64."""

    factors: tuple[Array, ...]

    @property
    def layers(self) -> int:
        return len(self.factors) - 1

    @property
    def widths(self) -> tuple[int, ...]:
        """n_1, …, n_L."""
        return tuple(len(factor) for factor in self.factors[:-1])

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.factors[-1]), int(self.factors[0].shape[1])

    def value(self, scales: Sequence[Vector]) -> Array:
        """P(s), m × k."""
        value = self.factors[0]
        for s, factor in zip(scales, self.factors[1:], strict=True):
            value = factor @ (s[:, None] * value)
        return value

    def lefts(self, scales: Sequence[Vector]) -> tuple[Array, ...]:
        """A_1, …, A_L."""
        found = [self.factors[-1]]
        for i in range(self.layers - 1, 0, -1):
            found.append((found[-1] * scales[i]) @ self.factors[i])
        return tuple(reversed(found))

    def rights(self, scales: Sequence[Vector]) -> tuple[Array, ...]:
        """B_1, …, B_L."""
        found = [self.factors[0]]
        for i in range(1, self.layers):
            found.append(self.factors[i] @ (scales[i - 1][:, None] * found[-1]))
        return tuple(found)

    def jacobian(self, scales: Sequence[Vector]) -> Jacobian:
        """J at s, its columns in units of the typical size of each s_i."""
        units = [float(np.sqrt(np.mean(s**2))) or 1.0 for s in scales]
        lefts = tuple(u * A for u, A in zip(units, self.lefts(scales), strict=True))
        return Jacobian(lefts, self.rights(scales), tuple(units))


@dataclass(frozen=True, eq=False)
class Jacobian:
    """`J δ = Σ_i A_i diag(δ_i) B_i`, with adjoint `Jᵀ Y = (diag(A_iᵀ Y B_iᵀ))_i`."""

    lefts: tuple[Array, ...]
    rights: tuple[Array, ...]
    units: tuple[float, ...]

    @property
    def equations(self) -> int:
        return len(self.lefts[0]) * int(self.rights[0].shape[1])

    @property
    def unknowns(self) -> int:
        return sum(len(B) for B in self.rights)

    def apply(self, step: Vector) -> Array:
        """`J δ`, m × k."""
        parts = self._split(step)
        terms = [(A * d) @ B for A, d, B in zip(self.lefts, parts, self.rights, strict=True)]
        return np.asarray(sum(terms[1:], start=terms[0]))

    def adjoint(self, Y: Array) -> Vector:
        """`Jᵀ Y`."""
        parts = [
            np.einsum("il,il->l", A, Y @ B.T) for A, B in zip(self.lefts, self.rights, strict=True)
        ]
        return np.concatenate(parts)

    def dense(self) -> Array:
        """J itself, (m·k) × Σ n_i."""
        blocks = [
            (A[:, None, :] * B.T[None, :, :]).reshape(-1, len(B))
            for A, B in zip(self.lefts, self.rights, strict=True)
        ]
        return np.hstack(blocks)

    def moved(self, scales: Sequence[Vector], step: Vector) -> Scales:
        """`s + δ`, the step taken out of its units."""
        parts = self._split(step)
        return tuple(s + u * d for s, u, d in zip(scales, self.units, parts, strict=True))

    def _split(self, step: Vector) -> list[Vector]:
        return np.split(step, np.cumsum([len(B) for B in self.rights])[:-1])
