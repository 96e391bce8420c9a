"""Bounds on the leaves of a tree of cuts: rigorous, whatever tree it is.

One pass over a batch of leaves bounds value after value: by zonotopes, by what is certain on the
whole box, and, where that is bearable, by lines that are carried back to the leaf's own box
(CROWN). What an activation takes is met with all of them before the pass goes on, so that looseness
in one layer compounds less in the next: in deep layers lines and symbols together are several times
tighter than each alone.

Rests on proofs_check: shared-symbols, back-substitution.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from reconstruct.bounds.adaptive.passing import Pass
from reconstruct.bounds.adaptive.tree import Cuts
from reconstruct.bounds.adaptive.worst import Symbols, Worst
from reconstruct.bounds.adaptive.zonotope import Zonotope
from reconstruct.bounds.interval import image
from reconstruct.bounds.propagation import Ranges, meet, propagate
from reconstruct.networks import Box, Network, Node
from reconstruct.networks.activations import Support
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.parallel import cpu_count, one_blas_thread, parallel_map
from reconstruct.numbers.sharing import dealt_out

BATCH = 64
WORKERS = 2
ROWS = 2**10  # functionals that are bounded at once
UNSEEN = np.array([[np.inf], [-np.inf]])
MOST_LINES = 2.0**39  # products of numbers in all, for lines that are carried back on every leaf
MOST_KEPT = 2**24  # units on leaves whose ranges are kept


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves `lo`, `hi` (leaves, inputs) of a tree, and what is proved on them.

    `known` holds ranges (size,) of activations' inputs, `ranges` those of every node's value, over
    all leaves; `taken` what activations take on each leaf, (leaves, size), unless that is too much
    to keep. `lines` says whether lines were carried back on every leaf.
    """

    network: Network
    cuts: Cuts
    lo: Array
    hi: Array
    known: Mapping[str, Range]
    ranges: Mapping[str, Range]
    taken: Mapping[str, Range]
    lines: bool

    def functionals(self, name: str, forms: Array, offsets: Array) -> Range:
        """Bounds of `forms·v + offsets` over all leaves, v the value `name`.

        A leaf whose coarse bounds stay within those of the widest leaves is bounded no finer. Which
        leaves those are depends on no clock, so the numbers are the same whoever works them out.
        """
        given = name, forms, offsets
        order = self._widest(name)
        first, *rest = (order[part] for part in _parts(len(order)))
        workers = min(WORKERS, cpu_count())
        with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
            network, lo, hi, known = self._part(first)
            value = Pass(network, lo, hi, known).until(name)
            low, high = worst_over(value, forms, offsets, UNSEEN, alone=True)
            seen = np.stack([low, high])
            alone = len(rest) < workers
            items = [(*self._part(part), *given, seen, alone) for part in rest]
            sent = forms.size + self.network.parameters
            ends = [(low, high), *dealt_out(worst_on, items, numbers=sent, pool=pool)]
        return np.min([end[0] for end in ends], axis=0), np.max([end[1] for end in ends], axis=0)

    def _widest(self, name: str) -> Array:
        """The leaves, those first on which the value of an activation varies most."""
        bent = {node.name: node for node in self.network.activation_nodes()}
        if name not in bent or not self.taken:
            return np.arange(len(self.lo))
        low, high = image(bent[name].op, self.taken[bent[name].inputs[0]])
        with np.errstate(all="ignore"):
            return np.argsort(-np.nan_to_num(high - low).sum(axis=1), kind="stable")

    def _part(self, part: Array) -> tuple[Network, Array, Array, dict[str, Range]]:
        """Some leaves, and what is known there of what activations take."""
        known = {name: (low[part], high[part]) for name, (low, high) in self.taken.items()}
        return self.network, self.lo[part], self.hi[part], known or dict(self.known)


def worst_on(
    network: Network,
    lo: Array,
    hi: Array,
    known: Mapping[str, Range],
    name: str,
    forms: Array,
    offsets: Array,
    seen: Array,
    alone: bool,
) -> Range:
    """Bounds of functionals over a batch of leaves, finer where they go beyond `seen`."""
    value = Pass(network, lo, hi, known).until(name)
    return worst_over(value, forms, offsets, seen, alone=alone)


def worst_over(value: Zonotope, forms: Array, offsets: Array, seen: Array, *, alone: bool) -> Range:
    """The same for a value that is known there; a batch that is `alone` has all processors."""

    seen, ready = np.broadcast_to(seen, (2, len(offsets))), Symbols.of(value)

    def some(part: slice) -> Range:
        return Worst(forms[part], offsets[part], seen[:, part]).over(ready)

    parts = _rows(len(offsets))
    found = list(parallel_map(some, parts) if alone else map(some, parts))
    return np.concatenate([low for low, _ in found]), np.concatenate([high for _, high in found])


def _rows(count: int) -> list[slice]:
    return [slice(start, start + ROWS) for start in range(0, max(1, count), ROWS)]


def bound_leaves(network: Network, box: Box, cuts: Cuts, certain: Mapping[str, Range]) -> Leaves:
    """Bounds of every value on the leaves; `certain` are ranges (size,) that hold on the box."""
    lo, hi = _widest_first(*cuts.boxes(box))
    lines = len(lo) * work_of_lines(network) <= MOST_LINES
    items = [(network, lo[part], hi[part], certain, lines) for part in _parts(len(lo))]
    with one_blas_thread(), ThreadPoolExecutor(min(WORKERS, cpu_count())) as pool:
        parts = dealt_out(ranges_on, items, numbers=network.parameters, pool=pool)
    ranges = {
        name: meet(_union([part[name] for part in parts]), certain[name]) for name in network.sizes
    }
    ranges[network.source] = (box.lo, box.hi)
    taken = {name: _joined([part[name] for part in parts]) for name in _taken(network)}
    kept = taken if sum(lows.size for lows, _ in taken.values()) <= MOST_KEPT else {}
    known = {name: ranges[name] for name in taken}
    return Leaves(network, cuts, lo, hi, known, ranges, kept, lines)


def ranges_on(
    network: Network, lo: Array, hi: Array, certain: Mapping[str, Range], lines: bool
) -> dict[str, Range]:
    """The ranges of all values on a batch of leaves, (leaves, size)."""
    taken = _taken(network)
    with np.errstate(all="ignore"):  # threads do not take it over from who started them
        found = propagate(
            network,
            lo,
            hi,
            backward=lines,
            lean=True,
            known={name: (certain[name][0][None], certain[name][1][None]) for name in taken},
            other=_Zonotopes(),
        )
    return dict(found.values)


class _Zonotopes:
    """What the zonotopes of one pass say, whose activations rest on the ranges found so far.

    No intervals of the maps one by one: who proves it again knows their product alone.
    """

    def __init__(self) -> None:
        self.state: Pass | None = None

    def __call__(self, found: Ranges, node: Node, /) -> Range:
        if self.state is None:
            self.state = Pass(found.network, *found.values[found.network.source], found.values)
        return self.state.until(node.name).bounds()


def work_of_lines(network: Network) -> float:
    """Products of numbers on one leaf when all that activations take is carried back to its box."""
    total, before, taken, sizes = 0.0, 0.0, _taken(network), network.sizes
    products = {n.name: sizes[n.name] * sizes[n.inputs[0]] for n in network.mixing_nodes()}
    for node in network.nodes:
        before += products.get(node.name, 0)
        if node.name in taken:
            total += 2 * len(Support) * sizes[node.name] * before
    return total


def _taken(network: Network) -> tuple[str, ...]:
    """The values that activations take, in order."""
    return tuple(dict.fromkeys(node.inputs[0] for node in network.activation_nodes()))


def _union(parts: list[Range]) -> Range:
    return (
        np.min([low.min(axis=0) for low, _ in parts], axis=0),
        np.max([high.max(axis=0) for _, high in parts], axis=0),
    )


def _joined(parts: list[Range]) -> Range:
    return np.concatenate([low for low, _ in parts]), np.concatenate([high for _, high in parts])


def _widest_first(lo: Array, hi: Array) -> Range:
    """The widest leaves first: their bounds are the worst ones, and spare work on the others."""
    with np.errstate(all="ignore"):
        order = np.argsort(-np.log2(np.maximum(hi - lo, 1e-300)).sum(axis=1), kind="stable")
    return lo[order], hi[order]


def _parts(count: int) -> list[slice]:
    return [slice(i, i + BATCH) for i in range(0, count, BATCH)]
