"""A search for inputs where two networks differ: it can refute, and never proves.

Everything here is *numerical*: samples, corners, and a local search, evaluated in floating point.
A difference that counts is replayed in exact arithmetic elsewhere before it is called a witness.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from reconstruct.networks import Box, Domain, Network
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.sharing import dealt_out
from reconstruct.progress import Progress, Step, silent
from reconstruct.refutation.ascent import ascend
from reconstruct.refutation.objectives import DifferenceObjective, EdgeObjective, least_margins

CORNERS = 1024
CHUNK = 1024  # points evaluated between two looks at the clock
LOCAL_SECONDS = 30.0  # the local search may take this long, or as long as the sampling took
KEPT = 10  # worst points that are listed
BINS = 40
ROUNDS = 40
RESTARTS = 16
EDGES = 24  # units whose least active input is looked for


@dataclass(frozen=True)
class Search:
    """What the search saw; `samples` counts uniform points and corners.

    `float64_max` is the largest |f − g| in float64, met at `worst`; `float32_max` is that of f in
    float32 against g in float64, `target_float32_max` that of g in float32, both at inputs that
    are float32 numbers; `output_scale` is the largest |g|. `counts` says how many samples have
    their largest |f − g| between consecutive `edges`; `points` lists the worst inputs.
    """

    samples: int
    seed: int
    float64_max: float
    worst: tuple[float, ...]
    output_scale: float
    float32_max: float
    target_float32_max: float
    edges: tuple[float, ...]
    counts: tuple[int, ...]
    points: tuple[tuple[float, tuple[float, ...]], ...]
    evaluations: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Histogram and worst points as plain JSON values, for the report."""
        return {
            "histogram": {"edges": list(self.edges), "counts": list(self.counts)},
            "worst": [{"difference": gap, "point": list(x)} for gap, x in self.points],
        }


def search(
    target: Network,
    candidate: Network,
    box: Domain,
    *,
    samples: int = 10_000,
    seed: int = 0,
    restarts: int = RESTARTS,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> Search:
    """The largest difference found over samples, corners and `restarts` local searches.

    With a `time_limit` (seconds) it stops early and `samples` says how far it came. The local
    search climbs |f_j − g_j| from the worst samples and from random points, and also drives
    hidden units that were active at every sample to where they are least so: there a unit that
    leaves its straight piece shows. Without restarts there is no local search.
    """
    start = time.perf_counter()
    work = _Search(target, candidate, box.of_size(target.size_in), seed)
    work.deadline = start + (inf if time_limit is None else time_limit)
    with np.errstate(all="ignore"):  # what overflows is not finite, and is left out
        work.sample(samples, progress or silent)
        now = time.perf_counter()
        work.deadline = min(work.deadline, now + max(LOCAL_SECONDS, now - start))
        (progress or silent)(Step("local search", 0, None))
        if restarts and isinstance(work.box, Box):  # data have nothing between them to climb
            work.climb(restarts)
            work.drive_to_edges()
    return work.outcome(time.perf_counter() - start)


@dataclass(frozen=True, eq=False)
class Measured:
    """At some points: |f − g| in float64, the largest |g|, and the largest errors in float32."""

    gaps: Array
    scale: float
    single: float
    target_single: float


def measured(target: Network, candidate: Network, box: Domain, points: Array) -> Measured:
    """Both networks at some points, in float64 and in float32."""
    with np.errstate(all="ignore"):
        gaps, scale = DifferenceObjective(target, candidate).measure(points)
        rounded = _representable(points, box)
        truth = target(rounded)
        ours = candidate(rounded, dtype=np.float32).astype(np.float64)
        theirs = target(rounded, dtype=np.float32).astype(np.float64)
    return Measured(gaps, scale, _largest(ours - truth), _largest(theirs - truth))


class _Search:
    """The state of one search: the points seen so far and what was measured there."""

    def __init__(self, target: Network, candidate: Network, box: Domain, seed: int) -> None:
        self.target, self.candidate, self.box, self.seed = target, candidate, box, seed
        self.rng = np.random.default_rng(seed)
        self.deadline = inf
        self.objective = DifferenceObjective(target, candidate)
        self.points = np.empty((0, box.size))
        self.gaps = np.empty(0)
        self.found: list[tuple[float, tuple[float, ...]]] = []
        self.scale = self.single = self.target_single = 0.0

    def sample(self, count: int, tell: Progress) -> None:
        """Corners and uniform points, in float64 and in float32."""
        corners = self.box.corners(min(CORNERS, max(count, 1)), self.rng)
        uniform = self.box.sample(count, self.rng)
        points = np.concatenate([corners[: max(count, 1)], uniform])[: max(count, 1)]
        gaps = []
        sent = self.target.parameters + self.candidate.parameters
        for first in range(0, len(points), CHUNK):
            if first and time.perf_counter() > self.deadline:
                break
            gaps += self._measure(points[first : first + CHUNK], sent)
            tell(Step("sampled inputs", min(first + CHUNK, len(points)), len(points)))
        self.gaps = np.concatenate(gaps)
        self.points = points[: len(self.gaps)]

    def _measure(self, points: Array, sent: int) -> list[Array]:
        """The differences chunk by chunk, shared out where there are ranks to share with."""
        pair = self.target, self.candidate, self.box
        items = [(*pair, points[i : i + CHUNK]) for i in range(0, len(points), CHUNK)]
        found: list[Measured] = dealt_out(measured, items, numbers=sent)
        for part in found:
            self.scale = max(self.scale, part.scale)
            self.single = max(self.single, part.single)
            self.target_single = max(self.target_single, part.target_single)
            self.objective.evaluations += len(part.gaps)
        return [part.gaps for part in found]

    def climb(self, restarts: int) -> None:
        """Uphill from the worst samples, and from random points."""
        worst = self.points[_order(self.gaps)[: max(1, restarts // 2)]]
        fresh = self.box.sample(restarts - len(worst), self.rng) if restarts > len(worst) else None
        starts = worst if fresh is None else np.concatenate([worst, fresh])
        self._keep(*self._ascend(self.objective, starts))

    def drive_to_edges(self) -> None:
        """To where hidden units are least active, then uphill from there."""
        probes = self.points[: 2 * CHUNK : 2]
        for network in (self.candidate, self.target):
            if time.perf_counter() > self.deadline:
                return
            units, starts = least_margins(network, probes, EDGES)
            if not units:
                continue
            edges, _ = self._ascend(EdgeObjective(network, units), starts)
            self._keep(edges, self.objective.value(edges, np.arange(len(edges))))
            self._keep(*self._ascend(self.objective, edges))

    def _ascend(self, objective: Any, starts: Array) -> tuple[Array, Array]:
        assert isinstance(self.box, Box)
        return ascend(objective, starts, self.box, self.rng, rounds=ROUNDS, deadline=self.deadline)

    def _keep(self, points: Array, gaps: Array) -> None:
        for point, gap in zip(points, gaps, strict=True):
            if np.isfinite(gap):
                self.found.append((float(gap), tuple(point.tolist())))

    def outcome(self, seconds: float) -> Search:
        best = _order(self.gaps)[:KEPT]
        self._keep(self.points[best], self.gaps[best])
        listed = sorted(set(self.found), key=lambda pair: -pair[0])[:KEPT]
        edges, counts = histogram(self.gaps)
        return Search(
            samples=len(self.points),
            seed=self.seed,
            float64_max=listed[0][0] if listed else inf,
            worst=listed[0][1] if listed else tuple(self.points[0].tolist()),
            output_scale=self.scale,
            float32_max=self.single,
            target_float32_max=self.target_single,
            edges=edges,
            counts=counts,
            points=tuple(listed),
            evaluations=self.objective.evaluations,
            seconds=seconds,
        )


def histogram(gaps: Array) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Log-spaced bins over the positive differences; zeros count in the lowest bin."""
    finite = gaps[np.isfinite(gaps)]
    positive = finite[finite > 0]
    if not positive.size:
        return (0.0, 1.0), (int(finite.size),)
    low, high = float(positive.min()), float(positive.max())
    low = min(max(low, high * 1e-12), high * 0.5)
    edges = np.geomspace(low, high, BINS + 1)
    edges[0], edges[-1] = low, high
    counts, _ = np.histogram(np.clip(finite, low, high), edges)
    return tuple(edges.tolist()), tuple(int(c) for c in counts)


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


def _order(gaps: Array) -> Array:
    """Indices, the largest finite difference first."""
    return np.argsort(-np.where(np.isfinite(gaps), gaps, -inf), kind="stable")
