"""Fewer hidden neurons than equations: the best fit on data, and honest about what is left out.

Below m·k neurons no γ gives every W. Where the inputs of a map really lie, less is enough: with h
the values that the frozen network itself has by then, on data, and z what the target has behind the
map, the scales solve

    min_s  Σ ‖M2 diag(s) M1 (h − h̄) − (z − z̄)‖²,

least squares weighted by the covariance of h: its Gram matrix is (M2ᵀM2) ∘ (M1 C M1ᵀ). The offset
matches the means. The map that comes out is W̃ ≠ W; `left_out` tells how far, so that shifts cover
the drift and the certificate bounds the error. It is an approximation and is called nothing else.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray

from reconstruct.constructions.chain import Chain
from reconstruct.constructions.construction import Construction, GroupSolution, LeftOut, Task
from reconstruct.constructions.sites import Site, check_geometry, hidden_width
from reconstruct.constructions.wide import WidePlan, shift_hidden, two_norms
from reconstruct.errors import InputError
from reconstruct.khatri_rao import ConjugateGradient, RankProof, Solution, Solver, Status, solve
from reconstruct.networks import Mixing, dense
from reconstruct.numbers.arrays import Array, Vector
from reconstruct.numbers.given import number
from reconstruct.progress import Progress


@dataclass(frozen=True)
class FitLimits:
    """What keeps a fit well posed, and when it counts as a solution."""

    ridge: float = 1e-9  # of the mean diagonal of the Gram matrix: it may be singular
    elsewhere: float = 1e-3  # weight of W itself beside the data, relative to the data's spread
    dense: int = 4000  # neurons up to which the Gram matrix is formed: 128 MB
    steps: int = 2000  # of the iteration beyond that
    solved: float = 1e-9  # relative residual of the whole map up to which nothing is left out


LIMITS = FitLimits()


@dataclass(frozen=True)
class Fitted(Construction):
    """`ratio` hidden neurons for each of the m·k equations, which may be fewer than one.

    `plain` fits W itself, every direction of its input alike, instead of what it does on data.
    """

    ratio: float = 0.5
    plain: bool = False

    summary: ClassVar[str] = (
        "each affine map of the target is fitted by two frozen layers on data, with fewer "
        "than m·k neurons between them: an approximation"
    )

    def __post_init__(self) -> None:
        if not 0 < number(self.ratio, "the ratio") < 1e6:
            raise InputError(
                f"the ratio must be above 0, a share of the m·k neurons that every map would "
                f"need, but is {self.ratio:g}; 0.5 is a good choice"
            )

    def plan(self, op: Mixing) -> FittedPlan:
        m, k = op.kernels[0].shape
        return FittedPlan(op, hidden_width(self.ratio, m * k), self.plain)


@dataclass(frozen=True, eq=False)
class FittedPlan(WidePlan):
    """The layers of a wide site, with fewer neurons, fitted one after the other."""

    plain: bool = False

    def check(self, site: Site) -> None:
        """Any width will do; convolutions must move over the image as the target's do."""
        check_geometry(self.op, site)

    def solve_group(
        self, chain: Chain, task: Task, solver: Solver, progress: Progress
    ) -> GroupSolution:
        if solver.rational or task.examples is None:
            raise InputError(
                "a fitted map is a least-squares fit on data in float64: use another solver than "
                "exact, and a domain that can be sampled"
            )
        start = time.perf_counter()
        h, z = _everywhere(task) if self.plain else task.examples()
        M1, M2 = dense(chain.first.entry), dense(chain.end.kernel)
        s = least_squares(M1, M2, h, z, task.weight)
        made = (M2 * s) @ M1
        bias = z.mean(axis=0) - made @ h.mean(axis=0)
        hidden = shift_hidden(chain, task, s)
        left = LeftOut(np.abs(made - task.weight), np.abs(bias - task.bias))
        size = float(np.linalg.norm(task.weight)) or 1.0
        residual = float(np.linalg.norm(made - task.weight)) / size
        centred = (h - h.mean(axis=0)) @ made.T - (z - z.mean(axis=0))
        spread = float(np.linalg.norm(z - z.mean(axis=0))) or 1.0
        on_data = float(np.linalg.norm(centred)) / spread
        status = Status.SOLVED if residual <= LIMITS.solved else Status.TOO_NARROW
        seconds, shape = time.perf_counter() - start, (self.rows, self.cols)
        said = (
            f"fitted: {self.width} neurons for {self.rows * self.cols} equations, on {len(h)} "
            f"inputs the fit misses {on_data:.1e} of the spread, as a matrix {residual:.1e} of W: "
            f"an approximation"
        )
        solution = Solution(s, status, "least squares", residual, shape, said=said)
        solution = solution.replace(history=(on_data,), seconds=seconds)
        found = two_norms(chain, replace(task, bias=bias), solution, hidden)
        return replace(found, left_out=left)

    def prove_ranks(self, site: Site) -> tuple[RankProof | None, ...]:
        """None: with fewer neurons than equations there is no full rank to prove."""
        return (None,) * self.groups


def _everywhere(task: Task) -> tuple[Array, Array]:
    """Inputs whose covariance is the identity, and what W makes of them."""
    h = np.vstack([np.eye(task.weight.shape[1]), -np.eye(task.weight.shape[1])])
    return h, h @ task.weight.T + task.bias


def least_squares(
    M1: NDArray[np.float64], M2: NDArray[np.float64], h: Array, z: Array, W: Array | None = None
) -> Vector:
    """The s that makes `M2 diag(s) M1 (h − h̄)` closest to `z − z̄` over all rows of the data.

    Where the data say nothing, W decides: the covariance of h gets `elsewhere` times its mean
    diagonal added in every direction, in which W itself is fitted.
    """
    inputs, wanted = h - h.mean(axis=0), z - z.mean(axis=0)
    covariance, cross = inputs.T @ inputs / len(h), wanted.T @ inputs / len(h)
    if W is not None:
        weight = LIMITS.elsewhere * (float(np.trace(covariance)) / len(covariance) or 1.0)
        covariance, cross = covariance + weight * np.eye(len(covariance)), cross + weight * W
    if len(M1) > LIMITS.dense:
        return _by_iteration(M1, M2, covariance, cross)
    gram = (M2.T @ M2) * (M1 @ covariance @ M1.T)
    right = np.einsum("ol,ol->l", M2, cross @ M1.T)
    ridge = LIMITS.ridge * float(np.trace(gram)) / len(gram)
    if not ridge > 0:
        return np.zeros(len(gram))
    return np.asarray(la.solve(gram + ridge * np.eye(len(gram)), right, assume_a="pos"))


def _by_iteration(M1: Array, M2: Array, covariance: Array, cross: Array) -> Vector:
    """The same without the n × n Gram matrix.

    With `C = R Rᵀ` the objective is `‖M2 diag(s) (M1 R) − cross R⁻ᵀ‖²` up to a constant: a
    Khatri-Rao system with other first weights, whose least-squares solution the iteration finds.
    """
    root = np.linalg.cholesky(
        covariance + LIMITS.ridge * np.trace(covariance) * np.eye(len(covariance))
    )
    wanted = la.solve_triangular(root, cross.T, lower=True).T
    steps = ConjugateGradient(LIMITS.solved, max_iterations=LIMITS.steps)
    return np.asarray(solve(M1 @ root, M2, wanted, steps).s)
