"""What is halved to make ranges narrow: nothing proved here, everything by measurement.

`find_partition` halves the boxes whose ranges lie farthest outside of what samples reach, each
along the input that makes the linear bounds loose there. All values share the boxes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from reconstruct.bounds.partition import BranchAndBound, Partition
from reconstruct.bounds.propagation import Ranges, propagate
from reconstruct.networks import Box, Network, Unitwise
from reconstruct.networks.graph import adjoints
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.parallel import one_blas_thread, parallel_map
from reconstruct.progress import Progress, Step, silent


@dataclass(frozen=True)
class PartitionLimits:
    """How far the search for a partition goes."""

    boxes: int = 2**15  # of a partition: their ranges have to be kept
    work: float = 2.0**39  # multiplications of CROWN on all boxes together: a minute
    portion: float = 0.06  # of the boxes are halved in one round, so that the worst are found again
    fewest: int = 32  # boxes halved in one round at least: a batch is filled
    batch: int = 64  # boxes per pass: their coefficients stay in cache
    tight: float = 0.03  # of the sampled range: a box this close to its samples is done
    points: int = 20_000  # samples: more of them reach a few percent farther
    outputs: int = 64  # up to which the output counts too: its units are carried back besides
    draws: int = 3  # random signs, as a root of mean squares: more of them chose no better
    search: float = 0.4  # of the time; bounds on the boxes and functionals of them take the rest


LIMITS = PartitionLimits()


def find_partition(
    network: Network,
    box: Box,
    certain: Mapping[str, Range],
    boxes: int,
    seconds: float | None = None,
    progress: Progress = silent,
) -> Partition:
    """A partition found with about `boxes` boxes, or in part of `seconds` if they are given.

    `certain` are ranges (1, size) that hold on the box.
    """
    goal = _Goal.of(network, box, certain)
    found = BranchAndBound(box.lo[None], box.hi[None])
    most = int(min(LIMITS.boxes, LIMITS.work / max(1.0, work_of(network))))
    end = None if seconds is None else time.monotonic() + LIMITS.search * seconds
    with one_blas_thread():
        while len(found.lo) < most:
            spent = found.evaluated >= boxes if end is None else time.monotonic() > end
            spent = spent and len(found.lo) > 1  # one division in any case: samples took the time
            count = max(LIMITS.fewest, int(LIMITS.portion * len(found.lo)))
            chosen = found.worst(LIMITS.tight, min(count, most - len(found.lo)))
            if spent or not len(chosen):
                break
            found.advance(goal, chosen)
            progress(Step("dividing the domain", len(found.lo)))
    return found.partition()


def work_of(network: Network) -> float:
    """Multiplications of CROWN on one box, for all that activations take."""
    taken = set(taken_values(network))
    total, before = 0.0, 0.0
    for node in network.nodes:
        before += node.op.nonzeros
        if node.name in taken:
            total += 4.0 * network.sizes[node.name] * before
    return total


def taken_values(network: Network) -> tuple[str, ...]:
    """The values that activations take, in order: their units are carried back one by one."""
    return tuple(dict.fromkeys(node.inputs[0] for node in network.activation_nodes()))


@dataclass(frozen=True, eq=False)
class _Goal:
    """The objective: no value that an activation takes is to leave its sampled range by much.

    Looseness grows from layer to layer. So that the last layer does not decide alone, each counts
    in parts of the root of what it is on the whole box.
    """

    network: Network
    certain: Mapping[str, Range]
    sampled: Mapping[str, Range]
    weights: Mapping[str, float]

    @classmethod
    def of(cls, network: Network, box: Box, certain: Mapping[str, Range]) -> _Goal:
        used = network.needed()
        names = [name for name in taken_values(network) if name in used and name != network.source]
        if len(names) == 1 and network.output not in names and network.size_out <= LIMITS.outputs:
            names.append(network.output)  # it sees how the last activation bends
        sampled = _sampled(network, box, names)
        known = {name: certain[name] for name in taken_values(network)}
        start = {name: float(_outside(certain[name], sampled[name]).max()) for name in names}
        weights = {name: 1 / np.sqrt(max(LIMITS.tight, out)) for name, out in start.items()}
        return cls(network, known, sampled, weights)

    def __call__(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        step = min(LIMITS.batch, max(1, -(-len(lo) // 2)))  # two workers share what is little
        parts = [slice(i, i + step) for i in range(0, len(lo), step)]
        found = list(parallel_map(lambda part: self._batch(lo[part], hi[part]), parts))
        return np.concatenate([e for e, _ in found]), np.concatenate([a for _, a in found])

    def _batch(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            state = propagate(self.network, lo, hi, backward=True, lean=True, known=self.certain)
            excess = np.zeros(len(lo))
            seeds: dict[str, Array] = {}
            for name, range_of in self.sampled.items():
                found = state.values[name]
                if name == self.network.output:
                    size = self.network.size_out
                    found = state.functionals(name, np.eye(size), np.zeros(size))
                outside = _outside(found, range_of)
                worst = outside.argmax(axis=1)
                own = outside[np.arange(len(lo)), worst] * self.weights[name]
                more = own > excess
                excess = np.maximum(excess, own)
                rows = np.zeros(outside.shape)
                rows[np.flatnonzero(more), worst[more]] = 1.0
                seeds = {n: np.where(more[:, None], 0.0, r) for n, r in seeds.items()} | {
                    name: rows
                }
            return excess, looseness(state, seeds).argmax(axis=1)


def _sampled(network: Network, box: Box, names: list[str]) -> dict[str, Range]:
    """Ranges (size,) of values at points of the box: uniform ones, and some with coordinates at
    the ends."""
    rng = np.random.default_rng(20240518)
    points = box.sample(LIMITS.points, rng)
    ends = rng.random(points.shape) < rng.random((LIMITS.points, 1))
    ends[: LIMITS.points // 2] = False
    sides = np.where(rng.random(points.shape) < 0.5, box.lo, box.hi)
    with np.errstate(all="ignore"):
        values = network.values(np.where(ends, sides, points))
    return {name: (values[name].min(axis=0), values[name].max(axis=0)) for name in names}


def _outside(found: Range, sampled: Range) -> Array:
    """How far ranges (boxes, size) leave what was sampled, in parts of its width."""
    low, high = sampled
    with np.errstate(all="ignore"):
        width = np.maximum(high - low, 1e-9 * np.max(np.abs(high), initial=1e-290))
        outside = np.maximum(found[1] - high, low - found[0]) / width
    return np.where(np.isfinite(outside), outside, 1e290)


def looseness(state: Ranges, seeds: Mapping[str, Array], points: int = 1) -> Array:
    """Per box and coordinate, how much of the gap of the bounds of `Σ seeds·v` comes from the
    coordinate's width; seeds (boxes, size) by the value that they belong to.

    An undecided unit with input z in [l, u] loses |Λ|·|l|u/(u − l), Λ the sensitivity of what
    matters to it, in proportion to the range of z, of which coordinate i makes up
    |∂z/∂x_i|·width_i. The sum over units is estimated, as a root of mean squares, by reverse
    passes with random signs. Slopes are those at the middle, and at as many random points of the
    box as make `points`: of a large box the middle alone knows little. Halving the widest
    coordinate in parts of the domain does as well for ranges of five real networks, but takes ten
    times the boxes and more where inputs matter unequally.
    """
    network = state.network
    lo, hi = state.values[network.source]
    width = 0.5 * hi - 0.5 * lo
    total, straight = np.zeros_like(width), np.zeros_like(width)
    rng, elsewhere = np.random.default_rng(0), np.random.default_rng(1)
    with np.errstate(all="ignore"):
        for point in range(points):
            share = 0.5 if point == 0 else elsewhere.random(lo.shape)
            values = network.values((1.0 - share) * lo + share * hi)
            sensitivity = adjoints(network, values, seeds)
            # layer by layer: signs of layers that mix are noisy
            for name, loss in _losses(state, sensitivity).items():
                for _ in range(max(1, LIMITS.draws // points)):
                    signed = {name: rng.choice([-1.0, 1.0], size=loss.shape) * loss}
                    total += adjoints(network, values, signed).get(network.source, 0.0) ** 2
            straight += np.abs(sensitivity.get(network.source, 0.0))
        found = np.nan_to_num(np.sqrt(total) * width, nan=0.0, posinf=0.0)
        plain = np.nan_to_num(straight * width, nan=0.0, posinf=0.0)
    influence = np.where(found.max(axis=1, keepdims=True) > 0, found, plain)
    # a little for every width, so that no coordinate is forgotten; less than 0 for none
    top = influence.max(axis=1, keepdims=True, initial=0.0)
    share = width / np.maximum(width.max(axis=1, keepdims=True, initial=0.0), 1e-300)
    return np.where(width > 0, influence + (1e-2 * top + 1e-300) * share, -1.0)


def _losses(state: Ranges, sensitivity: dict[str, Array]) -> dict[str, Array]:
    """For each value that an activation takes: what its undecided units lose, in parts of their
    ranges: |l|u/(u − l)² around a kink at 0, a quarter of the range at most."""
    losses = {}
    for node in state.network.nodes:
        if not isinstance(node.op, Unitwise) or node.name not in sensitivity:
            continue
        lo, hi = state.values[node.inputs[0]]
        bent = ~node.op.straight(lo, hi)
        if bent.any() and node.inputs[0] != state.network.source:
            part = np.where((lo < 0) & (hi > 0), -lo / (hi - lo) * (hi / (hi - lo)), 0.25)
            losses[node.inputs[0]] = np.abs(sensitivity[node.name]) * part * bent
    return losses
