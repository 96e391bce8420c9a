"""A chain of frozen layers, in which the deep and the stacked construction rebuild a map.

    h_1 = act(N_1(A_1 x^(1))),   h_i = act(N_i(M_i h_{i-1} + A_i x^(i))),   out = N_out(M_out h_D)

A link is one hidden layer with the block x^(i) of the input that enters it. Once all scales are
known, `shift_chain` goes from the first layer to the last: each hidden value is moved into its
activation's linear piece, and the next norm takes back the constant that the layer before really
carries (rounding of its norm included), in extended precision: constants never build up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions.construction import Task
from reconstruct.constructions.shifts import Shift, find_shift
from reconstruct.constructions.sites import (
    Layer,
    Site,
    activation_at,
    group_at,
    kernel_of,
    mixing_at,
    norm_group,
)
from reconstruct.errors import InputError
from reconstruct.khatri_rao import structural_obstruction
from reconstruct.networks import Matrix, Mixing, Network, Norm, Piece, dense
from reconstruct.numbers.arrays import Array, Vector

# 64 bits of mantissa on x86 and more elsewhere; where it is no wider than float64 all still works
Extended: TypeAlias = NDArray[np.longdouble]
Reals: TypeAlias = NDArray[Any]  # float64 or longdouble

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Link:
    """A hidden layer: `carry` M (n × n before it, None in the first), `entry` A (n × block).

    `bias` is the sum of the biases of both linear layers, `piece` the activation's linear piece.
    """

    carry: Matrix | None
    entry: Matrix
    block: tuple[int, int]
    bias: Vector
    norm: Norm
    piece: Piece

    @property
    def width(self) -> int:
        return int(self.entry.shape[0])

    def real_scale(self, s: Vector) -> Extended:
        """σ = λ·s as the norm really has it once gamma is rounded for the scale s."""
        return self.piece.slope * real_effective(self.norm.with_effective(s, np.zeros_like(s)))[0]


@dataclass(frozen=True, eq=False)
class Chain:
    """The hidden layers, first to last, and the layer that ends the chain."""

    links: tuple[Link, ...]
    last: Mixing
    norm: Norm

    @property
    def width(self) -> int:
        """Neurons of the widest hidden layer."""
        return max(link.width for link in self.links)


def read_chain(site: Site, frozen: Network, group: int = 0, groups: int = 1) -> Chain:
    """The matrices of a site that `find_sites` recognised; of a grouped convolution one group's."""
    *hidden, final = site.layers
    links = tuple(_link(layer, frozen, group, groups) for layer in hidden)
    norm = norm_group(frozen, final.norm, group, groups)
    return Chain(links, group_at(frozen, final.carry, group), norm)


def _link(layer: Layer, frozen: Network, group: int, groups: int) -> Link:
    norm = norm_group(frozen, layer.norm, group, groups)
    piece = activation_at(frozen, layer.activation).piece
    carry = group_at(frozen, layer.carry, group) if layer.carry else None
    if layer.entry is None:  # of a stack, in which the first layer alone takes inputs in
        assert carry is not None
        nothing = np.zeros((norm.channels, 0))
        return Link(kernel_of(carry), nothing, (0, 0), carry.channel_bias, norm, piece)
    assert layer.block is not None
    entry = group_at(frozen, layer.entry, group)
    entering = kernel_of(entry)
    if not mixing_at(frozen, layer.entry).own_entries:  # it has all columns, zero in other blocks
        entering = entering[:, slice(*layer.block)]
    if carry is None:
        return Link(None, entering, layer.block, entry.channel_bias, norm, piece)
    bias = entry.channel_bias + carry.channel_bias
    return Link(kernel_of(carry), entering, layer.block, bias, norm, piece)


def check_patterns(chain: Chain, where: str) -> None:
    """Refuse, before any numerical work, weights whose zeros alone leave some block out of reach.

    Where M has zeros, B has some at best where no path leads from the layer to the output.
    """
    reached = _pattern(kernel_of(chain.last))
    for i in reversed(range(len(chain.links))):
        link = chain.links[i]
        obstruction = structural_obstruction(link.entry, reached)
        if obstruction is not None:
            raise InputError(
                f"{where}, block {i + 1} cannot be reached by this frozen network: "
                f"{obstruction.message}"
            )
        if link.carry is not None:
            reached = _pattern(reached @ _pattern(link.carry))


def _pattern(matrix: Matrix) -> NDArray[np.float32]:
    return np.asarray(dense(matrix) != 0, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class LinkScale:
    """The scale of a layer: `s` is what its norm is asked for, `real` is λ·s as the norm has it.

    `B` is what follows: the output is B times the layer's values.
    """

    s: Vector
    real: Extended
    B: Reals


@dataclass(frozen=True, eq=False)
class ShiftedChain:
    """The norms of the hidden layers and of the last one.

    `shift_max[i]` is the largest shift of layer i; `overflow[i]` how many times its values are
    wider than a bounded piece (1 when they fit); `noise[i]` the standard deviation that rounding
    in layer i is expected to have in the output when the network is evaluated in float64.
    """

    norms: tuple[Norm, ...]
    shift_max: tuple[float, ...]
    overflow: tuple[float, ...]
    noise: tuple[float, ...]

    def rounding(self, task: Task) -> Vector:
        """By layer the largest error of a float64 evaluation to expect, relative to the output.

        The largest of many rounding errors is about four standard deviations; the size of the
        output is that of its largest entry, for inputs spread over their box.
        """
        outputs = _spread(task.weight, task.magnitude) + np.abs(task.bias)
        size = float(np.max(outputs, initial=0.0)) or 1.0
        return 4.0 * np.array(self.noise) / size


@dataclass(frozen=True, eq=False)
class _State:
    """`h = linear·x + constant` behind a layer, x the inputs that came in so far.

    `size` is the typical |h|; `noise` what rounding in this layer does to the output.
    """

    linear: NDArray[np.float64]
    constant: Extended
    size: Vector
    noise: float = 0.0


def shift_chain(
    chain: Chain, task: Task, scales: Sequence[LinkScale], unit: float = 1.0
) -> ShiftedChain:
    """The norms of the chain, given all scales; the last one multiplies by `unit`."""
    state = _State(np.zeros((0, 0)), extended([]), np.zeros(0))
    norms, shifts, overflow, noise = [], [], [], []
    for link, scale in zip(chain.links, scales, strict=True):
        final = link is chain.links[-1]
        state, norm, held = _shift_link(link, scale, task, state, final)
        norms.append(norm)
        shifts.append(float(np.max(np.abs(held.shift), initial=0.0)))
        overflow.append(1.0 if final else 1 / held.scale)
        noise.append(state.noise)
    back = 1 / held.scale
    constant = _dot(kernel_of(chain.last), state.constant) + chain.last.channel_bias
    t = np.asarray(task.bias - back * constant, np.float64)
    norms.append(chain.norm.with_effective(np.full(len(t), unit * back), unit * t))
    return ShiftedChain(tuple(norms), tuple(shifts), tuple(overflow), tuple(noise))


def _shift_link(
    link: Link, found: LinkScale, task: Task, before: _State, final: bool
) -> tuple[_State, Norm, Shift]:
    slope = link.piece.slope
    real = found.real / slope
    linear, carried = dense(link.entry), extended(link.bias)
    if link.carry is not None:
        linear = np.hstack([dense(link.carry) @ before.linear, linear])
        carried = _dot(link.carry, before.constant) + link.bias
    values = np.asarray(real, np.float64)[:, None] * linear
    reach = task.magnitude[: values.shape[1]]
    terms = np.abs(np.asarray(real, np.float64)) * _row_sizes(link, before, reach)
    lo, hi = task.functionals(padded(values, task.weight.shape[1]))
    # 2^-24 of the terms |M||h| besides: the slack of it, 2^-29, is far above their rounding
    size = np.abs(values) @ reach + 2.0**-24 * np.sqrt(link.width) * terms
    held = find_shift(link.piece, lo, hi, size)
    scale = held.scale if final else 1.0
    t = np.asarray(held.shift - scale * real * carried, np.float64)
    norm = link.norm.with_effective(scale * found.s, t)
    real_s, real_t = real_effective(norm)
    constant = slope * (real_s * carried + real_t)
    typical = np.hypot(np.asarray(constant, np.float64), slope * scale * _spread(values, reach))
    columns = np.linalg.norm(np.asarray(found.B, np.float64), axis=0)
    noise = EPS * float(np.linalg.norm(columns * (slope * terms + typical / scale)))
    return _State(slope * scale * values, constant, typical, noise), norm, held


def padded(values: Array, cols: int) -> NDArray[np.float64]:
    """Functionals of the first inputs as functionals of all of them."""
    whole = np.zeros((len(values), cols))
    whole[:, : values.shape[1]] = values
    return whole


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


# --- extended precision -------------------------------------------------------------------------


def extended(values: Any) -> Extended:
    """The same numbers in extended precision."""
    return np.asarray(values, dtype=np.longdouble)


def _dot(matrix: Matrix, vector: Extended, rows: int = 256) -> Extended:
    """`matrix @ vector` in extended precision, some rows at a time: they are 16 bytes a number."""
    parts = [
        extended(dense(matrix[i : i + rows])) @ vector for i in range(0, matrix.shape[0], rows)
    ]
    return np.concatenate(parts)


def extended_product(left: Reals, right: Matrix, most: int = 1 << 28) -> Reals:
    """`left @ right`, extended up to `most` multiplications (about a second), else in float64."""
    if left.shape[0] * right.shape[0] * right.shape[1] > most:
        return np.asarray(left, np.float64) @ dense(right)
    return np.asarray(extended(left) @ extended(dense(right)))


def real_effective(norm: Norm) -> tuple[Extended, Extended]:
    """`(s, t)` of `N(z) = s∘z + t` as the stored gamma, beta and statistics really give it."""
    deviation = np.sqrt(extended(norm.var) + extended(norm.eps))
    s = extended(norm.gamma) / deviation
    return s, extended(norm.beta) - s * extended(norm.mean)
