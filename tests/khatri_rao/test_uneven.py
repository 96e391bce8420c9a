"""Hidden units of very different size: each gets a power of two of its own."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from reconstruct.khatri_rao import Auto, ConjugateGradient, Direct, Drawn, KhatriRao, Status, solve
from reconstruct.khatri_rao.solvers import powers
from reconstruct.khatri_rao.solvers.powers import even_powers, log_sizes

from .planted import relative, tolerance

SIZE, WIDTH = 12, 216  # maps of 12 × 12 at ratio 1.5


def system(
    scales: np.ndarray | float = 1.0, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gaussian weights whose units are multiplied by `scales`, in both matrices."""
    rng = np.random.default_rng(seed)
    factor = np.broadcast_to(scales, WIDTH)[:, None]
    M1, M2T = ((rng.standard_normal((WIDTH, SIZE)) * factor).astype(np.float32) for _ in range(2))
    return M1, M2T.T, rng.standard_normal((SIZE, SIZE))


def spread(decades: float, seed: int = 1) -> np.ndarray:
    return 10 ** np.random.default_rng(seed).uniform(-decades, decades, WIDTH)


@pytest.mark.parametrize("decades", [0.5, 1.0, 3.0, 8.0])
def test_as_many_iterations_as_even_units(decades: float, monkeypatch: pytest.MonkeyPatch) -> None:
    even = solve(*system(), ConjugateGradient())
    found = solve(*system(spread(decades)), ConjugateGradient())
    assert found.status is Status.SOLVED, found.message
    assert found.iterations <= 1.5 * even.iterations
    monkeypatch.setattr(powers, "UNEVEN", np.inf)
    without = solve(*system(spread(decades)), ConjugateGradient())
    assert without.iterations > 1.8 * found.iterations or without.status is not Status.SOLVED
    assert decades == 0.5 or without.status is not Status.SOLVED


@pytest.mark.parametrize("solver", [ConjugateGradient(), Direct()], ids=["cg", "direct"])
def test_the_shortest_solution_in_units_of_equal_size(solver) -> None:
    M1, M2, W = system(spread(1.5))
    operator = KhatriRao(M1, M2)
    power = np.add(*even_powers(operator))
    K = operator.dense() * 2.0**power
    oracle = 2.0**power * np.linalg.lstsq(K, W.ravel())[0]
    found = solve(M1, M2, W, solver)
    allowed = tolerance(float(np.linalg.cond(K)), WIDTH, np.float32)
    assert relative((found.s - oracle) / 2.0**power, oracle / 2.0**power) <= allowed
    lengths = np.linalg.norm(M1, axis=1) * np.linalg.norm(M2, axis=0) * 2.0**power
    assert lengths.max() / lengths.min() <= 4.0  # each of two to a power of two


@pytest.mark.parametrize("correlation", [0.5, 0.9, 0.99, 0.9999])
def test_correlated_units_are_left_to_whitening(correlation: float) -> None:
    rng = np.random.default_rng(0)
    index = np.arange(SIZE)
    root = np.linalg.cholesky(correlation ** np.abs(np.subtract.outer(index, index)))
    M1, M2T = (rng.standard_normal((2000, SIZE)) @ root.T for _ in range(2))
    assert even_powers(KhatriRao(M1, M2T.T)) is None
    assert even_powers(KhatriRao(M1 * 10 ** rng.uniform(-1, 1, (2000, 1)), M2T.T)) is not None


def test_units_of_about_one_size_are_left_alone() -> None:
    assert even_powers(KhatriRao(*system()[:2])) is None
    assert even_powers(KhatriRao(*system(spread(0.1))[:2])) is None
    assert even_powers(KhatriRao(np.zeros((9, 3)), np.zeros((3, 9)))) is None


def test_units_without_weight_stay_without() -> None:
    scales = spread(2.0)
    scales[::9] = 0.0
    M1, M2, W = system(scales)
    first, second = even_powers(KhatriRao(M1, M2))
    assert not np.any(first[::9]) and not np.any(second[::9])
    found = solve(M1, M2, W, ConjugateGradient())
    assert found.status is Status.SOLVED and not found.s[::9].any()


@pytest.mark.parametrize("size", [1e9, 1e18])  # in both matrices: 1e-18 and 1e-36 beside it
@pytest.mark.parametrize("solver", [ConjugateGradient(), Direct()], ids=["cg", "direct"])
def test_one_huge_unit_among_many(solver, size: float) -> None:
    scales = np.ones(WIDTH)
    scales[5] = size
    M1, M2, W = system(scales)
    found = solve(M1 * np.float32(size), M2, W, solver)
    assert found.status is Status.SOLVED, found.message


@pytest.mark.parametrize("tile", [7, 64, 1000])
def test_drawn_and_sparse_units_have_the_powers_of_stored_ones(tile: int) -> None:
    M1, M2, W = system(spread(1.0))

    def drawn(rows: np.ndarray) -> Drawn:
        return Drawn(rows.shape, lambda i: rows[i * tile : (i + 1) * tile], tile=tile)

    stored = solve(M1, M2, W, ConjugateGradient())
    assert np.array_equal(solve(drawn(M1), drawn(M2.T).T, W, ConjugateGradient()).s, stored.s)
    part = KhatriRao(drawn(M1).part(slice(10, 200)), drawn(M2.T).part(slice(10, 200)).T)
    found = even_powers(part)
    assert found is not None
    expected = np.ldexp(M1[10:200], found[0][:, None])
    assert np.array_equal(part.scaled(*found).M1[:], expected)
    sparse = KhatriRao(sp.csr_array(M1), sp.csr_array(M2))
    for one, other in zip(even_powers(sparse), even_powers(KhatriRao(M1, M2)), strict=True):
        assert np.array_equal(one, other)
    scaled = sparse.scaled(*even_powers(sparse))
    assert np.array_equal(scaled.M1.toarray(), np.ldexp(M1, even_powers(sparse)[0][:, None]))


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (3, 2), (16, 1), (20, 20)])
def test_gaussian_units_are_even_whatever_the_shape(shape: tuple[int, int]) -> None:
    m, k = shape
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((2000, across)) for across in (k, m)]
    assert even_powers(KhatriRao(weights[0], weights[1].T)) is None


def true_residual(M1: np.ndarray, M2: np.ndarray, W: np.ndarray, s: np.ndarray) -> float:
    """The relative residual in rationals."""
    left, right, given = (np.vectorize(Fraction, otypes=[object])(one) for one in (M2, M1, W))
    R = left @ (np.array([Fraction(x) for x in s])[:, None] * right) - given
    squares = [
        float(sum(x * x for x in one.ravel()) / Fraction(np.abs(W).max()) ** 2)
        for one in (R, given)
    ]
    return float(np.sqrt(squares[0] / squares[1]))


@pytest.mark.parametrize("solver", [ConjugateGradient(), Direct(), Auto()], ids=repr)
@pytest.mark.parametrize(
    ("large", "small"),
    [(1e35, 1e-8), (1e12, 1e-30), (1e10, 1e-32), (2.0**31, 1e-30), (1e10, 1e-35), (1.0, 1e-44)],
)
def test_what_is_called_solved_is_solved_in_the_system_as_given(solver, large, small) -> None:
    """One unit far larger than the others, in float32: scaling all by one power loses these."""
    rng = np.random.default_rng(0)
    M1 = rng.standard_normal((54, 6)) * small
    M1[5] *= large / small
    M1, M2 = M1.astype(np.float32), rng.standard_normal((6, 54)).astype(np.float32)
    W = rng.standard_normal((6, 6))
    found = solve(M1, M2, W, solver)
    assert found.status is Status.SOLVED, found.message
    assert true_residual(M1.astype(float), M2.astype(float), W, found.s) < 1e-14


@pytest.mark.parametrize("solver", [ConjugateGradient(), Direct(), Auto()], ids=repr)
@pytest.mark.parametrize("uneven", [0.0, 0.7, 3.0])
@pytest.mark.parametrize(
    ("weights", "right"), [(1e160, 1.0), (1e200, 1.0), (1e300, 1.0), (1.0, 1e-320)]
)
def test_a_solution_that_floats_do_not_hold_is_not_called_one(
    solver, weights: float, right: float, uneven: float
) -> None:
    rng = np.random.default_rng(0)
    M1, M2 = rng.standard_normal((54, 6)) * weights, rng.standard_normal((6, 54)) * weights
    M1 *= 10.0 ** rng.uniform(-uneven, uneven, (54, 1))
    W = rng.standard_normal((6, 6)) * right
    found = solve(M1, M2, W, solver)
    assert found.status is Status.ILL_CONDITIONED, found.message
    assert found.residual > 1e-6


def test_sizes_of_rows_whose_squares_are_no_floats() -> None:
    rows = np.array([[3e200, 4e200], [3e-200, 4e-200], [0.0, 0.0], [3.0, 4.0], [5e-324, 0.0]])
    expected = 2 * np.array([np.log2(5) + 200 * np.log2(10), np.log2(5) - 200 * np.log2(10)])
    for stored in (rows, sp.csr_array(rows)):
        found = log_sizes(stored)
        assert found[:2] == pytest.approx(expected)
        assert found[2] == -np.inf and found[3] == pytest.approx(2 * np.log2(5))
        assert found[4] == -2 * 1074
