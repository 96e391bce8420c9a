"""A box cut into halves, again and again: the tree, its leaves, and how a file keeps it.

A tree is written in preorder, one byte per node: 0 for a leaf, i + 1 for a node that is cut at
the middle of coordinate i, its lower half first. Two halves share their face, so the leaves
always cover the box, whatever the bytes say.

Rests on proofs_check: shared-symbols, partition-covers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.errors import InputError
from reconstruct.networks import Box
from reconstruct.numbers.arrays import Array, Range

MOST_INPUTS = 254  # coordinates that a byte can name


@dataclass(frozen=True)
class Cuts:
    """A tree of cuts of a box with `inputs` coordinates, as bytes in preorder."""

    inputs: int
    code: bytes = b"\x00"

    def __post_init__(self) -> None:
        if not 1 <= self.inputs <= MOST_INPUTS:
            raise InputError(
                f"a tree of cuts needs 1 to {MOST_INPUTS} inputs, but there are {self.inputs}"
            )
        open_nodes = 1
        for place, byte in enumerate(self.code):
            if open_nodes == 0 or byte > self.inputs:
                raise InputError(
                    f"byte {place} of the tree must be at most {self.inputs} and part of it, but "
                    f"is {byte}"
                )
            open_nodes += 1 if byte else -1
        if open_nodes:
            raise InputError(f"the tree lacks {open_nodes} of its leaves")

    @property
    def leaves(self) -> int:
        return self.code.count(0)

    def boxes(self, box: Box) -> Range:
        """The leaves as two arrays (leaves, inputs), in preorder."""
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
        return f"Cuts({self.inputs} inputs, {self.leaves} leaves)"


def halves(lo: Array, hi: Array, axis: Array) -> Range:
    """Each box cut at the middle of its own coordinate: lower and upper half alternate.

    The middle is a float between the ends, the same one for both halves.
    """
    rows = np.arange(len(lo))
    middle = 0.5 * lo[rows, axis] + 0.5 * hi[rows, axis]
    below, above = np.repeat(lo, 2, axis=0), np.repeat(hi, 2, axis=0)
    above[2 * rows, axis] = middle
    below[2 * rows + 1, axis] = middle
    return below, above


class Growing:
    """A tree while it grows: nodes are numbered as they come, each with its cut and children."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.axis: list[int] = [-1]
        self.child: list[int] = [0]

    def cut(self, nodes: Array, axes: Array) -> Array:
        """Cuts leaves; returns the numbers of the halves, in the order of `halves`."""
        first = len(self.axis)
        for place, (node, axis) in enumerate(zip(nodes.tolist(), axes.tolist(), strict=True)):
            self.axis[node] = axis
            self.child[node] = first + 2 * place
        self.axis.extend([-1] * (2 * len(nodes)))
        self.child.extend([0] * (2 * len(nodes)))
        return np.arange(first, first + 2 * len(nodes))

    def cuts(self) -> Cuts:
        code = bytearray()
        stack = [0]
        while stack:
            node = stack.pop()
            code.append(self.axis[node] + 1)
            if self.axis[node] >= 0:
                stack.extend((self.child[node] + 1, self.child[node]))
        return Cuts(self.inputs, bytes(code))
