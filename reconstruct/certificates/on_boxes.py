"""What is known of both networks on each box of a partition, for whoever bounds rounding.

Roundings are in proportion to what is added up. On a small box that is less than on the domain: the
target's values at the cuts have the ranges of the box, the candidate's differ from them by errors
that are known, and what a hidden unit takes is an affine function of them, by intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reconstruct.bounds.branching import taken_values
from reconstruct.bounds.propagation import Ranges
from reconstruct.certificates.error_recursion import Layered
from reconstruct.certificates.roundoff import Evaluated
from reconstruct.networks import Network
from reconstruct.networks.blocks import SpelledSum, spelled_sums
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import upward
from reconstruct.numbers.rounding import UNIT, magnitude, midpoint

Indices = NDArray[np.intp]  # the numbers of boxes


@dataclass(frozen=True)
class BoxLimits:
    """Where boxes are looked at one by one. It makes the float32 bound of HCAS 39 times smaller,
    that of cersyve 1.8 times; networks of long sums gain nothing."""

    longest: int = 128  # terms of a sum
    work: float = 2.0**36  # boxes times weights: minutes
    elements: int = 2**18  # hidden units on boxes that are looked at together


LIMITS = BoxLimits()


@dataclass(frozen=True, eq=False)
class _Taken:
    """What an inner activation takes: c + Σ A_j h_j within `doubt`, A_j by source."""

    maps: tuple[tuple[str, Array], ...]
    constant: Array
    doubt: Array


@dataclass(frozen=True, eq=False)
class OnBoxes:
    """The boxes by their numbers, a single one where there is no partition, and what is known."""

    layered: Layered

    @property
    def target(self) -> Network:
        return self.layered.known.network

    @cached_property
    def count(self) -> int:
        return 1 if self._boxes is None else self._boxes.boxes

    @cached_property
    def _boxes(self) -> Ranges | None:
        """The values on the boxes of the partition, where there is one."""
        known = self.layered.known
        return None if known.partition is None else known.parts

    @cached_property
    def apart(self) -> bool:
        """Whether values are looked at box by box, or over all of them: not where sums are long,
        whose roundings are counted so often that the figure says little in any case."""
        candidate = self.layered.candidate
        longest = max((getattr(n.op, "summands", 0) for n in candidate.nodes), default=0)
        bearable = self.count * float(candidate.weights) <= LIMITS.work
        return self._boxes is not None and longest <= LIMITS.longest and bearable

    def groups(self) -> list[Indices]:
        """The numbers of the boxes, some at a time where they are looked at apart."""
        every = np.arange(self.count)
        if not self.apart:
            return [every]
        step = max(1, LIMITS.elements // max(self.layered.candidate.sizes.values()))
        return [every[i : i + step] for i in range(0, self.count, step)]

    def of_candidate(self, rows: Indices) -> Evaluated:
        """What is known of the candidate on some boxes."""
        layered, network = self.layered, self.layered.candidate
        sizes = {name: size[None] for name, size in layered.magnitudes.items()}
        ranges = {name: (lo[None], hi[None]) for name, (lo, hi) in layered.ranges.items()}
        if self.apart:
            for ours, theirs in layered.alignment.pairs:
                here = upward(magnitude(*self._value(ours, rows)) + layered.errors[ours])
                sizes[theirs] = np.minimum(sizes[theirs], here)
            for name, taken in self._inner.items():
                ranges[name] = self._within(taken, ranges[name], rows)
                (inside,) = network.node(name).inputs
                sizes[inside] = magnitude(*ranges[name])
        return Evaluated(network, layered.composites, sizes, ranges, self._trees)

    def of_target(self, rows: Indices) -> Evaluated:
        """What is known of the target there, cut by cut."""
        sizes = {name: size[None] for name, size in self.layered.sizes.items()}
        if self.apart:
            for name, size in sizes.items():
                sizes[name] = np.minimum(size, magnitude(*self._value(name, rows)))
        return Evaluated(self.target, self.layered.own, sizes, {}, {})

    @cached_property
    def _trees(self) -> dict[str, SpelledSum]:
        layered = self.layered
        return spelled_sums(layered.candidate, {*layered.composites.sources, *layered.magnitudes})

    # --- ranges of the target -------------------------------------------------------------------

    def range(self, name: str, rows: Indices) -> Range:
        """The range of a value of the target on some boxes, (boxes, m); without a partition, or
        where its boxes say nothing of it, on the domain."""
        known = self.layered.known
        if self._boxes is not None and name in taken_values(self.target):
            return self._value(name, rows)
        if known.parts is None:
            return known.whole.values[name]  # with what the box itself says
        lo, hi = known.bounds(name)
        shape = (len(rows), len(lo))
        return np.broadcast_to(lo, shape), np.broadcast_to(hi, shape)

    def _value(self, name: str, rows: Indices) -> Range:
        """The range of a value on some boxes."""
        assert self._boxes is not None
        lo, hi = self._boxes.values[name]
        return lo[rows], hi[rows]

    # --- hidden units of the candidate ----------------------------------------------------------

    @cached_property
    def _inner(self) -> dict[str, _Taken]:
        """What inner activations take, as far as it is dense in the target's cuts."""
        found = {name: self._form(name) for name in self.layered.ranges}
        return {name: taken for name, taken in found.items() if taken is not None}

    def _form(self, name: str) -> _Taken | None:
        layered = self.layered
        (inside,) = layered.candidate.node(name).inputs
        if layered.composites.positions(inside) > 1:
            return None
        form = layered.composites.form(inside)
        if any(view.index is not None for view in form.layout):
            return None
        constant, maps = form.constant, []
        doubt = np.abs(constant.low) + constant.radius
        for view, matrix in form.parts():
            e = layered.errors[view.source]
            main, rest = np.abs(matrix.high), np.abs(matrix.low) + matrix.radius
            own = rest + 4 * (view.columns + 8) * UNIT * main
            doubt = doubt + main @ e + own @ upward(layered.sizes[view.source] + e)
            maps.append((view.source, matrix.high))
        return _Taken(tuple(maps), constant.high, upward(doubt + 8 * UNIT * np.abs(constant.high)))

    def _within(self, taken: _Taken, ends: Range, rows: Indices) -> Range:
        """The range of what an activation takes on boxes, by intervals, no wider than `ends`."""
        middle, radius = taken.constant, taken.doubt
        for source, matrix in taken.maps:
            most, (lo, hi) = self.layered.sizes[source], self._value(source, rows)
            centre, half = midpoint(np.fmax(lo, -most), np.fmin(hi, most))
            middle = middle + centre @ matrix.T
            radius = radius + half @ np.abs(matrix).T
        radius = upward(radius)
        return np.fmax(middle - radius, ends[0]), np.fmin(middle + radius, ends[1])
