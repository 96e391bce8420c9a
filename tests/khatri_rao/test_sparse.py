"""Sparse systems: what the pattern forbids, and solving the rest without forming a dense K."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import structural_rank

from reconstruct.khatri_rao import (
    Auto,
    ConjugateGradient,
    KhatriRao,
    Status,
    prove_full_rank,
    solve,
    structural_obstruction,
)
from reconstruct.khatri_rao.rank import enough_density, transposed_matrix

from .planted import Planted, plant, residual, residual_tolerance, sparsify


def neighbours(K: np.ndarray, k: int, equations: tuple[tuple[int, int], ...]) -> set[int]:
    rows = [i * k + j for i, j in equations]
    return {int(unit) for unit in np.flatnonzero(K[rows].any(axis=0))}


def networkx_matching_size(K: np.ndarray) -> int:
    graph = nx.Graph()
    rows = [("equation", row) for row in range(len(K))]
    graph.add_nodes_from(rows)
    graph.add_edges_from((("equation", r), ("unit", c)) for r, c in np.argwhere(K))
    return len(nx.bipartite.hopcroft_karp_matching(graph, rows)) // 2


@settings(max_examples=80, deadline=None)
@given(
    m=st.integers(1, 5),
    k=st.integers(1, 5),
    ratio=st.floats(0.5, 2.0),
    p=st.floats(0.05, 0.9),
    seed=st.integers(0, 2**16),
)
def test_structural_rank_and_hall_violator(
    m: int, k: int, ratio: float, p: float, seed: int
) -> None:
    thin = sparsify(plant(m, k, ratio, seed=seed), p, seed)
    K = thin.K
    rank = networkx_matching_size(K)
    assert rank == structural_rank(sp.csr_matrix(K))
    found = structural_obstruction(thin.M1, thin.M2)
    if rank == m * k:
        assert found is None
        return
    assert found is not None
    assert (found.rank, found.needed, found.width) == (rank, m * k, K.shape[1])
    assert len(set(found.equations)) == len(found.equations) > len(found.units)
    assert neighbours(K, k, found.equations) == set(found.units)
    assert found.dead_units == int(np.count_nonzero(~K.any(axis=0)))
    assert f"rank {rank} at most and {m * k} is needed" in found.message


@settings(max_examples=40, deadline=None)
@given(m=st.integers(1, 4), k=st.integers(1, 4), seed=st.integers(0, 2**16))
def test_pattern_bounds_the_true_rank(m: int, k: int, seed: int) -> None:
    thin = sparsify(plant(m, k, 1.2, seed=seed), 0.5, seed)
    found = structural_obstruction(thin.M1, thin.M2)
    proof = prove_full_rank(thin.M1, thin.M2)
    if found is not None:
        assert not proof.proved
        assert proof.rank <= found.rank


def test_sparse_matrix_equals_the_definition() -> None:
    for m, k, p in itertools.product((1, 3, 5), (1, 4), (0.0, 0.3, 1.0)):
        thin = sparsify(plant(m, k, 2.0), p)
        M1, M2T = sp.csr_array(thin.M1), sp.csr_array(thin.M2.T)
        assert np.array_equal(transposed_matrix(M1, M2T, np.float64).toarray().T, thin.K)


def test_stored_zeros_are_zeros() -> None:
    planted = plant(2, 2, 1.0)
    M1 = sp.csr_array(planted.M1)
    M1.data[:] = 0
    found = structural_obstruction(M1, planted.M2)
    assert found is not None
    assert found.rank == 0
    assert found.density == pytest.approx(0.5)


def test_dense_arrays_have_no_obstruction_unless_narrow() -> None:
    planted = plant(3, 3, 1.0)
    assert structural_obstruction(planted.M1, planted.M2) is None
    found = structural_obstruction(planted.M1[1:], planted.M2[:, 1:])
    assert found is not None
    assert (found.rank, found.needed) == (8, 9)
    assert found.enough_density is None


@pytest.mark.parametrize("solver", [Auto(), ConjugateGradient()], ids=["auto", "cg"])
def test_50_by_50_at_ratio_1_5_and_p_0_15(solver: Auto | ConjugateGradient) -> None:
    thin = sparsify(plant(50, 50, 1.5), 0.15)
    found = solve(thin.M1, thin.M2, thin.W, solver)
    assert found.status is Status.SOLVED, found.message
    assert found.solver == "sparse-cg"
    assert residual(thin, found.s) <= 1e-14
    oracle_norm = np.linalg.norm(thin.s)
    assert np.linalg.norm(found.s) < oracle_norm


def test_p_0_02_is_refused_with_the_obstruction_named() -> None:
    thin = sparsify(plant(50, 50, 1.5), 0.02)
    W = np.random.default_rng(0).standard_normal((50, 50))
    found = solve(thin.M1, thin.M2, W)
    assert found.status is Status.RANK_DEFICIENT
    assert found.obstruction is not None
    assert found.rank == found.obstruction.rank
    assert found.obstruction.message in found.message
    i, j = found.obstruction.equations[0]
    assert f"({i}, {j})" in found.message
    assert "would be enough" in found.message
    assert found.obstruction.enough_density == pytest.approx(0.054, abs=0.01)


def test_the_suggested_density_is_enough() -> None:
    p = enough_density(20, 20, 600)
    assert p is not None
    assert structural_obstruction(*pair(20, 1.5, p)) is None
    assert structural_obstruction(*pair(20, 1.2, 0.08)) is not None


def pair(d: int, ratio: float, p: float) -> tuple[sp.csr_array, sp.csr_array]:
    thin = sparsify(plant(d, d, ratio), p)
    return thin.M1, thin.M2


def test_thresholds_are_those_of_zero_rows_and_columns() -> None:
    """With spare width about √(2 log d / c)/d; at ratio 1 about 2 log d / d (zero columns)."""
    d = 50
    row = np.sqrt(2 * np.log(d) / 1.5) / d
    column = 2 * np.log(d) / d
    assert row < (enough_density(d, d, 3750) or 0) < 2 * row
    assert column < (enough_density(d, d, 2500) or 0) < 2 * column
    assert enough_density(d, d, 2499) is None


def test_a_w_that_avoids_the_obstruction_is_solved() -> None:
    """A zero row of K is no obstacle for a W that is zero there."""
    planted = plant(4, 4, 2.0)
    M2 = planted.M2.copy()
    M2[2] = 0
    thin = Planted(sp.csr_array(planted.M1), sp.csr_array(M2), planted.W.copy(), planted.s)
    refused = solve(thin.M1, thin.M2, thin.W)
    assert refused.status is Status.RANK_DEFICIENT
    assert refused.obstruction is not None and refused.obstruction.rank == 12
    thin.W[2] = 0
    found = solve(thin.M1, thin.M2, thin.W)
    assert found.status is Status.SOLVED, found.message
    assert residual(thin, found.s) <= residual_tolerance(thin, found.s)


def test_dense_storage_names_the_obstruction_after_the_failure() -> None:
    planted = plant(3, 3, 1.5)
    M1 = planted.M1.copy()
    M1[:, 1] = 0
    found = solve(M1, planted.M2, np.ones((3, 3)))
    assert found.status is Status.RANK_DEFICIENT
    assert found.obstruction is not None
    assert (found.obstruction.rank, found.rank) == (6, 6)
    assert "(0, 1)" in found.message


def test_sparse_square_system() -> None:
    thin = sparsify(plant(12, 12, 1.0), 0.6)
    assert structural_obstruction(thin.M1, thin.M2) is None
    found = solve(thin.M1, thin.M2, thin.W)
    assert found.status is Status.SOLVED
    assert residual(thin, found.s) <= residual_tolerance(thin, found.s)


def test_sparse_and_dense_paths_agree() -> None:
    thin = sparsify(plant(16, 16, 1.5), 0.17)
    assert structural_obstruction(thin.M1, thin.M2) is None
    found = solve(thin.M1, thin.M2, thin.W, ConjugateGradient())
    dense = solve(thin.M1.toarray(), thin.M2.toarray(), thin.W)
    assert found.solver == "sparse-cg"
    assert np.linalg.norm(found.s - dense.s) <= 1e-6 * np.linalg.norm(dense.s)


def test_operator_of_sparse_matrices_never_needs_a_dense_k() -> None:
    thin = sparsify(plant(6, 6, 2.0), 0.4)
    K = KhatriRao(thin.M1, thin.M2)
    assert K.sparse
    assert np.allclose(K.apply(thin.s), thin.W, rtol=1e-13)
