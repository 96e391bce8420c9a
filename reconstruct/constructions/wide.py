"""The wide construction (Theorem 1): each m × k map from two layers of hidden width ≥ m·k.

Rests on proofs_check: khatri-rao-full-rank, width-is-necessary, two-frozen-layers,
layerwise-to-network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from reconstruct.constructions.construction import SiteSolution, Task, joined_exactly
from reconstruct.constructions.sites import (
    Blueprint,
    LayerPlan,
    Site,
    check_geometry,
    check_ratio,
    hidden_width,
)
from reconstruct.constructions.two_layers import (
    TwoLayers,
    check_width,
    joined,
    solve_two_layers,
)
from reconstruct.khatri_rao import RankProof, Solver
from reconstruct.networks import Mixing, Network
from reconstruct.progress import Progress


@dataclass(frozen=True)
class Wide:
    """`ratio` hidden neurons for each of the m·k equations; 1 is the paper's square system."""

    ratio: float = 1.5

    name: ClassVar[str] = "wide"
    summary: ClassVar[str] = (
        "each affine map of the target is rebuilt by two frozen layers with at least "
        "m·k neurons between them"
    )
    scales_units: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_ratio(self.ratio)

    def plan(self, op: Mixing) -> WidePlan:
        m, k = op.kernels[0].shape
        return WidePlan(op, m, k, hidden_width(self.ratio, m * k), len(op.kernels))

    def describe(self) -> Mapping[str, Any]:
        return {"ratio": self.ratio}


@dataclass(frozen=True, eq=False)
class WidePlan:
    """The map `op`, m × k in each of its groups, in two layers with `width` neurons between."""

    op: Mixing
    rows: int
    cols: int
    width: int
    groups: int = 1

    left_out = None
    alone = True

    @property
    def blueprint(self) -> Blueprint:
        entering = LayerPlan(self.groups * self.width, (0, self.cols), carry=False)
        rows = self.groups * self.rows
        layers = (entering, LayerPlan(rows, None, carry=True))
        return Blueprint(rows, self.cols, layers, self.groups)

    @property
    def systems(self) -> tuple[tuple[int, int, int], ...]:
        return ((self.rows, self.cols, self.width),) * self.groups

    def check(self, site: Site, frozen: Network, number: int) -> None:
        first, second = site.layers
        where = f"map {number} ({site.target!r})"
        check_geometry(self.op, frozen, site, where)
        check_width(frozen, first, self.rows, self.cols, where, self.groups)
        for layers in TwoLayers.groups_at(frozen, first, second):
            layers.check_pattern(where)

    def solve(
        self, task: Task, site: Site, frozen: Network, solver: Solver, progress: Progress
    ) -> SiteSolution:
        first, second = site.layers
        pairs = zip(TwoLayers.groups_at(frozen, first, second), task.each, strict=True)
        solved = [solve_two_layers(layers, part, solver, progress) for layers, part in pairs]
        names = (first.norm, second.norm)
        whole = (joined([s.norm1 for s in solved]), joined([s.norm2 for s in solved]))
        exact = joined_exactly(names, [s.exact for s in solved])
        norms = dict(zip(names, whole, strict=True))
        return SiteSolution(norms, tuple(s.system for s in solved), exact)

    def prove_ranks(self, site: Site, frozen: Network) -> tuple[RankProof | None, ...]:
        return tuple(g.prove_rank() for g in TwoLayers.groups_at(frozen, *site.layers))

    def describe(self) -> None:
        return None
