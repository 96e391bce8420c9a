"""K for SciPy: products, transposes, and SciPy's own solvers on it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, aslinearoperator, lsmr

from reconstruct.khatri_rao import KhatriRao

from .planted import plant, relative, sparsify, tolerance


def operator(m: int = 4, k: int = 5) -> tuple[KhatriRao, np.ndarray]:
    planted = plant(m, k, 1.5)
    return KhatriRao(planted.M1, planted.M2), planted.K


def test_shape_and_dtype() -> None:
    K, matrix = operator()
    assert K.shape == matrix.shape == (20, 30)
    assert K.map_shape == (4, 5)
    assert K.dtype == np.float64
    assert K.T.shape == (30, 20)


def test_products_with_vectors_and_matrices() -> None:
    K, matrix = operator()
    rng = np.random.default_rng(0)
    s, y = rng.standard_normal(30), rng.standard_normal(20)
    assert relative(K @ s - matrix @ s, matrix @ s) <= tolerance(size=30)
    assert relative(K.T @ y - matrix.T @ y, matrix.T @ y) <= tolerance(size=30)
    S = rng.standard_normal((30, 3))
    assert relative(K @ S - matrix @ S, matrix @ S) <= tolerance(size=30)
    assert relative((K.T @ K @ s) - matrix.T @ (matrix @ s), s) <= tolerance(size=900)


def test_the_dot_test() -> None:
    K, _ = operator()
    rng = np.random.default_rng(1)
    s, y = rng.standard_normal(30), rng.standard_normal(20)
    assert abs((K @ s) @ y - s @ (K.T @ y)) <= tolerance(size=30) * np.linalg.norm(K @ s)


def test_scipy_takes_it() -> None:
    planted = plant(4, 5, 1.5)
    for one in (planted, sparsify(planted, 0.6)):
        K = KhatriRao(one.M1, one.M2)
        assert isinstance(aslinearoperator(K), LinearOperator)
        found = lsmr(K, one.W.ravel(), atol=1e-14, btol=1e-14, maxiter=2000)[0]
        oracle = np.linalg.lstsq(one.K, one.W.ravel())[0]
        assert relative(found - oracle, oracle) <= 1e-9


def test_vectors_that_do_not_fit() -> None:
    K, _ = operator()
    with pytest.raises(ValueError, match="dimension mismatch"):
        K @ np.ones(7)
