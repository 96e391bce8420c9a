"""The low-rank construction (remark to Theorem 1): W = U V with r = rank W, one pair each.

    h ↦ V h + τ  (≥ 0, through a pair of layers)  ↦  U (V h + τ) + (b − U τ)  (through another)

Between the pairs the frozen network has an activation of its own; τ shifts the r values into its
linear piece, and the second pair's constant takes τ back. Width r·max(m, k) instead of m·k.

Rests on proofs_check: rank-of-a-product, low-rank-factors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions import chain as chains
from reconstruct.constructions import sites
from reconstruct.constructions.chain import Chain, ChainPlan, Shift
from reconstruct.constructions.construction import (
    Construction,
    GroupSolution,
    LeftOut,
    SiteSolution,
    Task,
)
from reconstruct.constructions.sites import Blueprint, Site, hidden_width
from reconstruct.constructions.wide import channels, full_rank, solve_two_layers
from reconstruct.errors import InputError
from reconstruct.khatri_rao import RankProof, Solver
from reconstruct.networks import Matrix, Mixing, dense
from reconstruct.numbers.arrays import Vector
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

    def plan(self, op: Mixing) -> FactoredPlan:
        own = [factor(kernel, self.rank) for kernel in op.kernels]
        most = max(low.rank for low in own)
        pairs = zip(op.kernels, own, strict=True)
        lows = (low if low.rank == most else factor(W, self.rank, most) for W, low in pairs)
        return FactoredPlan(op, tuple(lows), self.ratio, chosen=self.rank is not None)


@dataclass(frozen=True, eq=False)
class FactoredPlan(ChainPlan):
    """Each group as U V, each factor from two layers; `chosen` if the rank was given.

    `lows` are the factors of each group, all of the largest rank: layers have as many channels in
    every group.
    """

    lows: tuple[LowRank, ...]
    ratio: float
    chosen: bool

    @property
    def rank(self) -> int:
        return self.lows[0].rank

    @property
    def blueprint(self) -> Blueprint:
        (_, _, first), (_, _, second) = self.systems[:2]
        return self.in_a_row(first, self.rank, second, self.rows)

    @property
    def systems(self) -> tuple[tuple[int, int, int], ...]:
        pairs = ((self.rank, self.cols), (self.rows, self.rank))
        return tuple((m, k, hidden_width(self.ratio, m * k)) for m, k in pairs) * self.groups

    @property
    def left_out(self) -> LeftOut | None:
        parts = zip(self.op.kernels, self.lows, strict=True)
        gaps = [np.abs(dense(W) - low.U @ low.V) for W, low in parts]
        return LeftOut.joined([LeftOut(R, np.zeros(len(R))) for R in gaps]) if self.chosen else None

    def check(self, site: Site) -> None:
        sites.check_geometry(self.op, site)
        middle = channels(site, site.layers[1])
        if middle != self.groups * self.rank:
            raise InputError(
                f"{site.where} has rank {self.rank} and needs a middle layer of "
                f"{self.groups * self.rank} neurons, but the frozen network has {middle} at "
                f"{site.layers[1].norm!r}"
            )
        first, second = (f"{site.where}, {word} factor" for word in ("first", "second"))
        for into, out in _halves(site):
            chains.check_reach(into, first)
            chains.check_reach(out, second)

    def solve(
        self, tasks: Sequence[Task], site: Site, solver: Solver, progress: Progress
    ) -> SiteSolution:
        if solver.rational:
            raise InputError(
                "the exact solver works with --construction wide and deep: the factors U and V of "
                "a low-rank map come from singular values, which are not rational"
            )
        piece = sites.activation_at(site.frozen, site.layers[1].activation).piece
        found = []
        for (into, out), low, task in zip(_halves(site), self.lows, tasks, strict=True):
            lo, hi = task.functionals(low.V)
            held = chains.find_shift(piece, lo, hi, np.abs(low.V) @ task.magnitude)
            start = task.with_map(held.scale * low.V, held.shift)  # h ↦ V h + τ
            after = _after(task, low, held, piece.slope, (lo, hi))
            one = solve_two_layers(into, start, solver, progress)
            two = solve_two_layers(out, after, solver, progress)
            found.append(GroupSolution(one.norms + two.norms, one.systems + two.systems))
        return SiteSolution.joined(site, found)

    def prove_ranks(self, site: Site) -> tuple[RankProof | None, ...]:
        return tuple(full_rank(half) for pair in _halves(site) for half in pair)

    def describe(self) -> Mapping[str, Any]:
        """How the rank was decided; of several groups that one which leaves out the most."""
        low = max(self.lows, key=lambda low: (low.dropped, low.numerical_rank))
        said = {key: value for key, value in vars(low).items() if key not in ("U", "V", "singular")}
        return {**said, "singular_values": low.singular.tolist()}


def _halves(site: Site) -> list[tuple[Chain, Chain]]:
    """The layers of both factors, group by group."""
    halves = (chains.read_chains(site, layers) for layers in (site.layers[:2], site.layers[2:]))
    return list(zip(*halves, strict=True))


def _after(
    task: Task, low: LowRank, held: Shift, slope: float, reached: tuple[Vector, Vector]
) -> Task:
    """The second factor as a task of its own: inputs scale·V h + shift; `reached` bounds V h."""
    scale, shift = slope * held.scale, slope * held.shift
    weight = low.U / scale

    def functionals(A: Matrix) -> tuple[Vector, Vector]:
        rows = dense(A)
        lo, hi = task.functionals(scale * (rows @ low.V))
        return lo + rows @ shift, hi + rows @ shift

    after = task.with_map(weight, task.bias - weight @ shift)
    ends = scale * reached[0] + shift, scale * reached[1] + shift
    return replace(after, functionals=functionals, ends=ends)
