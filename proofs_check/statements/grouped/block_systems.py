"""Grouped layers: a unit that sees one block of inputs and feeds one block of outputs.

With B_ij (b × q) and A_ij (q × b) for each pair (i, j) of blocks, M2 diag(s) M1 has the blocks
B_ij diag(s_ij) A_ij: (m/b)·(k/b) systems of b² equations each, and q ≥ b² units make every one of
them solvable with probability one. Used by `reconstruct/constructions/grouped.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from proofs_check import exact
from proofs_check.core import (
    Counterexample,
    Effort,
    Finding,
    Method,
    Negative,
    Statement,
    by,
)
from proofs_check.exact import Matrix
from proofs_check.symbols import identical, unknowns


@dataclass(frozen=True)
class BlockSystems:
    """`width` units for each pair of blocks, of which `sees` says the block of inputs."""

    width: Callable[[int], int] = lambda b: b * b
    sees: Callable[[int, int], int] = lambda j, blocks: j


def system(A: Matrix, B: Matrix) -> Matrix:
    """The Khatri-Rao matrix of one pair of blocks: row (o, c) is B[o, :] ∘ A[:, c]."""
    return np.array([row * column for row in B for column in A.T], dtype=object)


def scattered(parts: dict[tuple[int, int], Any], rows: int, cols: int, b: int) -> Matrix:
    """M1 and M2 as whole matrices, with zeros outside of the blocks, times diag(s)."""
    whole = exact.matrix([[0] * cols for _ in range(rows)])
    for (i, j), block in parts.items():
        whole[i * b : (i + 1) * b, j * b : (j + 1) * b] = block
    return whole


@by(Method.STEP)
def product_falls_apart(claim: BlockSystems, effort: Effort) -> Finding:
    """M2 diag(s) M1, with the zeros of both written out, is B_ij diag(s_ij) A_ij block by block."""
    b, q = 2, 2
    for rows, cols in product((1, 2), (1, 2)):
        pairs = list(product(range(rows), range(cols)))
        M1 = np.zeros((len(pairs) * q, cols * b), dtype=object)
        M2 = np.zeros((rows * b, len(pairs) * q), dtype=object)
        s = unknowns("s", len(pairs) * q)
        blocks = {}
        for g, (i, j) in enumerate(pairs):
            A, B = unknowns(f"a{g}_", q, b), unknowns(f"b{g}_", b, q)
            units = slice(g * q, (g + 1) * q)
            seen = claim.sees(j, cols)
            M1[units, seen * b : (seen + 1) * b] = A
            M2[i * b : (i + 1) * b, units] = B
            blocks[i, j] = B @ (s[units, None] * A)
        whole = scattered(blocks, rows * b, cols * b, b)
        identical("M2 diag(s) M1 - blocks", M2 @ (s[:, None] * M1), whole)
    return Finding(
        "blocks of 2 × 2, up to 2 × 2 of them; sums over units of other blocks are 0",
        "n·b² products",
    )


@by(Method.RATIONAL)
def every_block_has_full_rank(claim: BlockSystems, effort: Effort) -> Finding:
    """A witness for every b: A = rows e_c, B = columns e_o make K the identity; so a determinant is
    not the zero polynomial, and the product of all blocks' determinants is not either."""
    rng = np.random.default_rng(91)
    for b in range(2, effort.choose(4, 5)):
        q = claim.width(b)
        pairs = list(product(range(b), range(b)))[:q]
        A = exact.matrix([[int(c == j) for j in range(b)] for _, c in pairs])
        B = exact.matrix([[int(o == i) for o, _ in pairs] for i in range(b)])
        drawn = exact.integers(rng, q, b, bound=99), exact.integers(rng, b, q, bound=99)
        for K in (system(A, B), system(*drawn)):
            if exact.rank(K) < b * b:
                raise Counterexample(f"b={b}: {q} units leave rank {exact.rank(K)} of {b * b}")
    return Finding(
        "b = 2, 3 (4 with more effort); the witness is the identity for every b",
        "full rank of all blocks, outside of a set of measure zero",
    )


@by(Method.RATIONAL)
def overlaps_cost_independence_and_not_rank(claim: BlockSystems, effort: Effort) -> Finding:
    """Weights outside of the blocks, where supports overlap by chance: K is a polynomial in them
    and of full rank where they are 0, so that it is for almost all; but equations of two blocks
    then share a unit, and the blocks are to be solved together."""
    rng = np.random.default_rng(92)
    b = 2
    q = claim.width(b)
    for extra in range(1, effort.choose(4, 8)):
        M1, M2 = np.zeros((2 * q, 2 * b), dtype=object), exact.integers(rng, b, 2 * q, bound=99)
        for j in range(2):
            M1[j * q : (j + 1) * q, j * b : (j + 1) * b] = exact.integers(rng, q, b, bound=99)
        for unit in range(min(extra, q)):
            M1[unit, b + unit % b] = 1 + unit  # a unit of the first block sees the second one
        K = system(exact.matrix(M1), M2)
        second = [o * 2 * b + c for o in range(b) for c in range(b, 2 * b)]
        if exact.rank(K) < 2 * b * b:
            raise Counterexample(f"{extra} overlaps leave rank {exact.rank(K)} of {2 * b * b}")
        if not K[second, :q].any():
            raise Counterexample(f"{extra} overlaps leave the blocks independent")
    return Finding(
        "two blocks of 2 × 2, 1 to 3 units of one that see an input of the other",
        "full rank still; one system of 2·b² equations in place of two of b²",
    )


BLOCK_SYSTEMS = Statement(
    name="block-systems",
    claim="Grouped layers with b² units for each pair of blocks rebuild every map: width m·k, "
    "2·b·m·k weights, (m/b)·(k/b) systems of b² equations, each of full rank with probability 1. "
    "Supports that overlap by chance leave full rank, and join the systems that they touch.",
    hypotheses=(
        "a unit sees one block of inputs and feeds one block of outputs",
        "weights of a continuous distribution",
    ),
    paper="beyond the paper",
    depends_on=("khatri-rao-full-rank", "two-frozen-layers"),
    subject=BlockSystems(),
    checks=(
        product_falls_apart,
        every_block_has_full_rank,
        overlaps_cost_independence_and_not_rank,
    ),
    negatives=(
        Negative("one unit too few in each block", BlockSystems(width=lambda b: b * b - 1)),
        Negative(
            "a unit that sees another block of inputs",
            BlockSystems(sees=lambda j, blocks: (j + 1) % blocks),
        ),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (BLOCK_SYSTEMS,)
