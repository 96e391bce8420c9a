"""The stacked construction: L hidden norm layers in their linear range, no skip connections.

    h ↦ N_out( M_L act( N_L( … act( N_1( M_0 h ) ) ) ) ),      M_L D_L M_{L-1} … D_1 M_0 = W

Moving a factor from one diagonal to the next changes nothing, so of the Σ n_i parameters L − 1 are
spent: Σ n_i ≥ m·k + L − 1 is necessary for all W. That it nearly suffices for random factors is
measured, not proved: each solution is found by Gauss-Newton, and the certificate bounds its error.

Rests on proofs_check: stacked-width.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reconstruct.constructions.blueprint import Blueprint, LayerPlan, check_ratio, hidden_width
from reconstruct.constructions.construction import LayerSolution, SiteSolution, Task
from reconstruct.constructions.nodes import (
    activation_at,
    check_geometry,
    group_at,
    kernel_of,
    norm_group,
)
from reconstruct.constructions.sites import Site
from reconstruct.constructions.stacked.gauss_newton import Fit, fit
from reconstruct.constructions.stacked.placing import Stack, place_stack
from reconstruct.constructions.stacked.product import Product
from reconstruct.constructions.two_layers import channels, joined
from reconstruct.errors import InputError
from reconstruct.khatri_rao import Auto, Direct, RankProof, Solver, Status
from reconstruct.networks import Mixing, Network, Norm, dense
from reconstruct.numbers.given import whole
from reconstruct.progress import Progress

LOST = 1e-6  # expected relative rounding error beyond which float64 is said not to carry the map


@dataclass(frozen=True)
class Stacked:
    """`layers` hidden layers for each map; `ratio` times the neurons that they need.

    `ratio` multiplies what parameters ask for, m·k + L − 1 neurons in all, shared out evenly. The
    first layer needs k neurons and the last m (W's rows lie in the row space of M_0, its columns in
    the column space of M_L), those between min(m, k); where they do not fit, a map takes fewer.
    """

    layers: int = 2
    ratio: float = 1.3

    def __post_init__(self) -> None:
        check_ratio(self.ratio)
        if whole(self.layers, "the number of layers") < 1:
            raise InputError(f"a stack needs at least 1 hidden layer, but layers is {self.layers}")

    @property
    def name(self) -> str:
        return "stacked"

    @property
    def summary(self) -> str:
        return (
            "each affine map of the target is rebuilt by a plain stack of frozen layers whose "
            "widths add up to little more than m·k"
        )

    def plan(self, op: Mixing) -> StackedPlan:
        m, k = op.kernels[0].shape
        for layers in range(self.layers, 0, -1):
            total = hidden_width(self.ratio, m * k + layers - 1)
            if sum(least_widths(m, k, layers)) <= total:
                break
        return StackedPlan(op, shared_out(total, least_widths(m, k, layers)))

    def describe(self) -> Mapping[str, Any]:
        return {"ratio": self.ratio, "layers": self.layers}


def least_widths(m: int, k: int, layers: int) -> list[int]:
    """What each layer needs to let every m × k matrix pass."""
    inner = [min(m, k)] * layers
    inner[0], inner[-1] = k, max(m, inner[-1])
    return inner if layers > 1 else [m * k]


def shared_out(total: int, least: list[int]) -> tuple[int, ...]:
    """`total` in shares that are as even as their least values allow."""
    widths = list(least)
    for _ in range(total - sum(least)):
        widths[widths.index(min(widths))] += 1
    return tuple(widths)


@dataclass(frozen=True, eq=False)
class StackedPlan:
    """The map `op`, m × k in each group, in hidden layers of these widths, one behind the other."""

    op: Mixing
    widths: tuple[int, ...]

    left_out = None
    alone = True

    @property
    def rows(self) -> int:
        return int(self.op.kernels[0].shape[0])

    @property
    def cols(self) -> int:
        return int(self.op.kernels[0].shape[1])

    @property
    def groups(self) -> int:
        return len(self.op.kernels)

    @property
    def blueprint(self) -> Blueprint:
        first, *rest = (self.groups * width for width in (*self.widths, self.rows))
        hidden = [LayerPlan(width, None, carry=True) for width in rest]
        entering = LayerPlan(first, (0, self.cols), carry=False)
        return Blueprint(rest[-1], self.cols, (entering, *hidden), self.groups)

    @property
    def systems(self) -> tuple[tuple[int, int, int], ...]:
        return ((self.rows, self.cols, sum(self.widths)),) * self.groups

    @property
    def needed(self) -> int:
        """The least Σ n_i that reaches every W: m·k, and 1 for each factor between neighbours."""
        return self.rows * self.cols + len(self.widths) - 1

    def check(self, site: Site, frozen: Network, number: int) -> None:
        found = [channels(frozen, layer) // self.groups for layer in site.layers[:-1]]
        where = f"map {number} ({site.target!r})"
        check_geometry(self.op, frozen, site, where)
        if sum(found) < self.needed:
            raise InputError(
                f"{where} needs hidden widths of at least m·k + L − 1 = {self.needed} in all, but "
                f"the frozen network has {' + '.join(map(str, found))} = {sum(found)}; widen it by "
                f"{self.needed - sum(found)}"
            )
        least = least_widths(self.rows, self.cols, len(found))
        for i, (width, needed) in enumerate(zip(found, least, strict=True), start=1):
            if width < needed:
                raise InputError(
                    f"{where} needs at least {needed} neurons in hidden layer {i} of "
                    f"{len(found)} to let every {self.rows}×{self.cols} matrix pass, but it has "
                    f"{width}; share the neurons out otherwise, or use fewer layers"
                )

    def solve(
        self, task: Task, site: Site, frozen: Network, solver: Solver, progress: Progress
    ) -> SiteSolution:
        if solver.rational:
            raise InputError(
                "the exact solver works with --construction wide and deep: the diagonals of a "
                "stack solve polynomial equations, whose solutions are not rational"
            )
        stacks = [read_stack(site, frozen, g, self.groups) for g in range(self.groups)]
        pairs = zip(stacks, task.each, strict=True)
        found = [self._solve_group(stack, part, solver, progress) for stack, part in pairs]
        norms = (joined(parts) for parts in zip(*(own for own, _ in found), strict=True))
        named = dict(zip((layer.norm for layer in site.layers), norms, strict=True))
        return SiteSolution(named, tuple(row for _, row in found))

    def _solve_group(
        self, stack: Stack, task: Task, solver: Solver, progress: Progress
    ) -> tuple[tuple[Norm, ...], LayerSolution]:
        """The norms of one group, and what is told of it."""
        start = time.perf_counter()
        unit = float(np.ldexp(1.0, int(np.frexp(np.max(np.abs(task.weight), initial=0.0))[1])))
        inner = task.with_map(task.weight / unit, task.bias / unit)
        found = fit(stack.product, inner.weight, progress, dense=isinstance(solver, Auto | Direct))
        placed, scales = place_stack(stack, inner, found.scales, unit)
        row = self._row(task, found, placed.rounding(inner), max(placed.shift_max))
        seconds = time.perf_counter() - start
        gammas = np.concatenate([np.asarray(s, np.float64) for s in scales])
        return placed.norms, replace(row, s=gammas, seconds=seconds)

    def _row(self, task: Task, found: Fit, rounding: float, shift_max: float) -> LayerSolution:
        status = Status.SOLVED if found.converged else Status.NOT_CONVERGED
        if found.converged and not rounding <= LOST:
            status = Status.ILL_CONDITIONED
        return LayerSolution(
            s=np.concatenate(found.scales),
            status=status,
            solver=found.solver,
            residual=found.residual,
            shape=(self.rows, self.cols),
            condition=found.condition,
            history=found.history,
            index=task.index,
            name=task.name,
            shift_max=shift_max,
            said=self._said(found, status, rounding),
            steps=len(found.history) - 1,
        )

    def _said(self, found: Fit, status: Status, rounding: float) -> str:
        condition = "unknown" if found.condition is None else f"{found.condition:.1e}"
        numbers = (
            f"{len(self.widths)} hidden layers of {' + '.join(map(str, self.widths))} = "
            f"{sum(self.widths)} neurons for {self.needed} needed, relative residual "
            f"{found.residual:.1e} after {len(found.history) - 1} steps from start "
            f"{found.starts}, condition {condition}, float64 rounding about {rounding:.1e}"
        )
        if status is Status.SOLVED:
            return f"solved: M_L D_L … D_1 M_0 equals W to rounding ({numbers})"
        remedy = "use a larger --ratio or fewer --layers"
        if status is Status.ILL_CONDITIONED:
            return f"ill_conditioned: {status.explanation} ({numbers}); {remedy}"
        return f"not_converged: no start of Gauss-Newton reached W ({numbers}); {remedy}"

    def prove_ranks(self, site: Site, frozen: Network) -> tuple[RankProof | None, ...]:
        """None: the equations are polynomials, and their Jacobian holds solved numbers."""
        return (None,) * self.groups

    def describe(self) -> Mapping[str, Any]:
        return {
            "widths": sum(self.widths),
            "needed": self.needed,
            "hidden layers": len(self.widths),
        }


def read_stack(site: Site, frozen: Network, group: int = 0, groups: int = 1) -> Stack:
    """The matrices, norms and pieces of a site that `find_sites` recognised, of one group."""
    maps = [group_at(frozen, layer.entry or layer.carry, group) for layer in site.layers]
    norms = tuple(norm_group(frozen, layer.norm, group, groups) for layer in site.layers)
    pieces = [activation_at(frozen, layer.activation).piece for layer in site.layers[:-1]]
    product = Product(tuple(dense(kernel_of(op)) for op in maps))
    return Stack(product, tuple(maps), norms, tuple(pieces))
