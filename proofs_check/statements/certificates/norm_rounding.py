"""Norm rounding: a norm in floating point, however a program computes it.

N(z) = s (z − μ) + β with s = γ/√(v + ε), after a map z = W h + b of n products. A program may
follow the formula, may compute s and β − s μ first, or may fold the norm into the map: weights s W,
bias s (b − μ) + β, one sum of n products and a bias. Parameters are cast first. Then

    s      meets 6 roundings at most: a cast of γ, one of v and of ε, a sum, a root, an inverse,
           a product;
    apart  s z meets 8, s μ 9, β 2 before the last sum, which rounds once whatever is there;
    folded the products s W h meet n + 8 and s b meets n + 9, where W h + b alone meets n + 1;
           s μ meets n + 10, β n + 3: in a sum in any order β may be what it starts with.

Where μ = 0 and v + ε = 1 are numbers of the format, differences from 0 and quotients by 1 are
exact: s is γ, so that γ z meets 2, β 1; folded n + 3 and n + 2. Where γ and β are, too, no cast
rounds: γ z meets 1, β none; folded n + 2 and n + 1. Every term of a result with k
roundings is itself times a product of k factors (1 + δ)^±1, which is within γ_k of 1
(accumulated-rounding).
Hence, with G = |s| (|W||h| + |b|),

    |fl(N) − N|  ≤  E + u (|N| + E),    E = γ_8 |s z| + γ_9 |s μ| + γ_2 |β|          (apart)
    |fl(N) − N|  ≤  γ_{n+9} G + γ_{n+10} |s μ| + γ_{n+3} |β|                         (folded)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import isqrt
from typing import Any

from proofs_check.core import (
    Counterexample,
    Effort,
    Finding,
    Method,
    Negative,
    Statement,
    by,
)
from proofs_check.statements.certificates.accumulated_rounding import gamma, nearest

ZERO, ONE = Fraction(0), Fraction(1)


@dataclass(frozen=True)
class Counts:
    """Roundings: apart of s z, s μ and β before the last sum; folded beyond the n + 1 of a sum."""

    scaled: int
    centre: int
    shift: int
    folded: int


@dataclass(frozen=True)
class Rule:
    """What is counted for a norm, for one with μ = 0 and v + ε = 1, and for such a one whose γ and
    β are numbers of the format."""

    any_norm: Counts = Counts(scaled=8, centre=9, shift=2, folded=8)
    gamma_alone: Counts = Counts(scaled=2, centre=0, shift=1, folded=2)
    gamma_held: Counts = Counts(scaled=1, centre=0, shift=0, folded=1)
    last: int = 1  # roundings of the last sum
    bias_meets: int = 1  # whether a folded shift meets the sums that the products meet

    def counts(self, alone: bool, held: bool) -> Counts:
        if not alone:
            return self.any_norm
        return self.gamma_held if held else self.gamma_alone

    def apart(self, case: Case, held: bool, z: Fraction, u: Fraction) -> Fraction:
        c, s = self.counts(case.alone, held), case.scale
        error = gamma(c.scaled, u) * abs(s * z) + gamma(c.centre, u) * abs(s * case.mean)
        error += gamma(c.shift, u) * abs(case.beta)
        return error + self.last * u * (abs(case.value(z)) + error)

    def folded(self, case: Case, held: bool, u: Fraction) -> Fraction:
        c, n = self.counts(case.alone, held), len(case.terms)
        sums = (n + 1) * self.bias_meets
        gross = sum((abs(w * h) for w, h in case.terms), abs(case.bias))
        error = gamma(n + 1 + c.folded, u) * abs(case.scale) * gross
        error += gamma(sums + c.centre, u) * abs(case.scale * case.mean)
        return error + gamma(sums + c.shift, u) * abs(case.beta)


@dataclass(frozen=True)
class Case:
    """One unit: a map's row, and a norm whose deviation √(v + ε) is rational."""

    terms: tuple[tuple[Fraction, Fraction], ...]
    bias: Fraction
    gamma: Fraction
    mean: Fraction
    deviation: Fraction
    eps: Fraction
    beta: Fraction

    @property
    def alone(self) -> bool:
        return self.mean == 0 and self.deviation == 1

    @property
    def scale(self) -> Fraction:
        return self.gamma / self.deviation

    @property
    def z(self) -> Fraction:
        return sum((w * h for w, h in self.terms), self.bias)

    def value(self, z: Fraction) -> Fraction:
        return self.scale * (z - self.mean) + self.beta


@dataclass(frozen=True)
class Rounded:
    """Numbers of a format, every operation rounded to nearest."""

    bits: int
    tiny: Fraction = Fraction(1, 2**60)

    def cast(self, x: Fraction) -> Fraction:
        return nearest(x, self.bits, self.tiny)

    def add(self, x: Fraction, y: Fraction) -> Fraction:
        return self.cast(x + y)

    def mul(self, x: Fraction, y: Fraction) -> Fraction:
        return self.cast(x * y)

    def sub(self, x: Fraction, y: Fraction) -> Fraction:
        return self.cast(x - y)

    def div(self, x: Fraction, y: Fraction) -> Fraction:
        return self.cast(x / y)

    def root(self, x: Fraction) -> Fraction:
        return self.cast(Fraction(isqrt(x.numerator * 4**80 // x.denominator), 2**80))


Meets = Mapping[str, int] | None  # by term the roundings that it met; None is the number 0


class Counting:
    """The same operations on counts: a product meets what both factors met, a sum one more."""

    def cast(self, x: Meets) -> Meets:
        return None if x is None else {term: n + 1 for term, n in x.items()}

    def add(self, x: Meets, y: Meets) -> Meets:
        if x is None or y is None:
            return x if y is None else y
        return {t: 1 + max(m.get(t, 0) for m in (x, y)) for t in (*x, *y)}

    def sub(self, x: Meets, y: Meets) -> Meets:
        return self.add(x, y)

    def mul(self, x: Meets, y: Meets) -> Meets:
        if x is None or y is None:
            return None
        if not x or not y:
            return x or y
        return {a + b: 1 + m + n for a, m in x.items() for b, n in y.items()}

    def div(self, x: Meets, y: Meets) -> Meets:
        return x if y == {} else self.mul(x or {"": 0}, y)

    def root(self, x: Meets) -> Meets:
        return self.cast(x)


def scales(op: Any, g: Any, deviation: Any, one: Any) -> Iterator[Any]:
    """s = γ/√(v + ε), at once or by an inverse."""
    yield op.div(g, deviation)
    yield op.mul(g, op.div(one, deviation))


def apart(op: Any, z: Any, g: Any, m: Any, deviation: Any, beta: Any, one: Any) -> Iterator[Any]:
    """The formula in its orders, and a scale and a shift computed first."""
    centred = op.sub(z, m)
    yield op.add(op.mul(g, op.div(centred, deviation)), beta)
    yield op.add(op.mul(g, op.mul(centred, op.div(one, deviation))), beta)
    for s in scales(op, g, deviation, one):
        yield op.add(op.mul(s, centred), beta)
        yield op.add(op.mul(s, z), op.sub(beta, op.mul(s, m)))


def folded(
    op: Any, terms: Any, b: Any, g: Any, m: Any, deviation: Any, beta: Any, one: Any
) -> Iterator[Any]:
    """One sum of products with s W and a bias, which comes first or last."""
    for s in scales(op, g, deviation, one):
        products = [op.mul(op.mul(s, w), h) for w, h in terms]
        shift = op.sub(beta, op.mul(s, m))
        for bias in (
            op.add(op.mul(s, op.sub(b, m)), beta),
            op.add(op.mul(s, b), shift),
        ):
            for leaves in ([bias, *products], [*products, bias]):
                total = leaves[0]
                for leaf in leaves[1:]:
                    total = op.add(total, leaf)
                yield total


def _judge(rule: Rule, case: Case, bits: int) -> int:
    """Every way of one unit in a format against the two bounds."""
    op, u = Rounded(bits), Fraction(1, 2**bits)
    variance = case.deviation**2 - case.eps
    g, m, v, eps, beta = map(op.cast, (case.gamma, case.mean, variance, case.eps, case.beta))
    deviation, count = op.root(op.add(v, eps)), 0
    if case.alone and (v, eps) != (variance, case.eps):
        return 0
    known, z = (g, m, deviation, beta, ONE), op.cast(case.z)
    held = (g, beta) == (case.gamma, case.beta)
    ways = (
        ("apart", apart(op, z, *known), case.value(z), rule.apart(case, held, z, u)),
        (
            "folded",
            folded(op, case.terms, case.bias, *known),
            case.value(case.z),
            rule.folded(case, held, u),
        ),
    )
    for way, results, true, bound in ways:
        for found in results:
            count += 1
            if abs(found - true) > bound:
                raise Counterexample(
                    f"{case} in {bits} bits, {way}: {found}, off by {float(abs(found - true)):g}, "
                    f"more than {float(bound):g}"
                )
    return count


@by(Method.RATIONAL)
def a_shift_that_a_sum_starts_with(rule: Rule, effort: Effort) -> Finding:
    """Products too small to move a large shift, one after the other, and other hard sums."""
    count, bits = 0, 11
    for n in (1, 2, 30, effort.choose(60, 100)):
        for share, mean, deviation in product(
            (Fraction(3, 8), Fraction(5, 8), Fraction(-3, 8)),
            (ZERO, Fraction(1, 3)),
            (ONE, ONE / 3),
        ):
            terms = ((share / 2**bits, ONE),) * n
            for scale, beta in ((ONE, ONE), (Fraction(2, 3), Fraction(-5, 7))):
                eps = Fraction(1, 2**6)
                count += _judge(rule, Case(terms, ZERO, scale, mean, deviation, eps, beta), bits)
    return Finding(f"11 bits, n ≤ {n}, {count} evaluations", "β first, products below half a unit")


@by(Method.EXHAUSTIVE)
def every_norm_of_a_small_format(rule: Rule, effort: Effort) -> Finding:
    """6 bits: some thousand norms, parameters in the format and not, after 1 product and 2."""
    bits, count = 6, 0
    few = effort.choose(2, 5)
    values = [Fraction(i, 24) for i in (-37, -11, 5, 29, 43)][:few]
    held = [Fraction(i, 32) for i in (37, -43)]  # numbers of the format
    for w, (h, b) in product(values, ((ONE, Fraction(21, 32)), (Fraction(39, 32), ZERO))):
        known = nearest(w, bits, Fraction(1, 2**60))  # what a map was cast to
        for g, mean, deviation, beta in product(
            (*values, *held),
            (ZERO, *values[:2]),
            (ONE, Fraction(5, 3), Fraction(1, 7)),
            (*values, *held),
        ):
            eps = Fraction(1, 32) if deviation == 1 else Fraction(1, 100)
            for terms in (((known, h),), ((known, h), (known / 2, -h))):
                count += _judge(rule, Case(terms, b, g, mean, deviation, eps, beta), bits)
    return Finding(f"6 bits, n ≤ 2, {count} evaluations", "three ways, each in all its orders")


@by(Method.STEP)
def roundings_of_every_term(rule: Rule, effort: Effort) -> Finding:
    """The same programs run on counts: no term meets more roundings than the rule counts."""
    top, op = effort.choose(30, 100), Counting()
    kinds = ((False, False), (True, False), (True, True))
    for (alone, held), n in product(kinds, range(1, top + 1)):
        c = rule.counts(alone, held)
        deviation = {} if alone else op.root(op.add(op.cast({"": 0}), op.cast({"": 0})))
        g, beta = ({"": 0}, {"beta": 0}) if held else (op.cast({"": 0}), op.cast({"beta": 0}))
        mean = None if alone else op.cast({"mean": 0})
        known: tuple[Meets, ...] = (g, mean, deviation, beta, {})
        before = {"z": c.scaled, "mean": c.centre, "beta": c.shift}
        _within(apart(op, {"z": 0}, *known), before, rule.last, f"apart, {alone=}, {held=}")
        sums = (n + 1) * rule.bias_meets
        meets = {"b": n + 1 + c.folded, "mean": sums + c.centre, "beta": sums + c.shift}
        meets["h"] = n + 1 + c.folded
        terms = (({"": 0}, {"h": 0}),) * n
        _within(folded(op, terms, {"b": 0}, *known), meets, 0, f"folded, {n=}, {alone=}, {held=}")
    return Finding(f"counted for n ≤ {top}", "each count is n plus a constant")


def _within(found: Iterator[Meets], most: Mapping[str, int], last: int, where: str) -> None:
    for meets in found:
        for term, count in (meets or {}).items():
            if count > most[term] + last:
                raise Counterexample(
                    f"{where}: {term} meets {count}, counted {most[term]} + {last}"
                )


NORM_ROUNDING = Statement(
    name="norm-rounding",
    claim="A norm s(z − μ) + β, s = γ/√(v + ε), behind a map of n products errs by at most "
    "E + u(|N| + E), E = γ_8|s z| + γ_9|s μ| + γ_2|β|, where it is evaluated by itself, and by "
    "γ_{n+9}|s|(|W||h| + |b|) + γ_{n+10}|s μ| + γ_{n+3}|β| where it is folded into the map; with "
    "μ = 0 and v + ε = 1 by E = γ_2|s z| + γ_1|β|, and γ_{n+3}|s|(|W||h| + |b|) + γ_{n+2}|β|, each "
    "count one less where γ and β are numbers of the format.",
    hypotheses=(
        "rounding to nearest, nothing underflows or overflows",
        "v ≥ 0 and ε ≥ 0, so that v + ε cancels nothing",
        "a root that is correctly rounded, as IEEE 754 asks",
        "the map's weights and bias are numbers of the format",
        "(n + 10)·u ≤ 1/2",
    ),
    paper="not in the paper, which computes in real numbers",
    depends_on=("accumulated-rounding", "norm-is-affine"),
    subject=Rule(),
    checks=(
        a_shift_that_a_sum_starts_with,
        every_norm_of_a_small_format,
        roundings_of_every_term,
    ),
    negatives=(
        Negative("a folded shift counted as if it were added last", Rule(bias_meets=0)),
        Negative("the last sum forgotten", Rule(last=0)),
        Negative(
            "every norm counted as if v + ε were 1",
            Rule(any_norm=Counts(scaled=2, centre=0, shift=1, folded=2)),
        ),
        Negative(
            "numbers that are cast counted as if the format had them",
            Rule(gamma_alone=Counts(scaled=1, centre=0, shift=0, folded=1)),
        ),
        Negative(
            "the product with γ forgotten",
            Rule(gamma_held=Counts(scaled=0, centre=0, shift=0, folded=0)),
        ),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (NORM_ROUNDING,)
