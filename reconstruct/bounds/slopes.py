"""Slopes that make bounds tight, searched for activation by activation: alpha-CROWN.

Any slopes are sound (see `relaxed`), so the search is numerical and what it gives are slopes alone,
one byte each. One set of them serves all functionals of the values from an activation on, up to the
next: a certificate has to carry them, and a construction asks for thousands of rows. What grows is
the mean lower bound of random rows, as a drawn layer has them, and of rows of the map that follows,
each with both signs; fresh ones at every step, so that slopes fit none of them in particular. Other
rows decide whether the set is kept: where ranges become narrower by less than `WORTH`, the two
kinds of lines that there are without it have to do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np

from reconstruct.bounds.leaning import LEVELS, Shares
from reconstruct.bounds.propagation import Ranges
from reconstruct.bounds.relaxed import Climb, Relaxed
from reconstruct.networks import Mixing, Network, Unitwise
from reconstruct.networks.activations import Bends, Support
from reconstruct.numbers.arrays import Array

ROWS = 32  # random ones, and units, in one step
WORTH = 2.0**-6  # of the widths: a set that gains less is not worth the time that it takes
HOPE = 0.25  # of that has to be gained by a third of the steps, or else there will be no more
STEPS, MOST_STEPS = 24, 256  # at one activation: without a time limit, and with one
RATE = 0.2  # of the way from one slope to the other, in the first step
MEAN, SQUARE, PATH = 0.9, 0.98, 0.8  # kept of the mean gradient, its square, the mean of the path
LEAST = 2.0**-10  # of the largest entry of a gradient: far below it rounding must not decide
MOST_WORK = 2**34  # multiplications of all steps at one activation: seconds
FEWEST = 4  # steps that are worth beginning with
SEED = 20240611


@dataclass(frozen=True, eq=False)
class Rows:
    """Forms of values, (2·rows, size) each, all with both signs: random rows, then units.

    `kinds` says how many there are of each.
    """

    forms: Mapping[str, Array]
    kinds: tuple[int, ...]

    @classmethod
    def drawn(
        cls, sizes: Mapping[str, int], name: str, units: str | None, rng: np.random.Generator
    ) -> Rows:
        """Of the value `name`, and, if it is given, some units of the value `units`."""
        chosen = rng.permutation(0 if units is None else sizes[units])[:ROWS]
        first = np.zeros((ROWS + len(chosen), sizes[name]))
        first[:ROWS] = rng.standard_normal((ROWS, sizes[name]))
        forms = {name: np.concatenate([first, -first])}
        if units is None:
            return cls(forms, (ROWS,))
        second = np.zeros((ROWS + len(chosen), sizes[units]))
        second[ROWS + np.arange(len(chosen)), chosen] = 1.0
        return cls({**forms, units: np.concatenate([second, -second])}, (ROWS, len(chosen)))

    def widths(self, low: Array) -> list[float]:
        """The mean width of each kind, from lower bounds with both signs."""
        half = len(low) // 2
        parts = np.split(-(low[:half] + low[half:]), np.cumsum(self.kinds)[:-1])
        return [float(part.mean()) for part in parts]

    def weights(self, widths: list[float]) -> Array:
        """With these the widths add up to 1 if they are as given, all kinds alike."""
        shares = [1 / (len(widths) * n * w) for n, w in zip(self.kinds, widths, strict=True)]
        return np.asarray(np.tile(np.repeat(shares, self.kinds), 2))


class SlopeSearch:
    """Looks for slopes at activation after activation; each search starts where the last ended.

    A fixed number of steps at each, fewer where they are long; or, if `seconds` are given, as many
    as its share of the time allows: the outcome then depends on the machine.
    """

    def __init__(self, network: Network, seconds: float | None = None) -> None:
        self.network, self.left = network, len(network.activation_nodes())
        self.deadline = None if seconds is None else time.perf_counter() + seconds
        self.shares: Shares = {}

    def __call__(self, state: Ranges, name: str, following: str, /) -> Shares | None:
        """Shares for all activations up to `name`, None where nothing is worth it.

        `following` is the next value that bends, or the output, whose range decides nothing.
        """
        end, self.left = self._end(), max(1, self.left - 1)
        relaxed, count = Relaxed.of(state), self._count(name)
        if count < FEWEST or not relaxed.bends:
            return None
        rng = np.random.default_rng([SEED, self.left])
        units = None if following == self.network.output else following
        rows = partial(Rows.drawn, self.network.sizes, name, units, rng)
        with np.errstate(all="ignore"):
            judge = _Judge.of(relaxed, rows())
            widths = judge.widths
            if not all(0 < width < np.inf for width in widths):
                return None
            starts = [{**start, **self.shares} for start in _starts(relaxed)]
            path = _Path(max(starts, key=judge.worth))
            for step in range(count):
                some = rows()
                path.step(relaxed.climb(path.at, some.forms, some.weights(widths)))
                hopeless = step == count // 3 and judge.gain(path.rounded()) < HOPE * WORTH
                if hopeless or time.perf_counter() > end:
                    break
            self.shares = path.rounded()
            return self.shares if judge.gain(self.shares) >= WORTH else None

    def _end(self) -> float:
        """When the search at this activation has to end."""
        if self.deadline is None:
            return np.inf
        now = time.perf_counter()
        return now + max(0.0, self.deadline - now) / self.left

    def _count(self, name: str) -> int:
        """How many steps are bearable."""
        sizes = self.network.sizes
        before = set(list(sizes)[: list(sizes).index(name)])
        maps = [node for node in self.network.mixing_nodes() if node.name in before]
        work = sum(cast(Mixing, node.op).summands * sizes[node.name] for node in maps)
        most = STEPS if self.deadline is None else MOST_STEPS
        return int(min(most, MOST_WORK // (8 * ROWS * max(1, work))))


@dataclass(frozen=True, eq=False)
class _Judge:
    """Rows that no step sees: their bounds without a new set, as a part of which gains are told."""

    relaxed: Relaxed
    rows: Rows
    plain: Array
    today: Array

    @classmethod
    def of(cls, relaxed: Relaxed, rows: Rows) -> _Judge:
        plain = _lower(replace(relaxed.state, leaning={}), rows)
        return cls(relaxed, rows, plain, np.maximum(plain, _lower(relaxed.state, rows)))

    @property
    def widths(self) -> list[float]:
        return self.rows.widths(self.today)

    def worth(self, shares: Shares) -> float:
        """The sum of lower bounds by lines of these shares alone."""
        return float(self.rows.weights(self.widths) @ self._low(shares))

    def gain(self, shares: Shares) -> float:
        """How much narrower ranges become, as a part of the widths."""
        met = np.maximum(self.plain, self._low(shares))
        return float(self.rows.weights(self.widths) @ (met - self.today))

    def _low(self, shares: Shares) -> Array:
        weights = np.ones(2 * sum(self.rows.kinds))
        return self.relaxed.climb(shares, self.rows.forms, weights).low


def _lower(state: Ranges, rows: Rows) -> Array:
    forms = {name: block[None] for name, block in rows.forms.items()}
    return np.asarray(state.lower(forms, np.zeros((1, 2 * sum(rows.kinds))))[0])


class _Path:
    """Adam's steps in the shares, kept between 0 and 1, and the mean of where they led."""

    def __init__(self, start: Shares) -> None:
        self.at, self.mean = dict(start), dict(start)
        self.moment = {name: np.zeros_like(x) for name, x in start.items()}
        self.square = {name: np.zeros_like(x) for name, x in start.items()}
        self.count = 0

    def step(self, climb: Climb) -> None:
        """One step up; what is not finite moves nothing."""
        self.count += 1
        t, rate = self.count, RATE / np.sqrt(1 + self.count / 4)
        for name, slope in climb.slope.items():
            largest = np.abs(slope).max()
            if not 0 < largest < np.inf:
                continue
            slope = slope / largest  # its size says nothing, and its square might overflow
            self.moment[name] = MEAN * self.moment[name] + (1 - MEAN) * slope
            self.square[name] = SQUARE * self.square[name] + (1 - SQUARE) * slope**2
            size = np.sqrt(self.square[name] / (1 - SQUARE**t))
            move = self.moment[name] / (1 - MEAN**t) / (size + LEAST * size.max())
            self.at[name] = np.clip(self.at[name] + rate * move, 0.0, 1.0)
            self.mean[name] = PATH * self.mean[name] + (1 - PATH) * self.at[name]

    def rounded(self) -> Shares:
        return {name: np.rint(x * LEVELS) / LEVELS for name, x in self.mean.items()}


def _starts(relaxed: Relaxed) -> list[dict[str, Array]]:
    """The lines of either kind, and lines as steep as the chord on the other side."""
    network, values = relaxed.state.network, relaxed.state.values
    found: list[dict[str, Array]] = [{}, {}, {}]
    for name, bends in relaxed.bends.items():
        node = network.node(name)
        slopes = cast(Unitwise, node.op).slopes
        pairs = [slopes(*values[node.inputs[0]], kind) for kind in Support]
        free = [np.where(bends.below, *pair) for pair in pairs]
        chord = np.where(bends.below, pairs[0][1], pairs[0][0])
        for start, slope in zip(found, [*free, chord], strict=True):
            start[name] = _share(bends, slope)
    return found


def _share(bends: Bends, slope: Array) -> Array:
    way = np.where(bends.free, bends.right - bends.left, 1.0)
    share = np.where(bends.free, (slope - bends.left) / way, 0.0)
    return np.asarray(np.clip(np.nan_to_num(share), 0.0, 1.0))
