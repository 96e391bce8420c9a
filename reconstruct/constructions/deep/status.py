"""What the report says of a deep site: one row per block, and an honest status for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from reconstruct.constructions.construction import LayerSolution, Task
from reconstruct.constructions.deep.backward import BlockSolution
from reconstruct.constructions.deep.chain import Chain, Link
from reconstruct.constructions.deep.forward import Placed
from reconstruct.khatri_rao import Status

ACCEPTED = 1e-6  # relative error of the whole map beyond which float64 is said not to carry it
LARGEST = 4.0  # the largest of many rounding errors, in standard deviations


@dataclass(frozen=True)
class ChainFigures:
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
) -> tuple[LayerSolution, ...]:
    """One row per block, first to last.

    `residual` is that of the block's own equation with the true matrices, relative to ‖W‖_F;
    `condition` is the 2-norm condition number of B_i, the matrix that the block meets. Only the
    error of all blocks together counts; when it is too large, the blocks to blame are those with
    more than 1/√D of what is accepted.
    """
    norm = float(np.linalg.norm(task.weight)) or 1.0
    output = output_size(task) or 1.0
    rounding = [LARGEST * value / output for value in placed.noise]
    total = max(_total(b.residual / norm for b in blocks), _total(rounding))
    share = ACCEPTED if total <= ACCEPTED else ACCEPTED / float(np.sqrt(len(blocks)))
    rows, behind = [], Status.SOLVED
    for i in reversed(range(len(blocks))):
        link, block = chain.links[i], blocks[i]
        figures = ChainFigures(block.residual / norm, rounding[i], share)
        status, reason = _judge(task, link, block, figures, placed.overflow[i], behind)
        behind = status if behind is Status.SOLVED else behind
        message = _message(
            status,
            reason,
            link,
            block,
            figures,
            len(task.weight),
            f"block {i + 1} of {len(blocks)}",
        )
        rows.append(_system(task, link, block, status, message, figures, placed.shift_max[i], norm))
    return tuple(reversed(rows))


def _system(
    task: Task,
    link: Link,
    block: BlockSolution,
    status: Status,
    message: str,
    figures: ChainFigures,
    shift_max: float,
    norm: float,
) -> LayerSolution:
    return LayerSolution(
        s=np.asarray(block.s, np.float64),
        status=status,
        solver=block.solver,
        residual=figures.residual,
        shape=(len(task.weight), link.block[1] - link.block[0]),
        rank=block.rank,
        condition=block.condition,
        history=tuple(value / norm for value in block.history),
        seconds=block.seconds,
        index=task.index,
        name=task.name,
        shift_max=shift_max,
        said=message,
        steps=len(block.history) - 2,
    )


def _message(
    status: Status,
    reason: str,
    link: Link,
    block: BlockSolution,
    figures: ChainFigures,
    rows: int,
    where: str,
) -> str:
    start, stop = link.block
    needed = rows * (stop - start)
    numbers = (
        f"{where}, inputs {start} to {stop - 1}, rank {block.rank or 'unknown'} of "
        f"{needed} needed, condition of B {block.condition:.1e}, relative "
        f"residual {figures.residual:.1e}, float64 rounding about {figures.rounding:.1e}"
    )
    text = f"{status.value}: {reason or status.explanation} ({numbers})"
    return f"{text}; {status.remedy}" if status.remedy else text


def _judge(
    task: Task,
    link: Link,
    block: BlockSolution,
    figures: ChainFigures,
    overflow: float,
    behind: Status,
) -> tuple[Status, str]:
    """The status of a block; one that fails meets what a failure `behind` it left over."""
    m, (start, stop) = len(task.weight), link.block
    needed = m * (stop - start)
    if overflow > 1:
        status = Status.ILL_CONDITIONED if link.width > needed else Status.TOO_NARROW
        return status, (
            f"the values are {overflow:g} times too wide for the activation's linear piece "
            f"[{link.piece.lo:g}, {link.piece.hi:g}], and among the solutions that width "
            f"{link.width} for {needed} equations leaves, none was found that fits"
        )
    if not np.any(block.s) and not np.any(task.weight[:, start:stop]) and _needed(task, start):
        return Status.RANK_DEFICIENT, (
            f"the block of W is zero, and with width {link.width} for {needed} equations its only "
            f"solution is s = 0, which carries nothing of the {start} inputs before it"
        )
    if figures.carried:
        return Status.SOLVED, "B_i diag(s_i) A_i equals the block of W, and float64 carries it"
    if behind is not Status.SOLVED:
        return behind, ""
    missing = block.rank is not None and block.rank < needed
    return (Status.RANK_DEFICIENT if missing else Status.ILL_CONDITIONED), ""


def _total(errors: Iterable[float]) -> float:
    """Errors of unrelated signs add up in squares."""
    return float(np.linalg.norm(list(errors)))


def _needed(task: Task, start: int) -> bool:
    """Whether there is anything before input `start` that has to be carried on."""
    return bool(np.any(task.weight[:, :start]))


def output_size(task: Task) -> float:
    """The typical size of the largest output, for inputs spread over their box."""
    spread = np.linalg.norm(task.weight * task.magnitude, axis=1) / np.sqrt(3)
    return float(np.max(spread + np.abs(task.bias), initial=0.0))
