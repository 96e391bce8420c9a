"""Exact splitting: matrix products without rounding, on ordinary floating-point hardware.

Cut x with |x| ≤ 2^e into integers of b bits: x = 2^e Σ_p 2^(−b(p+1)) q_p + rest. The first slice
is q_0 = rint(2^(b−e) x), so |q_0| ≤ 2^b; what remains is at most 1/2, and scaled by 2^b at most
2^(b−1): |q_p| ≤ 2^b for all p. After S slices |rest| ≤ 2^(e−bS)/2. A product of two slices is an
integer of at most 2b bits, a sum of 2^t of them at most 2^(2b+t), and so is every partial sum in
any order. Integers up to 2^P are floats of P bits, so with 2b + t ≤ P nothing is ever rounded;
for float64 that is 2·20 + 13 = 53.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ldexp
from typing import Any

import numpy as np
import numpy.typing as npt

from proofs_check.core import (
    Counterexample,
    Effort,
    Finding,
    Method,
    Negative,
    Statement,
    by,
)
from proofs_check.statements.certificates.accumulated_rounding import nearest


def rounded_slices(x: float, exponent: int, bits: int, count: int) -> list[int]:
    """q_0 … of the docstring: each the nearest integer to what is left."""
    slices, rest = [], Fraction(x) / Fraction(2) ** exponent
    for _ in range(count):
        rest *= 2**bits
        whole = round(rest)
        slices.append(whole)
        rest -= whole
    return slices


@dataclass(frozen=True)
class Splitting:
    """Bits of a slice, terms of a sum, and the format that holds the result."""

    bits: int = 20
    terms: int = 2**13
    precision: int = 53
    slices: Callable[[float, int, int, int], list[int]] = rounded_slices

    @property
    def largest(self) -> int:
        """The largest |q_p|."""
        return 1 << self.bits


@by(Method.STEP)
def integers_are_floats(claim: Splitting, effort: Effort) -> Finding:
    """|n| ≤ 2^P is a float of P bits, all n for P ≤ 10; then 2^t·2^b·2^b ≤ 2^P, and 2^P + 1."""
    for bits in range(2, effort.choose(10, 14)):
        for n in range(2**bits + 1):
            if nearest(Fraction(n), bits, Fraction(1)) != n:
                raise Counterexample(f"{n} is not a number of {bits} bits")
    worst = claim.terms * claim.largest**2
    if worst > 2**claim.precision:
        odd = 2**claim.precision + 1
        held = nearest(Fraction(odd), claim.precision, Fraction(1))
        raise Counterexample(
            f"{claim.terms} products of slices of {claim.bits} bits reach {worst} > "
            f"2^{claim.precision}; {odd} would be held as {held}"
        )
    return Finding("every 2b + t ≤ P; all integers for P < 10", f"{worst} ≤ 2^{claim.precision}")


@by(Method.RATIONAL)
def sums_as_the_machine_makes_them(claim: Splitting, effort: Effort) -> Finding:
    """The largest slices and random ones: BLAS and loops against Python's integers."""
    rng, top = np.random.default_rng(73), claim.largest
    kind: Any = np.float64 if claim.precision == 53 else np.float32
    full = np.full(claim.terms, top)
    tipped = full.copy()
    tipped[-1] = 1  # the last product is 1, behind a sum as large as it gets
    draws = [rng.integers(-top, top + 1, claim.terms) for _ in range(effort.choose(6, 30))]
    for x, y in [
        (full, full),
        (tipped, tipped),
        (full, draws[0]),
        *pairwise(draws),
    ]:
        wanted = sum(int(a) * int(b) for a, b in zip(x, y, strict=True))
        for found in _sums(x.astype(kind), y.astype(kind)):
            if int(found) != wanted:
                raise Counterexample(
                    f"{claim.terms} products of integers up to {top}: {kind.__name__} gives "
                    f"{int(found)}, the sum is {wanted}"
                )
    return Finding(f"{len(draws) + 2} sums of {claim.terms} products", "equal by == in two orders")


def _sums(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> tuple[Any, Any]:
    """One after the other, and by BLAS."""
    return np.add.accumulate(x * y)[-1], x @ y


@by(Method.RATIONAL)
def slices_put_together(claim: Splitting, effort: Effort) -> Finding:
    """Σ 2^(e − b(p+1)) q_p is x up to 2^(e − bS)/2, each |q_p| ≤ 2^b, for floats of all sizes."""
    rng = np.random.default_rng(74)
    values = [1.0, 1.0 - 2.0**-53, 0.1, -0.7, *rng.standard_normal(effort.choose(40, 400)).tolist()]
    for x in values:
        exponent = int(np.frexp(x)[1])
        for extra, count in ((0, 3), (0, 5), (30, 5)):
            e = exponent + extra
            parts = claim.slices(x, e, claim.bits, count)
            whole = sum(Fraction(2) ** (e - claim.bits * (p + 1)) * q for p, q in enumerate(parts))
            rest = abs(Fraction(x) - whole)
            if (
                max(map(abs, parts)) > claim.largest
                or rest > Fraction(2) ** (e - claim.bits * count) / 2
            ):
                raise Counterexample(
                    f"x = {x.hex()}, e = {e}: slices {parts} leave {float(rest):.3e}, the bound is "
                    f"{ldexp(0.5, e - claim.bits * count):.3e} with slices up to {claim.largest}"
                )
    return Finding(f"{len(values)} floats, 3 and 5 slices", "equal in rationals up to the rest")


SPLITTING = Statement(
    name="exact-splitting",
    claim="Sums of at most 2^13 products of integer slices of at most 20 bits are exact in "
    "float64, in any order; five slices leave at most 2^(e − 101) of a number below 2^e.",
    hypotheses=("2b + t ≤ P for slices of b bits, 2^t terms and P bits of precision",),
    paper="not in the paper; residuals of the certificate are evaluated by it",
    depends_on=("accumulated-rounding",),
    subject=Splitting(),
    checks=(sums_as_the_machine_makes_them, slices_put_together, integers_are_floats),
    negatives=(
        Negative("slices of 21 bits", Splitting(bits=21)),
        Negative("one term more", Splitting(terms=2**13 + 1)),
        Negative("sums in float32", Splitting(precision=24)),
        Negative(
            "slices cut off at the first, the rest forgotten",
            Splitting(
                slices=lambda x, e, b, n: (
                    [int(Fraction(x) / Fraction(2) ** e * 2**b)] + [0] * (n - 1)
                )
            ),
        ),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (SPLITTING,)
