"""CROWN's duality: linear bounds carried back from an output to the input stay bounds.

Let lower(z) = a z + b ≤ σ(z) ≤ c z + d = upper(z) for lo ≤ z ≤ hi. For any row Λ of coefficients

    Λ·σ(z) = Σ_{Λ_j ≥ 0} Λ_j σ(z_j) + Σ_{Λ_j < 0} Λ_j σ(z_j)
           ≥ Σ_{Λ_j ≥ 0} Λ_j (a_j z_j + b_j) + Σ_{Λ_j < 0} Λ_j (c_j z_j + d_j),

because Λ_j (σ − lower) and −Λ_j (upper − σ) are products of two non-negative numbers. The right
side is linear in z = W v + bias, and so in the layer before: by induction Λ·σ(z) ≥ Λ'·x + const
for every x of the box, whose least value there is found coordinate by coordinate. For a ReLU with
lo < 0 < hi the chord from (lo, 0) to (hi, hi) is above and any line a z with 0 ≤ a ≤ 1 is below.
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
    Formal,
    Method,
    Negative,
    Statement,
    by,
)
from proofs_check.exact import Matrix
from proofs_check.statements.theorem_1_wide.layers import inside, relu

Line = tuple[Any, Any]


def below_relu(lo: Any, hi: Any) -> Line:
    """Slope and height of a line below max(z, 0) on [lo, hi]: the nearer one of 0 and z."""
    return (Fraction(1), Fraction(0)) if hi > -lo else (Fraction(0), Fraction(0))


def above_relu(lo: Any, hi: Any) -> Line:
    """The chord of max(z, 0) over [lo, hi]."""
    if lo >= 0 or hi <= 0:
        return Fraction(int(hi > 0)), Fraction(0)
    slope = hi / (hi - lo)
    return slope, -slope * lo


@dataclass(frozen=True)
class Duality:
    """The lines, and which of them a coefficient meets."""

    lower: Callable[[Any, Any], Line] = below_relu
    upper: Callable[[Any, Any], Line] = above_relu
    meets: Callable[[Any, Line, Line], Line] = lambda c, low, up: low if c >= 0 else up
    range: Callable[[Matrix, Matrix], tuple[Matrix, Matrix]] = lambda lo, hi: (lo, hi)

    def step(self, form: Matrix, const: Any, lo: Matrix, hi: Matrix) -> tuple[Matrix, Any]:
        """Coefficients of σ(z) to coefficients of z, lo ≤ z ≤ hi."""
        lo, hi = self.range(lo, hi)
        lines = [
            self.meets(c, self.lower(a, b), self.upper(a, b))
            for c, a, b in zip(form, lo, hi, strict=True)
        ]
        slopes = np.array([slope for slope, _ in lines], dtype=object)
        heights = np.array([height for _, height in lines], dtype=object)
        return form * slopes, const + form @ heights


def least(form: Matrix, lo: Matrix, hi: Matrix) -> Any:
    """The least value of form·x on the box."""
    return sum(min(c * a, c * b) for c, a, b in zip(form, lo, hi, strict=True))


def _bounds(claim: Duality, maps: list[Any], lo: Matrix, hi: Matrix, form: Matrix) -> Any:
    """A lower bound of form·(last affine value): ranges layer by layer, each carried back."""
    ranges: list[tuple[Matrix, Matrix]] = []

    def carried(row: Matrix, depth: int) -> Any:
        const: Any = Fraction(0)
        for i in reversed(range(depth + 1)):
            W, b = maps[i]
            const, row = const + row @ b, row @ W
            if i:
                row, const = claim.step(row, const, *ranges[i - 1])
        return least(row, lo, hi) + const

    for depth, (W, _) in enumerate(maps[:-1]):
        rows = exact.matrix(np.eye(len(W), dtype=int))
        low = np.array([carried(row, depth) for row in rows], dtype=object)
        high = np.array([-carried(-row, depth) for row in rows], dtype=object)
        ranges.append((low, high))
    return carried(form, len(maps) - 1)


@by(Method.RATIONAL)
def below_every_value(claim: Duality, effort: Effort) -> Finding:
    """Random networks 2-3-3-2 with rational weights: no point of the box is below the bound."""
    rng = np.random.default_rng(72)
    count = effort.choose(25, 120)
    lo, hi = exact.matrix([[-1, -2]])[0], exact.matrix([[2, 1]])[0]
    third = [Fraction(i, 6) for i in range(7)]
    grid = [lo + (hi - lo) * np.array(p, dtype=object) for p in product(third, repeat=2)]
    for _ in range(count):
        shapes = ((3, 2), (3, 3), (2, 3))
        maps = [
            (exact.integers(rng, m, k, bound=3), exact.integers(rng, m, bound=3)) for m, k in shapes
        ]
        form = exact.integers(rng, 2, bound=3)
        bound = _bounds(claim, maps, lo, hi, form)
        for x in [*inside(lo, hi), *grid]:
            v = x
            for W, b in maps[:-1]:
                v = relu(W @ v + b)
            value = form @ (maps[-1][0] @ v + maps[-1][1])
            if value < bound:
                shown = "; ".join(f"W={exact.show(W)}, b={exact.show(b)}" for W, b in maps)
                raise Counterexample(
                    f"Λ={exact.show(form)}, x={exact.show(x)}: Λ·f = {value} lies below the bound "
                    f"{bound} ({shown})"
                )
    return Finding(f"{count} networks 2-3-3-2, 55 points each", "bound ≤ value, in rationals")


@by(Method.STEP)
def products_of_signs(claim: Duality, effort: Effort) -> Finding:
    """One unit is every width: Λσ − Λ·line ≥ 0 on a grid of lo, hi, z, Λ; the chord in symbols."""
    p, q, x = sympy.symbols("p q x", positive=True)  # lo = −p, hi = q
    chord = q / (p + q)
    for z, value in ((-x, 0), (x, x)):
        gap = sympy.factor(sympy.expand((chord * (z + p) - value) * (p + q)))
        room = sympy.Symbol("r", nonnegative=True)
        inside_ = gap.subs(p, x + room) if z == -x else gap.subs(q, x + room)
        if sympy.expand(inside_).is_nonnegative is not True:
            raise Counterexample(f"chord − σ at z = {z}: {inside_}")
    for left, width, part, c in product(range(-3, 4), range(6), range(7), (-2, -1, 0, 1, 3)):
        lo, hi = Fraction(left), Fraction(left + width)
        z = lo + (hi - lo) * Fraction(part, 6)
        row, low, high = (np.array([v], dtype=object) for v in (Fraction(c), lo, hi))
        form, const = claim.step(row, Fraction(0), low, high)
        value = c * max(z, Fraction(0))
        if value < form[0] * z + const:
            raise Counterexample(
                f"Λ={c}, z={z} in [{lo}, {hi}]: Λσ(z) = {value} lies below the line's "
                f"{form[0] * z + const}"
            )
    return Finding("units add up", "the chord in symbols, 1470 cases of signs")


DUALITY = Statement(
    name="back-substitution",
    claim="Replacing each σ(z_j) by a line below it where its coefficient is ≥ 0 and by one above "
    "it where it is < 0, back to the input, gives a lower bound on the box.",
    hypotheses=("each line holds on a range that the unit's input cannot leave",),
    paper="not in the paper; the bounds of the target (CROWN) rest on it",
    depends_on=("active-relu-is-identity",),
    subject=Duality(),
    checks=(below_every_value, products_of_signs),
    negatives=(
        Negative("lines exchanged", Duality(meets=lambda c, low, up: up if c >= 0 else low)),
        Negative("the lower line for every coefficient", Duality(meets=lambda c, low, up: low)),
        Negative(
            "lines of the middle half of the range",
            Duality(range=lambda lo, hi: ((3 * lo + hi) / 4, (lo + 3 * hi) / 4)),
        ),
        Negative(
            "the chord without its height",
            Duality(upper=lambda lo, hi: (above_relu(lo, hi)[0], Fraction(0))),
        ),
    ),
    formal=Formal("back_substitution", "back_substitution", Duality()),
)

STATEMENTS: tuple[Statement[Any], ...] = (DUALITY,)
