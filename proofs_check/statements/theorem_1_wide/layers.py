"""One target layer by two frozen layers: active ReLUs, the shift and its cancelling.

    t1 ≥ −min over D of s1∘(M1 h)                    every ReLU active: σ is the identity
    N2(M2 σ(N1(M1 h))) = M2 (s1∘(M1 h) + t1) + t2    s2 = 1, t2 = b − M2 t1
                       = (M2 diag(s1) M1) h + b = W h + b       for every h in the box D

On a box, min of m·h over [lo, hi] is min(m·lo, m·hi) in each coordinate, and the minima add up.

A whole linear network (Proposition 1): let h_0 = x, h_i = s_i∘(M_i h_{i−1}) + t_i, an affine
function of x, bounded on D; put r_i ≥ −min over D of h_i, r_0 = 0, and run the ReLU network with
the same s_i and the shifts t_i − s_i∘(M_i r_{i−1}) + r_i. Its values are y_i = h_i + r_i for x in
D: by induction s_i∘(M_i (h_{i−1} + r_{i−1})) + t_i − s_i∘(M_i r_{i−1}) + r_i = h_i + r_i ≥ 0, where
σ is the identity. The last map has no ReLU, r_L = 0, and the two networks agree on D.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import sympy

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


def relu(z: Matrix) -> Matrix:
    """σ, entry by entry."""
    return np.maximum(z, 0)


def norm_then_relu(M: Matrix, s: Matrix, t: Matrix, h: Matrix) -> Matrix:
    """σ(N(M h)): the paper's placement."""
    return relu(s * (M @ h) + t)


def relu_then_norm(M: Matrix, s: Matrix, t: Matrix, h: Matrix) -> Matrix:
    """N(σ(M h)): no shift ahead of the ReLU."""
    return np.asarray(s * relu(M @ h) + t)


def inside(lo: Matrix, hi: Matrix) -> list[Matrix]:
    """Corners, centre and two more points of the box."""
    third = [lo + (hi - lo) * Fraction(x, 3) for x in (1, 2)]
    return [*exact.vertices(lo, hi), (lo + hi) / 2, *third]


def far_outside(lo: Matrix, hi: Matrix) -> list[Matrix]:
    """Points of the whole space: the box left behind in every direction."""
    return [h * 1000 for h in inside(lo - 1, hi + 1)]


@dataclass(frozen=True)
class Activity:
    """A layer, the lower bound its shift rests on, and the inputs of the claim."""

    lowest: Callable[[Any, Any, Any], Any] = lambda m, lo, hi: min(m * lo, m * hi)
    layer: Callable[[Matrix, Matrix, Matrix, Matrix], Matrix] = norm_then_relu
    points: Callable[[Matrix, Matrix], list[Matrix]] = inside

    def shift(self, M: Matrix, s: Matrix, lo: Matrix, hi: Matrix) -> Matrix:
        """t = −Σ_b lowest(s_j M[j,b], lo_b, hi_b): the least shift that keeps all active."""
        return np.array(
            [
                -sum(self.lowest(x, a, b) for x, a, b in zip(scale * row, lo, hi, strict=True))
                for scale, row in zip(s, M, strict=True)
            ],
            dtype=object,
        )


@by(Method.RATIONAL)
def relu_acts_as_identity(claim: Activity, effort: Effort) -> Finding:
    """σ(N(M h)) = s∘(M h) + t at corners and inside, and the shift is the least possible."""
    rng = np.random.default_rng(51)
    for _ in range(effort.choose(12, 60)):
        M, s = exact.integers(rng, 4, 3), exact.integers(rng, 4)
        lo = exact.integers(rng, 3)
        hi = lo + abs(exact.integers(rng, 3))
        t = claim.shift(M, s, lo, hi)
        for h in claim.points(lo, hi):
            value, linear = claim.layer(M, s, t, h), s * (M @ h) + t
            if (value != linear).any():
                raise Counterexample(
                    f"h={exact.show(h)}, D={exact.show(lo)}…{exact.show(hi)}, M={exact.show(M)}, "
                    f"s={exact.show(s)}, t={exact.show(t)}: the layer gives {exact.show(value)}, "
                    f"the linear one {exact.show(linear)}"
                )
        values = np.array([s * (M @ h) + t for h in exact.vertices(lo, hi)])
        exact.same("least active value over the corners", values.min(axis=0), 0 * t)
    return Finding(f"{effort.choose(12, 60)} layers 4x3, all corners", "equal on D, shift least")


@by(Method.RATIONAL)
def linear_network_as_relu(claim: Activity, effort: Effort) -> Finding:
    """N_L(M_L … N_1(M_1 x)), its shifts changed so that ReLUs in between do nothing: equal on D.

    Layer i keeps s_i; its shift grows by what makes it active, and the next layer takes that back.
    """
    rng = np.random.default_rng(53)
    count = effort.choose(6, 30)
    for _ in range(count):
        lo, hi = exact.matrix([[-1, -2, 0]])[0], exact.matrix([[1, 1, 3]])[0]
        points, extra = claim.points(lo, hi), 0 * lo
        linear, rectified = list(points), list(points)
        matrix, constant = exact.matrix(np.eye(3, dtype=int)), 0 * lo
        for m, k in ((4, 3), (3, 4), (2, 3)):
            M, s, t = exact.integers(rng, m, k), exact.integers(rng, m), exact.integers(rng, m)
            matrix, constant = s[:, None] * (M @ matrix), s * (M @ constant) + t
            linear = [s * (M @ h) + t for h in linear]
            raised = claim.shift(matrix, 0 * s + 1, lo, hi) - constant
            shift = t - s * (M @ extra) + raised
            rectified, extra = [claim.layer(M, s, shift, h) for h in rectified], raised
            for x, h, y in zip(points, linear, rectified, strict=True):
                if (y != h + extra).any():
                    raise Counterexample(
                        f"x={exact.show(x)}, layer of {m}: the linear network gives "
                        f"{exact.show(h)}, the other {exact.show(y - extra)}"
                    )
    return Finding(f"{count} networks 3-4-3-2", "linear and ReLU network equal by == on D")


@by(Method.STEP)
def coordinatewise_minimum(claim: Activity, effort: Effort) -> Finding:
    """m·h − min(m·lo, m·hi) ≥ 0 on [lo, hi]: it is m·(h − lo) or (−m)·(hi − h); then add up."""
    lo, x, y, positive = sympy.symbols("lo x y p", nonnegative=True)
    h, hi = lo + x, lo + x + y
    for m, bound in ((positive, positive * lo), (-positive, -positive * hi)):
        if sympy.expand(m * h - bound).is_nonnegative is not True:
            raise Counterexample(f"m={m}: m·h − bound = {sympy.expand(m * h - bound)}")
    for m, low, width, part in product(range(-4, 5), range(-4, 5), range(5), range(5)):
        high, inner = low + width, low + min(part, width)
        if claim.lowest(m, low, high) > m * inner:
            raise Counterexample(
                f"m={m}, [lo, hi]=[{low}, {high}], h={inner}: m·h = {m * inner} is below the bound "
                f"{claim.lowest(m, low, high)}"
            )
    return Finding("coordinates add up", "two signs in symbols, 2025 integer cases")


ACTIVE = Statement(
    name="active-relu-is-identity",
    claim="With t = −min over D of s∘(M h), σ(N(M h)) = N(M h) for every h in D: on a bounded "
    "domain a ReLU network with norm layers equals the linear network with norm layers.",
    hypotheses=("D is bounded", "the norm layer stands ahead of the ReLU"),
    paper="the linear-network step of Theorem 1",
    depends_on=("norm-is-affine",),
    subject=Activity(),
    checks=(relu_acts_as_identity, linear_network_as_relu, coordinatewise_minimum),
    negatives=(
        Negative("unbounded domain", Activity(points=far_outside)),
        Negative("norm after the ReLU", Activity(layer=relu_then_norm)),
        Negative("only the lower corner used", Activity(lowest=lambda m, lo, hi: m * lo)),
    ),
)


@dataclass(frozen=True)
class TwoLayers:
    """The wide construction of one map, step by step."""

    system: Callable[[Matrix, Matrix], Matrix] = lambda M1, M2: khatri_rao(M2, M1.T)
    cancel: Callable[[Matrix, Matrix, Matrix], Matrix] = lambda b, M2, t1: b - M2 @ t1
    activity: Activity = field(default_factory=Activity)
    width: Callable[[int, int], int] = lambda m, k: m * k

    def tune(self, M1: Matrix, M2: Matrix, W: Matrix, b: Matrix, lo: Matrix, hi: Matrix) -> Any:
        """(s1, t1, t2), or None when the system has no solution."""
        s1 = exact.solve(self.system(M1, M2), W.reshape(-1))
        if s1 is None:
            return None
        t1 = self.activity.shift(M1, s1, lo, hi)
        return s1, t1, self.cancel(b, M2, t1)


def tuned(
    two: TwoLayers, rng: np.random.Generator, W: Matrix, b: Matrix, lo: Matrix, hi: Matrix
) -> Callable[[Matrix], Matrix]:
    """h ↦ N2(M2 σ(N1(M1 h))) tuned to W h + b on the box; weights redrawn until K is invertible."""
    m, k = W.shape
    while True:
        M1, M2 = exact.integers(rng, m * k, k), exact.integers(rng, m, m * k)
        if exact.rank(two.system(M1, M2)) == m * k:
            s1, t1, t2 = two.tune(M1, M2, W, b, lo, hi)
            return lambda h: M2 @ relu(s1 * (M1 @ h) + t1) + t2


@by(Method.STEP)
def shift_cancels(two: TwoLayers, effort: Effort) -> Finding:
    """M2(s∘(M1 h) + t1) + t2 = (M2 diag(s) M1) h + b: associativity and linearity of products."""
    top = effort.choose(2, 3)
    for m, k, n in product(range(1, top + 1), range(1, top + 1), range(1, top + 2)):
        M1, M2, s = unknowns("p", n, k), unknowns("q", m, n), unknowns("s", n)
        h, t1, b = unknowns("h", k), unknowns("t", n), unknowns("b", m)
        left = M2 @ (s * (M1 @ h) + t1) + two.cancel(b, M2, t1)
        identical("two layers - one layer", left, (M2 @ (s[:, None] * M1)) @ h + b)
    return Finding(f"symbols m, k ≤ {top}", "linear in h, t1 and b, all shifts gone")


@by(Method.RATIONAL)
def two_layers_equal_one(two: TwoLayers, effort: Effort) -> Finding:
    """Planted targets, solved exactly: equal to W h + b by == on corners and inside."""
    rng = np.random.default_rng(52)
    shapes = [
        (2, 2, 0),
        (2, 3, 0),
        (3, 2, 1),
        (1, 3, 0),
        *effort.choose((), ((4, 3, 3), (4, 4, 0))),
    ]
    for m, k, spare in shapes:
        n = two.width(m, k) + spare
        M1, M2 = exact.integers(rng, n, k), exact.integers(rng, m, n)
        W, b = exact.integers(rng, m, k), exact.integers(rng, m)
        lo, hi = exact.matrix([[-1] * k])[0], exact.matrix([[1 + i for i in range(k)]])[0]
        tuned = two.tune(M1, M2, W, b, lo, hi)
        if tuned is None:
            raise Counterexample(
                f"n={n}: no s1 with M2 diag(s1) M1 = W={exact.show(W)}, M1={exact.show(M1)}, "
                f"M2={exact.show(M2)}"
            )
        s1, t1, t2 = tuned
        for h in two.activity.points(lo, hi):
            found, wanted = M2 @ two.activity.layer(M1, s1, t1, h) + t2, W @ h + b
            if (found != wanted).any():
                raise Counterexample(
                    f"h={exact.show(h)}, W={exact.show(W)}, b={exact.show(b)}: two frozen layers "
                    f"give {exact.show(found)}, the target {exact.show(wanted)}"
                )
    return Finding(f"{len(shapes)} shapes, m·k ≤ {effort.choose(6, 16)}", "equal by == on D")


TWO_LAYERS = Statement(
    name="two-frozen-layers",
    claim="N2(M2 σ(N1(M1 h))) = W h + b for every h in D, with s1 from the Khatri-Rao system, "
    "t1 = −min over D, s2 = 1 and t2 = b − M2 t1.",
    hypotheses=("K has full row rank", "D is bounded", "the norm stands ahead of the ReLU"),
    paper="Theorem 1, one layer",
    depends_on=(
        "vec-identity",
        "solvable-iff-rank",
        "khatri-rao-full-rank",
        "active-relu-is-identity",
    ),
    subject=TwoLayers(),
    checks=(two_layers_equal_one, shift_cancels),
    negatives=(
        Negative("shift not cancelled: t2 = b", TwoLayers(cancel=lambda b, M2, t1: b)),
        Negative(
            "wrong order of factors in K", TwoLayers(system=lambda M1, M2: khatri_rao(M1.T, M2))
        ),
        Negative("unbounded domain", TwoLayers(activity=Activity(points=far_outside))),
        Negative("norm after the ReLU", TwoLayers(activity=Activity(layer=relu_then_norm))),
        Negative("one neuron too few", TwoLayers(width=lambda m, k: m * k - 1)),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (
    ACTIVE,
    TWO_LAYERS,
)
