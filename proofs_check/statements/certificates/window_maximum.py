"""The maximum over a window: how errors and linear bounds pass it.

Let y = max_i z_i. It is monotone, so lo_i ≤ z_i ≤ hi_i gives max lo_i ≤ y ≤ max hi_i. From
z_i ≤ z'_i + |z_i − z'_i| follows y ≤ y' + max|z − z'|, and the same the other way round: y moves
no further than z in the maximum norm. For lines let j be the place with the largest lo_j: y ≥ z_j
always, and y = z_j where hi_i ≤ lo_j for every other i, since then z_i ≤ hi_i ≤ lo_j ≤ z_j.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

Window = Sequence[int]


@dataclass(frozen=True)
class Maximum:
    """What is claimed of y = max z: its error from those of z, and when it is one of them."""

    error: Callable[[Window], int] = max
    settled: Callable[[Window, Window, int], bool] = lambda lo, hi, j: all(
        hi[i] <= lo[j] for i in range(len(lo)) if i != j
    )


@by(Method.EXHAUSTIVE)
def every_small_window(claim: Maximum, effort: Effort) -> Finding:
    """All windows of three places, moved, and of two places between ends, of a few integers."""
    top, count = effort.choose(2, 3), 0
    values = range(-top, top + 1)
    for z, other in product(product(values, repeat=3), repeat=2):
        count += 1
        moved = [abs(a - b) for a, b in zip(z, other, strict=True)]
        if abs(max(z) - max(other)) > claim.error(moved):
            raise Counterexample(
                f"z={z}, z'={other}: the maximum moves by {abs(max(z) - max(other))}, the bound is "
                f"{claim.error(moved)}"
            )
    few = list(product(range(3), repeat=2))
    for lo, width, part in product(list(product(values, repeat=2)), few, few):
        hi = [a + w for a, w in zip(lo, width, strict=True)]
        inner = [a + min(p, w) for a, p, w in zip(lo, part, width, strict=True)]
        j = max(range(2), key=lambda i: lo[i])
        count += 1
        if max(inner) < inner[j] or (claim.settled(lo, hi, j) and max(inner) != inner[j]):
            raise Counterexample(
                f"lo={lo}, hi={hi}, z={inner}: the maximum is {max(inner)}, not z_{j}"
            )
    return Finding(f"windows of 2 and 3 places, integers to {top}", f"all {count} cases")


@by(Method.STEP)
def one_step_for_any_window(claim: Maximum, effort: Effort) -> Finding:
    """max(a, b) of two is enough, by induction: with a' = a + d, b' = b + e in symbols."""
    a, gap, d, e = sympy.symbols("a gap d e", nonnegative=True)
    for shift_a, shift_b in product((d, -d), (e, -e)):
        first, second = a + gap, a  # a + gap is the larger one
        for larger in (first + shift_a, second + shift_b):
            rise = sympy.expand(larger - first)
            if not any((rise - bound).subs(gap, 0).is_nonpositive for bound in (d, e)):
                raise Counterexample(f"max moves by {rise}, neither within {d} nor within {e}")
    for moved in product(range(4), repeat=2):
        if claim.error(moved) < max(moved):
            raise Counterexample(f"errors {moved}: the bound {claim.error(moved)} is too small")
    return Finding("every window: one place after the other", "four signs in symbols, 16 errors")


MAXIMUM = Statement(
    name="window-maximum",
    claim="A maximum over a window moves no further than its values do; it is at least the value "
    "with the largest lower bound, and equal to it where no other can exceed it.",
    hypotheses=("pads take no part, and every window holds a value",),
    paper="not in the paper; max pooling stands in f where it stands in g",
    depends_on=(),
    subject=Maximum(),
    checks=(every_small_window, one_step_for_any_window),
    negatives=(
        Negative("the error of the first value alone", Maximum(error=lambda moved: moved[0])),
        Negative("the mean of the errors", Maximum(error=lambda moved: sum(moved) // len(moved))),
        Negative(
            "settled by the lower bounds alone",
            Maximum(settled=lambda lo, hi, j: all(a <= lo[j] for a in lo)),
        ),
    ),
)

STATEMENTS: tuple[Statement[Any], ...] = (MAXIMUM,)
