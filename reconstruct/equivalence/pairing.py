"""ReLUs of two networks that do the same thing, bounded together.

If the input of one ReLU is a multiple of another's but for a small rest, z_i = c·z_j + δ, then

    c > 0:  relu(z_i) = c·relu(z_j) + r,            r between min(0, δ) and max(0, δ),
    c < 0:  relu(z_i) = |c|·(relu(z_j) − z_j) + r,

because relu is 1-Lipschitz, monotone and positively homogeneous. So r = δ/2 ± |δ|/2: the first
part stays linear and is carried on, the second costs max|δ|/2. With that, what both networks share
cancels in the linear bounds of their difference, whatever the order and the scale of their units.
Pairs are guessed from samples; that they hold is proved by bounding δ.

Rests on proofs_check: equal-units.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from reconstruct.bounds.propagation import Ranges, tile_rows
from reconstruct.bounds.transfers import AsIs, Swap, charged
from reconstruct.networks import Box, Network, Node, Relu
from reconstruct.numbers.arrays import Array, Matrix, Range
from reconstruct.numbers.rounding import SLACK, TINY, gamma, magnitude, up


@dataclass(frozen=True)
class PairingLimits:
    """Which units are tried as pairs."""

    probes: int = 192  # points at which units are compared
    # Relative distance from a multiple up to which a pair is tried. Pairs that are farther apart
    # cost more than they gain: ACAS Xu 1_1 and its perturbed copy take three times as long at 2e-2.
    alike: float = 5e-3
    dense: int = 2**16  # entries of a matrix that is multiplied without looking for zeros
    pool: int = 20_000  # units among which a partner is looked for


LIMITS = PairingLimits()


PairOfUnits = tuple[str, int, str, int, float]  # node and unit, partner's node and unit, factor


@dataclass(frozen=True)
class Pair:
    """`z_unit ≈ factor·z_partner`, the partner being unit `index` of the activation `node`."""

    unit: int
    node: str
    index: int
    factor: float


class Pairing:
    """Guesses pairs once, on the whole box, and proves them on each batch of boxes."""

    def __init__(self, network: Network, box: Box) -> None:
        self.network = network
        self.points = box.sample(LIMITS.probes, np.random.default_rng(0))
        self.inputs = {n.name: n.inputs[0] for n in network.nodes if isinstance(n.op, Relu)}
        self.guesses: dict[str, tuple[Pair, ...]] = {}
        self._values: dict[str, Array] | None = None
        self._pool = np.empty((LIMITS.probes, 0))
        self._owners: list[tuple[str, int, float]] = []

    def __call__(self, state: Ranges, node: Node, /) -> Swap | None:
        """The swap of the undecided units that are bounded better through a partner."""
        if not isinstance(node.op, Relu) or node.inputs[0] == self.network.source:
            return None
        lo, hi = state.values[node.inputs[0]]
        doubtful = np.any(~node.op.straight(lo, hi), axis=0, keepdims=True)[0]
        if node.name not in self.guesses:
            self.guesses[node.name] = self._guess(node, np.flatnonzero(doubtful))
        pairs = [p for p in self.guesses[node.name] if doubtful[p.unit]]
        if not pairs:
            return None
        low, high = self._rests(state, node, pairs)
        with np.errstate(all="ignore"):
            # Box by box, so that a checker, which has other batches, makes the same choice.
            gap = np.where((lo < 0) & (hi > 0), -lo * hi / (hi - lo), 0.0)
            better = magnitude(low, high) < gap[:, [p.unit for p in pairs]]
        if not better.any():
            return None
        return _swap(state, node, self.inputs, pairs, (low, high), better)

    @property
    def pairs(self) -> tuple[PairOfUnits, ...]:
        """All that were tried, for who repeats the proof."""
        return tuple(
            (name, pair.unit, pair.node, pair.index, pair.factor)
            for name, guesses in self.guesses.items()
            for pair in guesses
        )

    # --- guessing (numerical) -------------------------------------------------------------------

    def _guess(self, node: Node, units: Array) -> tuple[Pair, ...]:
        """For each unit an earlier one that it is nearly a multiple of; others join the pool."""
        if self._values is None:
            with np.errstate(all="ignore"):
                self._values = self.network.values(self.points)
        inputs = self._values[node.inputs[0]][:, units]
        lengths = np.linalg.norm(inputs, axis=0)
        usable = np.flatnonzero(np.isfinite(lengths) & (lengths > 0))
        units, lengths = units[usable], lengths[usable]
        directions = inputs[:, usable] / lengths
        found, alone = [], []
        for i, (best, sign) in enumerate(zip(*_nearest(self._pool, directions), strict=True)):
            if sign:
                name, index, other = self._owners[best]
                factor = _rounded(sign * lengths[i] / other)
                found.append(Pair(int(units[i]), name, index, factor))
            else:
                alone.append(i)
        return (*found, *self._among(node.name, units[alone], lengths[alone], directions[:, alone]))

    def _among(self, name: str, units: Array, lengths: Array, directions: Array) -> list[Pair]:
        """Pairs within one activation: the first of each kind stays, and joins the pool."""
        found: list[Pair] = []
        taken = np.zeros(len(units), dtype=bool)
        for i in range(len(units)):
            if taken[i] or len(self._owners) >= LIMITS.pool:
                continue
            self._owners.append((name, int(units[i]), float(lengths[i])))
            rest = np.arange(i + 1, len(units))[~taken[i + 1 :]]
            _, signs = _nearest(directions[:, [i]], directions[:, rest])
            for j, sign in zip(rest[signs != 0], signs[signs != 0], strict=True):
                taken[j] = True
                factor = _rounded(sign * lengths[j] / lengths[i])
                found.append(Pair(int(units[j]), name, int(units[i]), factor))
        first = directions[:, ~taken]
        self._pool = np.column_stack([self._pool, first])[:, : len(self._owners)]
        return found

    # --- proving (rigorous) ---------------------------------------------------------------------

    def _rests(self, state: Ranges, node: Node, pairs: list[Pair]) -> Range:
        """Bounds of δ = z_i − c·z_j for each pair: (boxes, pairs)."""
        low = np.empty((state.boxes, len(pairs)))
        high = np.empty_like(low)
        step = tile_rows(self.network, state.boxes)
        groups: dict[str, list[int]] = {}
        for i, pair in enumerate(pairs):
            groups.setdefault(pair.node, []).append(i)
        for name, members in groups.items():
            for start in range(0, len(members), step):
                part = members[start : start + step]
                forms = self._forms(node, name, [pairs[i] for i in part])
                found = state.lower(forms, np.zeros((1, 2 * len(part))))
                low[:, part], high[:, part] = found[:, : len(part)], -found[:, len(part) :]
        return low, high

    def _forms(self, node: Node, partner: str, pairs: list[Pair]) -> dict[str, Array]:
        """The rows z_i − c·z_j and their negatives, as coefficients of both inputs."""
        rows = np.arange(len(pairs))
        ours, theirs = node.inputs[0], self.inputs[partner]
        forms = {n: np.zeros((len(pairs), self.network.sizes[n])) for n in {ours, theirs}}
        forms[ours][rows, [p.unit for p in pairs]] += 1.0
        forms[theirs][rows, [p.index for p in pairs]] -= [p.factor for p in pairs]
        return {name: np.concatenate([rows, -rows])[None] for name, rows in forms.items()}


def _nearest(pool: Array, directions: Array) -> tuple[Array, Array]:
    """For each column the likeliest column of the pool, and ±1, or 0 if they are not alike."""
    count = directions.shape[1]
    if not pool.shape[1] or not count:
        return np.zeros(count, dtype=int), np.zeros(count)
    likeness = pool.T @ directions
    best = np.argmax(np.abs(likeness), axis=0)
    signs = np.sign(likeness[best, np.arange(count)])
    distance = np.linalg.norm(directions - signs * pool[:, best], axis=0)
    return best, np.where(distance <= LIMITS.alike, signs, 0.0)


def _rounded(factor: float) -> float:
    """The factor as a float32 number where it is one but for noise: then c·z_j is often exact."""
    near = float(np.float32(factor))
    return near if abs(near - factor) <= 1e-9 * abs(factor) else factor


def _swap(
    state: Ranges,
    node: Node,
    inputs: dict[str, str],
    pairs: list[Pair],
    rests: Range,
    better: Array,
) -> Swap:
    """The pairs as matrices; |δ|/2 and the rounding of the moves as constants.

    `better` (boxes, pairs) says on which boxes a pair is used.

    The move of |c|Λ_i to a unit errs by γ_n per coefficient (n summands at most), which costs
    γ_n·|c|·|value| per unit of |Λ_i|; underflow costs n·η per value.
    """
    size = state.network.sizes[node.name]
    keep = np.ones((state.boxes, size))
    plain, gap = np.zeros((state.boxes, size)), np.zeros((state.boxes, size))
    units = [p.unit for p in pairs]
    keep[:, units] = np.where(better, 0.0, 1.0)
    with np.errstate(all="ignore"):
        gap[:, units] = np.where(better, -up(0.5 * magnitude(*rests)), 0.0)
        moves = _moves(pairs, inputs, inputs[node.name], state.network, size)
        error, floor = np.zeros((state.boxes, size)), np.zeros(state.boxes)
        for name, matrix in moves:
            reach = magnitude(*state.values[name])
            error += gamma(size + 1) * SLACK * np.asarray((abs(matrix) @ reach.T).T) + TINY
            floor += (size * TINY) * reach.sum(axis=1) * SLACK
        return Swap(keep, moves, charged(AsIs(), plain, gap, error, floor))


def _moves(
    pairs: list[Pair], inputs: dict[str, str], own: str, network: Network, size: int
) -> tuple[tuple[str, sparse.csr_array], ...]:
    """|c|·Λ_i to the partner's ReLU, ½Λ_i to the unit's own input, and −½|c|·Λ_i to the partner's:
    c·Λ_i where c < 0, less half of c·Λ_i in any case."""
    entries: dict[str, list[tuple[int, int, float]]] = {own: []}
    for pair in pairs:
        entries.setdefault(pair.node, []).append((pair.unit, pair.index, abs(pair.factor)))
        entry = (pair.unit, pair.index, -0.5 * abs(pair.factor))
        entries.setdefault(inputs[pair.node], []).append(entry)
        entries[own].append((pair.unit, pair.unit, 0.5))
    return tuple(
        (name, _matrix(group, size, network.sizes[name])) for name, group in entries.items()
    )


def _matrix(entries: list[tuple[int, int, float]], rows: int, columns: int) -> Matrix:
    """Entries at (row, column), added up; dense where small, for products are faster then."""
    units, others, factors = zip(*entries, strict=True)
    made = sparse.csr_array((factors, (units, others)), shape=(rows, columns))
    return made.toarray() if rows * columns <= LIMITS.dense else made
