"""Branch and bound with shared symbols: boxes cut in halves, values as linear forms in symbols.

On one box a value is enclosed by v = centre + Σ_e form_e ε_e with |ε_e| ≤ 1, the ε of the inputs
x = mid + half·ε first. A linear map acts on centre and forms alike, and a sum adds them: what two
values share cancels. An activation with slope·z + low ≤ f(z) ≤ slope·z + high on the unit's range
lies within slope·v + (low + high)/2 + (high − low)/2·ε', ε' a *new* symbol of this unit alone. So
for every x of the box some choice of the symbols gives all values at once, by induction over the
layers, and |v − centre| ≤ Σ|form_e|. Halves share their middle, so that the leaves of any tree of
cuts cover the box, and the worst over the leaves bounds the value on it.
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
from proofs_check.symbols import identical

Box = tuple[Matrix, Matrix]
Tube = tuple[Any, Any, Any]


def relu_tube(lo: Any, hi: Any) -> Tube:
    """`(slope, low, high)` around max(z, 0) on [lo, hi]: the chord's slope."""
    if lo >= 0 or hi <= 0:
        return Fraction(int(hi > 0)), Fraction(0), Fraction(0)
    slope = hi / (hi - lo)
    return slope, Fraction(0), -slope * lo


def own_symbols(forms: Matrix, halves: Matrix) -> Matrix:
    """One new symbol for each unit: forms (symbols, units) with a diagonal below."""
    return np.concatenate([forms, np.diag(halves)])


def one_symbol(forms: Matrix, halves: Matrix) -> Matrix:
    """One new symbol for all units of a layer."""
    return np.concatenate([forms, halves[None]])


def halved(box: Box, coordinate: int) -> list[Box]:
    """Both halves of a box, cut at the middle of a coordinate."""
    (lo, hi), middle = box, (box[0][coordinate] + box[1][coordinate]) / 2
    below, above = hi.copy(), lo.copy()
    below[coordinate] = above[coordinate] = middle
    return [(lo, below), (above, hi)]


@dataclass(frozen=True)
class Symbols:
    """The tube around the activation, how its gap becomes symbols, and how a box is cut."""

    tube: Callable[[Any, Any], Tube] = relu_tube
    widen: Callable[[Matrix, Matrix], Matrix] = own_symbols
    cut: Callable[[Box, int], list[Box]] = halved

    def bounds(self, maps: list[tuple[Matrix, Matrix]], box: Box) -> Box:
        """Bounds of the last affine value on one box."""
        centre = (box[0] + box[1]) / 2
        forms = np.diag((box[1] - box[0]) / 2)
        for depth, (W, b) in enumerate(maps):
            centre, forms = W @ centre + b, forms @ W.T
            spread = abs(forms).sum(axis=0)
            if depth + 1 < len(maps):
                ends = zip(centre - spread, centre + spread, strict=True)
                slope, low, high = np.array([self.tube(*pair) for pair in ends], dtype=object).T
                centre = slope * centre + (low + high) / 2
                forms = self.widen(forms * slope, (high - low) / 2)
        return centre - spread, centre + spread


@by(Method.RATIONAL)
def no_value_leaves_its_bounds(claim: Symbols, effort: Effort) -> Finding:
    """Random networks 2-3-3-1 and random trees of cuts: every point within the worst leaf."""
    rng = np.random.default_rng(76)
    count = effort.choose(20, 100)
    box = exact.matrix([[-1, -2]])[0], exact.matrix([[2, 1]])[0]
    for _ in range(count):
        shapes = ((3, 2), (3, 3), (1, 3))
        maps = [
            (exact.integers(rng, m, k, bound=3), exact.integers(rng, m, bound=3)) for m, k in shapes
        ]
        leaves = [box]
        for _ in range(4):
            leaves += claim.cut(leaves.pop(int(rng.integers(len(leaves)))), int(rng.integers(2)))
        found = [claim.bounds(maps, leaf) for leaf in leaves]
        low, high = min(pair[0][0] for pair in found), max(pair[1][0] for pair in found)
        for x in [*inside(*box), *(p for leaf in leaves for p in inside(*leaf))]:
            v = x
            for W, b in maps[:-1]:
                v = relu(W @ v + b)
            (value,) = maps[-1][0] @ v + maps[-1][1]
            if not low <= value <= high:
                shown = "; ".join(f"W={exact.show(W)}, b={exact.show(b)}" for W, b in maps)
                raise Counterexample(
                    f"x={exact.show(x)}: the value {value} lies outside of [{low}, {high}], the "
                    f"worst of {len(leaves)} leaves ({shown})"
                )
    return Finding(f"{count} networks 2-3-3-1, 5 leaves each", "values within, in rationals")


@by(Method.STEP)
def one_unit_and_one_cut(claim: Symbols, effort: Effort) -> Finding:
    """The tube holds f at every point of a grid; the new form spans it; the halves cover."""
    slope, low, high, z, e = sympy.symbols("slope low high z e", real=True)
    spanned = slope * z + (low + high) / 2 + (high - low) / 2 * e
    identical("upper end of the tube, ε' = 1", spanned.subs(e, 1), slope * z + high)
    identical("lower end of the tube, ε' = −1", spanned.subs(e, -1), slope * z + low)
    for left, width, part in product(range(-4, 4), range(7), range(7)):
        lo, hi = Fraction(left), Fraction(left + width)
        point = lo + (hi - lo) * Fraction(part, 6)
        a, down, up = claim.tube(lo, hi)
        if not a * point + down <= max(point, Fraction(0)) <= a * point + up:
            raise Counterexample(
                f"z={point} in [{lo}, {hi}]: σ(z) is not in {a}·z + [{down}, {up}]"
            )
    box = exact.matrix([[-1, 0]])[0], exact.matrix([[1, 3]])[0]
    for coordinate, x in product(range(2), inside(*box)):
        parts = claim.cut(box, coordinate)
        if not any((lo <= x).all() and (x <= hi).all() for lo, hi in parts):
            raise Counterexample(f"x={exact.show(x)} is in no part of the box")
    return Finding("induction", "the tube at 392 points, halves that cover")


SYMBOLS = Statement(
    name="shared-symbols",
    claim="On each leaf of a tree of cuts, centre ± Σ|forms| bounds a value that is carried as a "
    "linear form in shared symbols; the worst over the leaves bounds it on the box.",
    hypotheses=("every bent unit has a symbol of its own", "the leaves cover the box"),
    paper="not in the paper; ranges by branch and bound rest on it",
    depends_on=("active-relu-is-identity", "partition-covers"),
    subject=Symbols(),
    checks=(no_value_leaves_its_bounds, one_unit_and_one_cut),
    negatives=(
        Negative("one symbol for all units of a layer", Symbols(widen=one_symbol)),
        Negative("the gap of a bent unit forgotten", Symbols(widen=lambda forms, halves: forms)),
        Negative(
            "half of the gap",
            Symbols(tube=lambda lo, hi: (*relu_tube(lo, hi)[:2], relu_tube(lo, hi)[2] / 2)),
        ),
        Negative("the upper half of each cut lost", Symbols(cut=lambda b, i: halved(b, i)[:1])),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (SYMBOLS,)
