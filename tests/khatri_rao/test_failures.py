"""Failures of equal standing: each one is noticed, and says so with its numbers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from reconstruct.errors import InputError
from reconstruct.khatri_rao import (
    Auto,
    ConjugateGradient,
    Direct,
    Exact,
    KhatriRao,
    Solver,
    Status,
    plan,
    solve,
    solve_exact,
)
from reconstruct.khatri_rao import solve as solve_function
from reconstruct.khatri_rao.solution import is_solved

from .planted import plant, residual_tolerance

SOLVERS = [Auto(), Direct(), ConjugateGradient(), Exact()]
RANKED = [Auto(), Direct(), Exact()]


def generic(shape: tuple[int, int]) -> np.ndarray:
    return np.random.default_rng(99).standard_normal(shape)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("shape", [(1, 2), (3, 4), (8, 8)], ids=str)
def test_one_neuron_too_narrow(solver: Solver, shape: tuple[int, int]) -> None:
    m, k = shape
    planted = plant(m, k, 1.0)
    found = solve(planted.M1[1:], planted.M2[:, 1:], generic(shape), solver)
    assert found.status is Status.TOO_NARROW
    assert f"of {m * k} needed, width {m * k - 1}" in found.message
    assert "widen the hidden layer to at least m·k" in found.message
    assert found.residual > 1e-12
    assert found.s.shape == (m * k - 1,)


@pytest.mark.parametrize("solver", [Auto(), Direct(), ConjugateGradient()], ids=repr)
def test_too_narrow_but_w_is_in_reach(solver: Solver) -> None:
    planted = plant(4, 5, 0.7)
    found = solve(planted.M1, planted.M2, planted.W, solver)
    assert found.status is Status.SOLVED
    assert found.rank in (14, None)
    assert found.needed == 20


@pytest.mark.parametrize("solver", RANKED, ids=repr)
@pytest.mark.parametrize("ratio", [1.0, 1.4])
def test_repeated_hidden_units(solver: Solver, ratio: float) -> None:
    """Equal rows of M1 and equal columns of M2 make equal columns of K."""
    planted = plant(5, 4, ratio)
    M1, M2 = planted.M1.copy(), planted.M2.copy()
    M1[:10], M2[:, :10] = M1[0], M2[:, :1]
    rank = len(planted.s) - 9
    expected = Status.RANK_DEFICIENT if rank < 20 else Status.SOLVED
    found = solve(M1, M2, generic((5, 4)), solver)
    assert found.status is expected
    assert found.rank == min(rank, 20)
    if rank < 20:
        assert f"rank {rank} of 20 needed" in found.message
        assert "draw weights from a continuous distribution" in found.message


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_repeated_equations(solver: Solver) -> None:
    """Two equal rows of M2 can only carry two equal rows of W."""
    planted = plant(4, 4, 1.5)
    M2 = planted.M2.copy()
    M2[1] = M2[0]
    W = generic((4, 4))
    found = solve(planted.M1, M2, W, solver)
    assert found.status is Status.RANK_DEFICIENT
    assert found.rank in (12, None)
    W[1] = W[0]
    again = solve(planted.M1, M2, W, solver)
    assert again.status is Status.SOLVED
    assert again.rank in (12, None)


def test_rademacher_at_ratio_1_names_the_rank() -> None:
    statuses = set()
    for seed in range(20):
        planted = plant(3, 3, 1.0, "rademacher", seed=seed)
        W = generic((3, 3))
        rank = int(np.linalg.matrix_rank(planted.K))
        found = solve(planted.M1, planted.M2, W)
        assert found.rank == rank
        assert found.status is (Status.SOLVED if rank == 9 else Status.RANK_DEFICIENT)
        if rank < 9:
            assert f"rank {rank} of 9 needed" in found.message
        statuses.add(found.status)
    assert Status.RANK_DEFICIENT in statuses


@pytest.mark.parametrize("ratio", [1.0, 1.5])
def test_large_rank_deficiency_is_found_by_pivoting(ratio: float) -> None:
    planted = plant(24, 24, ratio)
    M2 = planted.M2.copy()
    M2[3] = 2 * M2[5]
    found = solve(planted.M1, M2, generic((24, 24)), Direct())
    assert found.status is Status.RANK_DEFICIENT
    assert found.rank == 576 - 24


def nearly_equal_rows(gap: float) -> tuple[np.ndarray, np.ndarray]:
    planted = plant(4, 4, 1.0)
    M2 = planted.M2.astype(np.float64)
    M2[1] = M2[0] * (1 + gap * np.random.default_rng(0).standard_normal(16))
    return planted.M1.astype(np.float64), M2


@pytest.mark.parametrize("solver", RANKED, ids=repr)
def test_huge_condition_is_admitted(solver: Solver) -> None:
    M1, M2 = nearly_equal_rows(1e-15)
    found = solve(M1, M2, generic((4, 4)), solver)
    assert found.status is Status.ILL_CONDITIONED, found.message
    assert found.rank == 16
    assert found.condition is not None
    assert found.condition > 1e14
    assert "float64 cannot carry it" in found.message
    assert f"condition {found.condition:.1e}" in found.message


def test_huge_condition_is_solved_over_the_rationals() -> None:
    M1, M2 = nearly_equal_rows(1e-15)
    found = solve_exact(M1, M2, generic((4, 4)))
    assert found.rationals is not None
    assert found.status is Status.ILL_CONDITIONED


@pytest.mark.parametrize("gap", [10.0**-e for e in range(2, 16)])
@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_honesty_along_a_ladder_of_conditions(solver: Solver, gap: float) -> None:
    """Whatever is called solved is solved: the residual by NumPy alone says so."""
    M1, M2 = nearly_equal_rows(gap)
    W = generic((4, 4))
    found = solve(M1, M2, W, solver)
    true = float(np.linalg.norm(M2 @ (found.s[:, None] * M1) - W) / np.linalg.norm(W))
    if found.status is Status.SOLVED:
        assert true <= 1e-8
    else:
        assert found.status in (Status.ILL_CONDITIONED, Status.NOT_CONVERGED)
    if gap >= 1e-5 and solver != ConjugateGradient():
        assert found.status is Status.SOLVED


def test_too_few_iterations() -> None:
    planted = plant(8, 8, 1.5)
    settings = ConjugateGradient(max_iterations=7)
    found = solve(planted.M1, planted.M2, planted.W, settings)
    assert found.status is Status.NOT_CONVERGED
    assert found.iterations == 7
    assert f"relative residual {found.residual:.1e} after 7 iterations of cg" in found.message
    assert "more iterations" in found.message
    assert found.residual < 1


def test_conjugate_gradients_on_a_square_system_admit_failure() -> None:
    planted = plant(20, 20, 1.0)
    found = solve(planted.M1, planted.M2, planted.W, ConjugateGradient(max_iterations=300))
    assert found.status is Status.NOT_CONVERGED
    assert found.residual > 1e-9


def test_auto_falls_back_to_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    from reconstruct.khatri_rao import solvers as auto

    monkeypatch.setattr(auto, "LIMITS", auto.AutoLimits(quick=0.0))
    planted = plant(20, 20, 1.5)
    M2 = planted.M2.copy()
    M2[1] = M2[0]
    assert plan(20, 20, 600).solver == ConjugateGradient()
    found = solve(planted.M1, M2, generic((20, 20)))
    assert found.solver == "direct"
    assert found.rank == 380


def test_a_tolerance_that_was_asked_for_counts() -> None:
    planted = plant(8, 8, 1.5)
    found = solve(planted.M1, planted.M2, planted.W, ConjugateGradient(tolerance=1e-4))
    assert found.status is Status.SOLVED
    assert residual_tolerance(planted, found.s) < found.residual <= 1e-4


def test_a_deficient_system_is_solved_at_rounding_level_only() -> None:
    """Just outside of the range is outside, whatever tolerance was asked for."""
    assert is_solved(1e-10, 1e-14, 1e-9, full_rank=True)
    assert not is_solved(1e-10, 1e-14, 1e-9, full_rank=False)
    assert not is_solved(1e-10, 1e-4, 1e-15, full_rank=False)
    assert not is_solved(float("nan"), 1.0, 1.0, full_rank=True)
    planted = plant(4, 5, 0.7)
    W = planted.W * (1 + 1e-10 * generic((4, 5)))
    for solver in (Direct(tolerance=1e-6), ConjugateGradient(tolerance=1e-6)):
        assert solve(planted.M1, planted.M2, W, solver).status is Status.TOO_NARROW


def test_repr_and_message_carry_the_numbers() -> None:
    planted = plant(3, 3, 1.5)
    found = solve(planted.M1, planted.M2, planted.W)
    assert repr(found).startswith("Solution(solved: ")
    assert "rank 9 of 9 needed, width 14" in repr(found)
    for status in Status:
        assert status.explanation
        assert bool(status.remedy) is (status is not Status.SOLVED)


class TestInput:
    M1 = np.ones((6, 3))
    M2 = np.ones((2, 6))
    W = np.ones((2, 3))

    @pytest.mark.parametrize("name", ["M1", "M2", "W"])
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("solver", [Auto(), Exact()], ids=repr)
    def test_not_finite(self, name: str, value: float, solver: Solver) -> None:
        arrays = {"M1": self.M1.copy(), "M2": self.M2.copy(), "W": self.W.copy()}
        arrays[name][0, 0] = value
        shape = arrays[name].shape
        with pytest.raises(InputError, match="must be finite, but 1 of its entries") as caught:
            solve(**arrays, solver=solver)
        assert str(caught.value).startswith(f"{name} of shape {shape}")
        with pytest.raises(InputError, match=name):
            solve_exact(**arrays)

    def test_not_finite_in_sparse_storage(self) -> None:
        bad = self.M1.copy()
        bad[1, 1] = np.nan
        with pytest.raises(InputError, match="M1"):
            solve(sp.csr_array(bad), sp.csr_array(self.M2), self.W)

    @pytest.mark.parametrize("function", [solve_function, solve_exact])
    def test_shapes_that_do_not_fit(self, function: object) -> None:
        call = function if callable(function) else solve
        with pytest.raises(InputError, match=r"M1 has shape \(5, 3\) and M2 has shape \(2, 6\)"):
            call(self.M1[1:], self.M2, self.W)
        with pytest.raises(InputError, match=r"W must have shape .* = \(2, 3\) .*\(3, 2\)"):
            call(self.M1, self.M2, self.W.T)
        with pytest.raises(InputError, match=r"M2 must be a matrix .* \(6,\)"):
            call(self.M1, self.M2[0], self.W)
        with pytest.raises(InputError, match=r"M1 must be a matrix .* \(6, 0\)"):
            call(self.M1[:, :0], self.M2, self.W)

    def test_numbers_that_are_not_real(self) -> None:
        with pytest.raises(InputError, match="W must hold real numbers, but has dtype complex128"):
            solve(self.M1, self.M2, self.W * 1j)
        with pytest.raises(InputError, match="M1 must hold real numbers, but has dtype <U"):
            solve_exact(self.M1.astype(str), self.M2, self.W)

    def test_solver_is_not_a_string(self) -> None:
        with pytest.raises(InputError, match=r"solver must be one of Auto\(\).*'cg'"):
            solve(self.M1, self.M2, self.W, "cg")  # type: ignore[arg-type]

    def test_integers_are_numbers(self) -> None:
        found = solve(np.eye(2, dtype=int)[:, :1], np.eye(2, dtype=int)[:1], [[3]])
        assert found.status is Status.SOLVED
        assert found.s.tolist() == [3.0, 0.0]

    def test_a_dense_matrix_that_cannot_fit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import importlib

        module = importlib.import_module("reconstruct.khatri_rao.solvers.direct")
        monkeypatch.setattr(module, "physical_memory", lambda: 1000)
        with pytest.raises(InputError, match=r"direct solver would need .* 2 × 3 map with width 6"):
            solve(self.M1, self.M2, self.W, Direct())

    @pytest.mark.parametrize("sizes", [(0, 1, 1), (1, -1, 1), (1, 1, 0)])
    def test_plan_of_nothing(self, sizes: tuple[int, int, int]) -> None:
        with pytest.raises(InputError, match="must be at least 1"):
            plan(*sizes)

    def test_plan_of_no_density(self) -> None:
        with pytest.raises(InputError, match=r"density must be in \(0, 1\], but is 0"):
            plan(1, 1, 1, density=0)


def test_operator_of_zero_weights() -> None:
    K = KhatriRao(np.zeros((4, 2)), np.zeros((2, 4)))
    found = solve(K.M1, K.M2T.T, np.ones((2, 2)))
    assert found.status is Status.RANK_DEFICIENT
    assert found.rank == 0
