"""The exact arithmetic underneath: ranks, solutions, null spaces, patterns, three ways each."""

from __future__ import annotations

import sys
from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
import scipy.sparse
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from proofs_check import Counterexample, distributions, exact, modular, patterns

BACKENDS = [False, *([True] if modular.flint_available() else [])]


def low_rank(rng: np.random.Generator, rows: int, columns: int, rank: int) -> modular.Residues:
    left = rng.integers(0, modular.PRIME, (rows, rank)).astype(object)
    right = rng.integers(0, modular.PRIME, (rank, columns)).astype(object)
    product_ = left @ right % modular.PRIME if rank else np.zeros((rows, columns))
    return product_.astype(np.int64)


def test_prime_is_prime_and_blocks_stay_exact() -> None:
    assert sympy.isprime(modular.PRIME)
    assert modular.BLOCK * (modular.PRIME - 1) ** 2 + modular.PRIME < 2**53


@pytest.mark.parametrize("use_flint", BACKENDS)
@pytest.mark.parametrize(
    ("rows", "columns", "rank"),
    [(1, 1, 0), (5, 9, 3), (64, 64, 63), (65, 64, 64), (130, 200, 129), (200, 130, 7), (97, 97, 0)],
)
def test_modular_rank_finds_a_planted_rank(
    rows: int, columns: int, rank: int, use_flint: bool
) -> None:
    A = low_rank(np.random.default_rng(rows), rows, columns, rank)
    assert modular.rank(A, use_flint=use_flint) == rank


def test_modular_rank_without_flint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flint", None)
    assert not modular.flint_available()
    assert modular.rank(np.eye(70, dtype=np.int64)) == 70


def test_rank_lost_modulo_a_prime_proves_nothing() -> None:
    A = np.diag([modular.PRIME, 1])
    assert modular.rank(A, use_flint=False) == 1
    assert exact.rank(A) == 2


def test_large_prime_is_refused_by_the_block_method() -> None:
    with pytest.raises(ValueError, match="8388593"):
        modular.rank(np.eye(2, dtype=np.int64), prime=2**31 - 1, use_flint=False)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_small_ranks_agree_with_sympy(rows: int, columns: int, seed: int) -> None:
    A = np.random.default_rng(seed).integers(-1, 2, (rows, columns))
    rank = sympy.Matrix(A.tolist()).rank()
    assert exact.rank(A) == rank
    assert modular.rank(A, use_flint=False) == rank  # minors are far below the prime
    assert modular.ranks(A[None])[0] == rank


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_solutions_and_null_spaces(rows: int, columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    A, x = exact.integers(rng, rows, columns, bound=1), exact.integers(rng, columns)
    found = exact.solve(A, A @ x)
    assert found is not None
    assert (A @ found == A @ x).all()
    N = exact.null_space(A)
    assert N.shape == (columns, columns - exact.rank(A))
    assert not (A @ N).any()


def test_determinant_and_its_sign() -> None:
    assert exact.determinant(exact.matrix([[0, 1], [1, 0]])) == -1
    assert exact.determinant(exact.matrix([[2, 4], [1, 2]])) == 0
    A = exact.integers(np.random.default_rng(5), 5, 5)
    assert exact.determinant(A) == Fraction(int(sympy.Matrix(A.tolist()).det()))


def test_no_solution_is_none() -> None:
    assert exact.solve(exact.matrix([[1, 1], [1, 1]]), exact.matrix([[0, 1]])[0]) is None


def test_comparison_looks_at_shapes_first() -> None:
    with pytest.raises(Counterexample, match=r"\(2,\) and \(2, 1\)"):
        exact.same("vectors", np.zeros(2), np.zeros((2, 1)))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 31), min_size=0, max_size=7))
def test_structural_rank_three_ways(columns: list[int]) -> None:
    matrix = np.array([[c >> r & 1 for c in columns] for r in range(5)]).reshape(5, len(columns))
    rank = patterns.structural_rank(columns, 5)
    assert rank == patterns.matching_rank(columns, 5)
    if columns:
        sparse = scipy.sparse.csr_matrix(matrix)
        assert rank == scipy.sparse.csgraph.structural_rank(sparse)


def test_multisets_are_all_visited() -> None:
    assert len(list(patterns.multisets([1, 2, 3], 4, 2))) == comb(3 + 4 - 1, 4)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_distributions_sum_to_one_and_count_permutation_supports(rows: int) -> None:
    p = Fraction(1, 3)
    assert sum(distributions.outer_columns(rows, 2, p).values()) == 1
    assert sum(distributions.independent_columns(rows, p).values()) == 1
    columns = [distributions.independent_columns(rows, Fraction(1, 2))] * rows
    counted = sum(
        patterns.structural_rank(c, rows) == rows for c in product(range(1 << rows), repeat=rows)
    )
    assert distributions.nonsingular_probability(columns, rows) == Fraction(counted, 2**rows**2)
