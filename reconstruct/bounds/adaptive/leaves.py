"""Bounds on the leaves of a tree of cuts: rigorous, whatever tree it is.

Layer after layer: with the ranges of the activations before it known over all leaves, a pass bounds
what the next activation takes on every leaf; the union over the leaves is its range, and the passes
after it rest on that. No leaf's zonotope is trusted beyond it, so that looseness of one leaf in one
layer does not compound in the next.

Rests on proofs_check: shared-symbols.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from reconstruct.bounds.adaptive.passing import Pass
from reconstruct.bounds.adaptive.tree import Cuts
from reconstruct.bounds.adaptive.worst import Worst
from reconstruct.networks import Box, Network
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.sharing import dealt_out
from reconstruct.numbers.threads import cpu_count, one_blas_thread

BATCH = 64
WORKERS = 2
SAMPLES = 2000


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves `lo`, `hi` (leaves, inputs) of a tree, and what is proved on them.

    `known` holds ranges (size,) of activations' inputs, `ranges` those of every node's value, over
    all leaves.
    """

    network: Network
    cuts: Cuts
    lo: Array
    hi: Array
    known: Mapping[str, Range]
    ranges: Mapping[str, Range]

    def functionals(self, name: str, forms: Array, offsets: Array) -> Range:
        """Bounds of `forms·v + offsets` over all leaves, v the value `name`.

        A leaf whose coarse bounds stay within what samples reach, or the widest leaves, is bounded
        no finer; samples never enter the bounds. Which leaves those are depends on no clock, so the
        numbers are the same whoever works them out.
        """
        known = self.network, dict(self.known), name, forms, offsets
        first, *rest = _parts(len(self.lo))
        sampled = self._sampled(name, forms) + offsets
        with one_blas_thread(), ThreadPoolExecutor(min(WORKERS, cpu_count())) as pool:
            low, high = worst_on(*known, sampled, self.lo[first], self.hi[first])
            seen = np.stack([np.minimum(sampled[0], low), np.maximum(sampled[1], high)])
            items = [(*known, seen, self.lo[part], self.hi[part]) for part in rest]
            sent = forms.size + self.network.parameters
            ends = [(low, high), *dealt_out(worst_on, items, numbers=sent, pool=pool)]
        return np.min([end[0] for end in ends], axis=0), np.max([end[1] for end in ends], axis=0)

    def _sampled(self, name: str, forms: Array) -> Array:
        """Values (2, rows) below and above which the functionals go at some sampled point."""
        points = np.random.default_rng(0).uniform(size=(SAMPLES, self.lo.shape[1]))
        lo, hi = self.lo.min(axis=0), self.hi.max(axis=0)
        with np.errstate(all="ignore"):
            value = self.network.values(lo + points * (hi - lo))[name]
            rows = value @ forms.T
        return np.stack([rows.min(axis=0), rows.max(axis=0)])


def worst_on(
    network: Network,
    known: Mapping[str, Range],
    name: str,
    forms: Array,
    offsets: Array,
    seen: Array,
    lo: Array,
    hi: Array,
) -> Range:
    """Bounds of functionals over a batch of leaves, finer where they go beyond `seen`."""
    return Worst(forms, offsets, seen).over(Pass(network, lo, hi, known).until(name), lo.shape[1])


def bound_leaves(network: Network, box: Box, cuts: Cuts, certain: Mapping[str, Range]) -> Leaves:
    """Bounds of every value on the leaves; `certain` are ranges (size,) that hold on the box."""
    lo, hi = _widest_first(*cuts.boxes(box))
    known: dict[str, Range] = {}
    for node in network.activation_nodes():
        name = node.inputs[0]
        if name not in known:
            known[name] = _within(_union(network, lo, hi, known, (name,))[name], certain[name])
    names = tuple(node.name for node in network.nodes)
    ranges = _union(network, lo, hi, known, names)
    ranges = {name: _within(found, certain[name]) for name, found in ranges.items()}
    ranges[network.source] = (box.lo, box.hi)
    return Leaves(network, cuts, lo, hi, known, {**ranges, **known})


def _union(
    network: Network, lo: Array, hi: Array, known: Mapping[str, Range], names: tuple[str, ...]
) -> dict[str, Range]:
    """The ranges of some values over all leaves, from one pass that meets what is known."""
    items = [(network, lo[part], hi[part], known, names) for part in _parts(len(lo))]
    with one_blas_thread(), ThreadPoolExecutor(min(WORKERS, cpu_count())) as pool:
        parts = dealt_out(ranges_on, items, numbers=network.parameters, pool=pool)
    return {
        name: (
            np.min([part[i][0] for part in parts], axis=0),
            np.max([part[i][1] for part in parts], axis=0),
        )
        for i, name in enumerate(names)
    }


def ranges_on(
    network: Network, lo: Array, hi: Array, known: Mapping[str, Range], names: tuple[str, ...]
) -> list[Range]:
    """The ranges of some values over a batch of leaves."""
    state = Pass(network, lo, hi, known)
    found = []
    with np.errstate(all="ignore"):  # threads do not take it over from who started them
        for name in names:
            below, above = state.until(name).bounds()
            found.append((below.min(axis=0), above.max(axis=0)))
    return found


def _widest_first(lo: Array, hi: Array) -> Range:
    """The widest leaves first: their bounds are the worst ones, and spare work on the others."""
    with np.errstate(all="ignore"):
        order = np.argsort(-np.log2(np.maximum(hi - lo, 1e-300)).sum(axis=1), kind="stable")
    return lo[order], hi[order]


def _parts(count: int) -> list[slice]:
    return [slice(i, i + BATCH) for i in range(0, count, BATCH)]


def _within(found: Range, certain: Range) -> Range:
    return np.maximum(found[0], certain[0]), np.minimum(found[1], certain[1])
