"""Exact solves and proofs of rank: compared with `==`, against independent arithmetic."""

from __future__ import annotations

import sys
from fractions import Fraction

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from reconstruct.errors import InputError
from reconstruct.khatri_rao import (
    ConjugateGradient,
    Direct,
    Exact,
    Status,
    prove_full_rank,
    solve,
    solve_exact,
)
from reconstruct.numbers.residues import PRIMES, _mod, pivots_modulo, rank_modulo, residues

from .planted import plant, relative, tolerance


def product(M1: np.ndarray, M2: np.ndarray, s: tuple[Fraction, ...]) -> list[list[Fraction]]:
    """`M2 diag(s) M1` by the definition, in Fractions."""
    rows, columns = range(len(M2)), range(M1.shape[1])
    return [
        [
            sum(
                (
                    Fraction(float(M2[i, u])) * s[u] * Fraction(float(M1[u, j]))
                    for u in range(len(s))
                ),
                Fraction(0),
            )
            for j in columns
        ]
        for i in rows
    ]


def fractions(W: np.ndarray) -> list[list[Fraction]]:
    return [[Fraction(float(x)) for x in row] for row in W]


@pytest.fixture(params=["flint", "sympy"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways: python-flint if it is installed, and without it."""
    if request.param == "flint":
        pytest.importorskip("flint")
    else:
        monkeypatch.setitem(sys.modules, "flint", None)
    return str(request.param)


@pytest.mark.parametrize("ratio", [1.0, 1.5])
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (4, 3)], ids=str)
def test_equality_over_the_rationals(shape: tuple[int, int], ratio: float, backend: str) -> None:
    planted = plant(*shape, ratio)
    W = np.random.default_rng(5).standard_normal(shape)
    found = solve_exact(planted.M1, planted.M2, W)
    assert found.status is Status.SOLVED
    assert found.rationals is not None and backend
    assert product(planted.M1, planted.M2, found.rationals) == fractions(W)
    assert found.rank == found.needed == shape[0] * shape[1]
    assert all(isinstance(value, Fraction) for value in found.rationals)


def test_12_by_12() -> None:
    pytest.importorskip("flint")
    planted = plant(12, 12, 1.0)
    W = np.random.default_rng(5).standard_normal((12, 12))
    found = solve_exact(planted.M1, planted.M2, W)
    assert found.status is Status.SOLVED
    assert found.residual < 1e-10


def test_planted_integers_come_back() -> None:
    rng = np.random.default_rng(2)
    M1, M2 = rng.integers(-5, 6, (6, 2)), rng.integers(-5, 6, (3, 6))
    s = [
        Fraction(int(a), int(b)) for a, b in zip(rng.integers(-9, 10, 6), range(1, 7), strict=True)
    ]
    W = product(M1, M2, tuple(s))
    found = solve_exact(M1, M2, W)
    assert found.status is Status.SOLVED
    assert list(found.rationals or ()) == s


def test_rational_matrices() -> None:
    """The deep construction carries matrices that are products of rationals."""
    M1 = [[Fraction(1, 3), Fraction(1, 7)], [Fraction(2, 3), Fraction(-1, 5)]]
    M2 = [[Fraction(3, 11), Fraction(1, 13)]]
    found = solve_exact(M1, M2, [[Fraction(1, 2), Fraction(1, 9)]])
    assert found.status is Status.SOLVED
    left = sympy.Matrix(2, 2, lambda i, u: sympy.Rational(str(M2[0][u] * M1[u][i])))
    oracle = left.LUsolve(sympy.Matrix([sympy.Rational(1, 2), sympy.Rational(1, 9)]))
    assert [str(value) for value in found.rationals or ()] == [str(value) for value in oracle]


def test_free_entries() -> None:
    planted = plant(2, 3, 1.5)
    basic = solve_exact(planted.M1, planted.M2, planted.W, free=0.0)
    assert sum(value == 0 for value in basic.rationals) == 3
    ones = solve_exact(planted.M1, planted.M2, planted.W, free=1.0)
    loose = [u for u in range(9) if ones.rationals[u] == 1]
    assert len(loose) == 3
    vector = np.arange(9) / 2
    given = solve_exact(planted.M1, planted.M2, planted.W, free=vector)
    assert [given.rationals[u] for u in loose] == [Fraction(u, 2) for u in loose]
    smallest = solve_exact(planted.M1, planted.M2, planted.W)
    floats = solve(planted.M1, planted.M2, planted.W, Direct())
    rounded = smallest.s
    assert relative(rounded - floats.s, floats.s) <= tolerance(planted.condition, 9)
    for found in (basic, ones, given, smallest):
        assert product(planted.M1, planted.M2, found.rationals) == fractions(planted.W)
    with pytest.raises(InputError, match=r"one per hidden unit \(9\), but has 2"):
        solve_exact(planted.M1, planted.M2, planted.W, free=[1.0, 2.0])


def test_zero_w_with_non_zero_free_entries() -> None:
    planted = plant(2, 2, 2.0)
    found = solve_exact(planted.M1, planted.M2, np.zeros((2, 2)), free=1.0)
    assert found.status is Status.SOLVED
    assert all(value != 0 for value in found.rationals)


def test_failures_over_the_rationals() -> None:
    planted = plant(3, 3, 1.0)
    W = np.random.default_rng(1).standard_normal((3, 3))
    narrow = solve_exact(planted.M1[1:], planted.M2[:, 1:], W)
    assert narrow.status is Status.TOO_NARROW
    assert "rank 8 of 9 needed, width 8" in narrow.message
    M2 = planted.M2.copy()
    M2[0] = M2[1]
    deficient = solve_exact(planted.M1, M2, W)
    assert deficient.status is Status.RANK_DEFICIENT
    assert "rank 6 of 9 needed, width 9" in deficient.message
    assert len(deficient.s) == 9
    W[0] = W[1]
    assert solve_exact(planted.M1, M2, W).status is Status.SOLVED


def test_exact_w_in_reach_of_a_narrow_layer() -> None:
    M1, M2 = np.array([[1.0, 2.0]]), np.array([[3.0], [5.0]])
    found = solve_exact(M1, M2, np.array([[6.0, 12.0], [10.0, 20.0]]))
    assert found.status is Status.SOLVED
    assert found.rationals == (2,)
    off = solve_exact(M1, M2, np.array([[6.0, 12.0], [10.0, np.nextafter(20.0, 21.0)]]))
    assert off.status is Status.TOO_NARROW


def test_the_float_solution_is_correctly_rounded() -> None:
    planted = plant(3, 4, 1.0)
    exact = solve_exact(planted.M1, planted.M2, planted.W)
    found = solve(planted.M1, planted.M2, planted.W, Exact())
    assert found.solver == "exact"
    for value, nearest in zip(exact.rationals, found.s, strict=True):
        error = abs(value - Fraction(float(nearest)))
        for neighbour in (np.nextafter(nearest, -np.inf), np.nextafter(nearest, np.inf)):
            assert error <= abs(value - Fraction(float(neighbour)))


@settings(max_examples=25, deadline=None)
@given(m=st.integers(1, 4), k=st.integers(1, 4), seed=st.integers(0, 2**16))
def test_floats_against_the_exact_oracle(m: int, k: int, seed: int) -> None:
    planted = plant(m, k, 1.0, seed=seed)
    oracle = np.array([float(x) for x in solve_exact(planted.M1, planted.M2, planted.W).s])
    for solver in (Direct(), ConjugateGradient()):
        found = solve(planted.M1, planted.M2, planted.W, solver)
        if found.status is Status.SOLVED:
            assert relative(found.s - oracle, oracle) <= tolerance(planted.condition, m * k)


def test_overflow_of_the_rounded_solution_is_admitted() -> None:
    found = solve(np.array([[1e-300]]), np.array([[1e-300]]), np.array([[1.0]]), Exact())
    assert found.status is Status.ILL_CONDITIONED
    assert solve(np.array([[1e-300]]), np.array([[1e-300]]), [[1.0]]).status is (
        Status.ILL_CONDITIONED
    )


class TestModular:
    @settings(max_examples=60, deadline=None)
    @given(
        rows=st.integers(1, 9),
        columns=st.integers(1, 150),
        rank=st.integers(0, 9),
        seed=st.integers(0, 2**16),
    )
    def test_pivots(self, rows: int, columns: int, rank: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        rank = min(rank, rows, columns)
        left, right = rng.integers(-3, 4, (rows, rank)), rng.integers(-3, 4, (rank, columns))
        A = left @ right
        chosen_rows, chosen = pivots_modulo(A.astype(np.int64), PRIMES[0])
        oracle = sympy.Matrix(A.tolist()) if A.size < 100 else None
        expected = oracle.rank() if oracle is not None else int(np.linalg.matrix_rank(A))
        assert len(chosen) == len(chosen_rows) == expected
        if chosen:
            square = sympy.Matrix(A[np.ix_(chosen_rows, chosen)].tolist())
            assert int(square.det()) % PRIMES[0] != 0

    def test_wide_elimination_against_flint(self) -> None:
        flint = pytest.importorskip("flint")
        rng = np.random.default_rng(0)
        for rows, columns in ((150, 150), (100, 300), (300, 200)):
            A = rng.integers(0, PRIMES[0], (rows, columns))
            A[7] = (3 * A[2] + 5 * A[4]) % PRIMES[0]
            A[:, 9] = 0
            chosen = pivots_modulo(A, PRIMES[0])[1]
            matrix = flint.nmod_mat(rows, columns, A.ravel().tolist(), PRIMES[0])
            assert len(chosen) == matrix.rank()
            assert 9 not in chosen

    def test_residues_are_those_of_the_rationals(self) -> None:
        values = np.array([[0.0, 1.0, -1.5, 0.1], [1e300, -5e-324, 2.0**-1074, 3e-310]])
        prime = PRIMES[0]
        oracle = [
            [Fraction(x).numerator * pow(Fraction(x).denominator, -1, prime) % prime for x in row]
            for row in values.tolist()
        ]
        assert residues(values, prime).tolist() == oracle

    def test_reduction_is_exact_up_to_its_bound(self) -> None:
        prime = PRIMES[0]
        rng = np.random.default_rng(0)
        quotients = rng.integers(2**29, 2**53 // prime, 2000)
        # next to -2^53 the rounded quotient is one too large; found by trying all of them
        quotients[:4] = np.arange(-1073743740, -1073743736)
        values = np.concatenate([quotients * prime + shift for shift in (-2, -1, 0, 1, prime // 2)])
        values = np.concatenate([values, -values, [0, prime - 1, prime, -1]])
        values = values[abs(values) <= 2**53 - 2 * prime]
        assert np.array_equal(_mod(values.astype(np.float64), prime), values % prime)

    def test_full_rank_is_proved(self, backend: str) -> None:
        for ratio in (1.0, 1.5):
            planted = plant(6, 7, ratio)
            proof = prove_full_rank(planted.M1, planted.M2)
            assert proof.proved
            assert (proof.rank, proof.needed) == (42, 42)

    def test_loss_of_rank_proves_nothing(self, backend: str) -> None:
        planted = plant(3, 4, 1.5)
        M2 = planted.M2.copy()
        M2[0] = M2[1]
        proof = prove_full_rank(planted.M1, M2)
        assert not proof.proved
        assert (proof.rank, proof.needed) == (8, 12)

    def test_a_prime_that_divides_the_determinant_is_not_believed(self) -> None:
        proof = prove_full_rank(np.array([[float(PRIMES[0])]]), np.array([[1.0]]))
        assert proof.proved
        assert proof.prime == PRIMES[1]
        both = prove_full_rank(np.array([[float(PRIMES[0] * PRIMES[1])]]), np.array([[1.0]]))
        assert not both.proved

    def test_ill_conditioned_is_told_from_singular(self) -> None:
        M1 = np.eye(2)[:, :1] + 1.0
        M2 = np.array([[1.0, 1.0], [1.0, 0.5 + np.spacing(0.5)]])
        assert prove_full_rank(M1, M2).proved
        assert not prove_full_rank(M1, np.array([[1.0, 1.0], [1.0, 1.0]])).proved

    def test_the_exactness_bound_is_enforced(self) -> None:
        with pytest.raises(ValueError, match=r"prime below 2\^23"):
            pivots_modulo(np.eye(2, dtype=np.int64), 8388617)

    def test_rank_without_flint(self, backend: str) -> None:
        rng = np.random.default_rng(3)
        A = rng.integers(0, PRIMES[0], (90, 90))
        assert rank_modulo(A, PRIMES[0]) == 90
