"""Hidden units of very different size: each gets a power of two of its own."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from reconstruct.khatri_rao import ConjugateGradient, Direct, Drawn, KhatriRao, Status, solve
from reconstruct.khatri_rao.solvers import floating
from reconstruct.khatri_rao.solvers.floating import even_powers

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


@pytest.mark.parametrize("decades", [1.0, 3.0, 8.0])
def test_as_many_iterations_as_even_units(decades: float, monkeypatch: pytest.MonkeyPatch) -> None:
    even = solve(*system(), ConjugateGradient())
    found = solve(*system(spread(decades)), ConjugateGradient())
    assert found.status is Status.SOLVED, found.message
    assert found.iterations <= 1.5 * even.iterations
    monkeypatch.setattr(floating, "UNEVEN", np.inf)
    without = solve(*system(spread(decades)), ConjugateGradient())
    assert without.status is not Status.SOLVED


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


def test_units_of_about_one_size_are_left_alone() -> None:
    assert even_powers(KhatriRao(*system()[:2])) == (0, 0)
    assert even_powers(KhatriRao(*system(spread(0.1))[:2])) == (0, 0)
    assert even_powers(KhatriRao(np.zeros((9, 3)), np.zeros((3, 9)))) == (0, 0)


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
    powers = even_powers(part)
    expected = np.ldexp(M1[10:200], powers[0][:, None])
    assert np.array_equal(part.scaled(*powers).M1[:], expected)
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
    assert even_powers(KhatriRao(weights[0], weights[1].T)) == (0, 0)
