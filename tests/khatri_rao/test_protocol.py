"""A solver is one class: one that is defined here works wherever the built-in ones do."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from reconstruct.errors import InputError
from reconstruct.khatri_rao import (
    SOLVERS,
    Direct,
    Exact,
    KhatriRao,
    Solution,
    Solver,
    Status,
    plan,
    solve,
)
from reconstruct.khatri_rao.solution import attainable_residual, is_solved, relative_residual
from reconstruct.khatri_rao.solvers import Cost
from reconstruct.progress import Progress

from .planted import plant, relative, tolerance


@dataclass(frozen=True)
class NormalEquations:
    """`s = Kᵀ (K Kᵀ)⁻¹ w`: a method of its own, honest through `is_solved`."""

    rational: ClassVar[bool] = False

    def solve(self, operator: KhatriRao, W: Any, progress: Progress | None = None) -> Solution:
        K = operator.dense()
        s = K.T @ np.linalg.solve(K @ K.T, W.ravel())
        size = relative_residual(operator, s, W)[1]
        solved = is_solved(size, 1e-10, attainable_residual(operator, s, W), True)
        status = Status.SOLVED if solved else Status.NOT_CONVERGED
        return Solution(s, status, "normal", size, operator.map_shape)

    def cost(self, m: int, k: int, n: int, density: float = 1.0) -> Cost:
        return Cost(self, 8.0 * (m * k) ** 2, 2.0 * n * (m * k) ** 2)


def test_a_solver_of_ones_own() -> None:
    planted = plant(4, 5, 2.0)
    found = solve(planted.M1, planted.M2, planted.W, NormalEquations())
    assert found.solver == "normal"
    assert found.solved
    assert found.seconds > 0
    oracle = solve(planted.M1, planted.M2, planted.W, Direct()).s
    assert relative(found.s - oracle, oracle) <= tolerance(planted.condition**2, 40)
    planned = plan(4, 5, 40, NormalEquations())
    assert planned.solver == NormalEquations()
    assert planned.memory_bytes == 8 * 400


@pytest.mark.parametrize("kind", SOLVERS.values())
def test_every_solver_meets_the_protocol(kind: type[Solver]) -> None:
    solver = kind()
    assert isinstance(solver, Solver)
    cost = solver.cost(4, 5, 30, 0.5)
    assert cost.memory > 0
    assert cost.work > 0
    assert isinstance(cost.solver, Solver)


def test_a_class_is_not_a_solver() -> None:
    planted = plant(2, 2)
    with pytest.raises(InputError, match="pass an instance"):
        solve(planted.M1, planted.M2, planted.W, Direct)  # type: ignore[arg-type]


def test_a_solution_knows_its_sizes() -> None:
    planted = plant(3, 5, 2.0)
    found = solve(planted.M1, planted.M2, planted.W)
    assert (found.shape, found.needed, found.width) == ((3, 5), 15, 30)
    assert found.largest == np.max(np.abs(found.s))
    assert found.iterations == len(found.history)
    assert found.rationals is None


def test_rational_right_hand_sides() -> None:
    """`1/3` is no float: the exact solver takes it as it is, the others refuse it."""
    M1, M2 = np.array([[1.0], [0.0]]), np.array([[1.0, 2.0]])
    W = [[Fraction(1, 3)]]
    found = solve(M1, M2, W, Exact())
    assert found.rationals is not None
    assert found.rationals[0] == Fraction(1, 3)
    assert found.s[0] == 1 / 3
    with pytest.raises(InputError, match="W must hold real numbers, but has dtype object"):
        solve(M1, M2, W, Direct())
    with pytest.raises(InputError, match=r"W must have shape \(m, k\) = \(1, 1\)"):
        solve(M1, M2, [[Fraction(1), Fraction(2)]], Exact())
