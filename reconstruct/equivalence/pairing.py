"""ReLUs of two networks that do the same thing, bounded together.

If the input of one ReLU is a multiple of another's but for a small rest, z_i = c·z_j + δ, then

    c > 0:  relu(z_i) = c·relu(z_j) + r,            r between min(0, δ) and max(0, δ),
    c < 0:  relu(z_i) = |c|·(relu(z_j) − z_j) + r,

because relu is 1-Lipschitz, monotone and positively homogeneous. For δ in [a, b] the line through
the ends of max(0, δ) lies above r, the one through those of min(0, δ) below: δ of one sign costs no
constant at all, and one of both signs |a|b/(b − a). With that, what both networks share cancels in
the linear bounds of their difference, whatever the order and the scale of their units.
Pairs are guessed from samples; that they hold is proved by bounding δ.

Rests on proofs_check: equal-units.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from reconstruct.bounds.crown import Swap, as_is, charged
from reconstruct.bounds.propagation import Ranges, doubtful, one_each, tile_rows
from reconstruct.networks import Box, Network, Node, Relu
from reconstruct.numbers.arrays import Array, Matrix, Range
from reconstruct.numbers.rounding import SLACK, TINY, gamma, magnitude, up


@dataclass(frozen=True)
class PairingLimits:
    """Which units are tried as pairs."""

    probes: int = 192  # points at which units are compared
    # Relative distance from a multiple up to which a pair is tried, and from the unit of the same
    # place in a network of the same shape: training that goes on moves a unit farther than that.
    alike: float = 5e-3
    in_place: float = 0.5
    digits: int = 12  # of a factor that is a short number but for noise
    spread: float = 1.05  # times the least rest: up to there a factor of fewer digits is taken
    noise: float = 2.0**-44  # of a unit's size: what float64 may invent at the probes
    dense: int = 2**16  # entries of a matrix that is multiplied without looking for zeros
    slopes: int = 2**10  # steps between 0 and 1 of the slope of a line around a rest
    pool: int = 20_000  # units among which a partner is looked for


LIMITS = PairingLimits()


TARGET, CANDIDATE = "target", "candidate"  # what names of nodes in a difference begin with
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
        self.places = _places(network)
        self.guesses: dict[str, tuple[Pair, ...]] = {}
        self._values: dict[str, Array] | None = None
        self._pool = np.empty((LIMITS.probes, 0))
        self._owners: list[tuple[str, int]] = []

    def __call__(self, state: Ranges, node: Node, /) -> Swap | None:
        """The swap of the undecided units that are bounded better through a partner."""
        if not isinstance(node.op, Relu) or node.inputs[0] == self.network.source:
            return None
        lo, hi = state.values[node.inputs[0]]
        open_units = ~node.op.straight(lo, hi)
        if node.name not in self.guesses:
            self.guesses[node.name] = self._guess(node, np.flatnonzero(open_units.any(axis=0)))
        pairs = self.guesses[node.name]
        wanted = open_units[:, [p.unit for p in pairs]]
        if not wanted.any():
            return None
        low, high = self._rests(state, node, wanted)
        with np.errstate(all="ignore"):
            # Box by box, so that a checker, which has other batches, makes the same choice.
            gap = np.where((lo < 0) & (hi > 0), np.minimum(-lo, hi), 0.0)
            left = np.maximum(np.abs(low + high), high - low) / 2
            better = left < gap[:, [p.unit for p in pairs]]
        if not better.any():
            return None
        return self._swap(state, node, (low, high), better)

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
                partner, index = self._owners[best]
                found.append(self._pair(node.name, int(units[i]), partner, index, sign))
            else:
                alone.append(i)
        if node.name in self.places:
            like, left = self.places[node.name], units[alone]
            apart = self._values[self.inputs[like]][:, left] - inputs[:, usable[alone]]
            near = np.linalg.norm(apart, axis=0) <= LIMITS.in_place * lengths[alone]
            found += [Pair(unit, like, unit, 1.0) for unit in left[near].tolist()]
            alone = np.array(alone)[~near].tolist()
        return (*found, *self._among(node.name, units[alone], directions[:, alone]))

    def _pair(self, node: str, unit: int, partner: str, index: int, sign: float) -> Pair:
        """Both units with their factor: of the likely ones that of the fewest digits that leaves no
        more of a rest but for a constant, which costs nothing."""
        assert self._values is not None
        own = self._values[self.inputs[node]][:, unit]
        other = self._values[self.inputs[partner]][:, index]
        length = float(np.linalg.norm(own))
        fitted = sign * length / float(np.linalg.norm(other))
        likely = [_shorter(fitted, LIMITS.digits), float(np.float32(fitted)), fitted]
        spreads = [float(np.ptp(own - factor * other)) for factor in likely]
        enough = LIMITS.spread * min(spreads) + LIMITS.noise * length
        factor = next(f for f, spread in zip(likely, spreads, strict=True) if spread <= enough)
        return Pair(unit, partner, index, factor)

    def _among(self, name: str, units: Array, directions: Array) -> list[Pair]:
        """Pairs within one activation: the first of each kind stays, and joins the pool."""
        found: list[Pair] = []
        taken = np.zeros(len(units), dtype=bool)
        for i in range(len(units)):
            if taken[i] or len(self._owners) >= LIMITS.pool:
                continue
            self._owners.append((name, int(units[i])))
            rest = np.arange(i + 1, len(units))[~taken[i + 1 :]]
            _, signs = _nearest(directions[:, [i]], directions[:, rest])
            for j, sign in zip(rest[signs != 0], signs[signs != 0], strict=True):
                taken[j] = True
                found.append(self._pair(name, int(units[j]), name, int(units[i]), sign))
        first = directions[:, ~taken]
        self._pool = np.column_stack([self._pool, first])[:, : len(self._owners)]
        return found

    # --- proving (rigorous) ---------------------------------------------------------------------

    def _rests(self, state: Ranges, node: Node, wanted: Array) -> Range:
        """Bounds of δ = z_i − c·z_j for each pair (boxes, pairs) where they are wanted."""
        pairs = self.guesses[node.name]
        low, high = np.full(wanted.shape, -np.inf), np.full(wanted.shape, np.inf)
        rows, step = np.arange(state.boxes)[:, None], tile_rows(self.network, state.boxes)
        for name in dict.fromkeys(pair.node for pair in pairs):
            members = np.array([i for i, pair in enumerate(pairs) if pair.node == name])
            chosen = members[doubtful(wanted[:, members])]
            for start in range(0, chosen.shape[1], step):
                part = chosen[:, start : start + step]
                forms = self._forms(node, name, part)
                found = state.lower(forms, np.zeros((1, 1)))
                low[rows, part] = found[:, : part.shape[1]]
                high[rows, part] = -found[:, part.shape[1] :]
        return low, high

    def _forms(self, node: Node, partner: str, chosen: Array) -> dict[str, Array]:
        """The rows z_i − c·z_j and their negatives, as coefficients of both inputs."""
        pairs, sizes = self.guesses[node.name], self.network.sizes
        ours, theirs = node.inputs[0], self.inputs[partner]
        units, others = (
            np.array([getattr(p, k) for p in pairs])[chosen] for k in ("unit", "index")
        )
        factors = np.array([p.factor for p in pairs])[chosen]
        forms = {ours: one_each(units, sizes[ours])}
        rest = one_each(others, sizes[theirs]) * -factors[:, :, None]
        forms[theirs] = forms[ours] + rest if ours == theirs else rest
        return {name: np.concatenate([rows, -rows], axis=1) for name, rows in forms.items()}

    def _swap(self, state: Ranges, node: Node, rests: Range, better: Array) -> Swap:
        """The pairs as matrices, the two lines around r as slopes, and the rounding as constants.

        `better` (boxes, pairs) says on which boxes a pair is used. On [low, high] the line through
        the ends of max(0, δ) has the slope q; slopes are multiples of 2^-10, so that 1 − q is
        exact. Every coefficient that is handed on errs by γ_n (n summands at most), which costs
        γ_n·|c|·|value| per unit of |Λ_i|; underflow costs n·η per value.
        """
        pairs, sizes = self.guesses[node.name], self.network.sizes
        size, own = sizes[node.name], self.inputs[node.name]
        keep = np.ones((state.boxes, size))
        plain, gap, slope = np.zeros((3, state.boxes, size))
        units = [p.unit for p in pairs]
        keep[:, units] = np.where(better, 0.0, 1.0)
        negative = np.zeros(size, dtype=bool)
        negative[units] = [p.factor < 0 for p in pairs]
        groups: dict[str, list[Pair]] = {}
        for pair in pairs:
            groups.setdefault(pair.node, []).append(pair)
        with np.errstate(all="ignore"):
            low, high = (np.where(better, end, 0.0) for end in rests)
            below, above = np.minimum(low, 0.0), np.maximum(high, 0.0)
            width = np.where(above > below, above - below, 1.0)
            part = np.round(above / width * LIMITS.slopes) / LIMITS.slopes
            beyond = [np.where(end > 0, (1.0 - part) * end, -part * end) for end in (low, high)]
            slope[:, units], gap[:, units] = part, -up(np.maximum(*beyond))
            moves = tuple(
                (name, self.inputs[name], _matrix(group, size, sizes[name]))
                for name, group in groups.items()
            )
            error = gamma(size + 3) * SLACK * magnitude(*state.values[own]) + TINY
            floor = size * TINY * magnitude(*state.values[own]).sum(axis=1) * SLACK
            for name, taken, matrix in moves:
                for value in (name, taken):
                    reach = magnitude(*state.values[value])
                    full = abs(matrix) @ reach.T if matrix.ndim > 1 else matrix[:, None] * reach.T
                    error = error + gamma(size + 3) * SLACK * np.asarray(full).T + TINY
                    floor = floor + (2 * size * TINY) * reach.sum(axis=1) * SLACK
            constants = charged(as_is, plain, gap, error, floor)
            return Swap(keep, 1.0 - slope, slope, negative, own, moves, constants)


def _places(network: Network) -> dict[str, str]:
    """The ReLU of the target at the same place as each of the candidate's, in networks of one
    shape; of others nothing."""
    sides: dict[str, list[str]] = {}
    for node in network.nodes:
        if isinstance(node.op, Relu):
            sides.setdefault(node.name.partition(".")[0], []).append(node.name)
    ours, theirs = sides.get(TARGET, []), sides.get(CANDIDATE, [])
    sizes = [[network.sizes[name] for name in names] for names in (ours, theirs)]
    return dict(zip(theirs, ours, strict=True)) if sizes[0] == sizes[1] else {}


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


def _shorter(factor: float, digits: int) -> float:
    """The nearest number with so many binary digits."""
    part, exponent = np.frexp(factor)
    return float(np.ldexp(np.round(np.ldexp(part, digits)), exponent - digits))


def _matrix(pairs: list[Pair], rows: int, columns: int) -> Matrix:
    """The factors' sizes; their diagonal alone where units are paired by position, and dense where
    small, for products are faster then."""
    units, others = [p.unit for p in pairs], [p.index for p in pairs]
    factors = [abs(p.factor) for p in pairs]
    made = sparse.csr_array((factors, (units, others)), shape=(rows, columns))
    if units == others and rows == columns:
        return np.asarray(made.diagonal())
    return made.toarray() if rows * columns <= LIMITS.dense else made
