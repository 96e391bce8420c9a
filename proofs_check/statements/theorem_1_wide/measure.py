"""Why "with probability 1": the zero set of a non-zero polynomial has measure zero.

Induction on the number of variables. Write P(x, t) = Σ c_i(x) t^i in its last variable, c_D the
leading coefficient, D = deg_t P. The zero set lies in {c_D = 0} × R, null by induction, together
with the points where c_D(x) ≠ 0: there each line holds at most D zeros, so by Fubini it is null
too. Base: a non-zero constant has no zero. The same induction with counting in place of measure
is the Schwartz-Zippel bound: at most deg(P)/q of the points of a field of q elements are zeros,
and that can be searched exhaustively. So a random point modulo a prime where P ≠ 0 proves P is
not the zero polynomial; a point where P = 0 proves nothing, and misleads with probability at most
deg(P)/prime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import sympy

from proofs_check.core import (
    Counterexample,
    Effort,
    Finding,
    Method,
    Negative,
    Statement,
    by,
)
from proofs_check.symbols import identical

Coefficients = tuple[int, ...]


@dataclass(frozen=True)
class ZeroSets:
    """Which coefficient vectors count as polynomials to be judged, and how they are evaluated."""

    admits: Callable[[Coefficients], bool]
    evaluate: Callable[[Any, int], Any] = lambda value, prime: value % prime
    bound: Callable[[int, int, int], int] = lambda degree, prime, n: degree * prime ** (n - 1)


def _monomials(variables: int, degree: int) -> list[tuple[int, ...]]:
    """Exponents of total degree at most `degree`."""
    return [e for e in product(range(degree + 1), repeat=variables) if sum(e) <= degree]


@by(Method.EXHAUSTIVE)
def schwartz_zippel_count(family: ZeroSets, effort: Effort) -> Finding:
    """Every polynomial of a small degree over a small field: zeros ≤ degree · q^(n−1)."""
    cases = [(2, 2, 1), (3, 2, 1), (3, 1, 2), (3, 2, 2), *effort.choose((), ((5, 2, 2),))]
    count = 0
    for prime, variables, degree in cases:
        exponents = _monomials(variables, degree)
        points = np.array(list(product(range(prime), repeat=variables)))
        table = np.array([[int(np.prod(x ** np.array(e))) for e in exponents] for x in points])
        for coefficients in product(range(prime), repeat=len(exponents)):
            if not family.admits(coefficients):
                continue
            values = family.evaluate(table @ np.array(coefficients), prime)
            true_degree = max(
                (sum(e) for c, e in zip(coefficients, exponents, strict=True) if c), default=0
            )
            zeros, bound = int((values == 0).sum()), family.bound(true_degree, prime, variables)
            count += 1
            if zeros > bound:
                name = _write(coefficients, exponents)
                raise Counterexample(
                    f"P = {name} over the field of {prime}: {zeros} of {len(points)} points are "
                    f"zeros, more than {bound}"
                )
    return Finding(
        f"fields of 2 to {cases[-1][0]}, ≤ 2 variables", f"all {count} polynomials of degree ≤ 2"
    )


def _write(coefficients: Coefficients, exponents: Sequence[tuple[int, ...]]) -> str:
    variables = sympy.symbols("x y z")
    terms = [
        c * sympy.Mul(*(v**p for v, p in zip(variables, e, strict=False)))
        for c, e in zip(coefficients, exponents, strict=True)
    ]
    return str(sympy.Add(*terms))


@by(Method.SYMBOLIC)
def fubini_induction(family: ZeroSets, effort: Effort) -> Finding:
    """Run the induction on random polynomials: split off the last variable down to a constant.

    Each step checks that the pieces reassemble to P, that the leading coefficient is a non-zero
    polynomial in one variable fewer, and that on a line where it does not vanish P has at most D
    real zeros (counted exactly, by Sturm sequences).
    """
    rng = np.random.default_rng(31)
    variables = sympy.symbols("x1:5")
    count = effort.choose(25, 120)
    exponents = _monomials(3, 3)
    for trial in range(count):
        coefficients = tuple(int(c) for c in rng.integers(-2, 3, len(exponents)))
        if trial == 0:
            coefficients = (0,) * len(exponents)
        if family.admits(coefficients):
            terms = zip(coefficients, exponents, strict=True)
            monomials = (c * sympy.Mul(*map(sympy.Pow, variables[:3], e)) for c, e in terms)
            _descend(sympy.Add(*monomials), list(variables[:3]), rng)
    return Finding(f"{count} runs", "leading coefficients never vanish")


def _descend(polynomial: Any, variables: list[Any], rng: np.random.Generator) -> None:
    """One induction step after another, until a constant is left."""
    if not variables:
        if polynomial == 0:
            raise Counterexample("the zero polynomial: its zero set is the whole space")
        return
    last = variables[-1]
    pieces = sympy.Poly(polynomial, last).all_coeffs()
    degree, leading = len(pieces) - 1, pieces[0]
    rebuilt = sum(c * last ** (degree - i) for i, c in enumerate(pieces))
    identical("P rebuilt from its coefficients", rebuilt, polynomial)
    if sympy.expand(leading) == 0:
        raise Counterexample(f"P = {polynomial} vanishes identically: zero set of full measure")
    point = {v: int(rng.integers(-50, 51)) for v in variables[:-1]}
    if leading.subs(point) != 0:
        line = sympy.Poly(polynomial.subs(point), last)
        if line.count_roots() > degree:
            raise Counterexample(f"{line} has more than {degree} zeros")
    _descend(leading, variables[:-1], rng)


ZERO_SET = Statement(
    name="polynomial-zero-set",
    claim="The zero set of a non-zero polynomial has Lebesgue measure zero; over a field of q "
    "elements it holds at most deg/q of all points.",
    hypotheses=("the polynomial is not the zero polynomial", "it is a polynomial"),
    paper="standard fact behind every 'with probability 1' of Theorems 1 to 3",
    depends_on=(),
    subject=ZeroSets(admits=any),
    checks=(schwartz_zippel_count, fubini_induction),
    negatives=(
        Negative("the zero polynomial admitted", ZeroSets(admits=lambda coefficients: True)),
        Negative(
            "not a polynomial: max(P − 1, 0), flat where P ≤ 1",
            ZeroSets(admits=any, evaluate=lambda value, prime: np.maximum(value % prime - 1, 0)),
        ),
        Negative(
            "a bound one degree too small",
            ZeroSets(admits=any, bound=lambda degree, q, n: max(degree - 1, 0) * q ** (n - 1)),
        ),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (ZERO_SET,)
