"""What is known of both networks on each leaf of a branch and bound, for whoever bounds rounding.

Roundings are in proportion to what is added up. On a leaf that is less than on the whole box: the
target's values at the cuts have the ranges of the leaf, the candidate's differ from them by errors
that are known, and what a hidden unit takes is an affine function of them, by intervals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reconstruct.bounds import Reach
from reconstruct.bounds.branching import taken_values
from reconstruct.bounds.propagation import Ranges
from reconstruct.certificates.alignment import Alignment
from reconstruct.certificates.error_recursion import Layered
from reconstruct.certificates.roundoff import Evaluated
from reconstruct.certificates.views import View
from reconstruct.networks import Network
from reconstruct.networks.blocks import SpelledSum, spelled_sums
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import upward
from reconstruct.numbers.rounding import UNIT

Indices = NDArray[np.intp]  # the numbers of leaves


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
class OnLeaves:
    """The leaves by their numbers, a single one where the box is not cut, and what is known there.

    `apart` says whether values are known leaf by leaf, or only over all of them.
    """

    known: Reach
    candidate: Network
    alignment: Alignment
    layered: Layered
    apart: bool = False
    composed: dict[str, list[tuple[View, Array]]] = field(default_factory=dict)

    @cached_property
    def count(self) -> int:
        return 1 if self._boxes is None else self._boxes.boxes

    @property
    def _boxes(self) -> Ranges | None:
        """The values on the boxes of the partition, where there is one."""
        return None if self.known.partition is None else self.known.parts

    @cached_property
    def pays(self) -> bool:
        """Whether it pays to look at leaves apart: not where sums are long, whose roundings are
        counted so often that the figure says little in any case."""
        longest = max((getattr(n.op, "summands", 0) for n in self.candidate.nodes), default=0)
        bearable = self.count * float(self.candidate.weights) <= LIMITS.work
        return self._boxes is not None and longest <= LIMITS.longest and bearable

    def groups(self, order: Indices) -> list[Indices]:
        """The numbers of leaves, some at a time."""
        step = max(1, LIMITS.elements // max(self.candidate.sizes.values()))
        return [order[i : i + step] for i in range(0, len(order), step)]

    def of_candidate(self, rows: Indices) -> Evaluated:
        """What is known of the candidate on some leaves."""
        layered = self.layered
        sizes = {name: size[None] for name, size in layered.magnitudes.items()}
        ranges = {name: (lo[None], hi[None]) for name, (lo, hi) in layered.ranges.items()}
        if self.apart:
            for ours, theirs in self.alignment.pairs:
                self._limit(sizes, ours, theirs, rows)
            for name, taken in self._inner.items():
                low, high = ranges[name] = self._within(taken, ranges[name], rows)
                (inside,) = self.candidate.node(name).inputs
                sizes[inside] = np.maximum(np.abs(low), np.abs(high))
        rest = (self._trees, self.composed)
        return Evaluated(self.candidate, layered.composites, sizes, ranges, *rest)

    def of_target(self, rows: Indices) -> Evaluated:
        """What is known of the target there, cut by cut."""
        sizes = {name: size[None] for name, size in self.layered.sizes.items()}
        if self.apart:
            for name, size in sizes.items():
                sizes[name] = np.minimum(size, _largest(self._value(name, rows)))
        return Evaluated(self.known.network, self.layered.own, sizes, {}, {})

    @cached_property
    def _trees(self) -> dict[str, SpelledSum]:
        layered = self.layered
        return spelled_sums(self.candidate, {*layered.composites.sources, *layered.magnitudes})

    def _limit(self, sizes: dict[str, Array], ours: str, theirs: str, rows: Indices) -> None:
        """What a pair of cuts computes, and takes, on the leaves."""
        arrival = self.layered.arrivals[ours]
        op = arrival.op
        error = arrival.total if op is None else op.carried(arrival.total)
        here = upward(_largest(self._value(ours, rows)) + error)
        sizes[theirs] = np.minimum(sizes[theirs], here)
        if op is not None:
            inside, (before,) = self.candidate.node(theirs).inputs[0], self._inputs(ours)
            if inside in sizes and before in self.taken:
                known = upward(_largest(self.range(before, rows)) + arrival.total)
                sizes[inside] = np.minimum(sizes[inside], known)

    def _inputs(self, name: str) -> tuple[str, ...]:
        return self.known.network.node(name).inputs

    # --- ranges of the target -------------------------------------------------------------------

    def range(self, name: str, rows: Indices) -> Range:
        """The range of a value of the target on some leaves, (leaves, m); without leaves, or where
        they say nothing of it, on the box."""
        known = self.known
        if name in self.taken:
            lo, hi = self.taken[name]
            return lo[rows], hi[rows]
        if known.parts is None:
            return known.whole.values[name]  # with what the box itself says
        lo, hi = known.bounds(name)
        shape = (len(rows), len(lo))
        return np.broadcast_to(lo, shape), np.broadcast_to(hi, shape)

    def _value(self, name: str, rows: Indices) -> Range:
        """The range of a source on some leaves."""
        assert self._boxes is not None
        lo, hi = self._boxes.values[name]
        return lo[rows], hi[rows]

    @cached_property
    def taken(self) -> Mapping[str, Range]:
        """What activations take, on every leaf."""
        if self._boxes is None:
            return {}
        return {name: self._boxes.values[name] for name in taken_values(self.known.network)}

    # --- hidden units of the candidate ----------------------------------------------------------

    @cached_property
    def _inner(self) -> dict[str, _Taken]:
        """What inner activations take, as far as it is dense in the target's cuts."""
        found = {name: self._form(name) for name in self.layered.ranges}
        return {name: taken for name, taken in found.items() if taken is not None}

    def _form(self, name: str) -> _Taken | None:
        (inside,) = self.candidate.node(name).inputs
        forms, sizes = self.layered.composites, self.layered.sizes
        if forms.positions(inside) > 1:
            return None
        form = forms.form(inside)
        if any(view.index is not None for view in form.layout):
            return None
        constant, maps = form.constant, []
        doubt = np.abs(constant.low) + constant.radius
        for view, matrix in form.parts():
            e = self._error(view.source)
            reach = upward(sizes[view.source] + e)
            own = (
                np.abs(matrix.low)
                + matrix.radius
                + 4 * (view.columns + 8) * UNIT * np.abs(matrix.high)
            )
            doubt = doubt + np.abs(matrix.high) @ e + own @ reach
            maps.append((view.source, matrix.high))
        return _Taken(tuple(maps), constant.high, upward(doubt + 8 * UNIT * np.abs(constant.high)))

    def _error(self, source: str) -> Array:
        """How far the candidate's value at a cut may be from the target's."""
        if source == self.known.network.source:
            return np.zeros(self.known.network.size_in)
        arrival = self.layered.arrivals[source]
        return arrival.total if arrival.op is None else arrival.op.carried(arrival.total)

    def _within(self, taken: _Taken, ends: Range, rows: Indices) -> Range:
        """The range of what an activation takes on some leaves, no wider than `ends`."""
        found = self._by_interval(taken, rows)
        return np.fmax(found[0], ends[0]), np.fmin(found[1], ends[1])

    def _by_interval(self, taken: _Taken, rows: Indices) -> Range:
        """The same from the ranges of its sources."""
        middle, radius = taken.constant, taken.doubt
        for source, matrix in taken.maps:
            most, (lo, hi) = self.layered.sizes[source], self._value(source, rows)
            lo, hi = np.fmax(lo, -most), np.fmin(hi, most)
            centre = 0.5 * (lo + hi)
            half = upward(np.maximum(hi - centre, centre - lo))
            middle = middle + centre @ matrix.T
            radius = radius + half @ np.abs(matrix).T
        radius = upward(radius)
        return middle - radius, middle + radius


def _largest(ends: Range) -> Array:
    return np.maximum(np.abs(ends[0]), np.abs(ends[1]))
