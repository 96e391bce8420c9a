"""Any two networks: a rigorous bound of their difference, by branch and bound over the input.

The difference is one network with a shared input, so that what both networks have in common
cancels in the linear bounds. The box is cut where the bound is worst until the bound is within
the tolerance, an input is met where the difference seems larger, or the time is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from reconstruct.bounds.branching import looseness, work_of
from reconstruct.bounds.crown import on_source
from reconstruct.bounds.partition import MOST_INPUTS, BranchAndBound
from reconstruct.bounds.propagation import TILE_ELEMENTS, Ranges, propagate
from reconstruct.equivalence.pairing import CANDIDATE, TARGET, Pairing, PairOfUnits
from reconstruct.networks import Box, Domain, Unitwise
from reconstruct.networks.activations import Support
from reconstruct.networks.graph import Network, Node, require_same_ends
from reconstruct.networks.maps import Affine
from reconstruct.networks.operation import Add
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.processes import Helpers
from reconstruct.progress import OutOfTime, Progress, Step, silent, until

OUTPUT, NEGATED = "difference", "negated"  # no dot: names of nodes have one behind their prefix


def difference_network(target: Network, candidate: Network) -> Network:
    """`x ↦ f(x) − g(x)`, g the target and f the candidate, with the input shared.

    Nodes keep their names behind "target." and "candidate."; the subtraction is a map with −1 on
    the diagonal and a sum, both exact in real arithmetic.
    """
    require_same_ends(target, candidate)
    (first, g), (second, f) = _prefixed(target, TARGET), _prefixed(candidate, CANDIDATE)
    negated = Affine(sparse.csr_array(-sparse.eye_array(target.size_out, dtype=np.float64)))
    ends = Node(NEGATED, negated, (g,)), Node(OUTPUT, Add(), (f, NEGATED))
    return Network(target.size_in, (*first, *second, *ends), OUTPUT)


def _prefixed(network: Network, prefix: str) -> tuple[list[Node], str]:
    """The nodes with their names behind the prefix, and the name of the output then."""

    def renamed(name: str) -> str:
        return "input" if name == network.source else f"{prefix}.{name}"

    nodes = [Node(renamed(n.name), n.op, tuple(map(renamed, n.inputs))) for n in network.nodes]
    return nodes, renamed(network.output)


@dataclass(frozen=True)
class BoundLimits:
    """What a joint bound may take, and what its claims leave to another program's rounding."""

    grace: float = 2.0  # seconds that the whole box, undivided, may take in any case
    batch: int = 8  # boxes bounded at once, at most: more of them leave the cache
    alone: float = 0.5  # seconds after which other processors help: as long as they take to start
    points: int = 4  # of a box at which the influence of its coordinates is looked at
    noise: float = 2.0**-36  # relative size of differences that float64 evaluation may invent
    flops: float = 8e9  # multiplications per second counted on, when a network's cost is foreseen
    margin: float = 2.0**-10  # of the tolerance: a checker may find as much beyond ours
    rounding: float = 2.0**-12  # of the tolerance: less than that may be rounding alone
    slack: float = 2.0**-4  # of what is left of the tolerance, or of a bound that is all rounding


LIMITS = BoundLimits()
TIME_OVER = "the time was over"
ELSEWHERE = "the search met a difference above the tolerance"


@dataclass(frozen=True)
class Joint:
    """What a checker follows: how each box of the domain was divided, one byte for each node of
    the trees (two for more than 254 inputs), and the pairs of units that may be bounded together.
    """

    tree: bytes
    pairs: tuple[PairOfUnits, ...]


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
    proof: Joint | None = None

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
    refuted: Callable[[], bool] = bool,
    progress: Progress | None = None,
) -> GeneralResult:
    """Bound |f − g| on the box, cutting it until the bound is at most `tolerance`; of data each
    input, or the box around each, is bounded by itself, and nothing between them.

    Best first: the boxes with the largest bounds are halved, each along the coordinate that
    contributes most to its bound. It ends as soon as `refuted` says that the answer is known.
    """
    start = time.perf_counter()
    domain = box.of_size(target.size_in)
    work = _Difference(difference_network(target, candidate), domain, tolerance, time_limit)
    wanted = work.wanted
    found = BranchAndBound(*domain.boxes)
    reason, tell = "", progress or silent
    try:
        with work.helpers:
            while not reason:
                chosen = found.worst(wanted, 2 * work.halved)
                fresh = bool(len(chosen)) and found.axis[chosen[0]] < 0
                reason = "" if fresh else work.reason_to_stop(found, chosen)
                reason = ELSEWHERE if refuted() else reason
                if not reason:
                    found.advance(work, chosen if fresh else chosen[: work.halved])
                    tell(Step("boxes bounded", found.evaluated, None, float(found.excess.max())))
    except OutOfTime:
        reason = TIME_OVER
    seconds = time.perf_counter() - start
    bound = float(np.max(found.excess, initial=0.0))
    if bound <= wanted:
        # a bound that is nothing but rounding may differ by more where it is rounded otherwise
        noise = max(work.noise, LIMITS.rounding * tolerance)
        bound = min(tolerance, bound + max(LIMITS.slack * bound, min(bound, noise)))
    tried = (
        f"joint bound of the difference: {found.evaluated} boxes in {seconds:.1f} s, bound "
        f"{bound:.3g}; {reason}"
    )
    open_boxes = int(np.count_nonzero(~(found.excess <= wanted)))
    suspect = work.suspect, work.suspect_difference
    known = not open_boxes and _checkable(work.network)
    proof = Joint(_tree(found), work.pairing.pairs) if known else None
    return GeneralResult(
        bound, tolerance, found.evaluated, open_boxes, *suspect, seconds, tried, proof
    )


def _checkable(network: Network) -> bool:
    """The checker bounds two networks together where every activation is one of single units."""
    return all(isinstance(node.op, Unitwise) for node in network.activation_nodes())


def _tree(found: BranchAndBound) -> bytes:
    kind = ">u1" if found.lo.shape[1] <= MOST_INPUTS else ">u2"
    return np.array(found.forest(), dtype=kind).tobytes()


@dataclass(frozen=True)
class _Bounded:
    """The bound of |f − g| on boxes, the coordinates that make it loose, and points to look at."""

    network: Network
    pairing: Pairing
    backward: bool

    def __call__(self, lo: Array, hi: Array, seconds: float) -> tuple[Array, Array, Array]:
        state = propagate(
            self.network,
            lo,
            hi,
            backward=self.backward,
            lean=True,
            supports=(Support.AREA,),  # the other lines cost as much again, and gain a fifth
            link=self.pairing if self.backward else None,
            progress=until(time.perf_counter() + seconds),
        )
        bounds, influence, corners = _bound(state)
        points = np.concatenate([0.5 * lo + 0.5 * hi, corners])
        return bounds, influence.argmax(axis=1), points


class _Difference:
    """The objective: on each box the bound of |f − g|, and the coordinate that makes it loose."""

    def __init__(self, network: Network, box: Domain, tolerance: float, seconds: float) -> None:
        self.network, self.tolerance = network, tolerance
        self.wanted = tolerance * (1 - LIMITS.margin)
        self.pairing = Pairing(network, Box(box.lo, box.hi))
        self.backward = work_of(network) <= LIMITS.flops * max(seconds, 1.0)
        self.bounded = _Bounded(network, self.pairing, self.backward)
        self.helpers = Helpers(self.bounded)
        now = time.perf_counter()
        self.deadline, self.first_deadline = now + seconds, now + max(seconds, LIMITS.grace)
        self.soon = now + LIMITS.alone
        self.begun = False
        self.suspect: tuple[float, ...] | None = None
        self.suspect_difference, self.noise = 0.0, 0.0
        widest = max(network.sizes.values())
        self.batch = int(np.clip(TILE_ELEMENTS // (2 * widest * widest), 1, LIMITS.batch))

    @property
    def halved(self) -> int:
        """How many boxes are halved in a round: a batch of halves for each process."""
        return max(1, self.batch * self.helpers.count // 2)

    def reason_to_stop(self, found: BranchAndBound, chosen: Array) -> str:
        """Why no box is halved any more; empty where one can be."""
        if np.all(found.excess <= self.wanted):
            return "every box is within the tolerance"
        if self.suspect is not None:
            return "an input was met where the difference seems to be above the tolerance"
        if not self.backward:
            return "the networks are too wide for more than intervals in the time given"
        if time.perf_counter() > self.deadline:
            return TIME_OVER
        return "" if len(chosen) else "a box could not be divided any further"

    def __call__(self, lo: Array, hi: Array) -> tuple[Array, Array]:
        """All boxes in batches, shared out but for the first, which guesses pairs."""
        parts = [slice(i, i + self.batch) for i in range(0, len(lo), self.batch)]
        now, found = time.perf_counter(), []
        if not self.begun:
            first, *parts = parts
            found = [self.bounded(lo[first], hi[first], self.first_deadline - now)]
            self.begun = True
        elif now > self.soon:
            self.helpers.start()
        found += self.helpers([(lo[part], hi[part], self.deadline - now) for part in parts])
        bounds, axes, points = map(np.concatenate, zip(*found, strict=True))
        self._look(points)
        return bounds, axes

    def _look(self, points: Array) -> None:
        """The difference at points of the boxes, in float64: a guess, not a proof.

        What could be rounding alone (`LIMITS.noise` relative to the outputs) raises no suspicion.
        """
        with np.errstate(all="ignore"):
            values = self.network.values(points)
            gaps = np.max(np.abs(values[self.network.output]), axis=1, initial=0.0)
            terms = [values[name] for name in self.network.node(self.network.output).inputs]
            noise = LIMITS.noise * np.max(np.abs(terms[-1]), axis=1, initial=0.0)
            excess = gaps - noise - self.tolerance
        self.noise = max(self.noise, float(np.max(noise, initial=0.0, where=np.isfinite(noise))))
        worst = int(np.argmax(np.where(np.isfinite(excess), excess, -np.inf)))
        if excess[worst] > 0 and gaps[worst] > self.suspect_difference:
            self.suspect_difference = float(gaps[worst])
            self.suspect = tuple(points[worst].tolist())


def _bound(state: Ranges) -> tuple[Array, Array, Array]:
    """Per box: the bound of max_j |difference_j|, each coordinate's part in it, a likely corner."""
    network = state.network
    lo, hi = state.values[network.source]
    low, high = state.values[network.output]
    if not state.backward:
        return np.max(np.maximum(-low, high), axis=1), 0.5 * hi - 0.5 * lo, lo
    size = network.size_out
    forms = {network.output: np.concatenate([np.eye(size), -np.eye(size)])[None]}
    above = np.concatenate([-low, high], axis=1)
    for seen in state.backward:
        form, const = seen.carry_back(forms, np.zeros((1, 2 * size)))
        above = np.minimum(above, -on_source(form, const, seen.steps[network.source]))
    worst = np.argmax(above, axis=1)
    rows = np.arange(len(lo))
    form = np.broadcast_to(form, (len(lo), *form.shape[1:]))[rows, worst]
    corners = np.where(form > 0, lo, hi)
    seeds = np.zeros((len(lo), size))
    seeds[rows, worst % size] = 1.0
    influence = looseness(state, {network.output: seeds}, LIMITS.points)
    return np.maximum(above[rows, worst], 0.0), influence, corners
