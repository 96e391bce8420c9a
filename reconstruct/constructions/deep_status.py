"""What the report says of a deep site: one row per block, and an honest status for each."""

from __future__ import annotations

import numpy as np

from reconstruct.constructions.backward import BlockSolution
from reconstruct.constructions.chain import Chain, Link
from reconstruct.constructions.construction import System, Task
from reconstruct.constructions.forward import Placed
from reconstruct.khatri_rao import Status

ACCEPTED = 1e-6  # relative error of the whole map beyond which float64 is said not to carry it


def block_systems(
    chain: Chain, task: Task, blocks: tuple[BlockSolution, ...], placed: Placed
) -> tuple[System, ...]:
    """One System per block, first to last.

    `residual` is `‖B_i diag(s_i) A_i − W^(i)‖_F / ‖W‖_F` with the true matrices and the rounded
    scales; `condition` is the 2-norm condition number of B_i, the matrix that the block meets.
    """
    return tuple(_system(chain, task, blocks, placed, i) for i in range(len(blocks)))


def _system(
    chain: Chain, task: Task, blocks: tuple[BlockSolution, ...], placed: Placed, i: int
) -> System:
    block, link = blocks[i], chain.links[i]
    size = float(np.linalg.norm(task.weight)) or 1.0
    residual = block.residual / size
    noise = placed.noise[i] / _output_size(task)
    status, reason = _judge(task, link, block, residual, noise, placed.overflow[i])
    start, stop = link.block
    numbers = (
        f"block {i + 1} of {len(blocks)}, inputs {start} to {stop - 1}, condition of B "
        f"{block.condition:.1e}, relative residual {residual:.1e}, expected float64 rounding "
        f"{noise:.1e}"
    )
    text = f"{status.value}: {reason or status.explanation} ({numbers})"
    return System(
        index=task.index,
        name=task.name,
        rows=len(task.weight),
        cols=stop - start,
        width=link.width,
        solver=block.solver,
        status=status,
        message=f"{text}; {status.remedy}" if status.remedy else text,
        iterations=len(block.history) - 2,
        residual=residual,
        rank=block.rank,
        condition=block.condition if np.isfinite(block.condition) else None,
        gamma_max=float(np.max(np.abs(block.s), initial=0.0)),
        shift_max=placed.shift_max[i],
        seconds=block.seconds,
        history=tuple(value / size for value in block.history),
    )


def _judge(
    task: Task, link: Link, block: BlockSolution, residual: float, noise: float, overflow: float
) -> tuple[Status, str]:
    m, (start, stop) = len(task.weight), link.block
    needed = m * (stop - start)
    if overflow > 1:
        return Status.TOO_NARROW, (
            f"the values are {overflow:g} times too wide for the activation's linear piece "
            f"[{link.piece.lo:g}, {link.piece.hi:g}], and width {link.width} for {needed} "
            f"equations leaves no solution that fits"
        )
    if start > 0 and not np.any(block.s) and np.any(task.weight[:, :start]):
        return Status.RANK_DEFICIENT, (
            f"the block of W is zero, and with width {link.width} for {needed} equations its only "
            f"solution is s = 0, which carries nothing of the {start} inputs before it"
        )
    if residual > ACCEPTED and block.rank is not None and block.rank < needed:
        return Status.RANK_DEFICIENT, ""
    if not max(residual, noise) <= ACCEPTED:
        return Status.ILL_CONDITIONED, ""
    return Status.SOLVED, ""


def _output_size(task: Task) -> float:
    """The largest output that the target's map can have: what errors are relative to."""
    largest = np.abs(task.weight) @ task.magnitude + np.abs(task.bias)
    return max(1.0, float(np.max(largest, initial=0.0)))
