"""Partitions: the boxes at the end of a tree of cuts cover the box that was cut.

A cut at a place of one coordinate gives the part below and the part above, and both keep the face
between them: x_i ≤ place or x_i ≥ place. By induction over the tree every x of the box lies in some
box at its end, in any number of dimensions; so what is shown on each of them is shown on the box.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

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

Box = tuple[Matrix, Matrix]


def replaced(v: Matrix, i: int, value: Any) -> Matrix:
    out = v.copy()
    out[i] = value
    return out


@dataclass(frozen=True)
class Cutting:
    """Both parts of a box that is cut at a place of a coordinate."""

    below: Callable[[Box, int, Any], Box] = lambda box, i, at: (box[0], replaced(box[1], i, at))
    above: Callable[[Box, int, Any], Box] = lambda box, i, at: (replaced(box[0], i, at), box[1])


@by(Method.STEP)
def every_point_is_kept(claim: Cutting, effort: Effort) -> Finding:
    """Random trees of cuts: points, and the places cut at, are kept."""
    rng, count = np.random.default_rng(79), effort.choose(40, 200)
    for trial in range(count):
        size = 1 + trial % 4
        whole = exact.integers(rng, size, bound=0), exact.integers(rng, size, bound=0) + 8
        boxes, places = [whole], [Fraction(i) for i in range(9)]
        for _ in range(5):
            box, i = boxes.pop(int(rng.integers(len(boxes)))), int(rng.integers(size))
            at = box[0][i] + (box[1][i] - box[0][i]) * Fraction(int(rng.integers(1, 8)), 8)
            boxes += [claim.below(box, i, at), claim.above(box, i, at)]
            places += [at, at - Fraction(1, 1000), at + Fraction(1, 1000)]
        for _ in range(30):
            x = np.array([places[int(rng.integers(len(places)))] for _ in range(size)])
            x = np.minimum(np.maximum(x, whole[0]), whole[1])
            if not any((lo <= x).all() and (x <= hi).all() for lo, hi in boxes):
                raise Counterexample(f"x={exact.show(x)} lies in none of {len(boxes)} parts")
    return Finding(f"{count} trees of 5 cuts, to 4 dimensions", "30 points each, faces among them")


PARTITION = Statement(
    name="partition-covers",
    claim="The boxes at the end of any tree of cuts cover the box that was cut: what holds on each "
    "of them holds on the whole.",
    hypotheses=("both parts of a cut are kept, and both keep the face between them",),
    paper="not in the paper; every bound by branch and bound rests on it",
    depends_on=(),
    subject=Cutting(),
    checks=(every_point_is_kept,),
    negatives=(
        Negative("the part above lost", Cutting(above=lambda box, i, at: (box[1], box[1]))),
        Negative(
            "a gap at the face",
            Cutting(above=lambda box, i, at: (replaced(box[0], i, at + Fraction(1, 500)), box[1])),
        ),
    ),
    formal=Formal("partition_covers", "partition_covers", Cutting()),
)

STATEMENTS: tuple[Statement[Any], ...] = (PARTITION,)
