"""Sparse frozen weights: the pattern alone decides whether K is singular.

K[(a,b), j] = M2[a,j] · M1[j,b], each entry of M1, M2 zero or an independent unknown. The generic rank
of K equals its structural rank, the size of a maximum matching of rows and columns of its support:

A minor of K is a signed sum, over the matchings σ of its rows and columns, of Π_j M2[a_j,j] M1[j,b_j].
Column j owns the unknowns M2[·,j] and M1[j,·], so the monomial tells (a_j, b_j) for each j: different
matchings give different monomials and nothing cancels. The minor is the zero polynomial iff there is
no matching. So *no* pattern with a perfect matching has a generically singular K, at any size; small
sizes are searched exhaustively as well.

The Boolean determinant of a 0/1 matrix is ∨_σ ∧_j X[σ(j), j]: it is 1 iff there is a perfect
matching. Grouping the σ by the row that meets column j gives its expansion along that column:
bdet X = ∨_i (X[i,j] ∧ bdet of X without row i and column j).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import numpy as np
import scipy.sparse

from proofs_check import modular, patterns
from proofs_check.core import (
    Counterexample,
    Effort,
    Finding,
    Method,
    Negative,
    Scope,
    Statement,
    by,
)
from proofs_check.modular import Residues

Label = tuple[object, ...]
Factors = tuple[Residues, Residues]


def independent(rng: np.random.Generator, U: Residues, V: Residues) -> Factors:
    """Independent values on the supports U (… × n × m) of M2ᵀ and V (… × n × k) of M1."""
    return U * rng.integers(1, modular.PRIME, U.shape), V * rng.integers(1, modular.PRIME, V.shape)


def tied(rng: np.random.Generator, U: Residues, V: Residues) -> Factors:
    """The same values in M2ᵀ and M1."""
    values = rng.integers(1, modular.PRIME, (*U.shape[:-1], max(U.shape[-1], V.shape[-1])))
    return U * values[..., : U.shape[-1]], V * values[..., : V.shape[-1]]


def all_ones(rng: np.random.Generator, U: Residues, V: Residues) -> Factors:
    """Every kept weight equal to one."""
    return U, V


@dataclass(frozen=True)
class Pattern:
    """How values are put on a support, and the rank the support is said to give."""

    values: Callable[[np.random.Generator, Residues, Residues], Factors] = independent
    labels: Callable[[int, int, int], tuple[Label, Label]] = lambda a, b, j: (
        ("M2", a, j),
        ("M1", j, b),
    )
    rank: Callable[[Sequence[int], int, int], int] = lambda columns, rows, structural: structural


def without_empty_lines(columns: Sequence[int], rows: int, structural: int) -> int:
    """Full rank wherever no row and no column is empty, as if that were the only obstruction."""
    used = all(any(c >> r & 1 for c in columns) for r in range(rows))
    return rows if used and all(columns) else structural


@by(Method.EXHAUSTIVE)
def every_small_pattern(claim: Pattern, effort: Effort) -> Finding:
    """All Khatri-Rao patterns of a size, up to the order of neurons: rank at a random point.

    rank modulo a prime ≤ generic rank ≤ structural rank, so equality of the ends is a proof.
    """
    cases = [(2, 2, 4), (2, 2, 5), (1, 3, 3), (2, 3, 6)]
    cases += effort.choose([], [(2, 2, 8), (2, 3, 7)])
    count = sum(_search(claim, *case) for case in cases)
    return Finding(
        "m x k x n = " + ", ".join("x".join(map(str, case)) for case in cases),
        f"rank = structural rank for all {count} patterns: none with a perfect matching is singular",
    )


def _search(claim: Pattern, m: int, k: int, n: int) -> int:
    """Compare the ranks of all multisets of n non-zero neurons; the number visited."""
    pairs = list(product(range(1, 1 << m), range(1, 1 << k)))
    types = [patterns.outer(u, v, m, k) for u, v in pairs]
    chosen, structural = [], []
    for neurons, state in patterns.multisets(types, n, m * k):
        chosen.append(neurons)
        structural.append(patterns.rank(state, m * k))
    bits_u = np.array([[u >> a & 1 for a in range(m)] for u, _ in pairs])
    bits_v = np.array([[v >> b & 1 for b in range(k)] for _, v in pairs])
    for start in range(0, len(chosen), 20000):
        index = np.array(chosen[start : start + 20000])
        claimed = np.array(
            [
                claim.rank([types[t] for t in neurons], m * k, structural[start + i])
                for i, neurons in enumerate(chosen[start : start + 20000])
            ]
        )
        _compare(claim, bits_u[index], bits_v[index], claimed)
    return len(chosen)


def _compare(claim: Pattern, U: Residues, V: Residues, claimed: Residues) -> None:
    """Rank at one random point, and at three more where it fell short of the claim."""
    rng = np.random.default_rng(81)
    found = _ranks(claim, rng, U, V)
    for _ in range(3):
        short = np.flatnonzero(found < claimed)
        if short.size:
            found[short] = np.maximum(found[short], _ranks(claim, rng, U[short], V[short]))
    wrong = np.flatnonzero(found != claimed)
    if wrong.size:
        w = int(wrong[0])
        m, k = U.shape[2], V.shape[2]
        columns = [
            patterns.outer(_mask(u), _mask(v), m, k) for u, v in zip(U[w], V[w], strict=True)
        ]
        error = (2 * len(columns) / modular.PRIME) ** 4 if found[w] < claimed[w] else 0.0
        raise Counterexample(
            f"m={m}, k={k}, support of K {patterns.show(columns, m * k)}: rank {found[w]} at four "
            f"random points, the pattern is said to give {claimed[w]} (error ≤ {error:.0e})"
        )


def _mask(bits: Residues) -> int:
    return int(sum(int(bit) << i for i, bit in enumerate(bits)))


def _ranks(claim: Pattern, rng: np.random.Generator, U: Residues, V: Residues) -> Residues:
    X, Y = claim.values(rng, U, V)
    K = (X[..., :, None] * Y[..., None, :]) % modular.PRIME
    return modular.ranks(K.reshape(*K.shape[:2], -1).transpose(0, 2, 1))


@by(Method.MATCHING)
def larger_patterns(claim: Pattern, effort: Effort) -> Finding:
    """Random sparse patterns: Hopcroft-Karp, scipy's structural rank, and the rank modulo a prime."""
    rng = np.random.default_rng(82)
    sizes = effort.choose(((3, 3, 4), (4, 5, 4), (6, 6, 4)), ((4, 5, 20), (8, 8, 20), (12, 12, 10)))
    for (m, k, trials), p in product(sizes, (0.15, 0.3, 0.5)):
        for _ in range(trials):
            U, V = ((rng.random((m * k, size)) < p).astype(np.int64) for size in (m, k))
            support = [patterns.outer(_mask(u), _mask(v), m, k) for u, v in zip(U, V, strict=True)]
            structural = patterns.matching_rank(support, m * k)
            pattern = (U[:, :, None] * V[:, None, :]).reshape(m * k, m * k).T
            if structural != scipy.sparse.csgraph.structural_rank(scipy.sparse.csr_matrix(pattern)):
                raise Counterexample(f"two matching algorithms differ on {pattern.tolist()}")
            X, Y = claim.values(rng, U, V)
            K = (X[:, :, None] * Y[:, None, :] % modular.PRIME).reshape(m * k, m * k).T
            found, said = modular.rank(K), claim.rank(support, m * k, structural)
            if found != said:
                raise Counterexample(f"m={m}, k={k}, p={p}: rank {found}, said to be {said}")
    top = sizes[-1][0]
    return Finding(f"random, d ≤ {top} (K {top**2}), p = 0.15 to 0.5", "matching = rank, each time")


@by(Method.GENERAL)
def monomials_are_distinct(claim: Pattern, effort: Effort) -> Finding:
    """All matchings of the full pattern: distinct monomials, and (a_j, b_j) read back from each."""
    for m, k in ((1, 2), (2, 1), (2, 2), (1, 4), (3, 2), *effort.choose((), ((2, 4), (7, 1)))):
        seen: dict[frozenset[Label], tuple[int, ...]] = {}
        for sigma in permutations(range(m * k)):
            terms = [claim.labels(*divmod(row, k), j) for j, row in enumerate(sigma)]
            monomial = frozenset(label for pair in terms for label in pair)
            if monomial in seen:
                raise Counterexample(
                    f"m={m}, k={k}: matchings {seen[monomial]} and {sigma} share one"
                )
            seen[monomial] = sigma
    return Finding(
        "every m, k, n; run for m·k ≤ 6", "the monomial of a matching names the matching"
    )


PATTERN = Statement(
    name="sparse-pattern-rank",
    claim="For independent weights on a fixed support the generic rank of M2 ⊙ M1ᵀ equals its "
    "structural rank; so no pattern with a perfect matching is generically singular.",
    hypotheses=("kept weights independent, with a density", "M1 and M2 not tied"),
    scope=Scope.EVERY_SIZE,
    paper="first step of Theorem 3; that the pattern decides exactly is shown here",
    relied_on=("reconstruct/khatri_rao/sparse.py", "reconstruct/networks/draw.py"),
    depends_on=("khatri-rao-full-rank", "polynomial-zero-set"),
    subject=Pattern(),
    checks=(every_small_pattern, larger_patterns, monomials_are_distinct),
    negatives=(
        Negative(
            "no empty row or column, but no perfect matching asked for",
            Pattern(rank=without_empty_lines),
        ),
        Negative(
            "tied weights: M2 = M1ᵀ",
            Pattern(values=tied, labels=lambda a, b, j: (("M", a, j), ("M", b, j))),
        ),
        Negative("kept weights all equal to 1", Pattern(values=all_ones)),
    ),
)

# --- Boolean determinant ------------------------------------------------------------------------


def boolean_determinant(X: Residues) -> int:
    """∨ over permutations of ∧ of entries."""
    n = len(X)
    return int(any(all(X[s[j], j] for j in range(n)) for s in permutations(range(n))))


def real_determinant_nonzero(X: Residues) -> int:
    """1 iff the ordinary determinant of the 0/1 matrix is not zero."""
    return int(round(abs(float(np.linalg.det(X)))) != 0) if len(X) else 1


def parity(X: Residues) -> int:
    """Exclusive or in place of or: the determinant over the field of two elements."""
    n = len(X)
    return sum(all(X[s[j], j] for j in range(n)) for s in permutations(range(n))) % 2


@dataclass(frozen=True)
class Boolean:
    """The determinant under test."""

    determinant: Callable[[Residues], int] = boolean_determinant


@by(Method.EXHAUSTIVE)
def against_matching_and_expansion(claim: Boolean, effort: Effort) -> Finding:
    """Every Boolean matrix to 3 × 3, and a sample of 4 × 4: matching and every expansion."""
    rng = np.random.default_rng(83)
    whole = [
        np.array(bits).reshape(n, n) for n in (1, 2, 3) for bits in product((0, 1), repeat=n * n)
    ]
    sample = [(rng.random((4, 4)) < 0.45).astype(int) for _ in range(effort.choose(150, 3000))]
    for X in whole + sample:
        n, value = len(X), claim.determinant(X)
        columns = [_mask(X[:, j]) for j in range(n)]
        if value != (patterns.structural_rank(columns, n) == n):
            raise Counterexample(
                f"X={patterns.show(columns, n)}: determinant {value}, perfect matching: {not value}"
            )
        for j in range(n):
            expanded = any(X[i, j] and claim.determinant(_without(X, i, j)) for i in range(n))
            if value != expanded:
                raise Counterexample(f"X={patterns.show(columns, n)}: expansion along {j} differs")
    return Finding("all to 3x3; sample of 4x4", f"all {len(whole)} matrices, every column")


def _without(X: Residues, i: int, j: int) -> Residues:
    return np.delete(np.delete(X, i, axis=0), j, axis=1)


@by(Method.GENERAL)
def permutations_split(claim: Boolean, effort: Effort) -> Finding:
    """Permutations of n with σ(j) = i are those of the other rows and columns: n · (n−1)! = n!."""
    for n in range(1, effort.choose(6, 8)):
        for j in range(n):
            smaller = {
                (*(r + (r >= i) for r in s[:j]), i, *(r + (r >= i) for r in s[j:]))
                for i in range(n)
                for s in permutations(range(n - 1))
            }
            if smaller != set(permutations(range(n))):
                raise Counterexample(f"n={n}, column {j}: the split misses a permutation")
    identity = np.eye(effort.choose(4, 5), dtype=np.int64)
    if claim.determinant(identity) != 1 or claim.determinant(0 * identity) != 0:
        raise Counterexample("identity or zero matrix misjudged")
    return Finding("every n; split run to n = 5", "grouping σ by σ(j) is a bijection")


BOOLEAN = Statement(
    name="boolean-determinant",
    claim="The Boolean determinant is 1 iff there is a perfect matching, and expands along any column: "
    "bdet X = ∨_i X[i,j] ∧ bdet(X without row i, column j).",
    hypotheses=("or, not exclusive or, between permutations",),
    scope=Scope.EVERY_SIZE,
    paper="Boolean determinant in the proof of Theorem 3",
    relied_on=("reconstruct/khatri_rao/sparse.py",),
    depends_on=(),
    subject=Boolean(),
    checks=(against_matching_and_expansion, permutations_split),
    negatives=(
        Negative("exclusive or in place of or", Boolean(determinant=parity)),
        Negative(
            "the ordinary determinant of the 0/1 matrix",
            Boolean(determinant=real_determinant_nonzero),
        ),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (PATTERN, BOOLEAN)
