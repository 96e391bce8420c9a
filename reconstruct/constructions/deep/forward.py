"""Shifts of a deep chain, first layer to last, and the norms that follow.

Each hidden value is moved into its activation's linear piece, and the next norm takes back the
constant that the layer before really carries (rounding of its norm included), in extended
precision: constants never build up along the chain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions.construction import Task
from reconstruct.constructions.deep.arithmetic import (
    Double,
    Extended,
    dot,
    extended,
    real_effective,
)
from reconstruct.constructions.deep.backward import BlockSolution
from reconstruct.constructions.deep.chain import Chain, Link
from reconstruct.constructions.deep.induction import arriving
from reconstruct.constructions.nodes import kernel_of
from reconstruct.constructions.shifts import Placing, place
from reconstruct.networks import Norm, dense
from reconstruct.numbers.arrays import Vector

EPS = float(np.finfo(np.float64).eps)
ROUNDING = 2.0**-24  # of the terms |M||h| as well: SLACK of it, 2^-29, is far above their rounding


@dataclass(frozen=True, eq=False)
class Placed:
    """The norms of the hidden layers and of the last one.

    `shift_max[i]` is the largest shift of layer i; `overflow[i]` how many times its values are
    wider than a bounded piece (1 when they fit); `noise[i]` the standard deviation that rounding
    in layer i is expected to have in the output when the network is evaluated in float64.
    """

    norms: tuple[Norm, ...]
    shift_max: tuple[float, ...]
    overflow: tuple[float, ...]
    noise: tuple[float, ...]

    @property
    def fits(self) -> bool:
        return self.front == (0, 1.0)

    @property
    def front(self) -> tuple[int, float]:
        """The last layer that does not fit, counted from 1, and its overflow; (0, 1) if none."""
        wide = [(i, value) for i, value in enumerate(self.overflow, start=1) if value > 1]
        return max(wide, default=(0, 1.0))


def place_chain(
    chain: Chain, task: Task, blocks: tuple[BlockSolution, ...], unit: float = 1.0
) -> Placed:
    """The norms of the chain, given the scales of all blocks; the last one multiplies by `unit`."""
    state = _State(np.zeros((0, 0)), extended([]), np.zeros(0))
    norms, shifts, overflow, noise = [], [], [], []
    for link, block in zip(chain.links, blocks, strict=True):
        final = link is chain.links[-1]
        state, norm, held = _place_link(link, block, task, state, final)
        norms.append(norm)
        shifts.append(float(np.max(np.abs(held.shift), initial=0.0)))
        overflow.append(1.0 if final else 1 / held.scale)
        noise.append(state.noise)
    back = 1 / held.scale
    constant = dot(kernel_of(chain.last), state.constant) + chain.last.channel_bias
    t = np.asarray(task.bias - back * constant, np.float64)
    norms.append(chain.norm.with_effective(np.full(len(t), unit * back), unit * t))
    return Placed(tuple(norms), tuple(shifts), tuple(overflow), tuple(noise))


@dataclass(frozen=True, eq=False)
class _State:
    """`h = linear·x + constant` behind a layer, x the inputs that came in so far.

    `size` is the typical |h|; `noise` what rounding in this layer does to the output.
    """

    linear: NDArray[np.float64]
    constant: Extended
    size: Vector
    noise: float = 0.0


def _place_link(
    link: Link, block: BlockSolution, task: Task, before: _State, final: bool
) -> tuple[_State, Norm, Placing]:
    slope = link.piece.slope
    real = block.real / slope
    linear, carried = arriving(link, before.linear, Double()), _constant(link, before)
    values = np.asarray(real, np.float64)[:, None] * linear
    reach = task.magnitude[: link.block[1]]
    terms = np.abs(np.asarray(real, np.float64)) * _row_sizes(link, before, reach)
    lo, hi = task.functionals(_padded(values, task.weight.shape[1]))
    slack = np.abs(values) @ reach + ROUNDING * np.sqrt(link.width) * terms
    held = place(link.piece, lo, hi, slack)
    scale = held.scale if final else 1.0
    t = np.asarray(held.shift - scale * real * carried, np.float64)
    norm = link.norm.with_effective(scale * block.s, t)
    real_s, real_t = real_effective(norm)
    constant = slope * (real_s * carried + real_t)
    size = np.hypot(np.asarray(constant, np.float64), slope * scale * _spread(values, reach))
    columns = np.linalg.norm(np.asarray(block.B, np.float64), axis=0)
    noise = EPS * float(np.linalg.norm(columns * (slope * terms + size / scale)))
    return _State(slope * scale * values, constant, size, noise), norm, held


def _constant(link: Link, before: _State) -> Extended:
    """The constant that reaches the norm: `M·constant + biases`."""
    if link.carry is None:
        return extended(link.bias)
    return dot(link.carry, before.constant) + link.bias


def _padded(values: NDArray[np.float64], cols: int) -> NDArray[np.float64]:
    rest = cols - values.shape[1]
    return np.hstack([values, np.zeros((len(values), rest))]) if rest else values


def _spread(rows: NDArray[np.float64], reach: Vector) -> Vector:
    """Standard deviation of `rows·x` for x uniform in a box of half-width `reach`."""
    return np.asarray(np.linalg.norm(rows * reach, axis=1) / np.sqrt(3))


def _row_sizes(link: Link, before: _State, reach: Vector) -> Vector:
    """Typical size of the terms that each row of the layer sums, in the 2-norm.

    For M it is ‖M_l‖·‖h‖/√n, as if weights and values were unrelated.
    """
    start, stop = link.block
    own = _spread(dense(link.entry), reach[start:stop])
    if link.carry is None:
        return own
    rows = np.linalg.norm(dense(link.carry), axis=1)
    return np.asarray(own + rows * np.linalg.norm(before.size) / np.sqrt(link.carry.shape[1]))
