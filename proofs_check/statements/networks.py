"""From layers to networks: low rank as two maps in a row, and equality layer by layer.

Low rank. W = U V of rank r becomes V, then U; the ReLU between them is kept active by a shift t of
the r values, and U's own constant takes U t back: width max(r·k, m·r) in place of m·k.

Equality. If f's segment i equals g's map i on every value g takes there, the networks are equal on
D: induction on i, because f's value after segment i is then g's, where segment i + 1 is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
    Scope,
    Statement,
    by,
)
from proofs_check.exact import Matrix
from proofs_check.statements.layers import TwoLayers, inside, relu
from proofs_check.symbols import identical, unknowns


@dataclass(frozen=True)
class LowRank:
    """W = U V with r = rank(W), each factor rebuilt as a map of its own."""

    rank: Callable[[int], int] = lambda r: r
    uncancel: Callable[[Matrix, Matrix, Matrix], Matrix] = lambda b, U, t: b - U @ t
    two: TwoLayers = field(default_factory=TwoLayers)


def factor(W: Matrix, r: int) -> tuple[Matrix, Matrix]:
    """U (m × r), V (r × k): pivot columns and the reduced rows of W; r below the rank truncates."""
    R, pivots = exact.reduce(W)
    return W[:, list(pivots)[:r]], R[:r]


@by(Method.RATIONAL)
def factored_network_is_exact(claim: LowRank, effort: Effort) -> Finding:
    """Four frozen layers, three ReLUs, exact weights: equal to W h + b on corners and inside."""
    rng = np.random.default_rng(61)
    shapes = [(3, 3, 1), (3, 4, 2), (2, 3, 1), *effort.choose((), ((4, 4, 2), (5, 5, 2)))]
    for m, k, r in shapes:
        W = exact.integers(rng, m, r) @ exact.integers(rng, r, k)
        b = exact.integers(rng, m)
        lo, hi = exact.matrix([[-1] * k])[0], exact.matrix([[2] * k])[0]
        U, V = factor(W, claim.rank(r))
        t = claim.two.activity.shift(V, exact.matrix([[1]] * len(V))[:, 0], lo, hi)
        top = t + np.array(
            [sum(max(x * a, x * c) for x, a, c in zip(v, lo, hi, strict=True)) for v in V]
        )
        first = _tuned(claim.two, rng, V, t, lo, hi)
        second = _tuned(claim.two, rng, U, claim.uncancel(b, U, t), 0 * t, top)
        for h in inside(lo, hi):
            found, wanted = second(relu(first(h))), W @ h + b
            if (found != wanted).any():
                raise Counterexample(
                    f"W={exact.show(W)} of rank {r}, r={len(V)}, h={exact.show(h)}: the factors "
                    f"give {exact.show(found)}, the target {exact.show(wanted)}"
                )
    return Finding(f"{len(shapes)} shapes, rank ≤ 2", "equal by == on D, width max(r·k, m·r)")


def _tuned(
    two: TwoLayers, rng: np.random.Generator, W: Matrix, b: Matrix, lo: Matrix, hi: Matrix
) -> Callable[[Matrix], Matrix]:
    """h ↦ N2(M2 σ(N1(M1 h))) tuned to W h + b on the box; weights redrawn until K is invertible."""
    m, k = W.shape
    while True:
        M1, M2 = exact.integers(rng, m * k, k), exact.integers(rng, m, m * k)
        if exact.rank(two.system(M1, M2)) == m * k:
            s1, t1, t2 = two.tune(M1, M2, W, b, lo, hi)
            return lambda h: M2 @ relu(s1 * (M1 @ h) + t1) + t2


@by(Method.GENERAL)
def shift_between_factors(claim: LowRank, effort: Effort) -> Finding:
    """U (V h + t) + (b − U t) = (U V) h + b, with V h + t ≥ 0 on D: the ReLU between is active."""
    for m, k, r in product((1, 2), (1, 2), (1, 2)):
        U, V = unknowns("u", m, r), unknowns("v", r, k)
        h, t, b = unknowns("h", k), unknowns("t", r), unknowns("b", m)
        left = U @ (V @ h + t) + claim.uncancel(b, U, t)
        identical("factored - W h - b", left, (U @ V) @ h + b)
    rng = np.random.default_rng(62)
    for r in range(1, effort.choose(4, 6)):
        W = exact.integers(rng, 5, r) @ exact.integers(rng, r, 6)
        U, V = factor(W, claim.rank(exact.rank(W)))
        exact.same(f"U V of W={exact.show(W)}, r={len(V)}", U @ V, W)
    return Finding("every size; symbols ≤ 2, ranks ≤ 3", "U V = W and the shift cancels")


LOW_RANK = Statement(
    name="low-rank-factors",
    claim="A map of rank r is rebuilt as two maps in a row, V (r × k) then U (m × r), of width "
    "max(r·k, m·r).",
    hypotheses=("W = U V exactly", "the value between them shifted to be positive"),
    scope=Scope.EVERY_SIZE,
    paper="remark to Theorem 1",
    relied_on=("reconstruct/constructions/factored.py",),
    depends_on=("two-frozen-layers", "rank-of-a-product"),
    subject=LowRank(),
    checks=(factored_network_is_exact, shift_between_factors),
    negatives=(
        Negative("rank one too small", LowRank(rank=lambda r: r - 1)),
        Negative("shift between the factors not taken back", LowRank(uncancel=lambda b, U, t: b)),
    ),
)


@dataclass(frozen=True)
class Composition:
    """The set on which segment 2 of f must equal map 2 of g; D = {0, 1}, values {0, 1, 2}."""

    agreement: Callable[[tuple[int, ...]], set[int]] = lambda reached: set(reached)


@by(Method.GENERAL)
def induction_step(claim: Composition, effort: Effort) -> Finding:
    """The step f2∘f1 = g2∘g1 on D, over *all* functions of a three-point set.

    The step compares two values at one input: f1(x) = g1(x) =: y, then f2(y) = g2(y). A failure
    would involve one x, and at most the three points x, f1(x), g1(x): three points are enough.
    """
    count = 0
    functions = list(product(range(3), repeat=3))
    domain = (0, 1)
    for f1, g1 in product(functions, repeat=2):
        if any(f1[x] != g1[x] for x in domain):
            continue
        agree = claim.agreement(tuple(g1[x] for x in domain))
        for f2, g2 in product(functions, repeat=2):
            if any(f2[y] != g2[y] for y in agree):
                continue
            count += 1
            for x in domain:
                if f2[f1[x]] != g2[g1[x]]:
                    raise Counterexample(
                        f"x={x}: f1={f1}, g1={g1}, f2={f2}, g2={g2} give f={f2[f1[x]]}, "
                        f"g={g2[g1[x]]}; segment 2 agrees on {sorted(agree)} only"
                    )
    return Finding("every depth: induction", f"{count} composable quadruples, all of them")


@by(Method.RATIONAL)
def three_layer_network(claim: Composition, effort: Effort) -> Finding:
    """A target of three maps rebuilt map by map with exact weights: f = g by == on D."""
    rng = np.random.default_rng(63)
    count = effort.choose(3, 12)
    for _ in range(count):
        sizes, lo, hi = (2, 3, 2, 2), exact.matrix([[-1, -1]])[0], exact.matrix([[1, 2]])[0]
        points, values = inside(lo, hi), inside(lo, hi)
        for k, m in pairwise(sizes):
            W, b = exact.integers(rng, m, k, bound=3), exact.integers(rng, m, bound=3)
            segment = _tuned(TwoLayers(), rng, W, b, lo, hi)
            points = [relu(W @ h + b) for h in points]
            values = [relu(segment(h)) for h in values]
            for x, y in zip(values, points, strict=True):
                exact.same(f"f against g after W={exact.show(W)}", x, y)
            lo, hi = image(W, b, lo, hi)
    return Finding(f"{count} targets 2-3-2-2", "f = g by == after every map")


def image(W: Matrix, b: Matrix, lo: Matrix, hi: Matrix) -> tuple[Matrix, Matrix]:
    """Interval bounds of σ(W h + b) over the box."""
    plus, minus = np.maximum(W, 0), np.minimum(W, 0)
    return relu(plus @ lo + minus @ hi + b), relu(plus @ hi + minus @ lo + b)


LAYERWISE = Statement(
    name="layerwise-to-network",
    claim="If each segment of f equals the corresponding map of g on all values g takes there, "
    "then f = g on D.",
    hypotheses=("agreement on the values g reaches, not merely on D",),
    scope=Scope.EVERY_SIZE,
    paper="Theorem 1, from one layer to the network",
    relied_on=(
        "reconstruct/constructions/wide.py",
        "reconstruct/certificates/alignment.py",
    ),
    depends_on=("two-frozen-layers",),
    subject=Composition(),
    checks=(induction_step, three_layer_network),
    negatives=(
        Negative(
            "segments compared on D instead of on the values reached",
            Composition(agreement=lambda reached: {0, 1}),
        ),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (
    LOW_RANK,
    LAYERWISE,
)
