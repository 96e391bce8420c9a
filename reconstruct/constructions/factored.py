"""The low-rank construction (remark to Theorem 1): W = U V with r = rank W, one pair each.

    h ↦ V h + τ  (≥ 0, through a pair of layers)  ↦  U (V h + τ) + (b − U τ)  (through another)

Between the pairs the frozen network has an activation of its own; τ shifts the r values into its
linear piece, and the second pair's constant takes τ back. Width r·max(m, k) instead of m·k.

Rests on proofs_check: rank-of-a-product, low-rank-factors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from reconstruct.constructions.construction import (
    Construction,
    GroupSolution,
    SitePlan,
    SiteSolution,
    Task,
)
from reconstruct.constructions.shifts import find_shift
from reconstruct.constructions.sites import (
    Blueprint,
    LayerPlan,
    Site,
    activation_at,
    check_geometry,
    check_ratio,
    hidden_width,
)
from reconstruct.constructions.two_layers import (
    TwoLayers,
    channels,
    check_width,
    solve_two_layers,
)
from reconstruct.errors import InputError
from reconstruct.khatri_rao import RankProof, Solver
from reconstruct.networks import Matrix, Mixing, Network, Piece, dense
from reconstruct.numbers.arrays import Vector
from reconstruct.numbers.given import whole
from reconstruct.progress import Progress


@dataclass(frozen=True, eq=False)
class LowRank:
    """`W ≈ U V` with `rank` columns in U; `singular` are W's singular values, `cut` the level.

    Singular values at or below `cut` (largest · max(m, k) · 2^-52, the level of rounding) count as
    zero. `dropped` is the largest singular value left out: 2-norm distance of W from U V.
    """

    U: NDArray[np.float64]
    V: NDArray[np.float64]
    rank: int
    numerical_rank: int
    singular: Vector
    cut: float
    dropped: float


def factor(weight: Matrix, rank: int | None = None, least: int = 1) -> LowRank:
    """Factor `weight` at its numerical rank, or at `rank` when that is smaller; `least` columns."""
    W = dense(weight)
    left, singular, right = np.linalg.svd(W, full_matrices=False)
    cut = float(singular[0] * max(W.shape) * np.finfo(float).eps) if singular.size else 0.0
    numerical = int(np.count_nonzero(singular > cut))
    r = max(least, numerical if rank is None else min(rank, numerical))
    root = np.sqrt(singular[:r])
    dropped = float(singular[r]) if r < singular.size else 0.0
    return LowRank(
        left[:, :r] * root, root[:, None] * right[:r], r, numerical, singular, cut, dropped
    )


@dataclass(frozen=True)
class Factored(Construction):
    """`rank` None takes each map's numerical rank; a smaller one makes it an approximation."""

    ratio: float = 1.5
    rank: int | None = None

    summary: ClassVar[str] = (
        "each affine map is split into two thinner ones, and each of these is rebuilt "
        "by two frozen layers"
    )

    def __post_init__(self) -> None:
        check_ratio(self.ratio)
        if self.rank is not None and whole(self.rank, "the rank") < 1:
            raise InputError(f"the rank must be at least 1, but is {self.rank}")

    def plan(self, op: Mixing) -> FactoredPlan:
        own = [factor(kernel, self.rank) for kernel in op.kernels]
        most = max(low.rank for low in own)
        pairs = zip(op.kernels, own, strict=True)
        lows = (low if low.rank == most else factor(W, self.rank, most) for W, low in pairs)
        return FactoredPlan(op, tuple(lows), self.ratio, chosen=self.rank is not None)


@dataclass(frozen=True, eq=False)
class FactoredPlan(SitePlan):
    """The map `op` as U V, each factor from two layers; `chosen` if the rank was given.

    `lows` are the factors of each group, all of the largest rank: layers have as many channels in
    every group.
    """

    op: Mixing
    lows: tuple[LowRank, ...]
    ratio: float
    chosen: bool

    @property
    def size(self) -> tuple[int, int, int]:
        """m, k and the rank, of a group."""
        m, k = self.op.kernels[0].shape
        return m, k, self.lows[0].rank

    @property
    def blueprint(self) -> Blueprint:
        (m, k, r), count = self.size, len(self.lows)
        (_, _, first), (_, _, second) = self.systems[:2]
        layers = (
            LayerPlan(count * first, (0, k), carry=False),
            LayerPlan(count * r, None, carry=True),
            LayerPlan(count * second, None, carry=True),
            LayerPlan(count * m, None, carry=True),
        )
        return Blueprint(count * m, k, layers, count)

    @property
    def systems(self) -> tuple[tuple[int, int, int], ...]:
        m, k, r = self.size
        both = (
            (r, k, hidden_width(self.ratio, r * k)),
            (m, r, hidden_width(self.ratio, m * r)),
        )
        return both * len(self.lows)

    @property
    def left_out(self) -> NDArray[np.float64] | None:
        if not self.chosen:
            return None
        parts = zip(self.op.kernels, self.lows, strict=True)
        return np.asarray(block_diag(*(np.abs(dense(W) - low.U @ low.V) for W, low in parts)))

    def check(self, site: Site, frozen: Network, number: int) -> None:
        (m, k, r), count = self.size, len(self.lows)
        where = f"map {number} ({site.target!r})"
        check_geometry(self.op, frozen, site, where)
        middle = channels(frozen, site.layers[1])
        if middle != count * r:
            raise InputError(
                f"{where} has rank {r} and needs a middle layer of {count * r} neurons, but the "
                f"frozen network has {middle} at {site.layers[1].norm!r}"
            )
        check_width(frozen, site.layers[0], r, k, f"{where}, first factor", count)
        check_width(frozen, site.layers[2], m, r, f"{where}, second factor", count)
        for first, second in _factors_at(frozen, site):
            first.check_pattern(f"{where}, first factor")
            second.check_pattern(f"{where}, second factor")

    def solve(
        self, task: Task, site: Site, frozen: Network, solver: Solver, progress: Progress
    ) -> SiteSolution:
        if solver.rational:
            raise InputError(
                "the exact solver works with --construction wide and deep: the factors U and V of "
                "a low-rank map come from singular values, which are not rational"
            )
        piece = activation_at(frozen, site.layers[1].activation).piece
        groups = zip(_factors_at(frozen, site), self.lows, task.each, strict=True)
        found = [_solve_group(*group, piece, solver, progress) for group in groups]
        return SiteSolution.joined(site, found)

    def prove_ranks(self, site: Site, frozen: Network) -> tuple[RankProof | None, ...]:
        return tuple(part.prove_rank() for pair in _factors_at(frozen, site) for part in pair)

    def describe(self) -> Mapping[str, Any]:
        """How the rank was decided; of several groups that one which leaves out the most."""
        low = max(self.lows, key=lambda low: (low.dropped, low.numerical_rank))
        return {
            "rank": low.rank,
            "numerical_rank": low.numerical_rank,
            "cut": low.cut,
            "dropped": low.dropped,
            "singular_values": low.singular.tolist(),
        }


def _factors_at(frozen: Network, site: Site) -> tuple[tuple[TwoLayers, TwoLayers], ...]:
    """The layers of both factors, group by group."""
    one, two, three, four = site.layers
    into, out = TwoLayers.groups_at(frozen, one, two), TwoLayers.groups_at(frozen, three, four)
    return tuple(zip(into, out, strict=True))


def _solve_group(
    layers: tuple[TwoLayers, TwoLayers],
    low: LowRank,
    task: Task,
    piece: Piece,
    solver: Solver,
    progress: Progress,
) -> GroupSolution:
    """`h ↦ V h + τ` and what follows it, of one group; `piece` is that of the middle activation."""
    into, out = layers
    lo, hi = task.functionals(low.V)
    held = find_shift(piece, lo, hi, np.abs(low.V) @ task.magnitude)
    start = task.with_map(held.scale * low.V, held.shift)
    rest = _after(task, low, held.scale, held.shift, piece.slope)
    one = solve_two_layers(into, start, solver, progress)
    two = solve_two_layers(out, rest, solver, progress)
    return GroupSolution(one.norms + two.norms, one.systems + two.systems)


def _after(task: Task, low: LowRank, scale: float, shift: Vector, slope: float) -> Task:
    """The second factor as a task of its own: inputs u = slope·(scale·V h + shift)."""
    weight = low.U / (slope * scale)
    bias = task.bias - weight @ (slope * shift)

    def functionals(A: Matrix) -> tuple[Vector, Vector]:
        rows = dense(A)
        lo, hi = task.functionals(slope * scale * (rows @ low.V))
        constant = rows @ (slope * shift)
        return lo + constant, hi + constant

    magnitude = slope * (scale * (np.abs(low.V) @ task.magnitude) + np.abs(shift))
    return replace(
        task, weight=weight, bias=bias, functionals=functionals, magnitude=magnitude, exact=None
    )
