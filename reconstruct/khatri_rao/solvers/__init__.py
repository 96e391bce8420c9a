"""Solvers of `M2 diag(s) M1 = W`: one class per file, each with `solve` and `cost`, and the choice
between them that follows from the costs.

A new solver is its own file and one line in `SOLVERS`, by which the command line knows it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from reconstruct.khatri_rao.operator import KhatriRao
from reconstruct.khatri_rao.solution import Cost, Solution, Solver
from reconstruct.khatri_rao.solvers.conjugate_gradient import ConjugateGradient, expected_iterations
from reconstruct.khatri_rao.solvers.direct import Direct
from reconstruct.khatri_rao.solvers.exact import Exact
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.given import number
from reconstruct.progress import Progress, silent


@dataclass(frozen=True)
class AutoLimits:
    """What decides between factoring and iterating."""

    near_square: float = 1.05  # ratio below which the iteration count is not predictable
    quick: float = 1e10  # flops, some tenths of a second: up to here direct's certainty wins


LIMITS = AutoLimits()
DIRECT, ITERATIVE = Direct(), ConjugateGradient()


@dataclass(frozen=True)
class Auto:
    """Let size and ratio decide; fall back to direct when the iteration fails and it fits.

    `dense_bytes`: largest dense `K` that may be formed.
    """

    dense_bytes: int = 1 << 30

    rational: ClassVar[bool] = False

    def __post_init__(self) -> None:
        number(self.dense_bytes, "dense_bytes")

    def solve(self, operator: KhatriRao, W: Array, progress: Progress = silent) -> Solution:
        """Solve by the method that `cost` chooses."""
        m, k = operator.map_shape
        entries = operator.rows * operator.width
        density = float(np.sqrt(operator.entries() / entries)) if operator.sparse else 1.0
        density = max(density, 1e-9)  # of a matrix of zeros: costs divide by it
        if self.cost(m, k, operator.width, density).solver == DIRECT:
            return DIRECT.solve(operator, W, progress)
        solution = ITERATIVE.solve(operator, W, progress)
        if solution.solved or 8 * entries > self.dense_bytes:
            return solution
        return DIRECT.solve(operator, W, progress)

    def cost(self, m: int, k: int, n: int, density: float = 1.0) -> Cost:
        """The cost of the better method."""
        direct, iterative = DIRECT.cost(m, k, n, density), ITERATIVE.cost(m, k, n, density)
        if 8 * m * k * n > self.dense_bytes:
            return iterative
        near_square = n < LIMITS.near_square * m * k
        small = direct.work <= max(LIMITS.quick, iterative.work)
        return direct if near_square or small else iterative


SOLVERS: dict[str, type[Solver]] = {
    "auto": Auto,
    "direct": Direct,
    "cg": ConjugateGradient,
    "exact": Exact,
}
