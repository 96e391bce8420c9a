"""Whitening: correlated and uneven frozen weights converge as independent ones do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reconstruct.khatri_rao import ConjugateGradient, KhatriRao, Status, solve
from reconstruct.khatri_rao.solvers import conjugate_gradient as module
from reconstruct.khatri_rao.solvers.whitening import Whitened, rough_spread

from .planted import relative, tolerance

SIZE, WIDTH = 16, 384  # maps of 16 × 16 at ratio 1.5
KINDS = ("positive", "offset", "correlated", "columns")


def weights(kind: str, rng: np.random.Generator) -> np.ndarray:
    """`WIDTH × SIZE` weights, one row per hidden unit."""
    plain = rng.standard_normal((WIDTH, SIZE))
    index = np.arange(SIZE)
    kinds = {
        "gaussian": lambda: plain,
        "positive": lambda: rng.random((WIDTH, SIZE)),
        "offset": lambda: plain + 5,
        "correlated": lambda: (
            plain @ np.linalg.cholesky(0.9 ** np.abs(np.subtract.outer(index, index))).T
        ),
        "columns": lambda: plain * 10.0 ** rng.uniform(-1, 1, SIZE),
    }
    return np.asarray(kinds[kind](), dtype=np.float32)


def system(kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return weights(kind, rng), weights(kind, rng).T, rng.standard_normal((SIZE, SIZE))


@pytest.mark.parametrize("kind", KINDS)
def test_as_many_iterations_as_independent_weights(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = solve(*system("gaussian"), ConjugateGradient())
    whitened = solve(*system(kind), ConjugateGradient())
    assert whitened.status is Status.SOLVED, whitened.message
    assert whitened.iterations <= 2 * plain.iterations
    monkeypatch.setattr(module, "WHITEN_ABOVE", math.inf)
    without = solve(*system(kind), ConjugateGradient())
    assert without.iterations >= 2 * whitened.iterations


@pytest.mark.parametrize("kind", KINDS)
def test_the_minimum_norm_solution_is_kept(kind: str) -> None:
    M1, M2, W = system(kind)
    K = KhatriRao(M1, M2).dense()
    oracle = np.linalg.lstsq(K, W.ravel())[0]
    found = solve(M1, M2, W, ConjugateGradient())
    allowed = tolerance(float(np.linalg.cond(K)), WIDTH, np.float32)
    assert relative(found.s - oracle, oracle) <= allowed


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dot_test(dtype: type) -> None:
    M1, M2, _ = system("correlated")
    K = Whitened(KhatriRao(M1, M2))
    rng = np.random.default_rng(0)
    X, Y = (rng.standard_normal((SIZE, SIZE)).astype(dtype) for _ in range(2))
    (back, there), (other, _) = K.round_trip(X, dtype), K.round_trip(Y, dtype)
    assert there.dtype == back.dtype == dtype
    gap = abs(float(np.vdot(there, Y)) - float(back @ other))  # ⟨KKᵀX, Y⟩ and ⟨KᵀX, KᵀY⟩
    size = float(np.linalg.norm(there) * np.linalg.norm(Y))
    assert gap <= tolerance(size=WIDTH, dtype=dtype) * size * K.spread


def test_whitened_equations_have_second_moments_of_one() -> None:
    M1, M2, _ = system("offset")
    K = Whitened(KhatriRao(M1, M2))
    for side, rows in ((K.right, M1), (K.left, M2.T)):
        white = rows.astype(float) @ side.T
        assert np.allclose(white.T @ white / WIDTH, np.eye(SIZE), atol=1e-8)
    assert K.spread > 100


def test_directions_without_weight_are_dropped_and_admitted() -> None:
    M1, M2, W = system("gaussian")
    M1[:, 3] = 0
    M2[5] = M2[6]
    K = Whitened(KhatriRao(M1, M2))
    assert K.right.shape == K.left.shape == (SIZE - 1, SIZE)
    found = solve(M1, M2, W, ConjugateGradient())
    assert found.status is Status.RANK_DEFICIENT
    W[:, 3] = 0
    W[5] = W[6]
    assert solve(M1, M2, W, ConjugateGradient()).status is Status.SOLVED


def test_weights_in_float64_are_converted_once() -> None:
    M1, M2, W = system("gaussian")
    fine = M1 + 1e-9 * np.random.default_rng(0).standard_normal(M1.shape)
    assert fine.dtype == np.float64
    K = KhatriRao(fine, M2.astype(np.float64))
    s = np.random.default_rng(1).standard_normal(WIDTH)
    before, exact = K.apply(s, np.float32), K.apply(s)
    K.prepare(np.float32)
    assert np.array_equal(K.apply(s, np.float32), before)
    assert np.array_equal(K.apply(s), exact)
    found = solve(fine, M2, W, ConjugateGradient())
    left = M2 @ (found.s[:, None] * fine) - W
    assert np.linalg.norm(left) <= 1e-13 * np.linalg.norm(W)


@pytest.mark.parametrize("kind", ["gaussian", *KINDS])
def test_the_rough_spread_has_a_few_digits_or_says_nothing(kind: str) -> None:
    M1, M2, _ = system(kind)
    operator = KhatriRao(M1, M2)
    rough = rough_spread(operator)
    assert math.isinf(rough) or rough == pytest.approx(Whitened(operator).spread, rel=1e-2)
    assert math.isfinite(rough) or kind != "gaussian"


def test_the_rough_spread_of_equal_columns_says_nothing() -> None:
    M1, M2, _ = system("gaussian")
    M1[:, 1] = M1[:, 0]
    assert rough_spread(KhatriRao(M1, M2)) == math.inf
