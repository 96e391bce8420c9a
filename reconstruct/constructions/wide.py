"""The wide construction (Theorem 1): each m × k map from two layers of hidden width ≥ m·k.

Rests on proofs_check: khatri-rao-full-rank, width-is-necessary, two-frozen-layers,
layerwise-to-network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reconstruct.constructions.blueprint import Blueprint, LayerPlan, check_ratio, hidden_width
from reconstruct.constructions.construction import SiteSolution, Task
from reconstruct.constructions.nodes import kernel_of
from reconstruct.constructions.sites import Site
from reconstruct.constructions.two_layers import TwoLayers, check_width, solve_two_layers
from reconstruct.khatri_rao import RankProof, Solver
from reconstruct.networks import Mixing, Network
from reconstruct.progress import Progress


@dataclass(frozen=True)
class Wide:
    """`ratio` hidden neurons for each of the m·k equations; 1 is the paper's square system."""

    ratio: float = 1.5

    def __post_init__(self) -> None:
        check_ratio(self.ratio)

    @property
    def name(self) -> str:
        return "wide"

    @property
    def summary(self) -> str:
        return (
            "each affine map of the target is rebuilt by two frozen layers with at least "
            "m·k neurons between them"
        )

    def plan(self, op: Mixing) -> WidePlan:
        m, k = kernel_of(op).shape
        return WidePlan(m, k, hidden_width(self.ratio, m * k))

    def describe(self) -> Mapping[str, Any]:
        return {"ratio": self.ratio}


@dataclass(frozen=True)
class WidePlan:
    """An m × k map in two layers, `width` neurons between them."""

    rows: int
    cols: int
    width: int

    left_out = None

    @property
    def blueprint(self) -> Blueprint:
        entering = LayerPlan(self.width, (0, self.cols), carry=False)
        return Blueprint(self.rows, self.cols, (entering, LayerPlan(self.rows, None, carry=True)))

    @property
    def systems(self) -> tuple[tuple[int, int, int], ...]:
        return ((self.rows, self.cols, self.width),)

    def check(self, site: Site, frozen: Network, number: int) -> None:
        first, second = site.layers
        where = f"map {number} ({site.target!r})"
        check_width(frozen, first, self.rows, self.cols, where)
        TwoLayers.at(frozen, first, second).check_pattern(where)

    def solve(
        self, task: Task, site: Site, frozen: Network, solver: Solver, progress: Progress
    ) -> SiteSolution:
        first, second = site.layers
        solved = solve_two_layers(TwoLayers.at(frozen, first, second), task, solver, progress)
        names = (first.norm, second.norm)
        exact = dict(zip(names, solved.exact, strict=True)) if solved.exact else None
        norms = dict(zip(names, (solved.norm1, solved.norm2), strict=True))
        return SiteSolution(norms, (solved.system,), exact)

    def prove_ranks(self, site: Site, frozen: Network) -> tuple[RankProof | None, ...]:
        return (TwoLayers.at(frozen, *site.layers).prove_rank(),)

    def describe(self) -> None:
        return None
