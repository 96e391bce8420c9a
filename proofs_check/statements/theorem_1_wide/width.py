"""How many hidden units it takes: dimension counts, for one hidden layer and for a stack of them.

One layer. K has n columns, so the reachable W form a space of dimension at most n; for n < m·k
there is a Y ≠ 0 with Kᵀ vec(Y) = 0, and W = Y is out of reach: <Y, M2 diag(s) M1> = 0 for all s.

A stack. F(s_1 … s_L) = M_L D_L … D_1 M_0, D_i = diag(s_i), is linear in each s_i: a factor moves
from one layer to the next without changing F. A W ≠ 0 needs every s_i ≠ 0, so in the last L − 1
layers some entry can be scaled to 1: all W ≠ 0 are images of finitely many polynomial maps in
N − (L − 1) variables, N = Σ widths. Below m·k variables such an image has measure zero. (In
tangents: Σ_j s_ij ∂F/∂s_ij = F for each i, which leaves L − 1 null vectors of the Jacobian.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
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
from proofs_check.statements.products.definitions import khatri_rao
from proofs_check.symbols import identical, unknowns


@dataclass(frozen=True)
class Width:
    """A width at which some W is claimed to be out of reach, whatever the weights."""

    width: Callable[[int, int], int] = lambda m, k: m * k - 1


@by(Method.STEP)
def a_target_out_of_reach(claim: Width, effort: Effort) -> Finding:
    """n < m·k columns leave a left null vector: K has at most n pivots among m·k rows."""
    rng = np.random.default_rng(42)
    top = effort.choose(3, 4)
    for m, k in [(2, 2), *product(range(1, top + 1), repeat=2), (4, 5)]:
        n = claim.width(m, k)
        M1, M2 = exact.integers(rng, n, k), exact.integers(rng, m, n)
        K = khatri_rao(M2, M1.T) if n else exact.matrix([[0]] * (m * k))
        missed = exact.null_space(K.T)
        if not missed.shape[1]:
            raise Counterexample(
                f"m={m}, k={k}, n={n}: every W is reachable with M1={exact.show(M1)}, "
                f"M2={exact.show(M2)} (rank K = {exact.rank(K)})"
            )
        W = missed[:, 0]
        if (
            exact.rank(np.column_stack([K, W])) != exact.rank(K) + 1
            or exact.solve(K, W) is not None
        ):
            raise Counterexample(f"W={exact.show(W)} should be out of reach of {exact.show(K)}")
    return Finding(
        f"built for m, k ≤ {top} and 4 × 5", "W = left null vector: augmented rank rises"
    )


WIDTH = Statement(
    name="width-is-necessary",
    claim="With n < m·k hidden neurons some W is not of the form M2 diag(s) M1, whatever the "
    "weights.",
    hypotheses=("n < m·k",),
    paper="dimension count; the converse of the width in Theorem 1",
    depends_on=("vec-identity", "solvable-iff-rank"),
    subject=Width(),
    checks=(a_target_out_of_reach,),
    negatives=(Negative("width m·k: no neuron too few", Width(lambda m, k: m * k)),),
)

# --- a stack of layers --------------------------------------------------------------------------


def through(weights: Sequence[Matrix], scales: Sequence[Matrix]) -> Matrix:
    """M_L D_L … D_1 M_0."""
    value = weights[0]
    for M, s in zip(weights[1:], scales, strict=True):
        value = M @ (s[:, None] * value)
    return value


def with_skips(weights: Sequence[Matrix], scales: Sequence[Matrix]) -> Matrix:
    """The same with the first hidden unit's value handed past each layer: not scaled along."""
    value = weights[0]
    for M, s in zip(weights[1:], scales, strict=True):
        value = M @ (s[:, None] * value + value[:1])
    return value


@dataclass(frozen=True)
class Stack:
    """The map from the scales to W, and Σ widths at which almost every W is out of reach."""

    compose: Callable[[Sequence[Matrix], Sequence[Matrix]], Matrix] = through
    parameters: Callable[[int, int, int], int] = lambda m, k, L: m * k + L - 2

    def widths(self, m: int, k: int, L: int) -> list[int]:
        """The parameters, shared out evenly."""
        total = self.parameters(m, k, L)
        return [total // L + (i < total % L) for i in range(L)]

    def jacobian(self, weights: Sequence[Matrix], scales: Sequence[Matrix]) -> Matrix:
        """∂F/∂s, one column per scale: F(s_ij = 1) − F(s_ij = 0), for F is affine in each."""
        columns = []
        for i, s in enumerate(scales):
            for j in range(len(s)):
                ends = [_replaced(scales, i, j, value) for value in (1, 0)]
                one, none = (self.compose(weights, end) for end in ends)
                columns.append((one - none).reshape(-1))
        return np.column_stack(columns)


def _replaced(scales: Sequence[Matrix], layer: int, unit: int, value: int) -> list[Matrix]:
    copies = [s.copy() for s in scales]
    copies[layer][unit] = value
    return copies


def _weights(rng: np.random.Generator, m: int, k: int, widths: Sequence[int]) -> list[Matrix]:
    sizes = [k, *widths, m]
    return [exact.integers(rng, b, a) for a, b in pairwise(sizes)]


@by(Method.STEP)
def scales_move_between_layers(claim: Stack, effort: Effort) -> Finding:
    """Σ_j s_ij ∂F/∂s_ij = F for each layer: in symbols, F linear in each s_i whatever the size."""
    rng = np.random.default_rng(43)
    shapes = [(1, 2, (2, 2)), (2, 2, (2, 3)), *effort.choose((), ((2, 2, (2, 2, 2)),))]
    for m, k, widths in shapes:
        weights = _weights(rng, m, k, widths)
        scales = [unknowns("stuvw"[i], n) for i, n in enumerate(widths)]
        F, columns = claim.compose(weights, scales), claim.jacobian(weights, scales)
        starts = np.cumsum([0, *widths])
        for i, s in enumerate(scales):
            along = columns[:, starts[i] : starts[i + 1]] @ s
            identical(f"Σ_j s_{i + 1}j ∂F/∂s_{i + 1}j - F", along, F.reshape(-1))
    return Finding(f"symbols for {len(shapes)} stacks", "Euler's identity per layer")


@by(Method.RATIONAL)
def tangents_miss_a_direction(claim: Stack, effort: Effort) -> Finding:
    """At random scales the Jacobian has a rank below m·k: its L − 1 null vectors are the reason."""
    rng = np.random.default_rng(44)
    cases = [(2, 2, 2), (2, 3, 2), (2, 3, 3), *effort.choose((), ((3, 3, 2), (3, 4, 4)))]
    for m, k, L in cases:
        widths = claim.widths(m, k, L)
        weights = _weights(rng, m, k, widths)
        scales = [abs(exact.integers(rng, n)) + 1 for n in widths]
        rank = exact.rank(claim.jacobian(weights, scales))
        if rank >= m * k:
            raise Counterexample(
                f"m={m}, k={k}, L={L}, Σ widths = {sum(widths)}: at s="
                f"{', '.join(exact.show(s) for s in scales)} the Jacobian has rank {rank} = m·k, "
                f"so that an open set of W is reached"
            )
    return Finding(f"{len(cases)} stacks, m·k ≤ {effort.choose(6, 12)}, L ≤ {L}", "rank < m·k")


STACKED = Statement(
    name="stacked-width",
    claim="With L hidden layers and no skip connections, Σ widths ≥ m·k + L − 1 is necessary: "
    "below it the W of the form M_L D_L … D_1 M_0 have measure zero.",
    hypotheses=("no skip connections", "the weights M_i are given, only the D_i are chosen"),
    paper="not in the paper; the dimension count for more than one hidden layer",
    depends_on=("width-is-necessary", "polynomial-zero-set"),
    subject=Stack(),
    checks=(tangents_miss_a_direction, scales_move_between_layers),
    negatives=(
        Negative(
            "m·k + L − 1 parameters: none too few", Stack(parameters=lambda m, k, L: m * k + L - 1)
        ),
        Negative("a skip connection past each layer", Stack(compose=with_skips)),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (WIDTH, STACKED)
