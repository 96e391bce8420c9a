"""Errors through bends by their Euclidean length: many small ones are shorter than their sum.

As in carried-errors the difference of g and ĝ is a sum of noises N_j, one vector for each cut,
through products M_ij of the signed maps D̄ W. With positive weights w_j and ‖w_j N_j‖₂ ≤ t_j,

    |(M_ij N_j)_r| = |Σ_l (M_rl / w_l)(w_l N_l)| ≤ ‖row r of M_ij / w_j‖₂ t_j    (Cauchy, Schwarz)

and, where slopes are off by at most q_i, noise (d − D̄)(ẑ − z) of cut i is no longer than

    ‖w_i q_i e_i‖₂ + Σ_j ‖diag(w_i q_i) M_ij diag(1/w_j)‖₂ t_j,

because the factors (d − D̄)/q lie in [−1, 1], and make nothing longer. Norms are bounded by
‖X‖₂² = ‖XᵀX‖₂ ≤ ‖XᵀX‖_F, as often as one likes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
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
from proofs_check.statements.certificates.carried_errors import chord, disturbed
from proofs_check.symbols import identical

BITS = 40


def root(x: Fraction) -> Fraction:
    """√x, from above."""
    return Fraction(isqrt(x.numerator * 4**BITS // x.denominator) + 1, 2**BITS)


def length(v: Matrix) -> Fraction:
    """‖v‖₂, from above."""
    return root(Fraction(sum(v * v)))


def norm(X: Matrix) -> Fraction:
    """‖X‖₂ ≤ √‖XᵀX‖_F, from above."""
    gram = X.T @ X
    return root(root(Fraction((gram * gram).sum())))


def weighted(left: Matrix, M: Matrix, right: Matrix) -> Matrix:
    """diag(left) M diag(1/right)."""
    return left[:, None] * M / right


@dataclass(frozen=True)
class LengthRule:
    """How lengths of vectors and norms of maps are bounded, the weights of a map, and how far
    slopes are off."""

    length: Callable[[Matrix], Fraction] = length
    norm: Callable[[Matrix], Fraction] = norm
    weighted: Callable[[Matrix, Matrix, Matrix], Matrix] = weighted
    share: Fraction = Fraction(1)  # of the radius of slopes

    def off(self, radius: Fraction, room: Fraction, p: Fraction) -> Fraction:
        """|d − D̄| at most, for errors of at most p."""
        if radius:
            return self.share * radius
        return Fraction(int(p > room))


def by_lengths(
    rule: LengthRule, maps: list[Matrix], ranges: list[Any], e: list[Matrix], w: list[Matrix]
) -> Matrix:
    """p at the last map, whose value is the output."""
    products: list[Matrix] = []
    lengths: list[Fraction] = []
    for i, W in enumerate(maps):
        products = [W @ M for M in products]
        p = e[i].copy()
        for M, v, t in zip(products, w, lengths, strict=False):
            rows = rule.weighted(exact.matrix([[1] * len(M)])[0], M, v)
            p = p + np.array([rule.length(row) * t for row in rows], dtype=object)
        if i + 1 == len(maps):
            return p
        found = [chord(lo, hi) for lo, hi in zip(*ranges[i], strict=True)]
        middle = np.array([d for d, _, _ in found], dtype=object)
        known = zip(found, p, strict=True)
        q = np.array([rule.off(r, room, size) for (_, r, room), size in known], dtype=object)
        t = rule.length(w[i] * middle * e[i]) + rule.length(w[i] * q * e[i])
        for M, v, before in zip(products, w, lengths, strict=False):
            t += rule.norm(rule.weighted(w[i] * q, M, v)) * before
        products = [middle[:, None] * M for M in products]
        products.append(exact.matrix(np.eye(len(middle), dtype=int).tolist()))
        lengths.append(t)
    raise AssertionError("there is no map")


@by(Method.RATIONAL)
def disturbed_networks(rule: LengthRule, effort: Effort) -> Finding:
    """g with errors of every sign added in front of its activations: none exceeds the bound."""
    rng = np.random.default_rng(71)
    count = effort.choose(30, 150)
    for case in range(count):
        g = disturbed(rng, case)
        w = [exact.matrix([rng.integers(1, 9, size=3).tolist()])[0] / 4 for _ in g.maps]
        bound = by_lengths(rule, g.maps, g.ranges, g.e, w)
        if (g.worst > bound).any():
            weights, told = [exact.show(v) for v in w], [float(p) for p in bound]
            raise Counterexample(f"{g}, the bound in weights {weights} says {told}")
    return Finding(f"{count} networks 2-3-3-3", "true error ≤ bound, in rationals")


@by(Method.RATIONAL)
def nothing_is_stretched_further(rule: LengthRule, effort: Effort) -> Finding:
    """‖diag(a) M x‖ ≤ ν ‖w x‖ for the norm ν of the weighted map, slopes anywhere in [−q, q]; and
    no row of M makes more of x than the product of two lengths."""
    rng = np.random.default_rng(72)
    count = effort.choose(80, 400)
    for case in range(count):
        rows, columns = 1 + case % 3, 1 + case % 4
        M, x = exact.integers(rng, rows, columns), exact.integers(rng, columns)
        w = exact.matrix([rng.integers(1, 6, size=columns).tolist()])[0] / 2
        left = exact.matrix([rng.integers(1, 6, size=rows).tolist()])[0]
        q = abs(exact.integers(rng, rows)) / 2
        slopes = q * exact.matrix([rng.integers(-1, 2, size=rows).tolist()])[0]
        moved = left * slopes * (M @ x)
        most = rule.norm(rule.weighted(left * q, M, w)) ** 2 * sum((w * x) ** 2)
        if sum(moved * moved) > most:
            raise Counterexample(
                f"M={exact.show(M)}, x={exact.show(x)}, w={exact.show(w)}, slopes "
                f"{exact.show(slopes)}: longer than √{float(most):g}"
            )
        ones = exact.matrix([[1] * rows])[0]
        for row, value in zip(rule.weighted(ones, M, w), M @ x, strict=True):
            if abs(value) > rule.length(row) * rule.length(w * x):
                raise Counterexample(f"M={exact.show(M)}, x={exact.show(x)}, w={exact.show(w)}")
    return Finding(f"{count} maps of up to 3 × 4", "length² ≤ bound², in rationals")


@by(Method.STEP)
def cauchy_and_schwarz(rule: LengthRule, effort: Effort) -> Finding:
    """What the bound of a row leaves over is a sum of squares, and ‖M x‖² = xᵀ (MᵀM) x."""
    units = effort.choose(4, 6)
    m, n = sympy.symbols(f"m0:{units}", real=True), sympy.symbols(f"n0:{units}", real=True)
    w = sympy.symbols(f"w0:{units}", positive=True)
    pairs = list(zip(m, n, w, strict=True))
    left = sum(a**2 / c**2 for a, _, c in pairs) * sum(b**2 * c**2 for _, b, c in pairs)
    left -= sum(a * b for a, b, _ in pairs) ** 2
    right = sum(
        (m[i] * w[j] * n[j] / w[i] - m[j] * w[i] * n[i] / w[j]) ** 2
        for i in range(units)
        for j in range(i + 1, units)
    )
    identical("Lagrange's identity in weights", left, right)
    X = sympy.Matrix(3, 3, sympy.symbols("x0:9", real=True))
    v = sympy.Matrix(sympy.symbols("v0:3", real=True))
    identical("a Gram matrix", (X * v).dot(X * v), (v.T * (X.T * X) * v)[0, 0])
    return Finding("every number of units", f"the identities with {units} and 3, in symbols")


WEIGHTED = Statement(
    name="weighted-lengths",
    claim="Noises with ‖w_j N_j‖₂ ≤ t_j move a value by at most ‖row of M / w_j‖₂ t_j each, and "
    "through slopes that are off by at most q become noises no longer than "
    "‖diag(w q) M diag(1/w_j)‖₂ t_j; ‖X‖₂² = ‖XᵀX‖₂ ≤ ‖XᵀX‖_F.",
    hypotheses=(
        "weights are positive",
        "slopes of chords lie within D̄ ± q for errors as large as they may be",
    ),
    paper="not in the paper, which computes without errors; the figures of a certificate need it",
    depends_on=("carried-errors",),
    subject=LengthRule(),
    checks=(disturbed_networks, nothing_is_stretched_further, cauchy_and_schwarz),
    negatives=(
        Negative("half of the slopes forgotten", LengthRule(share=Fraction(1, 2))),
        Negative(
            "weights on one side only",
            LengthRule(weighted=lambda left, M, right: left[:, None] * M),
        ),
        Negative(
            "the largest entry for the length", LengthRule(length=lambda v: Fraction(max(abs(v))))
        ),
        Negative(
            "the largest entry of a map for its norm",
            LengthRule(norm=lambda X: Fraction(abs(X).max())),
        ),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (WEIGHTED,)
