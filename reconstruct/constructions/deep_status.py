"""What the report says of a deep site: one row per block, and an honest status for each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reconstruct.constructions.backward import BlockSolution
from reconstruct.constructions.chain import Chain, Link
from reconstruct.constructions.construction import System, Task
from reconstruct.constructions.forward import Placed
from reconstruct.khatri_rao import Status

ACCEPTED = 1e-6  # relative error of the whole map beyond which float64 is said not to carry it
LARGEST = 4.0  # the largest of many rounding errors, in standard deviations
LOST = 1e12  # condition of B beyond which a missing rank is blamed on rounding, not on the weights


@dataclass(frozen=True)
class Figures:
    """What one block contributes to the error of the map, relative to the map.

    `residual` is `‖B_i diag(s_i) A_i − W^(i)‖_F / ‖W‖_F` with the true matrices and the rounded
    scales; `rounding` estimates the largest error that float64 evaluation of this layer has in
    the output, relative to the output's typical size.
    """

    residual: float
    rounding: float
    allowed: float

    @property
    def carried(self) -> bool:
        """Whether both stay within the block's share of what is accepted."""
        return max(self.residual, self.rounding) <= self.allowed


def block_systems(
    chain: Chain, task: Task, blocks: tuple[BlockSolution, ...], placed: Placed
) -> tuple[System, ...]:
    """One System per block, first to last.

    `residual` is that of the block's own equation with the true matrices, relative to ‖W‖_F;
    `condition` is the 2-norm condition number of B_i, the matrix that the block meets. A block's
    share of the accepted error is 1/√D, so that D accepted blocks make an accepted map.
    """
    norm = float(np.linalg.norm(task.weight)) or 1.0
    output = _output_size(task) or 1.0
    share = ACCEPTED / np.sqrt(len(blocks))
    rows = []
    for i, (link, block) in enumerate(zip(chain.links, blocks, strict=True)):
        figures = Figures(block.residual / norm, LARGEST * placed.noise[i] / output, share)
        status, reason = _judge(task, link, block, figures, placed.overflow[i])
        message = _message(status, reason, link, block, figures, f"block {i + 1} of {len(blocks)}")
        rows.append(_system(task, link, block, status, message, figures, placed.shift_max[i], norm))
    return tuple(rows)


def _system(
    task: Task,
    link: Link,
    block: BlockSolution,
    status: Status,
    message: str,
    figures: Figures,
    shift_max: float,
    norm: float,
) -> System:
    return System(
        index=task.index,
        name=task.name,
        rows=len(task.weight),
        cols=link.block[1] - link.block[0],
        width=link.width,
        solver=block.solver,
        status=status,
        message=message,
        iterations=len(block.history) - 2,
        residual=figures.residual,
        rank=block.rank,
        condition=block.condition,
        gamma_max=float(np.max(np.abs(block.s), initial=0.0)),
        shift_max=shift_max,
        seconds=block.seconds,
        history=tuple(value / norm for value in block.history),
    )


def _message(
    status: Status, reason: str, link: Link, block: BlockSolution, figures: Figures, where: str
) -> str:
    start, stop = link.block
    numbers = (
        f"{where}, inputs {start} to {stop - 1}, condition of B {block.condition:.1e}, relative "
        f"residual {figures.residual:.1e}, float64 rounding about {figures.rounding:.1e}"
    )
    text = f"{status.value}: {reason or status.explanation} ({numbers})"
    return f"{text}; {status.remedy}" if status.remedy else text


def _judge(
    task: Task, link: Link, block: BlockSolution, figures: Figures, overflow: float
) -> tuple[Status, str]:
    m, (start, stop) = len(task.weight), link.block
    needed = m * (stop - start)
    if overflow > 1:
        status = Status.ILL_CONDITIONED if link.width > needed else Status.TOO_NARROW
        return status, (
            f"the values are {overflow:g} times too wide for the activation's linear piece "
            f"[{link.piece.lo:g}, {link.piece.hi:g}], and among the solutions that width "
            f"{link.width} for {needed} equations leaves, none was found that fits"
        )
    if start > 0 and not np.any(block.s) and np.any(task.weight[:, :start]):
        return Status.RANK_DEFICIENT, (
            f"the block of W is zero, and with width {link.width} for {needed} equations its only "
            f"solution is s = 0, which carries nothing of the {start} inputs before it"
        )
    if figures.carried:
        return Status.SOLVED, "B_i diag(s_i) A_i equals the block of W, and float64 carries it"
    missing = block.rank is not None and block.rank < needed
    if missing and (block.condition < LOST or not np.any(block.B)):
        return Status.RANK_DEFICIENT, ""
    return Status.ILL_CONDITIONED, ""


def _output_size(task: Task) -> float:
    """The typical size of the largest output, for inputs spread over their box."""
    spread = np.linalg.norm(task.weight * task.magnitude, axis=1) / np.sqrt(3)
    return float(np.max(spread + np.abs(task.bias), initial=0.0))
