"""Looking for the cuts that tighten most: nothing proved here, everything by measurement.

Activation after activation, in the order of the network: the boxes whose bounds lie farthest
outside of what samples reach are cut in two, along the input that is to blame for most of the
looseness. All values share the boxes, and the ranges found so far keep the looseness of one layer
from compounding in the next. The outcome is a tree.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from reconstruct.bounds.adaptive.passing import Pass
from reconstruct.bounds.adaptive.samples import Level, Samples
from reconstruct.bounds.adaptive.tree import Cuts, Growing, halves
from reconstruct.bounds.adaptive.zonotope import Zonotope
from reconstruct.networks import Box, Network
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.parallel import cpu_count, one_blas_thread
from reconstruct.progress import Progress, Step, silent

BATCH = 64  # boxes per pass: their zonotopes stay in cache
WORKERS = 2
PORTION = 0.06  # of the leaves are cut in one round
FEWEST = 32  # boxes cut in one round at least: a batch is filled
TIGHT = 0.03  # of the sampled range: a level this close to its samples is done
MOST_LEAVES = 2**15
SEARCHING = 0.4  # of the time; bounds on the leaves and functionals of them take the rest


@dataclass(frozen=True, eq=False)
class Searched:
    """A tree, and ranges (size,) of values as they were measured on its leaves."""

    cuts: Cuts
    ranges: Mapping[str, Range]


def find_cuts(
    network: Network,
    box: Box,
    known: Mapping[str, Range],
    boxes: int,
    seconds: float | None = None,
    progress: Progress = silent,
) -> Cuts:
    """The tree of `look_for_cuts`."""
    return look_for_cuts(network, box, known, boxes, seconds, progress).cuts


def look_for_cuts(
    network: Network,
    box: Box,
    known: Mapping[str, Range],
    boxes: int,
    seconds: float | None = None,
    progress: Progress = silent,
) -> Searched:
    """A tree of cuts found with about `boxes` boxes, or in part of `seconds` if they are given.

    `known` are ranges (size,) of all values that hold on the box. Later layers, whose boxes are
    costlier and whose bounds are looser, get the larger share of the budget.
    """
    samples = Samples(network, box)
    state = _Search(network, box, known)
    weights = np.arange(1, len(samples.levels) + 1) ** 1.5
    shares = np.cumsum(weights) / np.sum(weights)
    start = time.monotonic()
    with one_blas_thread(), ThreadPoolExecutor(min(WORKERS, cpu_count())) as pool:
        for share, level in zip(shares.tolist(), samples.levels, strict=True):
            end = None if seconds is None else start + SEARCHING * seconds * share
            for leaves in state.refine(level, _Budget(share * boxes, end), pool):
                progress(Step(f"cutting the domain for {level.name}", leaves))
    return Searched(state.tree.cuts(), state.known)


@dataclass(frozen=True)
class _Budget:
    """Until when a level may go on: boxes measured in all, or a moment of time."""

    boxes: float
    end: float | None

    def spent(self, boxes: int) -> bool:
        return boxes >= self.boxes if self.end is None else time.monotonic() > self.end


class _Search:
    def __init__(self, network: Network, box: Box, known: Mapping[str, Range]) -> None:
        self.network, self.start = network, known
        self.known = dict(known)
        self.measured = 0
        self.tree = Growing(network.size_in)
        self.nodes = np.zeros(1, dtype=np.int64)
        self.lo, self.hi = box.lo[None], box.hi[None]
        self.ranges: dict[str, tuple[Array, Array]] = {}

    def refine(self, level: Level, budget: _Budget, pool: ThreadPoolExecutor) -> Iterator[int]:
        """Cuts leaves until the level is tight, or the budget or the room is used up."""
        measured = self._measure(level, self.lo, self.hi, pool)
        self.ranges = dict(measured.ranges)
        while True:
            self._learn()
            yield len(self.lo)
            chosen = self._worst(measured.excess)
            if not len(chosen) or budget.spent(self.measured):
                return
            chosen = chosen[np.argsort(measured.symbols[chosen])]
            axes = measured.axis[chosen]
            lo, hi = halves(self.lo[chosen], self.hi[chosen], axes)
            fresh = self._measure(level, lo, hi, pool)
            keep = np.ones(len(self.lo), dtype=bool)
            keep[chosen] = False
            self.nodes = np.concatenate([self.nodes[keep], self.tree.cut(self.nodes[chosen], axes)])
            self.lo, self.hi = (
                np.concatenate([old[keep], new]) for old, new in ((self.lo, lo), (self.hi, hi))
            )
            measured = measured.joined(keep, fresh)
            self.ranges = dict(measured.ranges)

    def _worst(self, excess: Array) -> Array:
        """The leaves that lie farthest outside of the samples."""
        room = MOST_LEAVES - len(excess)
        count = min(len(excess), max(FEWEST, int(PORTION * len(excess))), room)
        if count <= 0:
            return np.zeros(0, dtype=np.int64)
        worst = np.argpartition(-excess, count - 1)[:count]
        return np.asarray(worst[excess[worst] > TIGHT])

    def _learn(self) -> None:
        """The union over the leaves, met with what was known before."""
        for name, (lo, hi) in self.ranges.items():
            below, above = self.start[name]
            self.known[name] = (
                np.maximum(lo.min(axis=0).astype(np.float64), below),
                np.minimum(hi.max(axis=0).astype(np.float64), above),
            )

    def _measure(self, level: Level, lo: Array, hi: Array, pool: ThreadPoolExecutor) -> _Measured:
        self.measured += len(lo)
        step = min(BATCH, -(-len(lo) // WORKERS))  # no worker waits where boxes are few
        parts = [slice(i, i + step) for i in range(0, len(lo), step)]
        found = list(pool.map(lambda part: self._batch(level, lo[part], hi[part]), parts))
        return _Measured.of(found)

    def _batch(self, level: Level, lo: Array, hi: Array) -> _Measured:
        with np.errstate(all="ignore"):
            state = Pass(self.network, lo, hi, self.known, shares=True)
            value = state.until(level.name)
            rows = [_rows(value, level.functionals)]
            if level.following is not None:
                value = state.until(level.following)
                state.ranges[level.following] = value.bounds()
                rows.append((value.centre, value.forms, value.radius))
            excess, axis = _looseness(level, rows, state)
            narrow = {
                name: (a.astype(np.float32), b.astype(np.float32))
                for name, (a, b) in state.ranges.items()
            }
        return _Measured(excess, axis, np.full(len(lo), state.symbols), narrow)


@dataclass(frozen=True, eq=False)
class _Measured:
    """Of each box: its excess over the samples, the input to cut, its symbols, its ranges."""

    excess: Array
    axis: Array
    symbols: Array
    ranges: Mapping[str, Range]

    @classmethod
    def of(cls, parts: list[_Measured]) -> _Measured:
        ranges = {
            name: (
                np.concatenate([p.ranges[name][0] for p in parts]),
                np.concatenate([p.ranges[name][1] for p in parts]),
            )
            for name in parts[0].ranges
        }
        return cls(
            np.concatenate([p.excess for p in parts]),
            np.concatenate([p.axis for p in parts]),
            np.concatenate([p.symbols for p in parts]),
            ranges,
        )

    def joined(self, keep: Array, fresh: _Measured) -> _Measured:
        kept = _Measured(
            self.excess[keep],
            self.axis[keep],
            self.symbols[keep],
            {name: (lo[keep], hi[keep]) for name, (lo, hi) in self.ranges.items()},
        )
        return _Measured.of([kept, fresh])


def _rows(value: Zonotope, functionals: Array) -> tuple[Array, Array, Array]:
    """Centre, forms and radius of functionals of a value."""
    forms = value.forms @ functionals.T
    return value.centre @ functionals.T, forms, value.radius @ np.abs(functionals).T


def _looseness(
    level: Level, rows: list[tuple[Array, Array, Array]], state: Pass
) -> tuple[Array, Array]:
    """How far the worst row of each box lies outside of its samples, and which input to blame."""
    centre = np.concatenate([r[0] for r in rows], axis=1)
    symbols = max(r[1].shape[1] for r in rows)
    forms = np.concatenate([np.abs(_fill(r[1], symbols)) for r in rows], axis=2)
    spread = forms.sum(axis=1) + np.concatenate([r[2] for r in rows], axis=1)
    width = np.maximum(level.high - level.low, 1e-9 * np.max(np.abs(level.high), initial=1e-290))
    outside = np.maximum(centre + spread - level.high, level.low - centre + spread) / width
    outside = np.where(np.isfinite(outside), outside, 1e290)
    worst = outside.argmax(axis=1)
    boxes = np.arange(len(centre))
    inputs = state.lo.shape[1]
    weight = np.nan_to_num(forms[boxes, :, worst])
    weight[:, :inputs] *= 1e-3  # their own part is no looseness; it decides where nothing bends
    blame = np.einsum("be,bed->bd", weight, state.share[:, :symbols])
    blame = np.where(state.hi > state.lo, blame, -1.0)
    return outside[boxes, worst], blame.argmax(axis=1)


def _fill(forms: Array, symbols: int) -> Array:
    out = np.zeros((forms.shape[0], symbols, forms.shape[2]))
    out[:, : forms.shape[1]] = forms
    return out
