"""The low-rank construction (remark to Theorem 1): W = U V with r = rank W, one pair each.

    h ↦ V h + τ  (≥ 0, through a pair of layers)  ↦  U (V h + τ) + (b − U τ)  (through another)

Between the pairs the frozen network has an activation of its own; τ shifts the r values into its
linear piece, and the second pair's constant takes τ back. Width r·max(m, k) instead of m·k.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions.blueprint import Blueprint, LayerPlan, check_ratio, hidden_width
from reconstruct.constructions.construction import SiteSolution, Task, Vector
from reconstruct.constructions.shifts import place
from reconstruct.constructions.sites import Site, activation_of
from reconstruct.constructions.two_layers import solve_pair
from reconstruct.constructions.wide import check_pattern, check_width, pair_of
from reconstruct.errors import InputError
from reconstruct.khatri_rao import Exact, Solver
from reconstruct.networks import (
    Matrix,
    Mixing,
    Network,
    dense,
)
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
        if self.rank is not None and self.rank < 1:
            raise InputError(f"the rank must be at least 1, but is {self.rank}")

    @property
    def name(self) -> str:
        return "factored"

    def blueprint(self, op: Mixing) -> Blueprint:
        m, k = op.shape
        r = factor(op.matrix, self.rank).rank
        layers = (
            LayerPlan(hidden_width(self.ratio, r * k), (0, k), carry=False),
            LayerPlan(r, None, carry=True),
            LayerPlan(hidden_width(self.ratio, m * r), None, carry=True),
            LayerPlan(m, None, carry=True),
        )
        return Blueprint(m, k, layers)

    def check(self, site: Site, frozen: Network, op: Mixing, number: int) -> None:
        m, k = op.shape
        r = factor(op.matrix, self.rank).rank
        where = f"map {number} ({site.target!r})"
        middle = frozen.sizes[site.layers[1].norm]
        if middle != r:
            raise InputError(
                f"{where} has rank {r} and needs a middle layer of {r} neurons, but the frozen "
                f"network has {middle} at {site.layers[1].norm!r}"
            )
        check_width(frozen, site.layers[0], r, k, f"{where}, first factor")
        check_width(frozen, site.layers[2], m, r, f"{where}, second factor")
        one, two, three, four = site.layers
        check_pattern(pair_of(frozen, one, two), f"{where}, first factor")
        check_pattern(pair_of(frozen, three, four), f"{where}, second factor")

    def solve(
        self, task: Task, site: Site, frozen: Network, solver: Solver, progress: Progress
    ) -> SiteSolution:
        if isinstance(solver, Exact):
            raise InputError(
                "the exact solver works with --construction wide and deep: the factors U and V of "
                "a low-rank map come from singular values, which are not rational"
            )
        one, two, three, four = site.layers
        low = factor(task.weight, self.rank)
        middle = activation_of(frozen, two)
        lo, hi = task.functionals(low.V)
        held = place(middle.piece, lo, hi, np.abs(low.V) @ task.magnitude)
        into = task.with_map(held.scale * low.V, held.shift)
        first = solve_pair(pair_of(frozen, one, two), into, solver, progress)
        out = _after(task, low, held.scale, held.shift, middle.piece.slope)
        second = solve_pair(pair_of(frozen, three, four), out, solver, progress)
        norms = {
            one.norm: first.norm1,
            two.norm: first.norm2,
            three.norm: second.norm1,
            four.norm: second.norm2,
        }
        return SiteSolution(norms, (first.system, second.system))


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
