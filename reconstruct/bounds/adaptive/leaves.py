"""Bounds on the leaves of a tree of cuts: rigorous, whatever tree it is.

Claimed ranges of the activations' inputs are proved by induction over the layers: a pass that
meets its zonotopes with the claims of earlier layers gives ranges V of a layer; if V lies within
that layer's claim, the claim holds, and the next layer may rest on it. Where it does not, the
claim is widened to V and the pass repeated; after a few rounds the claims are given up for the
ranges of CROWN, which need no induction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from reconstruct.bounds.adaptive.passing import Pass
from reconstruct.bounds.adaptive.tree import Cuts
from reconstruct.bounds.adaptive.worst import Worst
from reconstruct.networks import Box, Network
from reconstruct.numbers.arrays import Array, Range

BATCH = 64
WORKERS = 2
SAMPLES = 2000
ROUNDS = 4  # passes that try to prove claims before they are given up


@dataclass(frozen=True, eq=False)
class Leaves:
    """The leaves `lo`, `hi` (leaves, inputs) of a tree, and what is proved on them.

    `claims` are proved ranges (size,) of activations' inputs; `ranges` bounds the value of every
    node over all leaves.
    """

    network: Network
    cuts: Cuts
    lo: Array
    hi: Array
    claims: Mapping[str, Range]
    ranges: Mapping[str, Range]

    def functionals(
        self,
        name: str,
        forms: Array,
        offsets: Array,
        *,
        lower_only: bool = False,
    ) -> Range:
        """Bounds of `forms·v + offsets` over all leaves, v the value `name`.

        A leaf whose coarse bounds stay within what samples reach is bounded no finer; samples
        never enter the bounds. With `lower_only` the upper bounds stay coarse.
        """
        worst = Worst(forms, offsets, self._sampled(name, forms) + offsets, lower_only)
        with ThreadPoolExecutor(WORKERS) as pool:
            for _ in pool.map(lambda part: self._add(worst, name, part), _parts(len(self.lo))):
                pass
        return worst.low, worst.high

    def _sampled(self, name: str, forms: Array) -> Array:
        """Values (2, rows) below and above which the functionals go at some sampled point."""
        points = np.random.default_rng(0).uniform(size=(SAMPLES, self.lo.shape[1]))
        lo, hi = self.lo.min(axis=0), self.hi.max(axis=0)
        with np.errstate(all="ignore"):
            value = self.network.values(lo + points * (hi - lo))[name]
            rows = value @ forms.T
        return np.stack([rows.min(axis=0), rows.max(axis=0)])

    def _add(self, worst: Worst, name: str, part: slice) -> None:
        state = Pass(self.network, self.lo[part], self.hi[part], self.claims)
        worst.add(state.until(name), self.lo.shape[1])


def bound_leaves(
    network: Network,
    box: Box,
    cuts: Cuts,
    claims: Mapping[str, Range],
    certain: Mapping[str, Range],
) -> Leaves:
    """Bounds of every value on the leaves; `certain` are ranges (size,) that hold on the box."""
    lo, hi = _widest_first(*cuts.boxes(box))
    bent = {n.inputs[0] for n in network.nodes if n.name in _activations(network)}
    trusted = {name: _within(claims.get(name, certain[name]), certain[name]) for name in bent}
    for _ in range(ROUNDS):
        ranges = _union(network, lo, hi, trusted)
        met = {name: _within(ranges[name], certain[name]) for name in ranges}
        if all(_holds(met[name], trusted[name]) for name in bent):
            return Leaves(network, cuts, lo, hi, {n: met[n] for n in bent}, met)
        trusted = {name: _hull(met[name], trusted[name], certain[name]) for name in bent}
    plain = {name: certain[name] for name in bent}
    ranges = _union(network, lo, hi, plain)
    met = {name: _within(ranges[name], certain[name]) for name in ranges}
    return Leaves(network, cuts, lo, hi, {n: met[n] for n in bent}, met)


def _union(network: Network, lo: Array, hi: Array, known: Mapping[str, Range]) -> dict[str, Range]:
    """The ranges of all nodes over all leaves, from one pass that meets what is known."""

    def one(part: slice) -> dict[str, Range]:
        state = Pass(network, lo[part], hi[part], known)
        found = {network.source: (lo[part].min(axis=0), hi[part].max(axis=0))}
        with np.errstate(all="ignore"):  # threads do not take it over from who started them
            for node in network.nodes:
                below, above = state.until(node.name).bounds()
                found[node.name] = (below.min(axis=0), above.max(axis=0))
        return found

    with ThreadPoolExecutor(WORKERS) as pool:
        parts = list(pool.map(one, _parts(len(lo))))
    return {
        name: (
            np.min([p[name][0] for p in parts], axis=0),
            np.max([p[name][1] for p in parts], axis=0),
        )
        for name in network.sizes
    }


def _widest_first(lo: Array, hi: Array) -> Range:
    """The widest leaves first: their bounds are the worst ones, and spare work on the others."""
    with np.errstate(all="ignore"):
        order = np.argsort(-np.log2(np.maximum(hi - lo, 1e-300)).sum(axis=1), kind="stable")
    return lo[order], hi[order]


def _parts(count: int) -> Iterator[slice]:
    return iter([slice(i, i + BATCH) for i in range(0, count, BATCH)])


def _activations(network: Network) -> set[str]:
    return {n.name for n in network.activation_nodes()}


def _within(found: Range, certain: Range) -> Range:
    return np.maximum(found[0], certain[0]), np.minimum(found[1], certain[1])


def _holds(found: Range, claim: Range) -> bool:
    return bool(np.all(found[0] >= claim[0]) and np.all(found[1] <= claim[1]))


def _hull(found: Range, claim: Range, certain: Range) -> Range:
    """The claim, widened to what was found and by a part of the step."""
    lo, hi = np.minimum(found[0], claim[0]), np.maximum(found[1], claim[1])
    with np.errstate(all="ignore"):
        lo = np.where(lo < claim[0], lo - 0.1 * (claim[0] - lo), lo)
        hi = np.where(hi > claim[1], hi + 0.1 * (hi - claim[1]), hi)
    return _within((lo, hi), certain)
