"""Random targets, and what a reconstruction of them may miss by."""

from __future__ import annotations

import itertools

import numpy as np

import reconstruct as rc

EPS = np.finfo(float).eps


def mlp(sizes, seed, **options) -> rc.Network:
    """A random network with these layer sizes, weights of variance 2/fan-in."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(b, a)) * np.sqrt(2 / a) for a, b in itertools.pairwise(sizes)]
    biases = [rng.normal(size=b) if i % 2 else None for i, b in enumerate(sizes[1:])]
    return rc.Network.mlp(weights, biases, **options)


def points(box: rc.Box, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([box.sample(500, rng), box.corners(256, rng)])


def difference(target: rc.Network, result: rc.Result) -> float:
    """The largest |f − g| at samples and corners, in float64."""
    x = points(result.domain)
    return float(np.abs(result.network(x) - target(x)).max())


def tolerance(result: rc.Result) -> float:
    """Rounding, as far as the sizes of shifts, gammas and conditions explain it."""
    size = sum(
        row.width * max(1.0, row.shift_max) * max(1.0, row.gamma_max) * max(1.0, row.condition or 1)
        for row in result.layers
    )
    return 100 * EPS * size
