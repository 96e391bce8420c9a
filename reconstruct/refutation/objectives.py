"""What the local search makes large: the difference of two networks, and a unit's inactivity."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from reconstruct.networks.gradients import gradient
from reconstruct.networks.graph import Network
from reconstruct.numbers.arrays import Array

HELD = 2**23  # values of all nodes together that may be held at once


@dataclass(eq=False)
class DifferenceObjective:
    """`max_j |f_j − g_j|`, g the target and f the candidate, in float64."""

    target: Network
    candidate: Network
    evaluations: int = field(default=0)

    def measure(self, points: Array) -> tuple[Array, float]:
        """The difference at each point, and the largest |g|."""
        truth = self.target(points)
        gaps = np.max(np.abs(self.candidate(points) - truth), axis=1, initial=0.0)
        self.evaluations += len(points)
        finite = np.abs(truth[np.isfinite(truth)])
        return gaps, float(np.max(finite, initial=0.0))

    def value(self, points: Array, index: Array, /) -> Array:
        return self.measure(points)[0]

    def gradient(self, points: Array, index: Array, /) -> Array:
        """Through the output that differs most, at each point."""
        pair, out = (self.candidate, self.target), np.empty_like(points)
        for some in _chunks(len(points), *pair):
            values = [network.values(points[some]) for network in pair]
            ours, theirs = (v[n.output] for n, v in zip(pair, values, strict=True))
            seeds = _largest_sign(ours - theirs)
            ours, theirs = (
                gradient(n, v, n.output, seeds) for n, v in zip(pair, values, strict=True)
            )
            out[some] = np.nan_to_num(ours - theirs)
        return out


@dataclass(frozen=True, eq=False)
class EdgeObjective:
    """Minus the input of one hidden unit; the unit `(node, coordinate)` differs by start."""

    network: Network
    units: tuple[tuple[str, int], ...]

    def value(self, points: Array, index: Array, /) -> Array:
        out = np.empty(len(points))
        for rows in _chunks(len(points), self.network):
            values = self.network.values(points[rows])
            for offset, which in enumerate(index[rows]):
                name, unit = self.units[which]
                out[rows.start + offset] = -values[name][offset, unit]
        return out

    def gradient(self, points: Array, index: Array, /) -> Array:
        out = np.zeros_like(points)
        names = np.array([self.units[i][0] for i in index])
        for name in set(names):
            rows = np.flatnonzero(names == name)
            seeds = np.zeros((len(rows), self.network.sizes[name]))
            seeds[np.arange(len(rows)), [self.units[i][1] for i in index[rows]]] = -1.0
            out[rows] = chunked_gradient(self.network, points[rows], str(name), seeds)
        return out


def least_margins(
    network: Network, probes: Array, count: int
) -> tuple[tuple[tuple[str, int], ...], Array]:
    """Units that are active at every probe but come nearest to the edge, and where they do.

    Nearness is the least input in units of the spread of the inputs. An activation's straight
    piece begins at 0 for all kinds but Clip, for which any unit's lowest point is looked for.
    """
    inputs = {n.inputs[0] for n in network.activation_nodes()} - {network.source}
    low = {name: np.full(network.sizes[name], np.inf) for name in inputs}
    high = {name: np.full(network.sizes[name], -np.inf) for name in inputs}
    where = {name: np.zeros(network.sizes[name], dtype=int) for name in inputs}
    for rows in _chunks(len(probes), network):
        values = network.values(probes[rows])
        for name in inputs:
            part = values[name]
            arg, least = part.argmin(axis=0), part.min(axis=0)
            lower = least < low[name]
            where[name] = np.where(lower, arg + rows.start, where[name])
            low[name] = np.minimum(low[name], least)
            high[name] = np.maximum(high[name], part.max(axis=0))
    ranked = []
    for name in sorted(inputs):
        spread = high[name] - low[name]
        for unit in np.flatnonzero((low[name] > 0) & (spread > 0)):
            ranked.append((low[name][unit] / spread[unit], name, int(unit)))
    ranked.sort()
    units = tuple((name, unit) for _, name, unit in ranked[:count])
    starts = np.array([probes[where[name][unit]] for name, unit in units])
    return units, starts.reshape(len(units), network.size_in)


def chunked_gradient(network: Network, points: Array, name: str, seeds: Array) -> Array:
    """`gradient` at many points, as many at once as memory allows."""
    out = np.empty_like(points)
    for rows in _chunks(len(points), network):
        out[rows] = gradient(network, network.values(points[rows]), name, seeds[rows])
    return out


def _largest_sign(difference: Array) -> Array:
    """The sign of the largest entry in each row, zero elsewhere."""
    rows, largest = np.arange(len(difference)), np.argmax(np.abs(difference), axis=1)
    found = np.zeros_like(difference)
    found[rows, largest] = np.sign(difference[rows, largest])
    return found


def _chunks(count: int, *networks: Network) -> list[slice]:
    """Rows of points at which all values of these networks are held together."""
    step = max(1, HELD // sum(sum(network.sizes.values()) for network in networks))
    return [slice(i, min(i + step, count)) for i in range(0, count, step)]
