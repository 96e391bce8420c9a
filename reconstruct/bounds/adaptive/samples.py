"""What samples reach: a guess of the true ranges, against which looseness is measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.networks import Activation, Box, Network
from reconstruct.numbers.arrays import Array, Range

POINTS = 20_000
FUNCTIONALS = 32  # random ones per activation, distributed as the rows of a drawn layer
SEED = 20240518


@dataclass(frozen=True, eq=False)
class Level:
    """What is measured at one activation: functionals of its value, and the next one's input.

    `low` and `high` are the sampled ranges, functionals first.
    """

    name: str
    following: str | None
    functionals: Array
    low: Array
    high: Array


class Samples:
    """Values at points of the box: uniform ones, and some with coordinates at the ends."""

    def __init__(self, network: Network, box: Box) -> None:
        rng = np.random.default_rng(SEED)
        points = box.sample(POINTS, rng)
        ends = rng.random(points.shape) < rng.random((POINTS, 1))
        ends[: POINTS // 2] = False
        sides = np.where(rng.random(points.shape) < 0.5, box.lo, box.hi)
        self.points = np.where(ends, sides, points)
        with np.errstate(all="ignore"):
            values = network.values(self.points)
        self.values: dict[str, Array] = {}
        used = network.needed()
        bent = [n for n in network.nodes if isinstance(n.op, Activation) and n.name in used]
        for node in bent:
            self.values[node.name] = values[node.name]
            self.values[node.inputs[0]] = values[node.inputs[0]]
        following = [*(n.inputs[0] for n in bent[1:]), None][: len(bent)]
        self.levels = tuple(
            self._level(node.name, after, rng) for node, after in zip(bent, following, strict=True)
        )

    def _level(self, name: str, following: str | None, rng: np.random.Generator) -> Level:
        value = self.values[name]
        functionals = rng.standard_normal((FUNCTIONALS, value.shape[1]))
        low, high = self.range_of(name, functionals)
        if following is not None:
            rows = self.values[following]
            low = np.concatenate([low, rows.min(axis=0)])
            high = np.concatenate([high, rows.max(axis=0)])
        return Level(name, following, functionals, low, high)

    def range_of(self, name: str, forms: Array) -> Range:
        """The sampled range of functionals of a value, (rows,)."""
        low, high = np.full(len(forms), np.inf), np.full(len(forms), -np.inf)
        value = self.values[name]
        step = max(1, 2**22 // max(1, len(forms)))
        with np.errstate(all="ignore"):
            for start in range(0, len(value), step):
                rows = value[start : start + step] @ forms.T
                low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
        return low, high
