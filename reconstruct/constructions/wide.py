"""The wide construction (Theorem 1): each m × k map from two layers of hidden width ≥ m·k.

Rests on proofs_check: khatri-rao-full-rank, width-is-necessary, two-frozen-layers,
layerwise-to-network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from reconstruct.constructions.construction import Construction, SitePlan, SiteSolution, Task
from reconstruct.constructions.live import NORMS, LivePlan, live_plan
from reconstruct.constructions.sites import (
    Blueprint,
    LayerPlan,
    Site,
    check_geometry,
    check_ratio,
    hidden_width,
)
from reconstruct.constructions.two_layers import TwoLayers, check_width, solve_two_layers
from reconstruct.errors import InputError
from reconstruct.khatri_rao import RankProof, Solver
from reconstruct.networks import Mixing, Network, Node
from reconstruct.progress import Progress


@dataclass(frozen=True)
class Wide(Construction):
    """`ratio` hidden neurons for each of the m·k equations; 1 is the paper's square system."""

    ratio: float = 1.5
    norm: str | None = None  # batch (constants), layer or rms (live); None: as the target has it

    summary: ClassVar[str] = (
        "each affine map of the target is rebuilt by two frozen layers with at least "
        "m·k neurons between them"
    )
    scales_units: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_ratio(self.ratio)
        if self.norm not in (None, "batch", *NORMS):
            words = ", ".join(("batch", *NORMS))
            raise InputError(f"the norm must be one of {words}, but is {self.norm!r}")

    def live_plan(self, form: Network, node: Node) -> LivePlan | None:
        """Two layers with a live norm between them, where one is asked for or the target has one
        behind the map."""
        return live_plan(form, node, self.ratio, self.norm)

    def plan(self, op: Mixing) -> WidePlan:
        m, k = op.kernels[0].shape
        return WidePlan(op, m, k, hidden_width(self.ratio, m * k), len(op.kernels))

    def describe(self) -> Mapping[str, Any]:
        return {"ratio": self.ratio} | ({"norm": self.norm} if self.norm else {})


@dataclass(frozen=True, eq=False)
class WidePlan(SitePlan):
    """The map `op`, m × k in each of its groups, in two layers with `width` neurons between."""

    op: Mixing
    rows: int
    cols: int
    width: int
    groups: int = 1

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
        parts = zip(TwoLayers.groups_at(frozen, *site.layers), task.each, strict=True)
        found = [solve_two_layers(*part, solver, progress) for part in parts]
        return SiteSolution.joined(site, found)

    def prove_ranks(self, site: Site, frozen: Network) -> tuple[RankProof | None, ...]:
        return tuple(g.prove_rank() for g in TwoLayers.groups_at(frozen, *site.layers))
