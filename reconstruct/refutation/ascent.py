"""Projected ascent in a box: many starting points at once, for functions of straight pieces."""

from __future__ import annotations

import time
from typing import Protocol

import numpy as np

from reconstruct.networks import Box
from reconstruct.numbers.arrays import Array

STEPS = 2.0 ** -np.arange(0.0, 24.0, 2.0)  # fractions of the box's width tried along a direction
PATIENCE = 3  # rounds without gain after which a start is given up


class Objective(Protocol):
    """What is to be made large: value and gradient at points (rows), each with its own index.

    `index` says which start a row belongs to, for objectives that differ from start to start.
    """

    def value(self, points: Array, index: Array, /) -> Array: ...

    def gradient(self, points: Array, index: Array, /) -> Array: ...


def ascend(
    objective: Objective,
    starts: Array,
    box: Box,
    rng: np.random.Generator,
    *,
    rounds: int,
    deadline: float,
) -> tuple[Array, Array]:
    """`(points, values)`: each start moved uphill, never out of the box.

    On a straight piece the best point lies at its border in the direction of the gradient, so a
    round tries long and short steps along the gradient and along its signs (a step of length 1
    is the corner of the box), and one random coordinate at both ends and in between.
    """
    points = np.clip(starts, box.lo, box.hi)
    index = np.arange(len(points))
    values = objective.value(points, index)
    idle = np.zeros(len(points), dtype=int)
    for _ in range(rounds):
        live = np.flatnonzero(idle < PATIENCE)
        if not live.size or time.perf_counter() > deadline:
            break
        slopes = objective.gradient(points[live], live)
        trials = _trials(points[live], slopes, box, rng)
        each = trials.shape[1]
        found = objective.value(trials.reshape(-1, box.size), np.repeat(live, each))
        found = found.reshape(len(live), each)
        best = np.argmax(np.where(np.isnan(found), -np.inf, found), axis=1)
        gain = found[np.arange(len(live)), best]
        better = gain > values[live]
        moved = live[better]
        points[moved] = trials[better, best[better]]
        values[moved] = gain[better]
        idle[live] += 1
        idle[moved] = 0
    return points, values


def _trials(points: Array, slopes: Array, box: Box, rng: np.random.Generator) -> Array:
    """Points to try from each point: (points, trials, size), all in the box."""
    width = box.hi - box.lo
    top = np.max(np.abs(slopes * width), axis=1, keepdims=True, initial=0.0)
    scaled = np.nan_to_num(slopes * width / np.where(top > 0, top, 1.0)) * width
    steps = np.concatenate(
        [
            STEPS[None, :, None] * (np.sign(slopes) * width)[:, None, :],
            STEPS[None, :, None] * scaled[:, None, :],
        ],
        axis=1,
    )
    moved = points[:, None, :] + steps
    single = np.repeat(points[:, None, :], 3, axis=1)
    which = rng.integers(box.size, size=len(points))
    rows = np.arange(len(points))
    single[rows, 0, which] = box.lo[which]
    single[rows, 1, which] = box.hi[which]
    single[rows, 2, which] = (box.lo + rng.random(box.size) * width)[which]
    tried = np.concatenate([moved, single], axis=1)
    return np.asarray(np.clip(tried, box.lo, box.hi))
