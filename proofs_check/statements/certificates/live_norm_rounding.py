"""What an evaluation of a live norm in floats rounds, in any order.

Every operation gives (1 + δ) times its result, |δ| ≤ u; γ_k = k·u/(1 − k·u) bounds k of them. Write
s = mean z², a = mean|z|, and let ρ² = |P z|²/n + eps.

The mean: n − 1 sums and a quotient (or a product by a rounded 1/n), so it is off by γ_{n+1} a. A
difference z_j − mean: by γ_{n+3} (|z_j| + a). The variance in two passes: around the computed mean
it is the variance plus the square of that mean's error, of second order, and squares, sums and a
quotient are n + 5 roundings. In one pass, mean z² − mean²: γ_{n+2} s + 2 γ_{n+1} s and the rest,
(3n + 7) u s to first order. eps is rounded and added: 2 more. A root halves what is relative in it:
1/ρ is off by (3n + 7)/2·s/eps + 2 roundings of itself, and by casts, root, quotient and products
10 more. So y = gamma u + beta, u = P z/ρ, is off by no more than

    γ_{2n+24} (|gamma| (|u| (1 + s/eps) + (|z| + a)/√eps) + |beta|),

with a scale gamma/ρ and a shift beta − scale·mean that are made first, too: their terms are among
these. Of ρ² a share r = (3n + 8) u s/eps may be lost in one pass: while that is 1/4 at most,
1/√(1 − r) − 1 ≤ 1.24·r/2, which 2n + 24 has to spare, 4/3 of (3n + 7)/2 and more; beyond, the
variance may be negative. Underflow is counted apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from math import isqrt
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
from proofs_check.symbols import identical, unknowns

UNIT = Fraction(1, 2**30)
EPS = Fraction(1, 100)
WAYS = ((True, True), (True, False), (False, True), (False, False))
Numbers = list[Fraction]
Rounding = Callable[[Fraction], Fraction]


@dataclass(frozen=True)
class Evaluation:
    """How many roundings of n units, and of what."""

    count: Callable[[int], int] = lambda n: 2 * n + 24
    parts: Callable[..., Fraction] = lambda u, z, a, s: (
        abs(u) * (1 + s / EPS) + (abs(z) + a) / root(EPS)
    )
    second: Callable[[Any], Any] = lambda off: off**2  # of a variance around a mean that is off


def root(square: Fraction) -> Fraction:
    """The root to 60 digits more than the roundings here have."""
    return Fraction(isqrt(int(square * 10**160)), 10**80)


def mean_of(values: Numbers, rounded: Rounding) -> Fraction:
    total = values[0]
    for value in values[1:]:
        total = rounded(total + value)
    return rounded(total / len(values))


def evaluated(z: Numbers, ways: tuple[bool, bool], rounded: Rounding) -> Iterator[Fraction]:
    """gamma = 1, beta = 0; the variance in one pass or in two, with a shift made first or not."""
    once, shifted = ways
    mean = mean_of(z, rounded)
    around = [rounded(x - mean) for x in z]
    if once:
        square = mean_of([rounded(x * x) for x in z], rounded)
        variance = max(rounded(square - rounded(mean * mean)), Fraction(0))
    else:
        variance = mean_of([rounded(x * x) for x in around], rounded)
    scale = rounded(1 / rounded(root(rounded(variance + rounded(EPS)))))
    shift = -rounded(mean * scale)
    for x, d in zip(z, around, strict=True):
        yield rounded(rounded(x * scale) + shift) if shifted else rounded(d * scale)


def off_by(up: Callable[[], int], value: Fraction) -> Fraction:
    return value * (1 + up() * UNIT)


def inputs(rng: np.random.Generator, n: int) -> Iterator[Numbers]:
    """Drawn ones, one that is large beside the others, a mean far above the spread, no mean."""
    for size in (Fraction(1, 1000), Fraction(1, 10), Fraction(1), Fraction(20)):
        yield [size * x for x in exact.integers(rng, n) / Fraction(9)]
        yield [size] + [Fraction(0)] * (n - 1)
        yield [size + Fraction(j, 10) for j in range(n)]
        yield [size, *[Fraction(0)] * (n - 2), -size]


@by(Method.STEP)
def a_wrong_mean_is_of_second_order(claim: Evaluation, effort: Effort) -> Finding:
    """In symbols: mean (z − c)² = variance + (c − mean)², and mean z² − mean² = variance."""
    for n in range(2, effort.choose(5, 8)):
        z, (c,) = unknowns("z", n), unknowns("c", 1)
        mean = sum(z) / n
        variance = sum((x - mean) ** 2 for x in z) / n
        around = sum((x - c) ** 2 for x in z) / n
        identical(f"around c, n={n}", around, variance + claim.second(c - mean))
        identical(f"in one pass, n={n}", sum(x * x for x in z) / n - mean**2, variance)
    return Finding("2 to 4 units", "two identities")


@by(Method.RATIONAL)
def no_evaluation_is_further_off(claim: Evaluation, effort: Effort) -> Finding:
    """Operations in rationals, each off by ±u: all one way, the other way, and at random."""
    rng, count = np.random.default_rng(84), 0
    ups: tuple[Callable[[], int], ...] = (
        lambda: 1,
        lambda: -1,
        *[lambda: int(rng.integers(-1, 2))] * effort.choose(2, 8),
    )
    for n in (2, 3, 6, *effort.choose((), (12,))):
        share = claim.count(n) * UNIT
        for z, ways, up in product(list(inputs(rng, n)), WAYS, ups):
            count += 1
            a, s = sum(map(abs, z), Fraction(0)) / n, sum((x * x for x in z), Fraction(0)) / n
            p = [x - sum(z, Fraction(0)) / n for x in z]
            rho = root(sum((x * x for x in p), Fraction(0)) / n + EPS)
            made = evaluated(z, ways, partial(off_by, up))
            for x, d, found in zip(z, p, made, strict=True):
                allowed = share / (1 - share) * claim.parts(d / rho, x, a, s)
                if abs(found - d / rho) > allowed:
                    raise Counterexample(
                        f"z={[str(v) for v in z]}, variance in {'one' if ways[0] else 'two'} "
                        f"passes: off by {float(abs(found - d / rho) / UNIT):.3g} u where "
                        f"{float(allowed / UNIT):.3g} u are allowed"
                    )
    return Finding(f"{count} evaluations of 2 to 6 units", "γ_{2n+24} of the sizes on the way")


def without(name: str) -> Callable[..., Fraction]:
    """The parts with one of them left out."""

    def parts(u: Any, z: Any, a: Any, s: Any) -> Fraction:
        given = {"u": u, "z": z, "a": a, "s": s} | {name: Fraction(0)}
        return Evaluation.parts(*given.values())

    return parts


ROUNDING = Statement(
    name="live-norm-rounding",
    claim="A live norm evaluated in floats, sums in any order, its variance in one pass or in two, "
    "is off by at most γ_{2n+24} (|gamma| (|u| (1 + mean z²/eps) + (|z| + mean|z|)/√eps) + "
    "|beta|).",
    hypotheses=(
        "eps > 0",
        "(3n + 8) u mean z² ≤ eps/4",
        "underflow is counted apart",
    ),
    paper="not in the paper; live statistics in floats",
    depends_on=("accumulated-rounding",),
    subject=Evaluation(),
    checks=(a_wrong_mean_is_of_second_order, no_evaluation_is_further_off),
    negatives=(
        Negative("two roundings in all", Evaluation(count=lambda n: 2)),
        Negative("the mean is not rounded", Evaluation(parts=without("a"))),
        Negative("a variance in one pass as in two", Evaluation(parts=without("s"))),
        Negative("half of a wrong mean's square", Evaluation(second=lambda off: off**2 / 2)),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (ROUNDING,)
