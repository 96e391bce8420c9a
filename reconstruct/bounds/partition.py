"""A box divided into smaller ones: the partition as a value, and the branch and bound to find it.

A partition is a tree of halves, written in preorder, one byte per node: 0 for a box of the
partition, i + 1 for a box that is halved along coordinate i, its lower half first. Two halves
share their face, so the boxes always cover the domain, whatever the bytes say: a partition needs
no proof.

Rests on proofs_check: partition-covers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reconstruct.errors import InputError
from reconstruct.networks import Box
from reconstruct.numbers.arrays import Array, Range

MOST_INPUTS = 254  # coordinates that a byte can name


@dataclass(frozen=True)
class Partition:
    """A box of `inputs` coordinates divided into smaller ones, as bytes in preorder."""

    inputs: int
    code: bytes = b"\x00"

    def __post_init__(self) -> None:
        if not 1 <= self.inputs <= MOST_INPUTS:
            raise InputError(
                f"a partition needs 1 to {MOST_INPUTS} inputs, but there are {self.inputs}"
            )
        missing = 1
        for place, byte in enumerate(self.code):
            if missing == 0 or byte > self.inputs:
                raise InputError(
                    f"byte {place} of the partition must be at most {self.inputs} and part of its "
                    f"tree, but is {byte}"
                )
            missing += 1 if byte else -1
        if missing:
            raise InputError(f"the partition lacks {missing} of its boxes")

    @property
    def count(self) -> int:
        """How many boxes there are."""
        return self.code.count(0)

    def boxes(self, box: Box) -> Range:
        """Lower and upper ends of the boxes, (boxes, inputs) each, in preorder."""
        lows, highs = [], []
        stack = [(box.lo.copy(), box.hi.copy())]
        for byte in self.code:
            lo, hi = stack.pop()
            if byte == 0:
                lows.append(lo)
                highs.append(hi)
                continue
            below, above = halves(lo[None], hi[None], np.array([byte - 1]))
            stack.append((below[1], above[1]))
            stack.append((below[0], above[0]))
        return np.array(lows), np.array(highs)

    def __repr__(self) -> str:
        return f"Partition({self.inputs} inputs, {self.count} boxes)"


def halves(lo: Array, hi: Array, axis: Array) -> Range:
    """Each box halved along its own coordinate: lower and upper half alternate.

    The middle is a float between the ends, the same one for both halves.
    """
    rows = np.arange(len(lo))
    middle = 0.5 * lo[rows, axis] + 0.5 * hi[rows, axis]
    below, above = np.repeat(lo, 2, axis=0), np.repeat(hi, 2, axis=0)
    above[2 * rows, axis] = middle
    below[2 * rows + 1, axis] = middle
    return below, above


Objective = Callable[[Array, Array], tuple[Array, Array]]


class BranchAndBound:
    """Boxes that cover a domain, each with what an objective says of it.

    The objective takes boxes (boxes, inputs) and gives of each its `excess`, how far it is from
    what is wanted, and its `axis`, the coordinate to halve it along. Boxes that it has not seen
    yet have an infinite excess and the axis −1: they are looked at as they are, before any is
    halved. A half is never worse than the box that it comes from.
    """

    def __init__(self, lo: Array, hi: Array) -> None:
        self.lo, self.hi = lo, hi
        self.excess, self.axis = np.full(len(lo), np.inf), np.full(len(lo), -1)
        self.evaluated, self._roots = 0, len(lo)
        self._node = np.arange(len(lo))  # which node of the forest each box is
        self._halved, self._child = [-1] * len(lo), [0] * len(lo)

    def worst(self, enough: float, count: int) -> Array:
        """The numbers of at most `count` boxes with the largest excess above `enough`: only fresh
        ones, or only ones that can be halved."""
        open_boxes = np.flatnonzero(~(self.excess <= enough))
        fresh = open_boxes[self.axis[open_boxes] < 0]
        some = fresh
        if not len(fresh):  # where a float lies between the ends of the coordinate to halve
            lo, hi = (end[open_boxes, self.axis[open_boxes]] for end in (self.lo, self.hi))
            middle = 0.5 * lo + 0.5 * hi
            some = open_boxes[(lo < middle) & (middle < hi)]
        if len(some) > count:
            some = some[np.argpartition(-self.excess[some], count - 1)[:count]]
        return some

    def advance(self, objective: Objective, chosen: Array) -> None:
        """Looks at fresh boxes as they are, or halves the others, at least one. Where the objective
        raises, nothing has changed."""
        if self.axis[chosen[0]] < 0:
            self.excess[chosen], self.axis[chosen] = objective(self.lo[chosen], self.hi[chosen])
            self.evaluated += len(chosen)
            return
        axes = self.axis[chosen]
        lo, hi = halves(self.lo[chosen], self.hi[chosen], axes)
        excess, axis = objective(lo, hi)
        excess = np.minimum(excess, np.repeat(self.excess[chosen], 2))
        self.evaluated += len(lo)
        keep = np.ones(len(self.lo), dtype=bool)
        keep[chosen] = False
        nodes = self._grow(self._node[chosen], axes)
        self.lo, self.hi = np.concatenate([self.lo[keep], lo]), np.concatenate([self.hi[keep], hi])
        self.excess = np.concatenate([self.excess[keep], excess])
        self.axis = np.concatenate([self.axis[keep], axis])
        self._node = np.concatenate([self._node[keep], nodes])

    def _grow(self, nodes: Array, axes: Array) -> Array:
        """Halves nodes of the forest; returns the numbers of the halves, in the order of
        `halves`."""
        first = len(self._halved)
        for place, (node, axis) in enumerate(zip(nodes.tolist(), axes.tolist(), strict=True)):
            self._halved[node] = axis
            self._child[node] = first + 2 * place
        self._halved.extend([-1] * (2 * len(nodes)))
        self._child.extend([0] * (2 * len(nodes)))
        return np.arange(first, first + 2 * len(nodes))

    def partition(self) -> Partition:
        """How the only box was divided."""
        return Partition(self.lo.shape[1], bytes(self.forest()))

    def forest(self) -> list[int]:
        """How all boxes were divided, one after the other, each in preorder."""
        code, stack = [], list(range(self._roots))[::-1]
        while stack:
            node = stack.pop()
            code.append(self._halved[node] + 1)
            if self._halved[node] >= 0:
                stack.extend((self._child[node] + 1, self._child[node]))
        return code
