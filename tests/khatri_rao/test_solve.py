"""Planted solutions, crossed over solver, shape, ratio and weights; oracles beside them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconstruct.khatri_rao import (
    Auto,
    ConjugateGradient,
    Direct,
    Exact,
    Solver,
    Status,
    plan,
    solve,
)
from reconstruct.progress import Step

from .planted import (
    Planted,
    plant,
    relative,
    residual,
    residual_tolerance,
    sparsify,
    tolerance,
)

SOLVERS = [Auto(), Direct(), ConjugateGradient(), ConjugateGradient(inner_dtype=np.float64)]
SHAPES = [(1, 1), (1, 7), (6, 1), (4, 5), (9, 6), (16, 16)]


def check_solved(planted: Planted, solver: Solver) -> None:
    found = solve(planted.M1, planted.M2, planted.W, solver)
    assert found.status is Status.SOLVED, found.message
    true = residual(planted, found.s)
    assert true <= residual_tolerance(planted, found.s)
    assert abs(found.residual - true) <= residual_tolerance(planted, found.s)
    m, k = planted.W.shape
    assert (found.needed, found.width) == (m * k, len(planted.s))
    assert found.rank in (None, m * k)
    assert found.iterations == len(found.history)
    assert found.s.dtype == np.float64


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("ratio", [1.5, 2.0, 3.0])
@pytest.mark.parametrize("weights", ["gaussian", "uniform", "positive"])
def test_planted(solver: Solver, shape: tuple[int, int], ratio: float, weights: str) -> None:
    check_solved(plant(*shape, ratio, weights), solver)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_rademacher_solves_with_spare_width(solver: Solver) -> None:
    check_solved(plant(12, 12, 1.5, "rademacher"), solver)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("weights", ["gaussian", "uniform", "positive"])
def test_square_systems_give_the_planted_s(shape: tuple[int, int], weights: str) -> None:
    planted = plant(*shape, 1.0, weights)
    check_solved(planted, Direct())
    found = solve(planted.M1, planted.M2, planted.W)
    allowed = tolerance(planted.condition, len(planted.s))
    assert relative(found.s - planted.s, planted.s) <= allowed


def test_paper_setting_50_by_50_at_ratio_1() -> None:
    planted = plant(50, 50, 1.0)
    found = solve(planted.M1, planted.M2, planted.W)
    assert found.status is Status.SOLVED
    assert residual(planted, found.s) <= 1e-9
    assert found.solver == "direct"
    assert found.condition is not None
    assert 1e3 < found.condition < 1e9


@pytest.mark.parametrize("solver", [*SOLVERS, Exact()], ids=repr)
@pytest.mark.parametrize("W", ["zero", "zero rows", "zero columns", "one entry"])
def test_dead_units_in_the_target_are_normal(solver: Solver, W: str) -> None:
    planted = plant(4, 5, 1.5)
    right = np.random.default_rng(3).standard_normal((4, 5))
    if W == "zero":
        right[:] = 0
    elif W == "zero rows":
        right[[0, 2]] = 0
    elif W == "zero columns":
        right[:, 1:3] = 0
    else:
        right[:] = 0
        right[2, 3] = 1
    check_solved(Planted(planted.M1, planted.M2, right, planted.s), solver)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
@pytest.mark.parametrize("ratio", [1.2, 1.5, 4.0])
def test_minimum_norm_equals_lapack(solver: Solver, ratio: float) -> None:
    planted = plant(7, 6, ratio)
    oracle = np.linalg.lstsq(planted.K, planted.W.ravel())[0]
    found = solve(planted.M1, planted.M2, planted.W, solver)
    # the null-space part of float32 inner iterations is not corrected by refinement
    inner = np.float32 if solver == ConjugateGradient() else np.float64
    allowed = tolerance(planted.condition, len(oracle), inner)
    assert relative(found.s - oracle, oracle) <= allowed
    assert np.linalg.norm(found.s) <= np.linalg.norm(oracle) * (1 + 1e-10)


@pytest.mark.parametrize("solver", [Direct(), ConjugateGradient(), Auto()], ids=repr)
def test_condition_is_that_of_the_matrix(solver: Solver) -> None:
    planted = plant(8, 8, 2.0)
    found = solve(planted.M1, planted.M2, planted.W, solver)
    assert found.condition is not None
    assert planted.condition / 2 <= found.condition <= planted.condition * 1.01


@pytest.mark.parametrize("ratio", [1.0, 1.2])
def test_condition_estimate_of_a_large_direct_solve(ratio: float) -> None:
    planted = plant(24, 24, ratio)
    found = solve(planted.M1, planted.M2, planted.W, Direct())
    assert found.condition is not None
    assert planted.condition / 3 <= found.condition <= planted.condition * 1.01


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e20])
@pytest.mark.parametrize("solver", [Direct(), ConjugateGradient()], ids=repr)
def test_uneven_rows(solver: Solver, scale: float) -> None:
    planted = plant(6, 6, 1.5)
    M2 = planted.M2.astype(np.float64)
    M2[0] *= scale
    W = planted.W.copy()
    W[0] *= scale
    found = solve(planted.M1, M2, W, solver)
    assert found.status is Status.SOLVED


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(1, 7),
    k=st.integers(1, 7),
    ratio=st.floats(1.3, 3.0),
    seed=st.integers(0, 2**16),
    exponents=st.tuples(*[st.integers(-300, 300)] * 2),
    solver=st.sampled_from([Auto(), Direct(), ConjugateGradient()]),
)
def test_any_shape_and_any_scale(
    m: int, k: int, ratio: float, seed: int, exponents: tuple[int, int], solver: Solver
) -> None:
    planted = plant(m, k, ratio, seed=seed)
    plain = solve(planted.M1, planted.M2, planted.W, solver)
    assert plain.status is Status.SOLVED, plain.message
    a, b = exponents
    scaled = solve(
        np.ldexp(planted.M1.astype(float), a), planted.M2, np.ldexp(planted.W, b), solver
    )
    assert scaled.status is Status.SOLVED, scaled.message
    # powers of two change no digit unless they move the weights into another precision
    allowed = tolerance(planted.condition, len(planted.s), np.float32)
    assert relative(np.ldexp(scaled.s, a - b) - plain.s, plain.s) <= allowed


@settings(max_examples=30, deadline=None)
@given(m=st.integers(1, 6), k=st.integers(1, 6), seed=st.integers(0, 2**16))
def test_permutations_of_units_and_of_equations(m: int, k: int, seed: int) -> None:
    planted = plant(m, k, 1.5, seed=seed)
    rng = np.random.default_rng(seed)
    units, rows, columns = (rng.permutation(size) for size in (len(planted.s), m, k))
    found = solve(planted.M1, planted.M2, planted.W, Direct())
    permuted = solve(
        planted.M1[units][:, columns],
        planted.M2[rows][:, units],
        planted.W[rows][:, columns],
        Direct(),
    )
    allowed = tolerance(planted.condition, len(planted.s))
    assert relative(permuted.s - found.s[units], found.s[units]) <= allowed


def test_progress_is_reported_and_counts_digits() -> None:
    steps: list[Step] = []
    planted = plant(10, 10, 1.5)
    found = solve(planted.M1, planted.M2, planted.W, ConjugateGradient(), progress=steps.append)
    assert len(steps) == found.iterations
    assert steps[-1].total is not None
    assert steps[-1].done <= steps[-1].total
    assert steps[-1].residual is not None
    assert steps[-1].residual < 1e-13
    steps.clear()
    solve(planted.M1, planted.M2, planted.W, Direct(), progress=steps.append)
    assert [step.done for step in steps] == [0.0, 1.0]


def test_an_interrupt_in_the_callback_passes() -> None:
    def interrupt(_: Step) -> None:
        raise KeyboardInterrupt

    planted = plant(5, 5)
    with pytest.raises(KeyboardInterrupt):
        solve(planted.M1, planted.M2, planted.W, ConjugateGradient(), progress=interrupt)
    check_solved(planted, ConjugateGradient())


def test_iterations_follow_the_marchenko_pastur_law() -> None:
    for ratio, expected in ((1.5, 174), (2.0, 103)):
        planted = plant(24, 24, ratio)
        found = solve(planted.M1, planted.M2, planted.W, ConjugateGradient())
        assert 0.7 * expected <= found.iterations <= 1.5 * expected


class TestPlan:
    def test_near_square_is_direct(self) -> None:
        assert plan(50, 50, 2500).solver == Direct()

    def test_what_does_not_fit_is_iterative(self) -> None:
        found = plan(256, 256, 98304)
        assert found.solver == ConjugateGradient()
        assert 0.1e9 < found.memory_bytes < 0.5e9

    def test_small_is_direct(self) -> None:
        assert plan(4, 4, 24).solver == Direct()

    @pytest.mark.parametrize("solver", [Direct(), ConjugateGradient(), Exact()], ids=repr)
    def test_what_was_asked_for_is_planned(self, solver: Solver) -> None:
        found = plan(10, 12, 180, solver)
        assert found.solver == solver
        assert found.memory_bytes > 0
        assert found.seconds > 0

    def test_direct_memory_is_that_of_the_dense_matrix(self) -> None:
        assert plan(96, 96, 13824, Direct()).memory_bytes >= 8 * 9216 * 13824

    def test_sparse_costs_less(self) -> None:
        sparse, full = plan(64, 64, 6144, density=0.1), plan(64, 64, 6144)
        assert sparse.seconds < full.seconds


@pytest.mark.parametrize("solver", [Auto(), ConjugateGradient(), Direct(), Exact()], ids=repr)
def test_sparse_and_dense_storage_agree(solver: Solver) -> None:
    thin = sparsify(plant(6, 5, 2.0), 0.6)
    check_solved(thin, solver)
