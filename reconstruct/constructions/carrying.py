"""Choosing, among all solutions of a block, one that carries the earlier blocks on well.

Block i of the deep construction asks for `B diag(s) A = W`. What follows (that is, the blocks
before it) meets `B' = B diag(s) M`, and loses as many digits as the condition of `B'` has. With
more hidden neurons than equations s is free along the null space of the system, and that freedom
is spent on the condition: minimise

    log tr G + log tr G⁻¹ + ρ·mean (s/τ)²,        G = B' B'ᵀ,

from the constant vector τ on, over all solutions. The first two terms are twice the logarithm of
`‖B'‖_F ‖B'⁺‖_F`; the last keeps s, and with it the shifts, at the scale τ of the equations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from reconstruct.constructions.construction import Vector
from reconstruct.networks import Matrix, dense

Array: TypeAlias = NDArray[np.float64]

FINE = 2.0  # ‖B'‖_F ‖B'⁺‖_F ≤ FINE·m needs no improvement: half of it is there at condition 1
STEPS = 100  # iterations of the minimisation at most; most of the gain comes in the first 30
WORK = 4e11  # floating-point operations that one block's minimisation may cost
WEIGHT = 0.01  # ρ, measured: a decade more or less changes little
TINY = 1e-16  # relative size at which a singular value counts as rounding


@dataclass(frozen=True, eq=False)
class Carried:
    """The matrix that the next block meets, `s ↦ B diag(s) M`, and how it likes s."""

    B: Array
    M: Array

    def value(self, s: Vector) -> tuple[float, Vector]:
        """`log tr G + log tr G⁻¹` and its gradient `2 diag(Bᵀ X B diag(s) M Mᵀ)`.

        Here `X = I/tr G − G⁻²/tr G⁻¹`; with the singular value decomposition `B' = U Σ Vᵀ` the
        product `X B'` is `U (Σ/tr G − Σ⁻³/tr G⁻¹) Vᵀ`.
        """
        left, size, right = np.linalg.svd((self.B * s) @ self.M, full_matrices=False)
        size = np.maximum(size, TINY * size[0] + np.finfo(float).tiny ** 0.25)
        total, inverse = float(np.sum(size**2)), float(np.sum(size**-2.0))
        inner = (left * (size / total - size**-3.0 / inverse)) @ right
        gradient = 2 * np.einsum("ij,ij->j", self.B, inner @ self.M.T)
        return float(np.log(total) + np.log(inverse)), gradient

    @property
    def cost(self) -> float:
        """Floating-point operations of one evaluation."""
        return 4.0 * self.B.shape[0] * self.M.size


def improve(
    B: Array,
    M: Matrix,
    start: Vector,
    project: Callable[[Vector], Vector],
    reference: Vector,
    weight: float = WEIGHT,
) -> Vector:
    """A solution near the scale `reference` (τ) whose B' is better conditioned than the start's.

    `start` solves the block; `project` projects onto the null space of its system, so every
    iterate solves it too. Returns the start when its B' is fine already.
    """
    carried = Carried(B / max(float(np.linalg.norm(B)), np.finfo(float).tiny), dense(M))
    steps = min(STEPS, int(WORK / carried.cost))
    if steps < 2 or carried.value(start)[0] <= 2 * np.log(FINE * B.shape[0]):
        return start
    unit = float(np.sqrt(np.mean(reference**2)))
    size = len(start)

    def objective(y: Vector) -> tuple[float, Vector]:
        s = start + unit * y
        value, gradient = carried.value(s)
        value += weight * float(np.mean((s / reference) ** 2))
        gradient = gradient + (2 * weight / size) * s / reference**2
        return value, unit * project(gradient)

    found = minimize(
        objective, np.zeros(size), jac=True, method="L-BFGS-B", options={"maxiter": steps}
    )
    return np.asarray(start + unit * project(found.x))
