"""The deep and narrow construction (Theorem 2): width m·K instead of m·k, one layer per block.

The input of an m × k map enters in blocks of K through skip connections:

    h_1 = act(N_1(A_1 x^(1))),   h_i = act(N_i(M_i h_{i-1} + A_i x^(i))),   out = N_out(M_out h_D)

`induction` goes from the last block to the first, in any arithmetic; `backward` solves for the
scales, `forward` places the shifts. Exact in theory; in float64 the condition of what is carried
grows with depth, and spare width (`ratio` above 1) is what keeps it small (`carrying`).

Rests on proofs_check: mixed-product, rank-of-a-product, cramer-cofactors, nonzero-entries,
deep-backward-induction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions.blueprint import Blueprint, LayerPlan, check_ratio, hidden_width
from reconstruct.constructions.construction import (
    ExactMap,
    ExactNorm,
    LayerSolution,
    SiteSolution,
    Task,
    joined_exactly,
)
from reconstruct.constructions.deep.backward import BlockSolution, Stretch, solve_in_floats
from reconstruct.constructions.deep.chain import Chain, check_patterns, read_chain
from reconstruct.constructions.deep.exact import (
    LIMIT,
    exact_norms,
    height,
    solve_over_rationals,
)
from reconstruct.constructions.deep.forward import Placed, place_chain
from reconstruct.constructions.deep.proof import prove_deep
from reconstruct.constructions.deep.status import block_systems
from reconstruct.constructions.nodes import check_geometry
from reconstruct.constructions.sites import Site
from reconstruct.constructions.two_layers import check_width, joined
from reconstruct.errors import InputError
from reconstruct.khatri_rao import Auto, RankProof, Solver
from reconstruct.networks import Mixing, Network, Norm
from reconstruct.numbers.given import whole
from reconstruct.progress import Progress

ATTEMPTS = 24  # at fitting all values into bounded pieces


@dataclass(frozen=True)
class Deep:
    """`block` inputs enter per layer; `ratio` hidden neurons for each of the m·block equations.

    A map with fewer inputs than `block` takes them all at once. At ratio 1 the systems are square
    and leave no choice: block sizes below 4 are then lost in float64 beyond a dozen layers.
    """

    block: int = 8
    ratio: float = 1.5

    def __post_init__(self) -> None:
        check_ratio(self.ratio)
        if whole(self.block, "the block size") < 1:
            raise InputError(
                f"the block size must be at least 1, the number of inputs that enter each layer, "
                f"but is {self.block}"
            )

    @property
    def name(self) -> str:
        return "deep"

    @property
    def summary(self) -> str:
        return (
            "each affine map is rebuilt by a chain of narrow frozen layers that take the "
            "input in block by block"
        )

    def plan(self, op: Mixing) -> DeepPlan:
        m, k = op.kernels[0].shape
        size = min(self.block, k)
        edges = tuple(pairwise([*range(0, k, size), k]))
        return DeepPlan(op, m, k, hidden_width(self.ratio, m * size), edges, len(op.kernels))

    def describe(self) -> Mapping[str, Any]:
        return {"ratio": self.ratio, "block": self.block}


@dataclass(frozen=True, eq=False)
class DeepPlan:
    """The map `op`, m × k in each of its groups, whose inputs enter in `blocks`, each layer
    `width` wide.

    Of a convolution the inputs are the entries of a patch: the k columns of its kernel.
    """

    op: Mixing
    rows: int
    cols: int
    width: int
    blocks: tuple[tuple[int, int], ...]
    groups: int = 1

    left_out = None
    alone = True

    @property
    def blueprint(self) -> Blueprint:
        width, rows = self.groups * self.width, self.groups * self.rows
        layers = [LayerPlan(width, edge, carry=edge[0] > 0) for edge in self.blocks]
        whole = (*layers, LayerPlan(rows, None, carry=True))
        return Blueprint(rows, self.cols, whole, self.groups)

    @property
    def systems(self) -> tuple[tuple[int, int, int], ...]:
        blocks = ((self.rows, stop - start, self.width) for start, stop in self.blocks)
        return tuple(blocks) * self.groups

    def check(self, site: Site, frozen: Network, number: int) -> None:
        where = f"map {number} ({site.target!r})"
        check_geometry(self.op, frozen, site, where)
        for i, (layer, (start, stop)) in enumerate(
            zip(site.layers[:-1], self.blocks, strict=True), start=1
        ):
            check_width(frozen, layer, self.rows, stop - start, f"{where}, block {i}", self.groups)
        for chain in self._chains(site, frozen):
            check_patterns(chain, where)

    def _chains(self, site: Site, frozen: Network) -> list[Chain]:
        return [read_chain(site, frozen, group, self.groups) for group in range(self.groups)]

    def solve(
        self, task: Task, site: Site, frozen: Network, solver: Solver, progress: Progress
    ) -> SiteSolution:
        pairs = zip(self._chains(site, frozen), task.each, strict=True)
        found = [_solve_group(chain, part, solver, progress) for chain, part in pairs]
        names = [layer.norm for layer in site.layers]
        norms = [joined(parts) for parts in zip(*(f.norms for f in found), strict=True)]
        exact = joined_exactly(names, [f.exact for f in found])
        systems = tuple(row for f in found for row in f.systems)
        return SiteSolution(dict(zip(names, norms, strict=True)), systems, exact)

    def prove_ranks(self, site: Site, frozen: Network) -> tuple[RankProof | None, ...]:
        """None: the systems hold products of solved gammas (`proof` has another way)."""
        return (None,) * len(self.systems)

    def describe(self) -> None:
        return None


@dataclass(frozen=True, eq=False)
class _Group:
    """One group: the norms of its layers, what is told of its blocks, and the rational norms."""

    norms: tuple[Norm, ...]
    systems: tuple[LayerSolution, ...]
    exact: list[ExactNorm] | None = None


def _solve_group(chain: Chain, task: Task, solver: Solver, progress: Progress) -> _Group:
    unit = _unit(task.weight)
    inner = task.with_map(task.weight / unit, task.bias / unit)
    in_floats = Auto() if solver.rational else solver
    blocks, placed = _solve_and_place(chain, inner, in_floats, progress, unit)
    systems = block_systems(chain, inner, blocks, placed)
    if not solver.rational:
        return _Group(placed.norms, systems)
    return _Group(placed.norms, *_exactly(chain, task, blocks, systems, unit))


def _exactly(
    chain: Chain,
    task: Task,
    blocks: tuple[BlockSolution, ...],
    systems: tuple[LayerSolution, ...],
    unit: float,
) -> tuple[tuple[LayerSolution, ...], list[ExactNorm] | None]:
    """The rational norms, or a proof that there are some when they are too long to write down."""
    exact = task.exact or ExactMap.of(task.weight, task.bias)
    bits = height(chain, len(task.weight))
    if bits > LIMIT:
        proof = prove_deep(chain, task.weight)
        said = f"exact numbers would have about {bits:.0e} bits; {proof.message}"
        return _saying(systems, said), None
    near = [np.asarray(block.real, np.float64) for block in blocks]
    near[-1] = unit * near[-1]  # the last norm's factor belongs to the last block here
    found = solve_over_rationals(chain, exact.weight, near)
    if found.scales is None:
        return _saying(systems, found.reason), None
    said = "over the rationals B_i diag(s_i) A_i == W^(i) for every block"
    return _saying(systems, said), exact_norms(chain, found.scales, task, exact)


def _saying(systems: tuple[LayerSolution, ...], text: str) -> tuple[LayerSolution, ...]:
    return tuple(replace(row, said=f"{row.message}; {text}", solver="exact") for row in systems)


def _solve_and_place(
    chain: Chain, task: Task, solver: Solver, progress: Progress, unit: float
) -> tuple[tuple[BlockSolution, ...], Placed]:
    """Scales and shifts; with bounded pieces, stretched until every layer's values fit.

    A layer's values shrink when the B behind it grows, which the last block's free part decides;
    each block on the way takes some of it away. When a stretch no longer helps, the blocks' own
    inputs are given less room.
    """
    stretch, before = Stretch(), (len(chain.links), 0.0)
    for _ in range(ATTEMPTS):
        blocks = solve_in_floats(chain, task.weight, task.magnitude, solver, progress, stretch)
        placed = place_chain(chain, task, blocks, unit)
        if placed.fits or _square(chain, task) or stretch.hopeless:
            break
        if placed.front < before:
            stretch = replace(stretch, last=stretch.last * 4 * max(placed.overflow))
        else:
            stretch = replace(stretch, room=stretch.room / 2)
        before = placed.front
    return blocks, placed


def _unit(W: NDArray[np.float64]) -> float:
    """The power of two next to W's largest entry: the last norm multiplies by it."""
    return float(np.ldexp(1.0, int(np.frexp(np.max(np.abs(W), initial=0.0))[1])))


def _square(chain: Chain, task: Task) -> bool:
    """Whether the blocks leave no choice of the solution."""
    m = len(task.weight)
    return all(k.width <= m * (k.block[1] - k.block[0]) for k in chain.links[1:])
