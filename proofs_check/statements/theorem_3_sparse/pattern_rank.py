"""Sparse frozen weights: the pattern alone decides whether K is singular.

K[(a,b), j] = M2[a,j] · M1[j,b], each entry of M1, M2 zero or an independent unknown. The generic
rank of K equals its structural rank, the size of a maximum matching in its support:

A minor of K is a signed sum, over the matchings of its rows and columns, of Π_j M2[a_j,j]
M1[j,b_j]. Column j owns the unknowns M2[·,j] and M1[j,·], so the monomial tells (a_j, b_j) for
each j: different matchings give different monomials and nothing cancels. The minor is the zero
polynomial iff there is no matching. So *no* pattern with a perfect matching has a generically
singular K, at any size; small sizes are searched exhaustively as well.
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
        f"structural rank = rank for all {count}: none with a perfect matching is singular",
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
            patterns.outer(patterns.mask(u), patterns.mask(v), m, k)
            for u, v in zip(U[w], V[w], strict=True)
        ]
        error = (2 * len(columns) / modular.PRIME) ** 4 if found[w] < claimed[w] else 0.0
        raise Counterexample(
            f"m={m}, k={k}, support of K {patterns.show(columns, m * k)}: rank {found[w]} at four "
            f"random points, the pattern is said to give {claimed[w]} (error ≤ {error:.0e})"
        )


def _ranks(claim: Pattern, rng: np.random.Generator, U: Residues, V: Residues) -> Residues:
    X, Y = claim.values(rng, U, V)
    K = (X[..., :, None] * Y[..., None, :]) % modular.PRIME
    return modular.ranks(K.reshape(*K.shape[:2], -1).transpose(0, 2, 1))


@by(Method.MATCHING)
def larger_patterns(claim: Pattern, effort: Effort) -> Finding:
    """Random sparse patterns: two matching algorithms, and the rank modulo a prime."""
    rng = np.random.default_rng(82)
    sizes = effort.choose(((3, 3, 4), (4, 5, 4), (6, 6, 4)), ((4, 5, 20), (8, 8, 20), (12, 12, 10)))
    for (m, k, trials), p in product(sizes, (0.15, 0.3, 0.5)):
        for _ in range(trials):
            U, V = ((rng.random((m * k, size)) < p).astype(np.int64) for size in (m, k))
            support = [
                patterns.outer(patterns.mask(u), patterns.mask(v), m, k)
                for u, v in zip(U, V, strict=True)
            ]
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


@by(Method.STEP)
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
        f"run for m·k ≤ {effort.choose(6, 8)}",
        "the monomial of a matching names the matching",
    )


PATTERN = Statement(
    name="sparse-pattern-rank",
    claim="For independent weights on a fixed support the generic rank of M2 ⊙ M1ᵀ equals its "
    "structural rank; so no pattern with a perfect matching is generically singular.",
    hypotheses=("kept weights independent, with a density", "M1 and M2 not tied"),
    paper="first step of Theorem 3; that the pattern decides exactly is shown here",
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

STATEMENTS: tuple[Statement[Any], ...] = (PATTERN,)
