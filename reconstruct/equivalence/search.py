"""A search for inputs where two networks differ: it can refute, and never proves.

Everything here is *numerical*: samples and corners, ascent from the worst of them, and hops near
the highest hills, in floating point. A difference that counts is replayed in exact arithmetic
(`witness`) before it is called a witness.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from reconstruct.networks import Box, Domain, Network
from reconstruct.networks.graph import gradient
from reconstruct.networks.normal_form import without_casts
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.parallel import one_blas_thread
from reconstruct.progress import Progress, Step, silent


@dataclass(frozen=True)
class SearchLimits:
    """How far differences are looked for."""

    corners: int = 1024  # among the samples
    chunk: int = 1024  # points evaluated between two looks at the clock
    held: int = 2**23  # values of all nodes together that may be held at once
    seconds: float = 30.0  # the local search may take this long, or as long as the sampling took
    listed: int = 10  # worst points that are told
    rounds: int = 40  # of one ascent
    patience: int = 3  # rounds without gain after which a start is given up
    restarts: int = 16  # starts of the local search
    edges: int = 24  # units whose least active input is looked for
    hops: int = 32  # rounds of hopping, each from the `kept` best points to four near each
    kept: int = 8
    small: int = 2**24  # weights up to which BLAS threads wait for each other more than they work


LIMITS = SearchLimits()
STEPS = 2.0 ** -np.arange(0.0, 24.0, 2.0)  # fractions of the box's width tried along a direction

Suspects = list[tuple[float, tuple[float, ...]]]  # differences with their inputs
Over = Callable[[], bool]  # whether nobody waits for more


def after(deadline: float, over: Over = bool) -> Over:
    """Over at that time (perf_counter), or before."""
    return lambda: over() or time.perf_counter() > deadline


@dataclass(frozen=True)
class Search:
    """What the search saw; `samples` counts uniform points and corners.

    `float64_max` is the largest |f − g| in float64, met at `worst`; `float32_max` is that of f in
    float32 against g in float64, `target_float32_max` that of g in float32, both at inputs that
    are float32 numbers; `output_scale` is the largest |g|; `points` lists the worst inputs.
    """

    samples: int
    seed: int
    float64_max: float
    worst: tuple[float, ...]
    output_scale: float
    float32_max: float
    target_float32_max: float
    points: tuple[tuple[float, tuple[float, ...]], ...]
    evaluations: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """The worst points as plain JSON values, for the report."""
        return {"worst": [{"difference": gap, "point": list(x)} for gap, x in self.points]}


def search(
    target: Network,
    candidate: Network,
    box: Domain,
    *,
    samples: int = 10_000,
    seed: int = 0,
    restarts: int = LIMITS.restarts,
    time_limit: float | None = None,
    over: Over = bool,
    progress: Progress | None = None,
) -> Search:
    """The largest difference found over samples, corners and `restarts` local searches.

    With a `time_limit` (seconds) it stops early and `samples` says how far it came. The local
    search climbs |f_j − g_j| from the worst samples and from random points, and also drives
    hidden units that were active at every sample to where they are least so: there a unit that
    leaves its straight piece shows. Without restarts there is no local search, and what there is
    ends where it is `over`.
    """
    start = time.perf_counter()
    work = _Search(target, candidate, box.of_size(target.size_in), seed)
    limit = start + (inf if time_limit is None else time_limit)
    work.over = after(limit)
    with np.errstate(all="ignore"):  # what overflows is not finite, and is left out
        work.sample(samples, progress or silent)
        now = time.perf_counter()
        work.over = after(min(limit, now + max(LIMITS.seconds, now - start)), over)
        (progress or silent)(Step("local search", 0, None))
        if restarts and isinstance(work.box, Box):  # data have nothing between them to climb
            work.climb(restarts)
            work.drive_to_edges()
    return work.outcome(time.perf_counter() - start)


class Difference:
    """`max_j |f_j − g_j|`, g the target and f the candidate, in float64, and its gradient.

    g is a function of real numbers: its casts to narrower types are left out.
    """

    def __init__(self, target: Network, candidate: Network) -> None:
        self.target, self.candidate = without_casts(target), candidate
        self.evaluations = 0

    def __call__(self, points: Array) -> Array:
        return self.measure(points)[0]

    def measure(self, points: Array) -> tuple[Array, Array]:
        """The difference at each point, and the values of g."""
        truth = self.target(points)
        self.evaluations += len(points)
        return np.max(np.abs(self.candidate(points) - truth), axis=1, initial=0.0), truth

    def gradient(self, points: Array) -> Array:
        """Through the output that differs most, at each point."""
        pair, out = (self.candidate, self.target), np.empty_like(points)
        for some in _chunks(len(points), *pair):
            values = [network.values(points[some]) for network in pair]
            ours, theirs = (v[n.output] for n, v in zip(pair, values, strict=True))
            rows, largest = np.arange(len(ours)), np.argmax(np.abs(ours - theirs), axis=1)
            seeds = np.zeros_like(ours)
            seeds[rows, largest] = np.sign(ours - theirs)[rows, largest]
            ours, theirs = (
                gradient(n, v, n.output, seeds) for n, v in zip(pair, values, strict=True)
            )
            out[some] = np.nan_to_num(ours - theirs)
        return out

    def ascend(
        self, starts: Array, box: Box, rng: np.random.Generator, over: Over
    ) -> tuple[Array, Array]:
        """`(points, values)`: each start moved uphill, never out of the box.

        On a straight piece the best point lies at its border in the direction of the gradient, so
        a round tries long and short steps along the gradient and along its signs (a step of length
        1 is the corner of the box), and one random coordinate at both ends and in between.
        """
        points = np.clip(starts, box.lo, box.hi)
        values, idle = self(points), np.zeros(len(points), dtype=int)
        for _ in range(LIMITS.rounds):
            live = np.flatnonzero(idle < LIMITS.patience)
            if not live.size or over():
                break
            trials = _trials(points[live], self.gradient(points[live]), box, rng)
            found = self(trials.reshape(-1, box.size)).reshape(trials.shape[:2])
            best = np.argmax(np.where(np.isnan(found), -np.inf, found), axis=1)
            gain = found[np.arange(len(live)), best]
            better = gain > values[live]
            moved = live[better]
            points[moved], values[moved] = trials[better, best[better]], gain[better]
            idle[live] += 1
            idle[moved] = 0
        return points, values


def _trials(points: Array, slopes: Array, box: Box, rng: np.random.Generator) -> Array:
    """Points to try from each point: (points, trials, size), all in the box."""
    width, rows = box.hi - box.lo, np.arange(len(points))
    top = np.max(np.abs(slopes * width), axis=1, keepdims=True, initial=0.0)
    scaled = np.nan_to_num(slopes * width / np.where(top > 0, top, 1.0)) * width
    ways = np.stack([np.sign(slopes) * width, scaled], axis=1)
    moved = points[:, None] + (STEPS[:, None] * ways[:, :, None]).reshape(len(points), -1, box.size)
    single = np.repeat(points[:, None, :], 3, axis=1)
    which = rng.integers(box.size, size=len(points))
    single[rows, 0, which] = box.lo[which]
    single[rows, 1, which] = box.hi[which]
    single[rows, 2, which] = (box.lo + rng.random(box.size) * width)[which]
    return np.asarray(np.clip(np.concatenate([moved, single], axis=1), box.lo, box.hi))


def hop(
    target: Network,
    candidate: Network,
    box: Box,
    starts: Array,
    *,
    beyond: float,
    over: Over,
) -> Suspects:
    """The largest differences near `starts` (rows), worst first, each with its point.

    The difference of two nearly equal networks has many hills, and the high ones lie close to one
    another: each round climbs from the best points so far, moved by random steps of all sizes. It
    ends as soon as a difference is above `beyond` by a hundredth, or when it is `over`.
    """
    rng, kept = np.random.default_rng(3), LIMITS.kept
    difference = Difference(target, candidate)
    small = target.weights + candidate.weights <= LIMITS.small
    with one_blas_thread() if small else nullcontext(), np.errstate(all="ignore"):
        points = np.clip(starts, box.lo, box.hi)
        values = _hills(difference(points))
        for _ in range(LIMITS.hops):
            if np.max(values, initial=0.0) > 1.01 * beyond or over():
                break
            scale = 10.0 ** rng.uniform(-3.0, -0.5)  # a thousandth to a third of the box
            near = np.repeat(points[:kept], 4, axis=0)
            near = near + scale * (box.hi - box.lo) * rng.standard_normal(near.shape)
            found, gaps = difference.ascend(near, box, rng, over)
            points = np.concatenate([points, found])
            values = np.concatenate([values, _hills(gaps)])
            order = np.argsort(-values, kind="stable")[: 4 * kept]
            points, values = points[order], values[order]
    return _suspects(points[:kept], values[:kept])


class _Search:
    """The state of one search: the points seen so far and what was measured there."""

    def __init__(self, target: Network, candidate: Network, box: Domain, seed: int) -> None:
        self.target, self.candidate, self.box, self.seed = target, candidate, box, seed
        self.rng = np.random.default_rng(seed)
        self.over: Over = bool
        self.difference = Difference(target, candidate)
        self.points, self.gaps = np.empty((0, box.size)), np.empty(0)
        self.found: Suspects = []
        self.scale = self.single = self.target_single = 0.0

    def sample(self, count: int, tell: Progress) -> None:
        """Corners and uniform points, in float64 and in float32."""
        count = max(count, 1)
        corners = self.box.corners(min(LIMITS.corners, count), self.rng)
        points = np.concatenate([corners[:count], self.box.sample(count, self.rng)])[:count]
        gaps: list[Array] = []
        for first in range(0, len(points), LIMITS.chunk):
            if first and self.over():
                break
            gaps.append(self._measured(points[first : first + LIMITS.chunk]))
            tell(Step("sampled inputs", min(first + LIMITS.chunk, len(points)), len(points)))
        self.gaps = np.concatenate(gaps)
        self.points = points[: len(self.gaps)]

    def _measured(self, points: Array) -> Array:
        """The differences at some points; the largest |g| and float32 errors are kept."""
        gaps, truth = self.difference.measure(points)
        self.scale = max(self.scale, float(np.max(np.abs(truth[np.isfinite(truth)]), initial=0.0)))
        near = _representable(points, self.box)
        expected = self.difference.target(near)
        ours = self.candidate(near, dtype=np.float32).astype(np.float64)
        theirs = self.target(near, dtype=np.float32).astype(np.float64)
        self.single = max(self.single, _largest(ours - expected))
        self.target_single = max(self.target_single, _largest(theirs - expected))
        return gaps

    def climb(self, restarts: int) -> None:
        """Uphill from the worst samples, and from random points."""
        worst = self.points[_order(self.gaps)[: max(1, restarts // 2)]]
        fresh = self.box.sample(max(0, restarts - len(worst)), self.rng)
        self._ascend(np.concatenate([worst, fresh]))

    def drive_to_edges(self) -> None:
        """To where hidden units are least active, then uphill from there: where a unit that is
        nearly straight falls fastest lies a corner, and from there perhaps another."""
        probes = self.points[: 2 * LIMITS.chunk : 2]
        for network in (self.candidate, self.target):
            if self.over():
                return
            points: list[Array] = []
            for name, unit, point in _least_active(network, probes):
                seeds = np.zeros((1, network.sizes[name]))
                seeds[0, unit] = 1.0
                for _ in range(LIMITS.patience):
                    slope = gradient(network, network.values(point), name, seeds)
                    point = np.where(slope > 0, self.box.lo, self.box.hi)
                    points.append(point)
            if points:
                edges = np.concatenate(points)
                self.found += _suspects(edges, self.difference(edges))
                self._ascend(edges[:: LIMITS.patience])

    def _ascend(self, starts: Array) -> None:
        assert isinstance(self.box, Box)
        self.found += _suspects(*self.difference.ascend(starts, self.box, self.rng, self.over))

    def outcome(self, seconds: float) -> Search:
        best = _order(self.gaps)[: LIMITS.listed]
        self.found += _suspects(self.points[best], self.gaps[best])
        listed = sorted(set(self.found), key=lambda pair: -pair[0])[: LIMITS.listed]
        return Search(
            samples=len(self.points),
            seed=self.seed,
            float64_max=listed[0][0] if listed else inf,
            worst=listed[0][1] if listed else tuple(self.points[0].tolist()),
            output_scale=self.scale,
            float32_max=self.single,
            target_float32_max=self.target_single,
            points=tuple(listed),
            evaluations=self.difference.evaluations,
            seconds=seconds,
        )


def _least_active(network: Network, probes: Array) -> list[tuple[str, int, Array]]:
    """Units that are active at every probe but come nearest to the edge, and where they do.

    Nearness is the least input in units of the spread of the inputs. An activation's straight
    piece begins at 0 for all kinds but Clip, for which any unit's lowest point is looked for.
    """
    names = sorted({n.inputs[0] for n in network.activation_nodes()} - {network.source})
    lowest = [(np.full(network.sizes[n], inf), np.full(network.sizes[n], -inf)) for n in names]
    where = [np.zeros(network.sizes[n], dtype=int) for n in names]
    for rows in _chunks(len(probes), network):
        values = network.values(probes[rows])
        for i, name in enumerate(names):
            low, high = lowest[i]
            lower = values[name].min(axis=0) < low
            where[i] = np.where(lower, values[name].argmin(axis=0) + rows.start, where[i])
            np.minimum(low, values[name].min(axis=0), out=low)
            np.maximum(high, values[name].max(axis=0), out=high)
    ranked = [
        (low[unit] / (high - low)[unit], name, int(unit), int(place[unit]))
        for name, (low, high), place in zip(names, lowest, where, strict=True)
        for unit in np.flatnonzero((low > 0) & (high > low))
    ]
    chosen = sorted(ranked)[: LIMITS.edges]
    return [(name, unit, probes[place][None]) for _, name, unit, place in chosen]


def _chunks(count: int, *networks: Network) -> list[slice]:
    """Rows of points at which all values of these networks are held together."""
    step = max(1, LIMITS.held // sum(sum(network.sizes.values()) for network in networks))
    return [slice(i, min(i + step, count)) for i in range(0, count, step)]


def _representable(points: Array, box: Domain) -> Array:
    """The points rounded to float32 numbers, and back into the box where it holds any."""
    near = points.astype(np.float32)
    near = np.where(near < box.lo, np.nextafter(near, np.float32(np.inf)), near)
    near = np.where(near > box.hi, np.nextafter(near, np.float32(-np.inf)), near)
    return np.asarray(near, dtype=np.float64)


def _largest(difference: Array) -> float:
    """The largest magnitude; +inf where the evaluation overflowed."""
    top = float(np.max(np.abs(difference), initial=0.0))
    return inf if np.isnan(top) else top


def _hills(gaps: Array) -> Array:
    """What overflows is no hill that could be climbed."""
    return np.where(np.isfinite(gaps), gaps, -inf)


def _order(gaps: Array) -> Array:
    """Indices, the largest finite difference first."""
    return np.argsort(-_hills(gaps), kind="stable")


def _suspects(points: Array, gaps: Array) -> Suspects:
    """Points with their differences, as far as these are finite."""
    pairs = zip(points, gaps, strict=True)
    return [(float(gap), tuple(point.tolist())) for point, gap in pairs if np.isfinite(gap)]
