"""Branch and bound over the input for two networks whose cuts are aligned.

`difference` bounds |f − g| on a box; boxes whose bound is above the tolerance are halved, the worst
first, along the input that makes it loose, until none is left or the time is over. A half is never
worse than the box it comes from, so that the bound only falls.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from reconstruct.bounds import Reach
from reconstruct.bounds.adaptive.tree import halves
from reconstruct.bounds.methods import MOST_INPUTS
from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.difference import bound_boxes
from reconstruct.certificates.gaps import Gap
from reconstruct.networks import Box
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.parallel import cpu_count, one_blas_thread
from reconstruct.numbers.sharing import dealt_out
from reconstruct.progress import Progress, Step

BATCH = 64  # boxes per pass: their zonotopes stay in cache
WORKERS = 2
ROUND = 4 * BATCH  # boxes that are halved before the worst are looked for again
MOST_UNITS = 2**12  # of all cuts: beyond, zonotopes with a symbol for each unit do not fit


@dataclass(frozen=True)
class Cut:
    """`bound` ≥ sup |f − g| on the box, after `boxes` boxes; `open_boxes` are above the tolerance.

    `tried` says in words what was done.
    """

    bound: float
    boxes: int
    open_boxes: int
    seconds: float

    @property
    def tried(self) -> str:
        end = "every box is within the tolerance" if not self.open_boxes else "the time was over"
        return (
            f"difference with its signs: {self.boxes} boxes in {self.seconds:.1f} s, bound "
            f"{self.bound:.3g}; {end}"
        )


def applies(known: Reach, alignment: Alignment) -> bool:
    """Whether boxes of these networks can be cut: few inputs, and units that fit."""
    sizes = known.network.sizes
    units = sum(sizes[ours] for ours, _ in alignment.pairs)
    return isinstance(known.box, Box) and len(known.box.lo) <= MOST_INPUTS and units <= MOST_UNITS


def cut_until(
    known: Reach, steps: tuple[Gap, ...], tolerance: float, deadline: float, progress: Progress
) -> Cut:
    """Bound |candidate − target| on the box of `known`, whose leaves are the first boxes.

    `steps` are the gaps between the two.
    """
    start = time.perf_counter()
    work = _Cutting(known, steps, tolerance)
    with one_blas_thread(), ThreadPoolExecutor(min(WORKERS, cpu_count())) as pool:
        work.visit(*_boxes(known), pool, np.inf)
        while work.open and time.perf_counter() < deadline:
            work.advance(pool)
            progress(Step("boxes of the difference", work.count, None, work.bound))
    return Cut(work.bound, work.count, work.open, time.perf_counter() - start)


def _boxes(known: Reach) -> Range:
    if known.leaves is not None:
        return known.leaves.lo, known.leaves.hi
    return known.box.lo[None], known.box.hi[None]


def _ranges(known: Reach) -> Mapping[str, Range]:
    """What is known on the whole box of the values that activations take."""
    if known.leaves is not None:
        return known.leaves.known
    names = {node.inputs[0] for node in known.network.activation_nodes()}
    return {name: known.bounds(name) for name in names}


class _Cutting:
    """The boxes above the tolerance, and the largest bound of those that are closed."""

    def __init__(self, known: Reach, steps: tuple[Gap, ...], tolerance: float) -> None:
        self.network, self.steps, self.tolerance = known.network, steps, tolerance
        self.known = _ranges(known)
        inputs = len(known.box.lo)
        self.lo, self.hi = np.zeros((0, inputs)), np.zeros((0, inputs))
        self.bounds, self.symbols = np.zeros(0), np.zeros(0, dtype=np.int64)
        self.axis = np.zeros(0, dtype=np.int64)
        self.closed, self.count = 0.0, 0

    @property
    def open(self) -> int:
        return len(self.lo)

    @property
    def bound(self) -> float:
        return float(max(self.closed, np.max(self.bounds, initial=0.0)))

    def advance(self, pool: ThreadPoolExecutor) -> None:
        """Halves the worst boxes; those with as many symbols go together."""
        count = min(len(self.lo), ROUND)
        chosen = np.argpartition(-self.bounds, count - 1)[:count]
        chosen = chosen[np.argsort(self.symbols[chosen], kind="stable")]
        lo, hi = halves(self.lo[chosen], self.hi[chosen], self.axis[chosen])
        parents = np.repeat(self.bounds[chosen], 2)
        keep = np.ones(len(self.lo), dtype=bool)
        keep[chosen] = False
        self._put(keep)
        self.visit(lo, hi, pool, parents)

    def _put(self, keep: Array) -> None:
        self.lo, self.hi, self.axis = self.lo[keep], self.hi[keep], self.axis[keep]
        self.bounds, self.symbols = self.bounds[keep], self.symbols[keep]

    def visit(self, lo: Array, hi: Array, pool: ThreadPoolExecutor, most: Array | float) -> None:
        """Bounds these boxes, no worse than `most`, and keeps those above the tolerance."""
        parts = [slice(i, i + BATCH) for i in range(0, len(lo), BATCH)]
        known = self.network, self.steps, self.known
        items = [(*known, lo[part], hi[part]) for part in parts]
        found = dealt_out(bound_boxes, items, numbers=2 * self.network.parameters, pool=pool)
        bounds = np.minimum(np.concatenate([part.bound for part in found]), most)
        self.count += len(lo)
        above = ~(bounds <= self.tolerance)
        self.closed = float(max(self.closed, np.max(bounds[~above], initial=0.0)))
        axis = np.concatenate([part.axis for part in found])
        symbols = np.concatenate([np.full(len(part.bound), part.symbols) for part in found])
        self.lo = np.concatenate([self.lo, lo[above]])
        self.hi = np.concatenate([self.hi, hi[above]])
        self.bounds = np.concatenate([self.bounds, bounds[above]])
        self.axis = np.concatenate([self.axis, axis[above]])
        self.symbols = np.concatenate([self.symbols, symbols[above]])
