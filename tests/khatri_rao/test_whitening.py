"""Whitening: correlated and uneven frozen weights converge as independent ones do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from reconstruct.khatri_rao import ConjugateGradient, KhatriRao, Status, solve
from reconstruct.khatri_rao.solvers import conjugate_gradient as module
from reconstruct.khatri_rao.solvers.conjugate_gradient import whitened

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
    monkeypatch.setattr(module, "LIMITS", module.IterationLimits(whiten_above=math.inf))
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
    inner = whitened(KhatriRao(M1, M2))
    K = inner.K
    K.in_precision(dtype)
    rng = np.random.default_rng(0)
    X, Y = (rng.standard_normal((SIZE, SIZE)).astype(dtype) for _ in range(2))
    (squares, there), (_, other) = K.normal(X, dtype), K.normal(Y, dtype)
    assert there.dtype == other.dtype == dtype
    gap = abs(float(np.vdot(there, Y)) - float(np.vdot(X, other)))  # ⟨KKᵀX, Y⟩ and ⟨X, KKᵀY⟩
    gap = max(gap, abs(squares - float(np.vdot(X, there))))  # ‖KᵀX‖² and ⟨X, KKᵀX⟩
    size = float(np.linalg.norm(there) * np.linalg.norm(Y))
    assert gap <= tolerance(size=WIDTH, dtype=dtype) * size * inner.condition


def test_whitened_equations_have_second_moments_of_one() -> None:
    M1, M2, _ = system("offset")
    inner = whitened(KhatriRao(M1, M2))
    for white in (inner.K.M1, inner.K.M2T):
        assert np.allclose(white.T @ white / WIDTH, np.eye(SIZE), atol=1e-8)
    assert inner.condition > 100


def test_directions_without_weight_are_dropped_and_admitted() -> None:
    M1, M2, W = system("gaussian")
    M1[:, 3] = 0
    M2[5] = M2[6]
    M2[4] *= 100  # far enough from independent
    assert whitened(KhatriRao(M1, M2)).K.map_shape == (SIZE - 1, SIZE - 1)
    M2[4] /= 100
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
    Y = np.random.default_rng(1).standard_normal(W.shape)
    before, exact = K.normal(Y, np.float32), K.normal(Y)
    K.in_precision(np.float32)
    assert np.array_equal(K.normal(Y, np.float32)[1], before[1])
    assert np.array_equal(K.normal(Y)[1], exact[1])
    found = solve(fine, M2, W, ConjugateGradient())
    left = M2 @ (found.s[:, None] * fine) - W
    assert np.linalg.norm(left) <= 1e-13 * np.linalg.norm(W)
