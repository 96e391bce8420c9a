"""The operator against its definition, and against its own adjoint."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from reconstruct.khatri_rao import KhatriRao
from reconstruct.khatri_rao import operator as operator_module
from reconstruct.numbers.parallel import at_most_threads

from .planted import dense, plant, relative, sparsify, tolerance

SHAPES = [(1, 1, 1), (1, 5, 5), (5, 1, 9), (3, 4, 12), (4, 3, 7), (6, 6, 100), (40, 7, 1500)]


def operators(m: int, k: int, n: int) -> list[tuple[KhatriRao, np.ndarray]]:
    planted = plant(m, k, n / (m * k))
    thin = sparsify(planted, 0.3)
    return [
        (KhatriRao(planted.M1, planted.M2), planted.K),
        (KhatriRao(dense(planted.M1), np.asfortranarray(dense(planted.M2))), planted.K),
        (KhatriRao(thin.M1, thin.M2), thin.K),
    ]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dot_test(shape: tuple[int, int, int], dtype: type) -> None:
    m, k, n = shape
    rng = np.random.default_rng(0)
    for K, _ in operators(m, k, n):
        s, Y = rng.standard_normal(n), rng.standard_normal((m, k))
        forward, backward = K.apply(s), K.apply_transposed(Y)
        size = np.linalg.norm(forward) * np.linalg.norm(Y)
        assert abs(np.vdot(forward, Y) - np.vdot(s, backward)) <= tolerance(size=n) * max(size, 1.0)
        squares, there = K.normal(Y, dtype)
        assert there.dtype == dtype
        assert squares == pytest.approx(backward @ backward, rel=tolerance(size=n, dtype=dtype))
        again = K.apply(backward)
        assert relative(there - again, again) <= tolerance(size=n, dtype=dtype)


@pytest.mark.parametrize("shape", SHAPES)
def test_equals_the_definition(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(1)
    for K, matrix in operators(m, k, n):
        s, Y = rng.standard_normal(n), rng.standard_normal((m, k))
        assert (K.map_shape, K.rows, K.width) == ((m, k), m * k, n)
        assert np.array_equal(K.dense(), matrix)
        assert relative(K.apply(s).ravel() - matrix @ s, matrix @ s) <= tolerance(size=n)
        back = matrix.T @ Y.ravel()
        assert relative(K.apply_transposed(Y) - back, back) <= tolerance(size=n)
        size = abs(matrix) @ abs(s)
        assert relative(K.magnitude(s).ravel() - size, size) <= tolerance(size=n)
        assert relative(K.gram() - matrix.T @ matrix, matrix.T @ matrix) <= tolerance(size=n)


def test_dense_is_scipys_khatri_rao_product() -> None:
    planted = plant(3, 4)
    K = scipy.linalg.khatri_rao(dense(planted.M2), dense(planted.M1).T)
    assert np.array_equal(KhatriRao(planted.M1, planted.M2).dense(), K)


def test_tiles_and_threads_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = plant(5, 6, 10.0)
    K = KhatriRao(planted.M1, planted.M2)
    whole = K.apply(planted.s)
    few = operator_module.Tiles(size=0, rows=7, parallel=0)
    monkeypatch.setattr(operator_module, "TILES", few)
    back = planted.K.T @ planted.W.ravel()
    again = (planted.K @ back).reshape(5, 6)
    for threads in (1, 3):
        with at_most_threads(threads):
            assert relative(K.apply(planted.s) - whole, whole) <= tolerance(size=300)
            assert np.array_equal(K.apply(planted.s), K.apply(planted.s))
            assert relative(K.apply_transposed(planted.W) - back, back) <= tolerance(size=300)
            assert relative(K.normal(planted.W)[1] - again, again) <= tolerance(size=300)


def test_an_interrupt_in_a_thread_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_module, "TILES", operator_module.Tiles(parallel=0))
    planted = plant(4, 4)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(operator_module._Tile, "forward", interrupted)
    with at_most_threads(2), pytest.raises(KeyboardInterrupt):
        KhatriRao(planted.M1, planted.M2).apply(planted.s)


def test_weights_keep_their_precision() -> None:
    planted = plant(3, 3)
    assert KhatriRao(planted.M1, planted.M2).M1.dtype == np.float32
    assert "float32" in repr(KhatriRao(planted.M1, planted.M2))
    assert "sparse" in repr(KhatriRao(sp.csr_array(planted.M1), planted.M2))


@settings(max_examples=40, deadline=None)
@given(m=st.integers(1, 6), k=st.integers(1, 6), n=st.integers(1, 40), seed=st.integers(0, 2**16))
def test_permuting_hidden_units_permutes_s(m: int, k: int, n: int, seed: int) -> None:
    planted = plant(m, k, n / (m * k), seed=seed)
    order = np.random.default_rng(seed).permutation(len(planted.s))
    K = KhatriRao(planted.M1, planted.M2)
    permuted = KhatriRao(planted.M1[order], planted.M2[:, order])
    close = tolerance(size=len(order)) * np.linalg.norm(K.magnitude(planted.s))
    assert np.linalg.norm(permuted.apply(planted.s[order]) - planted.W) <= close
    assert np.allclose(
        permuted.apply_transposed(planted.W), K.apply_transposed(planted.W)[order], rtol=1e-12
    )
