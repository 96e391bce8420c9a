"""Damped Gauss-Newton for `M_L D_L … D_1 M_0 = W`: the diagonals, from random starts.

Each step is the least one, in units of the diagonals, that solves the linearised equations with
damping (Levenberg and Marquardt):

    δ = Jᵀ (J Jᵀ + λ I)⁻¹ (W − P(s)),

with J Jᵀ factored while it is small, and conjugate gradients on the Khatri-Rao structure of J
beyond that. Nothing is proved here: whether a residual is small is checked by the certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg as la

from reconstruct.constructions.stacked.product import Jacobian, Product, Scales
from reconstruct.numbers.arrays import Array, Vector
from reconstruct.progress import Progress, Step

STEPS = 200  # at most, from one start
STARTS = 4
SPREAD = 0.5  # of the random start around 1
CLOSE = 2.0**-50  # relative residual at which rounding is all that is left
ACCEPTED = 1e-10  # relative residual that counts as a solution when no step improves it
DENSE_BYTES = 1 << 29  # largest J that is formed
LEAST, MOST = 1e-16, 1e6  # damping, relative to the mean eigenvalue of J Jᵀ
GAIN, LOSS = 0.2, 4.0  # damping after a step that helped, and after one that did not
FEW = 5.0  # times the damping of the step before: near the solution more of it does not help
INEXACT = 1e-4  # relative residual of the inner iteration: each step gains about as much
INNER = 2000


@dataclass(frozen=True, eq=False)
class Fit:
    """The best scales found; `history` holds the relative residuals of the start that gave them.

    `condition` is that of J at the solution, where J was formed; `starts` how many were tried.
    """

    scales: Scales
    history: tuple[float, ...]
    condition: float | None
    starts: int
    solver: str

    @property
    def residual(self) -> float:
        return self.history[-1]

    @property
    def converged(self) -> bool:
        return self.residual <= ACCEPTED


def fit(product: Product, W: Array, progress: Progress, *, dense: bool = True) -> Fit:
    """Scales with `P(s) = W`, or the best of several starts; `dense=False` never forms J."""
    if not W.any():
        zero = tuple(np.zeros(n) for n in product.widths)
        return Fit(zero, (0.0,), None, 0, "zero")
    small = 8 * W.size * max(W.size, sum(product.widths)) <= DENSE_BYTES
    best: Fit | None = None
    for start in range(STARTS):
        found = _descend(product, W, start, small and dense, progress)
        if best is None or found.residual < best.residual:
            best = found
        if best.converged:
            break
    assert best is not None
    return best


def _descend(product: Product, W: Array, start: int, dense: bool, progress: Progress) -> Fit:
    scales = _random_start(product, W, np.random.default_rng(start))
    size = float(np.linalg.norm(W))
    rest = W - product.value(scales)
    history = [float(np.linalg.norm(rest)) / size]
    damping = 1e-3
    for number in range(STEPS):
        step = _damped(product.jacobian(scales), rest, dense)
        taken = _improve(product, W, scales, step, damping, history[-1] * size)
        if taken is None:
            break
        scales, rest, damping = taken
        history.append(float(np.linalg.norm(rest)) / size)
        progress(Step("Gauss-Newton", number + 1, None, history[-1]))
        if history[-1] <= CLOSE or _is_at_rounding(history):
            break
    condition = _condition(product.jacobian(scales)) if dense else None
    name = "gauss-newton" if dense else "gauss-newton cg"
    return Fit(scales, tuple(history), condition, start + 1, name)


def _is_at_rounding(history: list[float]) -> bool:
    """Whether a step near the solution gained next to nothing: they are quadratic there."""
    return history[-1] <= ACCEPTED and history[-1] > history[-2] / 2


def _random_start(product: Product, W: Array, rng: np.random.Generator) -> Scales:
    """Entries around 1, scaled alike so that the product is as large as W."""
    scales = [1 + SPREAD * rng.normal(size=n) for n in product.widths]
    ratio = float(np.linalg.norm(W) / (np.linalg.norm(product.value(scales)) or 1.0))
    return tuple(ratio ** (1 / product.layers) * s for s in scales)


Trial = Callable[[float], Scales | None]


def _damped(jacobian: Jacobian, rest: Array, dense: bool) -> tuple[Jacobian, Callable[..., Vector]]:
    """The step for any damping; J Jᵀ is formed once for all of them."""
    if not dense:
        return jacobian, lambda damping: _by_iteration(jacobian, rest, damping)
    J = jacobian.dense()
    gram = J @ J.T
    mean = float(np.trace(gram)) / len(gram)

    def step(damping: float) -> Vector:
        shifted = gram + damping * mean * np.eye(len(gram))
        return np.asarray(J.T @ la.cho_solve(la.cho_factor(shifted), rest.ravel()))

    return jacobian, step


def _improve(
    product: Product,
    W: Array,
    scales: Scales,
    step: tuple[Jacobian, Callable[..., Vector]],
    damping: float,
    size: float,
) -> tuple[Scales, Array, float] | None:
    """The first damped step that lowers the residual, with its residual and the next damping."""
    jacobian, damped = step
    least = damping
    near = size <= ACCEPTED * float(np.linalg.norm(W))
    while damping <= (min(MOST, FEW * max(least, LEAST)) if near else MOST):
        try:
            moved = jacobian.moved(scales, damped(damping))
        except la.LinAlgError:
            damping = max(damping, LEAST) * LOSS
            continue
        rest = W - product.value(moved)
        if float(np.linalg.norm(rest)) < size:
            return moved, rest, max(GAIN * damping, LEAST)
        damping = max(damping, LEAST) * LOSS
    return None


def _by_iteration(jacobian: Jacobian, rest: Array, damping: float) -> Vector:
    """`Jᵀ (J Jᵀ + λ I)⁻¹ r` by conjugate gradients in the m × k space of equations."""
    mean = sum(
        float(np.sum(np.sum(A**2, axis=0) * np.sum(B**2, axis=1)))
        for A, B in zip(jacobian.lefts, jacobian.rights, strict=True)
    )
    shift = damping * mean / jacobian.equations
    y, left = np.zeros_like(rest), rest.copy()
    direction, size = left.copy(), float(np.vdot(left, left))
    enough = INEXACT**2 * size
    for _ in range(INNER):
        image = jacobian.apply(jacobian.adjoint(direction)) + shift * direction
        length = size / float(np.vdot(direction, image))
        y += length * direction
        left -= length * image
        before, size = size, float(np.vdot(left, left))
        if size <= enough:
            break
        direction = left + (size / before) * direction
    return jacobian.adjoint(y)


def _condition(jacobian: Jacobian) -> float:
    """The 2-norm condition number of J (its rows), by the eigenvalues of J Jᵀ."""
    J = jacobian.dense()
    values = np.linalg.eigvalsh(J @ J.T)
    return float(np.sqrt(values[-1] / values[0])) if values[0] > 0 else float("inf")
