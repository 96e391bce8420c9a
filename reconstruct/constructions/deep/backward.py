"""The induction in extended precision: the scales that norms in float64 get.

B always comes from the scales that the norms really have after rounding, so that each block makes
up for what rounding did to the blocks behind it, and the residuals of the blocks together are the
residual of the whole map.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions.deep.arithmetic import Extended, LongDouble, Reals, real_scale
from reconstruct.constructions.deep.block import BlockSystem, block_system, refine, residual
from reconstruct.constructions.deep.carrying import FINE, Carried, condition, improve
from reconstruct.constructions.deep.chain import Chain, Link
from reconstruct.constructions.deep.induction import solve_backward
from reconstruct.khatri_rao import Solver
from reconstruct.networks import dense
from reconstruct.numbers.arrays import Array, Vector
from reconstruct.numbers.parallel import one_blas_thread
from reconstruct.progress import Progress, Step

ONE_THREAD = 1024  # width up to which handing out the many small products costs more than it saves


@dataclass(frozen=True)
class Stretch:
    """How large the free part of the solutions is; only bounded activations need to change it.

    `last` multiplies τ in the last block: it makes B larger and so the hidden values before it
    smaller. `room` is the share of a bounded piece that a block's own input may fill.
    """

    last: float = 1.0
    room: float = 0.5

    @property
    def hopeless(self) -> bool:
        """Whether the free part is so large that float64 has no digits left for the rest."""
        return self.last > 1e13 or self.room < 0.05


@dataclass(frozen=True, eq=False)
class BlockSolution:
    """One block solved: `s` is what its norm is asked for, `real` is λ·s as the norm has it.

    `B` is the matrix that the block met and `condition` its 2-norm condition number. `history`
    holds `‖W^(i) − B diag(real) A‖_F`, before and after the refinements and after rounding.
    """

    s: Vector
    real: Extended
    B: Reals
    condition: float
    solver: str
    rank: int | None
    history: tuple[float, ...]
    seconds: float

    @property
    def residual(self) -> float:
        return self.history[-1]


def solve_in_floats(
    chain: Chain,
    W: NDArray[np.float64],
    reach: Vector,
    solver: Solver,
    progress: Progress,
    stretch: Stretch,
) -> tuple[BlockSolution, ...]:
    """All blocks of `W` (m × k), first to last; `reach[j]` bounds |x_j|."""
    blocks = _InFloats(W, reach, solver, progress, stretch, len(chain.links))
    with one_blas_thread() if chain.width <= ONE_THREAD else nullcontext():
        return solve_backward(chain, blocks).blocks


@dataclass(frozen=True, eq=False)
class _InFloats:
    """Blocks in extended precision around float64 solves; none is ever given up."""

    W: NDArray[np.float64]
    reach: Vector
    solver: Solver
    progress: Progress
    stretch: Stretch
    count: int

    arithmetic = LongDouble()

    def solve(self, index: int, link: Link, B: Array) -> BlockSolution:
        last = index + 1 == self.count
        block = _solve_block(link, B, self.W, self.reach, self.solver, self.stretch, last=last)
        self.progress(Step("blocks", self.count - index, self.count, block.residual))
        return block

    def scales(self, block: BlockSolution) -> Extended:
        return block.real


def _solve_block(
    link: Link,
    B: Reals,
    W: NDArray[np.float64],
    reach: Vector,
    solver: Solver,
    stretch: Stretch,
    *,
    last: bool,
) -> BlockSolution:
    start = time.perf_counter()
    first, stop = link.block
    block = W[:, first:stop]
    system = block_system(B, link.entry, solver)
    initial = np.zeros(link.width)
    if link.carry is not None and not system.square:
        initial = _carrying_start(link, system, B, W, reach, stretch, last=last)

    def real(sigma: Reals) -> NDArray[np.float64]:
        return residual(B, sigma, link.entry, block)

    sigma, history = refine(system, initial, real)
    s = sigma / link.piece.slope
    rounded = link.piece.slope * real_scale(link.norm, s)
    history.append(float(np.linalg.norm(real(rounded))))
    return BlockSolution(
        s=s,
        real=rounded,
        B=B,
        condition=system.rows.condition,
        solver=system.solver,
        rank=system.rank,
        history=tuple(history),
        seconds=time.perf_counter() - start,
    )


def _carrying_start(
    link: Link,
    system: BlockSystem,
    B: Reals,
    W: NDArray[np.float64],
    reach: Vector,
    stretch: Stretch,
    *,
    last: bool,
) -> Vector:
    """A solution whose carried matrix is well conditioned: the constant one, then improved."""
    first, stop = link.block
    reference = scale_of(link, system, W) * np.full(link.width, stretch.last if last else 1.0)
    if link.bounded and not last:
        reference = _room(link, reach[first:stop], stretch.room)
    wanted = system.rows.undo(W[:, first:stop])
    start = reference + system.inverse(wanted - system.apply(reference))
    if not system.factored or link.carry is None:
        return start
    before = np.asarray(B, np.float64)
    fine = condition(before, link.carry, start) <= FINE * len(W)
    if fine and (last or not link.bounded):
        return start
    unit = before / np.linalg.norm(before)
    carried = Carried(unit, dense(link.carry), reference, link.bounded)
    return improve(carried, start, system.project)


def scale_of(link: Link, system: BlockSystem, W: NDArray[np.float64]) -> float:
    """τ: the typical entry of a minimum-norm solution for one of the blocks still to come.

    Rows of the Khatri-Rao matrix have squared norm α² = mean A², so `K⁺ w` has norm ‖w‖/α.
    """
    first, stop = link.block
    typical = np.linalg.norm(system.rows.undo(W[:, :stop])) * np.sqrt((stop - first) / stop)
    alpha = np.sqrt(np.mean(dense(link.entry) ** 2) * link.width)
    value = float(typical / alpha) if alpha > 0 else 0.0
    return value if np.isfinite(value) and value > 0 else 1.0


def _room(link: Link, reach: Vector, share: float) -> Vector:
    """Scales with which the block's own input fills at most `share` of the bounded piece."""
    entering = np.abs(dense(link.entry)) @ reach
    typical = float(np.mean(entering)) or 1.0
    return share * (link.piece.hi - link.piece.lo) / 2 / (entering + typical)
