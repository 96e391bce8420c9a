"""Shifts of a deep chain, first layer to last, and the norms that follow.

Each hidden value is moved into its activation's linear piece, and the next norm takes back the
constant that the layer before really carries (rounding of its norm included), in extended
precision: constants never build up along the chain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions.backward import BlockSolution
from reconstruct.constructions.chain import Chain, Link
from reconstruct.constructions.construction import Task, Vector
from reconstruct.constructions.extended import Extended, dot, extended, real_effective
from reconstruct.constructions.placement import Placement, place
from reconstruct.networks import Norm, dense

EPS = float(np.finfo(np.float64).eps)
ROUNDING = 2.0**-24  # of |M||h|, times the placement's slack of 2^-20: 2^-44 covers the rounding


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
        return all(value == 1.0 for value in self.overflow)


def place_chain(chain: Chain, task: Task, blocks: tuple[BlockSolution, ...]) -> Placed:
    """The norms of the chain, given the scales of all blocks."""
    state = _State(np.zeros((0, 0)), extended([]))
    norms, shifts, overflow, noise = [], [], [], []
    for link, block in zip(chain.links, blocks, strict=True):
        final = link is chain.links[-1]
        state, norm, held = _place_link(link, block, task, state, final)
        norms.append(norm)
        shifts.append(float(np.max(np.abs(held.shift), initial=0.0)))
        overflow.append(1.0 if final else 1 / held.scale)
        noise.append(state.noise)
    back = 1 / held.scale
    constant = dot(chain.last.weight, state.constant) + chain.last.bias
    t = np.asarray(task.bias - back * constant, np.float64)
    norms.append(chain.norm.with_effective(np.full(len(t), back), t))
    return Placed(tuple(norms), tuple(shifts), tuple(overflow), tuple(noise))


@dataclass(frozen=True, eq=False)
class _State:
    """`h = linear·x + constant` behind a layer, x the inputs that came in so far."""

    linear: NDArray[np.float64]
    constant: Extended
    noise: float = 0.0


def _place_link(
    link: Link, block: BlockSolution, task: Task, before: _State, final: bool
) -> tuple[_State, Norm, Placement]:
    slope = link.piece.slope
    s = np.asarray(block.real / slope, np.float64)
    linear, carried = _arriving(link, before)
    values = s[:, None] * linear
    size = np.abs(values) @ task.magnitude[: link.block[1]]
    lo, hi = task.functionals(_padded(values, task.weight.shape[1]))
    rounding = np.abs(s) * _row_norms(link, before)
    held = place(link.piece, lo, hi, size + ROUNDING * np.sqrt(link.width) * rounding)
    scale = held.scale if final else 1.0
    wanted = scale * block.s
    t = np.asarray(held.shift - scale * extended(block.real) / slope * carried, np.float64)
    norm = link.norm.with_effective(wanted, t)
    real_s, real_t = real_effective(norm)
    constant = slope * (real_s * carried + real_t)
    columns = np.linalg.norm(np.asarray(block.B, np.float64), axis=0)
    noise = EPS * float(np.linalg.norm(columns * (rounding + np.abs(held.shift) / scale)))
    return _State(slope * scale * values, constant, noise), norm, held


def _arriving(link: Link, before: _State) -> tuple[NDArray[np.float64], Extended]:
    """What reaches the norm: `M (linear·x) + A x^(i)` and the constant `M·constant + biases`."""
    entry = dense(link.entry)
    if link.carry is None:
        return entry, extended(link.bias)
    carried = dense(link.carry) @ before.linear
    return np.hstack([carried, entry]), dot(link.carry, before.constant) + link.bias


def _padded(values: NDArray[np.float64], cols: int) -> NDArray[np.float64]:
    rest = cols - values.shape[1]
    return np.hstack([values, np.zeros((len(values), rest))]) if rest else values


def _row_norms(link: Link, before: _State) -> Vector:
    """`‖M_l ∘ h‖` for random rows: ‖M_l‖·‖h‖/√n, what rounding of the row's sum scales with."""
    if link.carry is None:
        return np.linalg.norm(dense(link.entry), axis=1)
    rows = np.linalg.norm(dense(link.carry), axis=1)
    size = float(np.linalg.norm(np.asarray(before.constant, np.float64)))
    return rows * size / np.sqrt(link.carry.shape[1])
