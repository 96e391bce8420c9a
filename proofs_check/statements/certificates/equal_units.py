"""Pairing: two units whose inputs are multiples of one another, but for a small rest.

Let z_i = c z_j + δ and σ the ReLU, which is positively homogeneous: σ(c z) = c σ(z) for c ≥ 0 and
σ(c z) = |c| σ(−z) = |c| (σ(z) − z) for c < 0. It is monotone and 1-Lipschitz, so that

    r = σ(c z_j + δ) − σ(c z_j)   lies between min(0, δ) and max(0, δ),
    c ≥ 0:  σ(z_i) = c σ(z_j) + r,          c < 0:  σ(z_i) = |c| (σ(z_j) − z_j) + r.

What two networks share then cancels in the linear bounds of their difference, whatever the order
and the scale of their units, and only r, as small as δ, is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

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


def shared(c: Any, z: Any, value: Any) -> Any:
    """What the partner says of σ(c z), from z and σ(z)."""
    return c * value if c >= 0 else -c * (value - z)


@dataclass(frozen=True)
class Pairing:
    """The activation, the shared part, and the range of what is left."""

    sigma: Callable[[Any], Any] = lambda z: max(z, 0)
    shared: Callable[[Any, Any, Any], Any] = shared
    rest: Callable[[Any], tuple[Any, Any]] = lambda d: (min(d, 0), max(d, 0))


@by(Method.EXHAUSTIVE)
def rest_stays_between(claim: Pairing, effort: Effort) -> Finding:
    """All c, z, δ of a grid of fractions: σ(c z + δ) − shared part within its range."""
    steps = effort.choose(7, 13)
    grid = [Fraction(i, 3) for i in range(-steps, steps + 1)]
    for c, z, d in product(grid, repeat=3):
        r = claim.sigma(c * z + d) - claim.shared(c, z, claim.sigma(z))
        low, high = claim.rest(d)
        if not low <= r <= high:
            raise Counterexample(
                f"c={c}, z_j={z}, δ={d}: σ(z_i) − shared part = {r}, outside of [{low}, {high}]"
            )
    return Finding(f"c, z, δ in thirds up to {grid[-1]}", f"all {len(grid) ** 3} triples")


@by(Method.STEP)
def signs_in_symbols(claim: Pairing, effort: Effort) -> Finding:
    """Homogeneity by the signs of c and z; r by the signs of c z and c z + δ: r (δ − r) ≥ 0."""
    p, q = sympy.symbols("p q", positive=True)
    for c, z in product((p, -p), (q, -q)):
        value = z if z == q else 0
        image = c * z if c * z == p * q else 0
        identical(f"σ(c z) for c={c}, z={z}", claim.shared(_Signed(c), z, value), image)
    x, e = sympy.symbols("x e", positive=True)
    cases = {
        "up": (0, e, x + e),
        "down": (x, 0, -x - e),
        "active": (x, x + e, e),
        "idle": (0, 0, e),
    }
    for name, (before, after, d) in cases.items():
        r = after - before
        if sympy.expand(r * (d - r)).is_nonnegative is not True:
            raise Counterexample(f"{name}: r = {r} does not lie between 0 and δ = {d}")
    if claim.rest(Fraction(1)) != (0, 1) or claim.rest(Fraction(-1)) != (-1, 0):
        raise Counterexample(
            f"δ = ±1: ranges {claim.rest(Fraction(1))}, {claim.rest(Fraction(-1))}"
        )
    return Finding(
        "every width: pair by pair", "four signs in symbols; r = δ, 0 or cut at the kink"
    )


class _Signed:
    """±p with p > 0, compared with 0 by its sign."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __ge__(self, zero: int) -> bool:
        return bool(self.value.is_positive)

    def __gt__(self, zero: int) -> bool:
        return bool(self.value.is_positive)

    def __mul__(self, other: Any) -> Any:
        return self.value * other

    def __neg__(self) -> Any:
        return -self.value

    def __abs__(self) -> Any:
        return abs(self.value)


def _clipped(z: Any) -> Any:
    """A ReLU cut off at 1: not homogeneous."""
    return min(max(z, 0), 1)


EQUAL_UNITS = Statement(
    name="equal-units",
    claim="If z_i = c z_j + δ, then σ(z_i) is c σ(z_j) for c ≥ 0, or |c| (σ(z_j) − z_j) for c < 0, "
    "up to a rest between min(0, δ) and max(0, δ).",
    hypotheses=("σ is the ReLU: positively homogeneous, monotone, 1-Lipschitz",),
    paper="not in the paper; the comparison of any two networks rests on it",
    depends_on=("back-substitution",),
    subject=Pairing(),
    checks=(rest_stays_between, signs_in_symbols),
    negatives=(
        Negative("c < 0 treated as c > 0", Pairing(shared=lambda c, z, value: c * value)),
        Negative("the rest taken to be δ itself", Pairing(rest=lambda d: (d, d))),
        Negative("the rest taken to be positive", Pairing(rest=lambda d: (0, abs(d)))),
        Negative("an activation that is cut off at 1", Pairing(sigma=_clipped)),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (EQUAL_UNITS,)
