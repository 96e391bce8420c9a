"""Shifts that nearly cancel behind the second map, so that nothing large is added up there.

Any shift x ≥ t serves, where t is the least that keeps hidden units on their piece: the second norm
takes M2 x away again. In floats that costs: each hidden value is rounded by about u·x, and the sum
M2 x that is made and taken away by u·|M2 x|, at ρ places. The variance of what all outputs get is

    u² (Σ_l c_l x_l² + ρ‖M2 x‖²),      c_l = ‖M2[:, l]‖²,

or so, a convex function of x ≥ t. At its least, with the m numbers μ = ρ M2 x,

    x_l = max(t_l, −(M2ᵀ μ)_l / c_l),

so that Newton's method on μ/ρ = M2 max(t, −C⁻¹ M2ᵀ μ) finds it: a linear system of size m a step,
of 1/ρ plus M2 C⁻¹ M2ᵀ over the units that are raised. With n/m hidden units to each output some
tenth is added to the shifts, and M2 x falls by about ρ·n/m. Nothing here has to be proved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.khatri_rao.engines import one_blas_thread
from reconstruct.khatri_rao.storage import to_dense
from reconstruct.networks import Matrix
from reconstruct.numbers.arrays import Array, Vector

PLACES = 4.0  # ρ: the sum, what else it is added to, the norm
STEPS = 30
ENOUGH = 1e-3  # of ‖M2 t‖: what a step may leave of its equation
SHORTEST = 2.0**-6  # of a Newton step that is tried
MOST_HELD = 2**25  # entries of M2
MOST_WORK = 2**33  # m²·n, products of numbers in a step: a tenth of a second


@dataclass(frozen=True, eq=False)
class _Level:
    """The equation `μ/ρ = M2 max(t, −C⁻¹ M2ᵀ μ)`."""

    M2: Array
    least: Vector
    weight: Vector

    def shifts(self, mu: Vector) -> Vector:
        return np.maximum(self.least, -(mu @ self.M2) / self.weight)

    def gap(self, mu: Vector) -> Vector:
        return np.asarray(mu / PLACES - self.M2 @ self.shifts(mu))

    def step(self, mu: Vector, gap: Vector) -> Vector:
        """Newton's step: on the units that are raised the equation is linear."""
        raised = -(mu @ self.M2) > self.weight * self.least
        part = self.M2[:, raised]
        matrix = np.eye(len(mu)) / PLACES + (part / self.weight[raised]) @ part.T
        return np.asarray(np.linalg.solve(matrix, -gap))

    def cost(self, x: Vector) -> float:
        return float(self.weight @ x**2) + PLACES * float(np.sum((self.M2 @ x) ** 2))


def levelled(M2: Matrix, least: Vector) -> Vector:
    """The shifts x ≥ `least` of the least expected error; `least` itself where none is better,
    or M2 is too large."""
    m, n = M2.shape
    if m * n > MOST_HELD or m * m * n > MOST_WORK or not least.any():
        return least
    with one_blas_thread(), np.errstate(all="ignore"):  # the same bits, whoever is at work besides
        weights = np.ascontiguousarray(to_dense(M2), dtype=np.float64)
        squares = np.einsum("ij,ij->j", weights, weights)
        level = _Level(weights, least, np.where(squares > 0, squares, 1.0))
        x = level.shifts(_newton(level))
        return x if level.cost(x) < level.cost(least) else least


def _newton(level: _Level) -> Vector:
    """Steps that bring the gap down, halved until they do."""
    mu = np.zeros(len(level.M2))
    gap = level.gap(mu)
    enough = ENOUGH * float(np.linalg.norm(gap))
    for _ in range(STEPS):
        size = float(np.linalg.norm(gap))
        if not size > enough:
            break
        step, share = level.step(mu, gap), 1.0
        while share >= SHORTEST:
            tried = mu + share * step
            rest = level.gap(tried)
            if float(np.linalg.norm(rest)) < size:
                break
            share /= 2
        else:
            break
        mu, gap = tried, rest
    return mu
