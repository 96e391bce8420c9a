"""Choosing, among all solutions of a block, one that carries the earlier blocks on well.

Block i of the deep construction asks for `B diag(s) A = W`. What follows (that is, the blocks
before it) meets `B' = B diag(s) M`, and loses as many digits as the condition of `B'` has. With
more hidden neurons than equations s is free along the null space of the system, and that freedom
is spent on the condition: minimise

    log tr G + log tr G⁻¹ + ρ·(q − log q),      G = B' B'ᵀ,   q = mean (s/τ)²,

from the constant vector τ on, over all solutions. The first two terms are twice the logarithm of
`‖B'‖_F ‖B'⁺‖_F`; the last keeps s, and with it the shifts, at the scale τ of the equations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconstruct.networks import Matrix, dense
from reconstruct.numbers.arrays import Vector

Array: TypeAlias = NDArray[np.float64]

FINE = 2.0  # ‖B'‖_F ‖B'⁺‖_F ≤ FINE·m needs no improvement: half of it is there at condition 1
STEPS = 100  # iterations of the minimisation at most; most of the gain comes in the first 30
WORK = 4e11  # floating-point operations that one block's minimisation may cost
WEIGHT = 0.01  # ρ, measured: a decade more or less changes little
TINY = 1e-16  # relative size at which a singular value counts as rounding


@dataclass(frozen=True, eq=False)
class Carried:
    """What is minimised: the condition of `B' = B diag(s) M` and the size of s against τ.

    For activations with a bounded piece τ is what fits into the piece, and s has to stay there
    while B' is kept large: then it is `log tr G⁻¹ + ½·mean (s/τ)⁴`, least at s about τ.
    """

    B: Array
    M: Array
    tau: Vector
    bounded: bool = False

    def value(self, s: Vector) -> tuple[float, Vector]:
        """The objective and its gradient; B' enters through its singular values.

        With `B' = U Σ Vᵀ` a function f of the singular values has the gradient
        `diag(Bᵀ U f'(Σ) Vᵀ Mᵀ)`.
        """
        left, size, right = np.linalg.svd((self.B * s) @ self.M, full_matrices=False)
        size = np.maximum(size, TINY * size[0] + np.finfo(float).tiny ** 0.25)
        value, slope = self._spectrum(size)
        gradient = np.einsum("ij,ij->j", self.B, ((left * slope) @ right) @ self.M.T)
        extra, direction = self._size(s / self.tau)
        return value + extra, gradient + direction / self.tau

    def _spectrum(self, size: Vector) -> tuple[float, Vector]:
        total, inverse = float(np.sum(size**2)), float(np.sum(size**-2.0))
        value, slope = np.log(inverse), -2 * size**-3.0 / inverse
        if not self.bounded:
            value, slope = value + np.log(total), slope + 2 * size / total
        return float(value), slope

    def _size(self, ratio: Vector) -> tuple[float, Vector]:
        if self.bounded:
            return 0.5 * float(np.mean(ratio**4)), 2 * ratio**3 / len(ratio)
        mean = max(float(np.mean(ratio**2)), np.finfo(float).tiny)
        value = WEIGHT * (mean - float(np.log(mean)))
        return value, (2 * WEIGHT * (1 - 1 / mean) / len(ratio)) * ratio

    @property
    def cost(self) -> float:
        """Floating-point operations of one evaluation."""
        return float(4 * self.B.shape[0] * self.M.size)


def condition(B: Array, M: Matrix, s: Vector) -> float:
    """`‖B'‖_F ‖B'⁺‖_F` of `B' = B diag(s) M`: between the condition number and m times it."""
    size = np.linalg.svd((B * s) @ dense(M), compute_uv=False)
    return float(np.linalg.norm(size) * np.linalg.norm(1 / size)) if size[-1] > 0 else np.inf


def improve(carried: Carried, start: Vector, project: Callable[[Vector], Vector]) -> Vector:
    """A solution at the scale τ whose B' is better conditioned than the start's.

    `start` solves the block; `project` projects onto the null space of its system, so every
    iterate solves it too.
    """
    steps = min(STEPS, int(WORK / carried.cost))
    unit = float(np.sqrt(np.mean(carried.tau**2)))

    def objective(y: Vector) -> tuple[float, Vector]:
        value, gradient = carried.value(start + unit * y)
        return value, unit * project(gradient)

    from scipy.optimize import minimize  # large, and needed here alone

    found = minimize(
        objective, np.zeros(len(start)), jac=True, method="L-BFGS-B", options={"maxiter": steps}
    )
    return np.asarray(start + unit * project(found.x))
