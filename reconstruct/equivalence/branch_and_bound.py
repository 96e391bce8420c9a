"""Any two networks: a rigorous bound of their difference, by branch and bound over the input.

The difference is one network with a shared input, so that what both networks have in common
cancels in the linear bounds. The box is cut where the bound is worst until the bound is within
the tolerance, an input is met where the difference seems larger, or the time is over.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass

import numpy as np

from reconstruct.bounds.crown import carry_back, on_source
from reconstruct.bounds.propagation import TILE_ELEMENTS, Ranges, propagate
from reconstruct.equivalence.branching import looseness
from reconstruct.equivalence.difference import difference_network
from reconstruct.equivalence.pairing import Pairing
from reconstruct.networks import Box, Domain
from reconstruct.networks.graph import Network
from reconstruct.numbers.arrays import Array
from reconstruct.progress import OutOfTime, Progress, Step, silent, until

TIME_OVER = "the time was over"
GRACE = 2.0  # seconds that the whole box, uncut, may take in any case
BATCH = 256  # boxes bounded at once, at most
NOISE = 2.0**-36  # relative size of differences that float64 evaluation may invent
FLOPS = 4e9  # multiplications per second counted on, when a network's cost is foreseen


@dataclass(frozen=True)
class GeneralResult:
    """`bound` ≥ sup over the box of max_j |f_j − g_j| in real arithmetic (rigorous, may be inf).

    `boxes` were bounded, `open_boxes` of them are still above the tolerance. `suspect` is an
    input where the difference, evaluated in float64, exceeds the tolerance (numerical: to be
    replayed), with `suspect_difference`. `tried` says in words what was done.
    """

    bound: float
    tolerance: float
    boxes: int
    open_boxes: int
    suspect: tuple[float, ...] | None
    suspect_difference: float
    seconds: float
    tried: str

    @property
    def certified(self) -> bool:
        return self.bound <= self.tolerance


def bound_difference(
    target: Network,
    candidate: Network,
    box: Domain,
    *,
    tolerance: float = 0.0,
    time_limit: float = 60.0,
    progress: Progress | None = None,
) -> GeneralResult:
    """Bound |f − g| on the box, cutting it until the bound is at most `tolerance`; of data each
    input, or the box around each, is bounded by itself, and nothing between them.

    Best first: the boxes with the largest bounds are halved, each along the coordinate that
    contributes most to its bound.
    """
    start = time.perf_counter()
    domain = box.of_size(target.size_in)
    work = _Branching(difference_network(target, candidate), domain, tolerance, time_limit)
    reason = "the whole box was bounded"
    try:
        while work.queue:
            reason = work.reason_to_stop()
            if reason:
                break
            work.advance()
            (progress or silent)(Step("boxes bounded", work.boxes, None, work.bound))
    except OutOfTime:
        reason = TIME_OVER
    return work.result(time.perf_counter() - start, reason or "every box is within the tolerance")


@dataclass(frozen=True, eq=False)
class _Open:
    """A box whose bound is above the tolerance, and the coordinate to cut it along.

    The coordinate is −1 as long as nothing about the box is known.
    """

    lo: Array
    hi: Array
    bound: float
    coordinate: int


class _Branching:
    """The boxes that are still open, the worst first, and the bound of those that are closed."""

    def __init__(self, network: Network, box: Domain, tolerance: float, seconds: float) -> None:
        self.network, self.tolerance = network, tolerance
        self.pairing = Pairing(network, Box(box.lo, box.hi))
        self.backward = _cost(network) <= FLOPS * max(seconds, 1.0)
        self.deadline = time.perf_counter() + seconds
        self.first_deadline = time.perf_counter() + max(seconds, GRACE)
        self.counter = 0
        self.queue: list[tuple[float, int, _Open]] = []
        for lo, hi in zip(*np.atleast_2d(*_ends(box)), strict=True):
            self._open(_Open(lo, hi, np.inf, -1))
        self.closed = 0.0
        self.boxes = 0
        self.suspect: tuple[float, ...] | None = None
        self.suspect_difference = 0.0
        widest = max(network.sizes.values())
        self.batch = int(np.clip(TILE_ELEMENTS // (2 * widest * widest), 1, BATCH))

    @property
    def bound(self) -> float:
        return max(self.closed, -self.queue[0][0] if self.queue else 0.0)

    def reason_to_stop(self) -> str:
        worst = self.queue[0][2]
        if worst.coordinate < 0:
            return ""
        if self.suspect is not None:
            return "an input was met where the difference seems to be above the tolerance"
        if not self.backward:
            return "the networks are too wide for more than intervals in the time given"
        if time.perf_counter() > self.deadline:
            return TIME_OVER
        return "" if _splittable(worst) else "a box could not be cut any further"

    def advance(self) -> None:
        """Bounds boxes as they are at first, then halves of the worst; none of them is lost."""
        chosen = self._worst()
        try:
            if chosen[0].coordinate < 0:
                lo, hi = np.stack([b.lo for b in chosen]), np.stack([b.hi for b in chosen])
                self.visit(lo, hi, np.full(len(chosen), np.inf))
            else:
                self._halve(chosen)
        except OutOfTime:
            for part in chosen:
                self._open(part)
            raise

    def _worst(self) -> list[_Open]:
        """The open boxes with the largest bounds, taken out of the queue."""
        chosen = [heapq.heappop(self.queue)[2]]
        while self.queue and len(chosen) < max(1, self.batch // 2):
            if not _goes_with(chosen[0], self.queue[0][2]):
                break
            chosen.append(heapq.heappop(self.queue)[2])
        return chosen

    def _halve(self, chosen: list[_Open]) -> None:
        """Cuts boxes in two and bounds the halves, no worse than their parents."""
        lo, hi = np.stack([b.lo for b in chosen]), np.stack([b.hi for b in chosen])
        rows, along = np.arange(len(chosen)), np.array([b.coordinate for b in chosen])
        middle = 0.5 * lo[rows, along] + 0.5 * hi[rows, along]
        left, right = hi.copy(), lo.copy()
        left[rows, along] = right[rows, along] = middle
        parents = np.array([b.bound for b in chosen])
        self.visit(np.concatenate([lo, right]), np.concatenate([left, hi]), np.tile(parents, 2))

    def _open(self, part: _Open) -> None:
        self.counter += 1
        heapq.heappush(self.queue, (-part.bound, self.counter, part))

    def visit(self, lo: Array, hi: Array, parents: Array) -> None:
        """Bounds these boxes, closes those within the tolerance, opens the others."""
        link = self.pairing if self.backward else None
        state = propagate(
            self.network,
            lo,
            hi,
            backward=self.backward,
            lean=True,
            link=link,
            progress=until(self.deadline if self.boxes else self.first_deadline),
        )
        bounds, influence, corners = _bound(state)
        bounds = np.minimum(bounds, parents)
        self.boxes += len(lo)
        self._look(np.concatenate([0.5 * lo + 0.5 * hi, corners]))
        for i in range(len(lo)):
            if bounds[i] <= self.tolerance:
                self.closed = max(self.closed, float(bounds[i]))
                continue
            self._open(_Open(lo[i], hi[i], float(bounds[i]), int(np.argmax(influence[i]))))

    def _look(self, points: Array) -> None:
        """The difference at points of the boxes, in float64: a guess, not a proof.

        What could be rounding alone (NOISE relative to the outputs) raises no suspicion.
        """
        with np.errstate(all="ignore"):
            values = self.network.values(points)
            gaps = np.max(np.abs(values[self.network.output]), axis=1, initial=0.0)
            terms = [values[name] for name in self.network.node(self.network.output).inputs]
            noise = NOISE * np.max(np.abs(terms[-1]), axis=1, initial=0.0)
            excess = gaps - noise - self.tolerance
        worst = int(np.argmax(np.where(np.isfinite(excess), excess, -np.inf)))
        if excess[worst] > 0 and gaps[worst] > self.suspect_difference:
            self.suspect_difference = float(gaps[worst])
            self.suspect = tuple(points[worst].tolist())

    def result(self, seconds: float, reason: str) -> GeneralResult:
        tried = (
            f"joint bound of the difference: {self.boxes} boxes in {seconds:.1f} s, bound "
            f"{self.bound:.3g}; {reason}"
        )
        return GeneralResult(
            self.bound,
            self.tolerance,
            self.boxes,
            len(self.queue),
            self.suspect,
            self.suspect_difference,
            seconds,
            tried,
        )


def _cost(network: Network) -> float:
    """Multiplications that carrying every activation's input back once takes, about."""
    bent = {i for n in network.activation_nodes() for i in n.inputs}
    cost, upstream = 0.0, 0.0
    for node in network.nodes:
        upstream += node.op.nonzeros
        if node.name in bent:
            cost += 2.0 * network.sizes[node.name] * upstream
    return cost


def _bound(state: Ranges) -> tuple[Array, Array, Array]:
    """Per box: the bound of max_j |difference_j|, each coordinate's part in it, a likely corner."""
    network = state.network
    lo, hi = state.values[network.source]
    low, high = state.values[network.output]
    if not state.transfers:
        return np.max(np.maximum(-low, high), axis=1), 0.5 * hi - 0.5 * lo, lo
    size = network.size_out
    forms = {network.output: np.concatenate([np.eye(size), -np.eye(size)])[None]}
    above = np.concatenate([-low, high], axis=1)
    for transfers in state.transfers:
        form, const = carry_back(network, forms, np.zeros((1, 2 * size)), transfers, state.values)
        above = np.minimum(above, -on_source(form, const, transfers[network.source]))
    worst = np.argmax(above, axis=1)
    rows = np.arange(len(lo))
    form = np.broadcast_to(form, (len(lo), *form.shape[1:]))[rows, worst]
    corners = np.where(form > 0, lo, hi)
    return np.maximum(above[rows, worst], 0.0), looseness(state, worst % size), corners


def _ends(box: Domain) -> tuple[Array, Array]:
    """The ends of the box, or of all boxes."""
    return (box.lo, box.hi) if isinstance(box, Box) else box.boxes


def _goes_with(first: _Open, other: _Open) -> bool:
    """Whether a box is cut in the same pass as the first; those that were never bounded are not."""
    fresh = first.coordinate < 0, other.coordinate < 0
    return all(fresh) or (not any(fresh) and _splittable(other))


def _splittable(part: _Open) -> bool:
    lo, hi = part.lo[part.coordinate], part.hi[part.coordinate]
    middle = 0.5 * lo + 0.5 * hi
    return bool(lo < middle < hi)
