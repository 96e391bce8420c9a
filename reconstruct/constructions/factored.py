"""The low-rank construction (remark to Theorem 1): W = U V with r = rank W, one pair each.

    h ↦ V h + τ  (≥ 0, through a pair of layers)  ↦  U (V h + τ) + (b − U τ)  (through another)

Between the pairs the frozen network has an activation of its own; τ shifts the r values into its
linear piece, and the second pair's constant takes τ back. Width r·max(m, k) instead of m·k.

Rests on proofs_check: rank-of-a-product, low-rank-factors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions.blueprint import Blueprint, LayerPlan, check_ratio, hidden_width
from reconstruct.constructions.construction import SiteSolution, Task
from reconstruct.constructions.nodes import activation_at, kernel_of
from reconstruct.constructions.shifts import place
from reconstruct.constructions.sites import Site
from reconstruct.constructions.two_layers import (
    TwoLayers,
    channels,
    check_width,
    solve_two_layers,
)
from reconstruct.errors import InputError
from reconstruct.khatri_rao import RankProof, Solver
from reconstruct.networks import Matrix, Mixing, Network, dense
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


def factor(weight: Matrix, rank: int | None = None) -> LowRank:
    """Factor `weight` at its numerical rank, or at `rank` when that is smaller."""
    W = dense(weight)
    left, singular, right = np.linalg.svd(W, full_matrices=False)
    cut = float(singular[0] * max(W.shape) * np.finfo(float).eps) if singular.size else 0.0
    numerical = int(np.count_nonzero(singular > cut))
    r = max(1, numerical if rank is None else min(rank, numerical))
    root = np.sqrt(singular[:r])
    dropped = float(singular[r]) if r < singular.size else 0.0
    return LowRank(
        left[:, :r] * root, root[:, None] * right[:r], r, numerical, singular, cut, dropped
    )


@dataclass(frozen=True)
class Factored:
    """`rank` None takes each map's numerical rank; a smaller one makes it an approximation."""

    ratio: float = 1.5
    rank: int | None = None

    def __post_init__(self) -> None:
        check_ratio(self.ratio)
        if self.rank is not None and whole(self.rank, "the rank") < 1:
            raise InputError(f"the rank must be at least 1, but is {self.rank}")

    @property
    def name(self) -> str:
        return "factored"

    @property
    def summary(self) -> str:
        return (
            "each affine map is split into two thinner ones, and each of these is rebuilt "
            "by two frozen layers"
        )

    def plan(self, op: Mixing) -> FactoredPlan:
        low = factor(kernel_of(op), self.rank)
        return FactoredPlan(dense(kernel_of(op)), low, self.ratio, chosen=self.rank is not None)

    def describe(self) -> Mapping[str, Any]:
        return {"ratio": self.ratio, "rank": self.rank}


@dataclass(frozen=True, eq=False)
class FactoredPlan:
    """A map W (m × k) as U V, each factor from two layers; `chosen` if the rank was given."""

    weight: NDArray[np.float64]
    low: LowRank
    ratio: float
    chosen: bool

    alone = True

    @property
    def blueprint(self) -> Blueprint:
        (m, k), r = self.weight.shape, self.low.rank
        (_, _, first), (_, _, second) = self.systems
        layers = (
            LayerPlan(first, (0, k), carry=False),
            LayerPlan(r, None, carry=True),
            LayerPlan(second, None, carry=True),
            LayerPlan(m, None, carry=True),
        )
        return Blueprint(m, k, layers)

    @property
    def systems(self) -> tuple[tuple[int, int, int], ...]:
        (m, k), r = self.weight.shape, self.low.rank
        return (
            (r, k, hidden_width(self.ratio, r * k)),
            (m, r, hidden_width(self.ratio, m * r)),
        )

    @property
    def left_out(self) -> NDArray[np.float64] | None:
        return np.abs(self.weight - self.low.U @ self.low.V) if self.chosen else None

    def check(self, site: Site, frozen: Network, number: int) -> None:
        (m, k), r = self.weight.shape, self.low.rank
        where = f"map {number} ({site.target!r})"
        middle = channels(frozen, site.layers[1])
        if middle != r:
            raise InputError(
                f"{where} has rank {r} and needs a middle layer of {r} neurons, but the frozen "
                f"network has {middle} at {site.layers[1].norm!r}"
            )
        check_width(frozen, site.layers[0], r, k, f"{where}, first factor")
        check_width(frozen, site.layers[2], m, r, f"{where}, second factor")
        first, second = _factors_at(frozen, site)
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
        one, two, three, four = site.layers
        low, middle = self.low, activation_at(frozen, two.activation)
        into, out = _factors_at(frozen, site)
        lo, hi = task.functionals(low.V)
        held = place(middle.piece, lo, hi, np.abs(low.V) @ task.magnitude)
        start = task.with_map(held.scale * low.V, held.shift)
        first = solve_two_layers(into, start, solver, progress)
        rest = _after(task, low, held.scale, held.shift, middle.piece.slope)
        second = solve_two_layers(out, rest, solver, progress)
        norms = {
            one.norm: first.norm1,
            two.norm: first.norm2,
            three.norm: second.norm1,
            four.norm: second.norm2,
        }
        return SiteSolution(norms, (first.system, second.system))

    def prove_ranks(self, site: Site, frozen: Network) -> tuple[RankProof | None, ...]:
        return tuple(part.prove_rank() for part in _factors_at(frozen, site))

    def describe(self) -> Mapping[str, Any]:
        """How the rank was decided."""
        return {
            "rank": self.low.rank,
            "numerical_rank": self.low.numerical_rank,
            "cut": self.low.cut,
            "dropped": self.low.dropped,
            "singular_values": self.low.singular.tolist(),
        }


def _factors_at(frozen: Network, site: Site) -> tuple[TwoLayers, TwoLayers]:
    one, two, three, four = site.layers
    return TwoLayers.at(frozen, one, two), TwoLayers.at(frozen, three, four)


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
