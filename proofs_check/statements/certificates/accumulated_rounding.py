"""Accumulated rounding: a dot product in floating point, whatever the order of its sum.

Binary arithmetic, nearest rounding, gradual underflow, no overflow; u the unit roundoff, η the
smallest positive number. Then fl(x·y) = xy(1 + δ) + ε and fl(x + y) = (x + y)(1 + δ), |δ| ≤ u,
|ε| ≤ η/2: sums do not underflow, for every sum of floats is a multiple of η. A sum of n products
is a tree with n leaves. A leaf passes its own rounding and at most n − 1 sums, so

    fl(Σ x_i y_i) = Σ (x_i y_i (1 + δ_i) + ε_i) Π_{sums above i} (1 + δ),    n factors at most,
    (1 + u)^n ≤ 1/(1 − nu),  (1 − u)^n ≥ 1 − nu    by induction, hence |Π − 1| ≤ γ_n = nu/(1 − nu),
    |fl(Σ x_i y_i) − Σ x_i y_i| ≤ γ_n Σ|x_i y_i| + n·η    (n·(η/2)·(1 + γ_{n−1}), γ ≤ 1).

A fused product and sum has one rounding and one ε where the two have two roundings and one ε.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import sympy

from proofs_check.core import (
    Counterexample,
    Effort,
    Finding,
    Formal,
    Method,
    Negative,
    Statement,
    by,
)
from proofs_check.symbols import identical

Pairs = tuple[tuple[Fraction, Fraction], ...]


def nearest(x: Fraction, bits: int, tiny: Fraction) -> Fraction:
    """x rounded to `bits` binary digits, ties to even, in steps of `tiny` at least."""
    if x == 0:
        return x
    above, below = x.numerator, x.denominator
    exponent = abs(above).bit_length() - below.bit_length()
    if abs(above) << max(-exponent, 0) < below << max(exponent, 0):
        exponent -= 1
    step = max(_power(exponent - bits + 1), tiny)
    over = below * step.numerator  # x / step in integers, which take a third of the time
    whole, rest = divmod(above * step.denominator, over)
    whole += 2 * rest > over or (2 * rest == over and whole % 2)
    return Fraction(whole * step.numerator, step.denominator)


@cache
def _power(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


def flushed(x: Fraction, bits: int, tiny: Fraction) -> Fraction:
    """The same without gradual underflow: what is below the smallest normal number is zero."""
    return nearest(x, bits, tiny) if abs(x) >= tiny * 2 ** (bits - 1) else Fraction(0)


def gamma(n: int, u: Fraction) -> Fraction:
    """γ_n = nu/(1 − nu)."""
    return n * u / (1 - n * u)


@dataclass(frozen=True)
class Summation:
    """The rounding of one operation, and the bound for n products."""

    rounded: Callable[[Fraction, int, Fraction], Fraction] = nearest
    relative: Callable[[int, Fraction], Fraction] = gamma
    absolute: Callable[[int, Fraction], Fraction] = lambda n, eta: n * eta

    def bound(self, terms: Pairs, u: Fraction, eta: Fraction) -> Fraction:
        n = len(terms)
        size = sum((abs(x * y) for x, y in terms), Fraction(0))
        return self.relative(n, u) * size + self.absolute(n, eta)


def orders(values: tuple[Fraction, ...]) -> Iterator[tuple[Any, ...] | Fraction]:
    """Every way to bracket a sum of these values, in the order given."""
    if len(values) == 1:
        yield values[0]
    for cut in range(1, len(values)):
        yield from product(orders(values[:cut]), orders(values[cut:]))


def add_up(tree: Any, rounded: Callable[[Any], Any]) -> Any:
    """The value of a bracketed sum, each sum rounded."""
    if not isinstance(tree, tuple):
        return tree
    return rounded(add_up(tree[0], rounded) + add_up(tree[1], rounded))


def _judge(claim: Summation, terms: Pairs, bits: int, eta: Fraction) -> int:
    """Every bracketing of one dot product against the bound, products rounded and fused."""

    def rounded(x: Fraction) -> Fraction:
        return claim.rounded(x, bits, eta)

    true = sum((x * y for x, y in terms), Fraction(0))
    bound, count = claim.bound(terms, Fraction(1, 2**bits), eta), 0
    for fused in (False, True):
        leaves = tuple(x * y if fused else rounded(x * y) for x, y in terms)
        for tree in orders(leaves):
            found = rounded(add_up(tree, rounded))
            count += 1
            if abs(found - true) > bound:
                shown = " + ".join(f"({x})({y})" for x, y in terms)
                raise Counterexample(
                    f"{shown} in {bits} bits and steps of {eta}: {found}, off by "
                    f"{abs(found - true)}, more than {bound}"
                )
    return count


@by(Method.EXHAUSTIVE)
def every_sum_of_a_small_format(claim: Summation, effort: Effort) -> Finding:
    """A format of 3 bits, all its small numbers: up to 3 products, in every order."""
    bits, eta = 3, Fraction(1, 8)
    floats = sorted({nearest(Fraction(i, 8), bits, eta) for i in range(-20, 21)})
    few = [x for x in floats if abs(x) <= effort.choose(Fraction(3, 8), Fraction(5, 8))]
    count = 0
    for x, y in product(floats, repeat=2):
        count += _judge(claim, ((x, y),), bits, eta)
    for x, y, z in product(floats[::2], few, few):
        count += _judge(claim, ((x, y), (y, z)), bits, eta)
    one = Fraction(1)
    for x, y, z in product([v for v in floats if abs(v) >= 1], few, few):
        count += _judge(claim, ((x, one), (y, one), (z, one)), bits, eta)
    return Finding(f"3 bits, n ≤ 3, {count} sums", "error ≤ γ_n Σ|xy| + n·η, in every order")


@by(Method.RATIONAL)
def float64_as_it_is(claim: Summation, effort: Effort) -> Finding:
    """The machine's own sums, straight and pairwise, from ordinary to subnormal sizes."""
    rng, eta = np.random.default_rng(71), Fraction(1, 2**1074)
    sizes = (1, 2, 3, 17, 100, *effort.choose((), (1000,)))
    for n, scale in product(sizes, (0, -300, -530, -537)):
        x, y = (np.ldexp(rng.standard_normal(n), scale) for _ in range(2))
        if n > 3:  # one large value first: then every later rounding goes the same way
            x[0], x[1:], y[:] = 1.0, 0.75 * 2.0**-53, np.ldexp(1.0, scale)
        terms = tuple((Fraction(a), Fraction(b)) for a, b in zip(x, y, strict=True))
        true = sum((a * b for a, b in terms), Fraction(0))
        straight = 0.0
        for a, b in zip(x.tolist(), y.tolist(), strict=True):
            straight += a * b
        bound = claim.bound(terms, Fraction(1, 2**53), eta)
        for found in (straight, float(np.sum(x * y)), float(x @ y)):
            if abs(Fraction(found) - true) > bound:
                raise Counterexample(
                    f"n={n}, scale 2^{scale}: float64 is off by "
                    f"{float(abs(Fraction(found) - true)):.3e}, the bound says {float(bound):.3e}"
                )
    return Finding(f"float64, n ≤ {sizes[-1]}, down to 2^-1074", "loops, numpy sums and BLAS")


@by(Method.STEP)
def factors_per_leaf(claim: Summation, effort: Effort) -> Finding:
    """Every bracketing of n ≤ 4 in symbols: at most n − 1 sums above a leaf; then (1 + u)^n."""
    top = effort.choose(4, 5)
    d = sympy.Symbol("d")
    for n in range(1, top + 1):
        leaves = sympy.symbols(f"x1:{n + 1}")
        for tree in orders(leaves):
            value = sympy.expand(add_up(tree, lambda total: total * (1 + d)))
            for x in leaves:
                above = sympy.degree(sympy.Poly(value.coeff(x), d)) if n > 1 else 0
                if above > n - 1:
                    raise Counterexample(f"{tree}: {above} sums above {x}")
    u, n_ = sympy.symbols("u n", positive=True)
    up = (1 - n_ * u) - (1 + u) * (1 - (n_ + 1) * u)
    identical("1/(1 − nu) (1 + u) ≤ 1/(1 − (n+1)u): the gap", up, (n_ + 1) * u**2)
    identical(
        "(1 − nu)(1 − u) ≥ 1 − (n+1)u: the gap",
        (1 - n_ * u) * (1 - u),
        1 - (n_ + 1) * u + n_ * u**2,
    )
    for n in range(1, 40):
        worst = (1 + Fraction(1, 2**7)) ** n - 1
        if worst > claim.relative(n, Fraction(1, 2**7)):
            raise Counterexample(f"u = 2^-7: (1 + u)^{n} − 1 exceeds the relative bound")
    return Finding(f"symbols for n ≤ {top}", "both inductions on (1 ± u)^n")


ROUNDING = Statement(
    name="accumulated-rounding",
    claim="|fl(Σ x_i y_i) − Σ x_i y_i| ≤ γ_n Σ|x_i y_i| + n·η for n products, added in any order, "
    "rounded or fused; γ_n = nu/(1 − nu).",
    hypotheses=(
        "rounding to nearest with gradual underflow",
        "no overflow",
        "n·u ≤ 1/2",
        "the n products are formed and added: no fast matrix product such as Strassen's",
    ),
    paper="not in the paper, which computes in real numbers; every bound in float64 needs it",
    depends_on=(),
    subject=Summation(),
    checks=(every_sum_of_a_small_format, float64_as_it_is, factors_per_leaf),
    negatives=(
        Negative(
            "one rounding counted for a whole sum", Summation(relative=lambda n, u: gamma(1, u))
        ),
        Negative(
            "the products' own rounding forgotten", Summation(relative=lambda n, u: gamma(n - 1, u))
        ),
        Negative("underflow forgotten", Summation(absolute=lambda n, eta: Fraction(0))),
        Negative("small results flushed to zero", Summation(rounded=flushed)),
    ),
    formal=Formal("accumulated_rounding", "accumulated_rounding", Summation()),
)

STATEMENTS: tuple[Statement[Any], ...] = (ROUNDING,)
