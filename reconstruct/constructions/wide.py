"""The wide construction (Theorem 1): each m × k map from two layers of hidden width ≥ m·k.

Rests on proofs_check: khatri-rao-full-rank, width-is-necessary, two-frozen-layers,
layerwise-to-network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from reconstruct.constructions.chain import Chain, ChainPlan, check_patterns, read_chains
from reconstruct.constructions.construction import Construction, GroupSolution, Task
from reconstruct.constructions.live import LIVE_ERROR, NORMS, LivePlan, live_plan
from reconstruct.constructions.sites import (
    Blueprint,
    LayerPlan,
    Site,
    check_ratio,
    hidden_width,
)
from reconstruct.constructions.two_layers import check_width, full_rank, solve_two_layers
from reconstruct.errors import InputError
from reconstruct.khatri_rao import RankProof, Solver
from reconstruct.networks import Mixing, Network, Node
from reconstruct.numbers.given import number
from reconstruct.progress import Progress


@dataclass(frozen=True)
class Wide(Construction):
    """`ratio` hidden neurons for each of the m·k equations; 1 is the paper's square system.

    `live_error` is the relative error that the eps of a target's live norms may leave.
    """

    ratio: float = 1.5
    norm: str | None = None  # batch (constants), layer or rms (live); None: as the target has it
    live_error: float = LIVE_ERROR

    summary: ClassVar[str] = (
        "each affine map of the target is rebuilt by two frozen layers with at least "
        "m·k neurons between them"
    )
    scales_units: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_ratio(self.ratio)
        if not 0 < number(self.live_error, "the error of live norms") < 1:
            raise InputError(
                f"the relative error that live norms may leave must lie between 0 and 1, but is "
                f"{self.live_error:g}; {LIVE_ERROR:.1e} is the default"
            )
        if self.norm not in (None, "batch", *NORMS):
            words = ", ".join(("batch", *NORMS))
            raise InputError(f"the norm must be one of {words}, but is {self.norm!r}")

    def live_plan(self, form: Network, node: Node) -> LivePlan | None:
        """Two layers with a live norm between them, where one is asked for or the target has one
        behind the map."""
        return live_plan(form, node, self.ratio, self.norm, self.live_error)

    def plan(self, op: Mixing) -> WidePlan:
        m, k = op.kernels[0].shape
        return WidePlan(op, hidden_width(self.ratio, m * k))

    def describe(self) -> Mapping[str, Any]:
        return {"ratio": self.ratio} | ({"norm": self.norm} if self.norm else {})


@dataclass(frozen=True, eq=False)
class WidePlan(ChainPlan):
    """Each group in two layers with `width` neurons between."""

    width: int

    @property
    def blueprint(self) -> Blueprint:
        entering = LayerPlan(self.groups * self.width, (0, self.cols), carry=False)
        rows = self.groups * self.rows
        layers = (entering, LayerPlan(rows, None, carry=True))
        return Blueprint(rows, self.cols, layers, self.groups)

    @property
    def systems(self) -> tuple[tuple[int, int, int], ...]:
        return ((self.rows, self.cols, self.width),) * self.groups

    def check(self, site: Site) -> None:
        super().check(site)
        check_width(site, site.layers[0], self.rows, self.cols, site.where, self.groups)
        for layers in read_chains(site):
            check_patterns(layers, site.where)

    def solve_group(
        self, chain: Chain, task: Task, solver: Solver, progress: Progress
    ) -> GroupSolution:
        return solve_two_layers(chain, task, solver, progress)

    def prove_ranks(self, site: Site) -> tuple[RankProof | None, ...]:
        return tuple(full_rank(layers) for layers in read_chains(site))
