"""Hopping: uphill again and again from near the largest differences found so far. Numerical.

The difference of two nearly equal networks has many hills, and the high ones lie close to one
another. Starts are the best points so far, moved by random steps of all sizes; whatever is found
takes part in the next round.
"""

from __future__ import annotations

import time
from contextlib import nullcontext

import numpy as np

from reconstruct.networks.box import Box
from reconstruct.networks.graph import Network
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.parallel import one_blas_thread
from reconstruct.refutation.ascent import ascend
from reconstruct.refutation.objectives import DifferenceObjective

ROUNDS = 32
KEPT = 8  # points that each round starts from
STEPS = 4  # starts near each of them
CLIMB = 40
SEED = 3
SMALL = 2**24  # weights up to which BLAS threads wait for each other more than they work


def hop(
    target: Network,
    candidate: Network,
    box: Box,
    starts: Array,
    *,
    beyond: float,
    deadline: float,
    rounds: int = ROUNDS,
) -> list[tuple[float, tuple[float, ...]]]:
    """The largest differences near `starts` (rows), worst first, each with its point.

    It ends as soon as a difference is above `beyond` by a hundredth, or when the time is over.
    """
    rng = np.random.default_rng(SEED)
    objective = DifferenceObjective(target, candidate)
    small = target.weights + candidate.weights <= SMALL
    with one_blas_thread() if small else nullcontext(), np.errstate(all="ignore"):
        points = np.clip(starts, box.lo, box.hi)
        values = _numbers(objective.value(points, np.arange(len(points))))
        for _ in range(rounds):
            enough = len(values) and values[0] > 1.01 * beyond
            if enough or time.perf_counter() > deadline:
                break
            near = _near(points[:KEPT], box, rng)
            found, gaps = ascend(objective, near, box, rng, rounds=CLIMB, deadline=deadline)
            points = np.concatenate([points, found])
            values = np.concatenate([values, _numbers(gaps)])
            order = np.argsort(-values, kind="stable")[: 4 * KEPT]
            points, values = points[order], values[order]
    return [(float(v), tuple(x.tolist())) for v, x in zip(values[:KEPT], points, strict=False)]


def _near(points: Array, box: Box, rng: np.random.Generator) -> Array:
    """Points around the given ones, at distances from a thousandth to a third of the box."""
    scale = 10.0 ** rng.uniform(-3.0, -0.5)
    spread = np.repeat(points, STEPS, axis=0)
    step = scale * (box.hi - box.lo) * rng.standard_normal(spread.shape)
    return np.asarray(np.clip(spread + step, box.lo, box.hi))


def _numbers(values: Array) -> Array:
    """What overflows is no hill that could be climbed."""
    return np.where(np.isfinite(values), values, -np.inf)
