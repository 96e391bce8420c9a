"""From layers to networks: equality layer by layer.

If f's segment i equals g's map i on every value g takes there, the networks are equal on D:
induction on i, because f's value after segment i is then g's, where segment i + 1 is known.
"""

from __future__ import annotations

from collections.abc import Callable
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
from proofs_check.statements.theorem_1_wide.layers import TwoLayers, inside, relu, tuned


@dataclass(frozen=True)
class Composition:
    """The set on which segment 2 of f must equal map 2 of g; D = {0, 1}, values {0, 1, 2}."""

    agreement: Callable[[tuple[int, ...]], set[int]] = lambda reached: set(reached)


@by(Method.STEP)
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
            segment = tuned(TwoLayers(), rng, W, b, lo, hi)
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
    paper="Theorem 1, from one layer to the network",
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

STATEMENTS: tuple[Statement[Any], ...] = (LAYERWISE,)
