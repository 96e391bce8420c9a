"""Errors through the target's own maps, with their signs: chords in place of Lipschitz constants.

g with ε_i added in front of each activation, |ε_i| ≤ e_i, is ĝ. For z in a range and ẑ anywhere,
σ(ẑ) − σ(z) = d (ẑ − z), d the slope of a chord; where |d − D̄| ≤ ρ, and a chord that leaves the
range by more than there is room adds at most `more` for each unit beyond,

    δ = ĥ − h = D̄ (W δ_before + ε) + n,    |n| ≤ ρ p + more·(p − room)⁺,    p ≥ |ẑ − z|,

so that δ is a sum of noises through the products of the *signed* matrices D̄ W: with M_{i,j} the
product from cut j to the input of cut i,

    p_i = e_i + Σ_j |M_{i,j}| noise_j,      noise_j = |D̄_j| e_j + ρ_j p_j + more_j (p_j − room_j)⁺.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
from proofs_check.statements.theorem_1_wide.layers import inside, relu
from proofs_check.statements.theorem_1_wide.layerwise import image
from proofs_check.symbols import identical

HALF = Fraction(1, 2)


def chord(lo: Fraction, hi: Fraction) -> tuple[Fraction, Fraction, Fraction]:
    """(D̄, ρ, room) of ReLU for z in [lo, hi]; beyond the room a chord is off by up to 1."""
    if lo >= 0:
        return Fraction(1), Fraction(0), lo
    if hi <= 0:
        return Fraction(0), Fraction(0), -hi
    return HALF, HALF, Fraction(0)


def noise(radius: Fraction, room: Fraction, p: Fraction) -> Fraction:
    """|σ(ẑ) − σ(z) − D̄ (ẑ − z)| for |ẑ − z| ≤ p."""
    return radius * p if radius else max(p - room, Fraction(0))


@dataclass(frozen=True)
class CarryRule:
    """The slopes on a range, what they leave out, and how the noises add up."""

    slopes: Callable[[Fraction, Fraction], tuple[Fraction, Fraction, Fraction]] = chord
    left_out: Callable[[Fraction, Fraction, Fraction], Fraction] = noise
    size: Callable[[Matrix], Matrix] = abs


def carried(rule: CarryRule, maps: list[Matrix], ranges: list[Any], e: list[Matrix]) -> Matrix:
    """p at the last map, whose value is the output."""
    products: list[Matrix] = []
    noises: list[Matrix] = []
    p = e[0]
    for i, W in enumerate(maps):
        if i:
            products = [W @ M for M in products]
            p = e[i] + sum(
                (rule.size(M) @ n for M, n in zip(products, noises, strict=True)), 0 * e[i]
            )
        if i + 1 < len(maps):
            found = [rule.slopes(lo, hi) for lo, hi in zip(*ranges[i], strict=True)]
            middle = np.array([d for d, _, _ in found], dtype=object)
            new = [rule.left_out(r, room, q) for (_, r, room), q in zip(found, p, strict=True)]
            products = [middle[:, None] * M for M in products]
            products.append(exact.matrix(np.eye(len(middle), dtype=int).tolist()))
            noises.append(middle * e[i] + np.array(new, dtype=object))
    return p


@dataclass(frozen=True, eq=False)
class Disturbed:
    """A network 2-3-3-3 with errors in front of its activations, and how far its output moves."""

    maps: list[Matrix]
    ranges: list[Any]
    e: list[Matrix]
    worst: Matrix

    def __str__(self) -> str:
        return (
            f"maps {[exact.show(W) for W in self.maps]}, errors "
            f"{[exact.show(s) for s in self.e]}: the output moves by {exact.show(self.worst)}"
        )


def disturbed(rng: np.random.Generator, case: int) -> Disturbed:
    """One with integer weights, errors of every sign, large in every other case."""
    lo, hi = exact.matrix([[-1] * 2])[0], exact.matrix([[1] * 2])[0]
    maps: list[Matrix] = []
    ranges: list[Any] = []
    e: list[Matrix] = []
    values = [(h, h) for h in inside(lo, hi)]
    for layer in range(3):
        W, b = exact.integers(rng, 3, len(lo)), exact.integers(rng, 3)
        size = abs(exact.integers(rng, 3)) / (2 if case % 2 else 20)
        before = [(W @ h + b, W @ k + b) for h, k in values]
        signs = exact.matrix(rng.choice([-1, 1], size=(len(values), 3)).tolist())
        moved = [(z, y + s * size) for (z, y), s in zip(before, signs, strict=True)]
        positive, negative = np.maximum(W, 0), np.minimum(W, 0)
        taken = positive @ lo + negative @ hi + b, positive @ hi + negative @ lo + b
        maps, ranges, e = [*maps, W], [*ranges, taken], [*e, size]
        lo, hi = image(W, b, lo, hi)
        values = moved if layer == 2 else [(relu(z), relu(y)) for z, y in moved]
    return Disturbed(maps, ranges, e, np.max([abs(y - z) for z, y in values], axis=0))


@by(Method.RATIONAL)
def disturbed_networks(rule: CarryRule, effort: Effort) -> Finding:
    """g with errors of every sign added in front of its activations: none exceeds the bound."""
    rng = np.random.default_rng(65)
    count = effort.choose(25, 120)
    for case in range(count):
        g = disturbed(rng, case)
        bound = carried(rule, g.maps, g.ranges, g.e)
        if (g.worst > bound).any():
            raise Counterexample(f"{g}, the bound says {exact.show(bound)}")
    return Finding(f"{count} networks 2-3-3-3", "true error ≤ bound, in rationals")


@by(Method.STEP)
def every_chord(rule: CarryRule, effort: Effort) -> Finding:
    """All z in a range and all ẑ near it, in halves: the chord is D̄ up to the noise; then δ is
    linear in the noises, by induction over the cuts."""
    ends = [Fraction(i, 2) for i in range(-4, 5)]
    for lo, hi, z, y in product(ends, repeat=4):
        if not lo <= z <= hi:
            continue
        middle, radius, room = rule.slopes(lo, hi)
        off = abs(max(y, Fraction(0)) - max(z, Fraction(0)) - middle * (y - z))
        if off > rule.left_out(radius, room, abs(y - z)):
            raise Counterexample(f"z={z} in [{lo}, {hi}], ẑ={y}: off by {off}")
    for n in (1, 3, 6):  # active units and no sign anywhere: the bound is attained
        W, e = np.full((n, n), Fraction(1, n)), np.full(n, Fraction(1, 3))
        bound = carried(rule, [W, W], [(e + 9, e + 10)], [e, e])
        if (bound < W @ e + e).any():
            raise Counterexample(f"{n} active units: moved by {(W @ e + e)[0]}, bound {bound[0]}")
    W, d, D, eps, n = sympy.symbols("W delta D epsilon n", real=True)
    first, second = sympy.symbols("M1 M2", real=True)
    identical("one cut", D * (W * d + eps) + n, D * W * d + (D * eps + n))
    identical("linear in the noises", W * (first * n + second * d), W * first * n + W * second * d)
    return Finding("units apart, noises add up", "chords in halves, the step in symbols")


CARRIED = Statement(
    name="carried-errors",
    claim="With errors |ε_i| ≤ e_i in front of its activations a network moves by at most "
    "p_i = e_i + Σ_j |M_ij| n_j, M_ij the product of the signed maps and middle slopes D̄, "
    "n_j = D̄_j e_j + ρ_j p_j + (what leaves the ranges).",
    hypotheses=(
        "slopes of chords on the range lie within D̄ ± ρ",
        "beyond its room a chord is off by at most the largest slope there is",
    ),
    paper="not in the paper, which computes without errors; the figures of a certificate need it",
    depends_on=("error-recursion",),
    subject=CarryRule(),
    checks=(disturbed_networks, every_chord),
    negatives=(
        Negative("signs kept to the end: no absolute value", CarryRule(size=lambda M: M)),
        Negative(
            "a bent unit taken for its middle slope",
            CarryRule(left_out=lambda r, room, p: max(p - room, Fraction(0)) if not r else 0 * p),
        ),
        Negative(
            "a stable unit taken for stable however large the error",
            CarryRule(left_out=lambda r, room, p: r * p),
        ),
        Negative(
            "half of the slopes forgotten",
            CarryRule(left_out=lambda r, room, p: noise(r / 2, room, p)),
        ),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (CARRIED,)
