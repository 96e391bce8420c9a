"""A chain of frozen layers, as all constructions with constant statistics read and shift it.

    h_1 = act(N_1(A_1 x^(1))),   h_i = act(N_i(M_i h_{i-1} + A_i x^(i))),   out = N_out(M_out h_D)

A link is one hidden layer with the block x^(i) of the input that enters it. Two frozen layers are a
chain of one link; the deep and the stacked construction have longer ones. Once all scales of these
are known, `shift_chain` goes from the first layer to the last: each hidden value is moved into its
activation's linear piece, and the next norm takes back the constant that the layer before really
carries (rounding of its norm included), in extended precision: constants never build up.

Rests on proofs_check: active-relu-is-identity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions import sites
from reconstruct.constructions.construction import GroupSolution, SitePlan, SiteSolution, Task
from reconstruct.constructions.sites import Blueprint, Layer, LayerPlan, Site
from reconstruct.errors import InputError
from reconstruct.khatri_rao import Solver, structural_obstruction
from reconstruct.networks import Matrix, Mixing, Network, Norm, Piece, dense
from reconstruct.numbers.arrays import Array, Vector
from reconstruct.progress import Progress

# 64 bits of mantissa on x86 and more elsewhere; where it is no wider than float64 all still works
Extended: TypeAlias = NDArray[np.longdouble]
Reals: TypeAlias = NDArray[Any]  # float64 or longdouble

EPS = float(np.finfo(np.float64).eps)
LARGEST = 1e150  # products with weights of this size are still far from overflow
EXAMINED = 2**25  # entries of a Khatri-Rao pattern that is examined: half a second, 400 MB


@dataclass(frozen=True, eq=False)
class Link:
    """A hidden layer: `carry` M (n × n before it, None in the first), `entry` A (n × block).

    `bias` is the sum of the biases of both linear layers, `piece` the activation's linear piece,
    `name` that of the norm's node.
    """

    carry: Matrix | None
    entry: Matrix
    block: tuple[int, int]
    bias: Vector
    norm: Norm
    piece: Piece
    name: str

    @property
    def width(self) -> int:
        return int(self.entry.shape[0])

    def real_scale(self, s: Vector) -> Extended:
        """σ = λ·s as the norm really has it once gamma is rounded for the scale s."""
        return self.piece.slope * real_effective(self.norm.with_effective(s, np.zeros_like(s)))[0]


@dataclass(frozen=True, eq=False)
class End:
    """The layer that ends a chain: its kernels, one for each group that is read with it, the bias
    and the norm of all."""

    kernels: tuple[Matrix, ...]
    bias: Vector
    norm: Norm

    @property
    def kernel(self) -> Matrix:
        """That of the one group."""
        (kernel,) = self.kernels
        return kernel


@dataclass(frozen=True, eq=False)
class Chain:
    """The hidden layers, first to last, and the layer that ends the chain."""

    links: tuple[Link, ...]
    end: End

    @property
    def width(self) -> int:
        """Neurons of the widest hidden layer."""
        return max(link.width for link in self.links)

    @property
    def first(self) -> Link:
        """The hidden layer of two."""
        return self.links[0]


def read_chains(site: Site, layers: Sequence[Layer] | None = None) -> tuple[Chain, ...]:
    """The matrices of layers that `find_sites` recognised (all of the site), those of each group by
    themselves.

    The first of them takes in whatever is before it.
    """
    frozen, layers = site.frozen, layers or site.layers
    *hidden, final = layers
    last = sites.mixing_at(frozen, final.carry)
    count = len(last.kernels)
    links = [_links(layer, frozen, count, layer is layers[0]) for layer in hidden]
    biases = np.split(last.channel_bias, count)
    norms = _norms(frozen, final.norm, count)
    ends = (End((W,), b, n) for W, b, n in zip(last.kernels, biases, norms, strict=True))
    return tuple(Chain(own, end) for own, end in zip(zip(*links, strict=True), ends, strict=True))


def _norms(frozen: Network, name: str, count: int) -> list[Norm]:
    """The norm at a node on the channels of each of `count` groups."""
    norm = sites.norm_at(frozen, name)
    each = norm.channels // count
    return [norm.hidden(g * each, (g + 1) * each) for g in range(count)]


def _links(layer: Layer, frozen: Network, count: int, first: bool) -> list[Link]:
    """One hidden layer, group by group."""
    carry = None if first or layer.carry is None else sites.mixing_at(frozen, layer.carry)
    entry = sites.mixing_at(frozen, layer.entry or layer.carry) if first or layer.entry else None
    bias = np.sum([op.channel_bias for op in (carry, entry) if op is not None], axis=0)
    norms, piece = (
        _norms(frozen, layer.norm, count),
        sites.activation_at(frozen, layer.activation).piece,
    )
    found: list[Link] = []
    for g, (own, norm) in enumerate(zip(np.split(bias, count), norms, strict=True)):
        entering: Matrix = np.zeros((norm.channels, 0))  # of a stack: its first layer takes all in
        if entry is not None:
            entering = entry.kernels[g]
            if layer.block is not None and not entry.own_entries:
                entering = entering[:, slice(*layer.block)]  # the others are zero
        block = layer.block or (0, entering.shape[1])
        carrying = None if carry is None else carry.kernels[g]
        found.append(Link(carrying, entering, block, own, norm, piece, layer.norm))
    return found


@dataclass(frozen=True, eq=False)
class ChainPlan(SitePlan):
    """The map `op`, whose kernel, m × k in each of its groups, becomes a chain of its own."""

    op: Mixing

    @property
    def rows(self) -> int:
        return int(self.op.kernels[0].shape[0])

    @property
    def cols(self) -> int:
        return int(self.op.kernels[0].shape[1])

    @property
    def groups(self) -> int:
        return len(self.op.kernels)

    def in_a_row(self, *widths: int) -> Blueprint:
        """Layers that each have these widths in every group; the first takes all inputs in."""
        first, *rest = (self.groups * width for width in widths)
        layers = (LayerPlan(first, (0, self.cols), carry=False), *map(LayerPlan, rest))
        return Blueprint(layers[-1].width, self.cols, layers, self.groups)

    def check(self, site: Site) -> None:
        sites.check_geometry(self.op, site)
        for chain in read_chains(site):
            check_reach(chain, site.where)

    def solve(
        self, tasks: Sequence[Task], site: Site, solver: Solver, progress: Progress
    ) -> SiteSolution:
        parts = zip(read_chains(site), tasks, strict=True)
        found = [self.solve_group(*part, solver, progress) for part in parts]
        return SiteSolution.joined(site, found)

    def solve_group(
        self, chain: Chain, task: Task, solver: Solver, progress: Progress
    ) -> GroupSolution:
        """The norms of one group's layers."""
        raise NotImplementedError


def check_reach(chain: Chain, where: str) -> None:
    """Refuse, before any numerical work, layers with fewer neurons than equations, and weights
    whose zeros alone leave some block out of reach.

    Where M has zeros, B has some at best where no path leads from the layer to the output. Patterns
    with very many entries are not examined: those are nearly full, and the solver says what it
    finds.
    """
    reached, m = chain.end.kernel, chain.end.kernel.shape[0]
    for i in reversed(range(len(chain.links))):
        link, here = chain.links[i], f"{where}, block {i + 1}" if len(chain.links) > 1 else where
        k = link.entry.shape[1]
        if link.width < m * k:
            raise InputError(
                f"{here} needs a hidden width of at least m·k = {m}·{k} = {m * k} to reach every "
                f"{m}×{k} matrix, but the frozen network has {link.width} neurons at "
                f"{link.name!r}; widen it by {m * k - link.width}, or use --construction factored "
                f"if the map has low rank"
            )
        served = (link.entry != 0).sum(axis=1) * (reached != 0).sum(axis=0)
        if served.sum() <= EXAMINED:
            obstruction = structural_obstruction(link.entry, reached)
            if obstruction is not None:
                raise InputError(
                    f"{here} cannot be reached by this frozen network: {obstruction.message}"
                )
        if link.carry is not None:
            reached = _pattern(_pattern(reached) @ _pattern(link.carry))


def _pattern(matrix: Matrix) -> NDArray[np.float32]:
    return np.asarray(dense(matrix) != 0, dtype=np.float32)


# --- one shift -----------------------------------------------------------------------------------
#
# The shift is the price of the theorem: it is added before the activation and taken away after it,
# so its size decides the rounding error. It is kept as small as the bounds allow, plus a slack
# that covers the rounding of gamma and of the layers before.


@dataclass(frozen=True, eq=False)
class Shift:
    """`scale·z + shift` lies in the piece for all reachable z; `scale` is a power of two ≤ 1."""

    scale: float
    shift: Vector

    @property
    def largest(self) -> float:
        """The largest shift."""
        return float(np.max(np.abs(self.shift), initial=0.0))


def find_shift(
    piece: Piece, lo: Vector, hi: Vector, magnitude: Vector, slack: float = 2.0**-5
) -> Shift:
    """Where to move functionals that lie in [lo, hi], so that the activation is linear on them.

    `magnitude` bounds the sum of the absolute terms of each functional; `slack` of it is kept free
    on either side, for the errors of a float32 evaluation. 2^-5 is about 7 % of the shifts; with
    2^-12 the float32 errors of ACAS Xu, HCAS and digits were smaller by a factor of 1.2 at most,
    and what is proved of them larger by orders of magnitude.
    On a half-line only a shift is needed; on an interval the values are scaled down as well, by
    one power of two for all units.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        lower, upper = lo - slack * magnitude, hi + slack * magnitude
        reached = float(np.max(np.abs([lower, upper]), initial=0.0))
    if not reached < LARGEST:
        raise InputError(
            f"hidden values must stay below {LARGEST:.0e} to be shifted in float64, but their "
            f"bounds on this domain reach {reached:.0e}; use a smaller domain, or scale the target"
        )
    if not isfinite(piece.hi):
        return Shift(1.0, round_up(np.maximum(piece.lo - lower, 0.0)))
    width = (piece.hi - piece.lo) * (1 - 2.0**-8)
    widest = float(np.max(upper - lower, initial=0.0))
    scale = 1.0 if widest <= width else float(2.0 ** np.floor(np.log2(width / widest)))
    middle = (piece.lo + piece.hi) / 2 - scale * (lower + upper) / 2
    return Shift(scale, middle.astype(np.float32).astype(np.float64))


def cancelling(M2: Array, least: Vector, steps: int = 6) -> Vector:
    """Shifts x ≥ `least` whose sum M2 x behind the second map is small.

    The second norm takes M2 x away again, and its beta is rounded by half a unit of that sum: a
    constant error of every output, the largest of all in real arithmetic. Raised by

        x = t + max(0, −C⁻¹ M2ᵀ μ),      C = diag ‖M2[:, l]‖²,

    about half of the units take part, whichever μ is: Newton's method finds the μ for which nothing
    is left, M2 x having the slope −M2 C⁻¹ M2ᵀ over the units that do. `least` itself where the
    steps do not end so, as with few units to each output.
    """
    M2 = M2 / (np.max(np.abs(M2), initial=0.0) or 1.0)
    squares = np.einsum("ij,ij->j", M2, M2)
    weights = M2 / np.where(squares > 0, squares, 1.0)
    mu, shift, raised = np.zeros(len(M2)), least, np.ones(len(least), dtype=bool)
    for _ in range(steps):
        slope = M2[:, raised] @ weights[:, raised].T
        mu = mu + np.linalg.lstsq(slope, M2 @ shift)[0]
        more = -(mu @ weights)
        raised, shift = more > 0, least + np.maximum(more, 0.0)
    smaller = np.linalg.norm(M2 @ shift) < 0.1 * np.linalg.norm(M2 @ least)
    return shift if smaller and np.max(shift) < 2 * np.max(least) else least


def round_up(values: Vector, bits: int = 16) -> Vector:
    """Each value ≥ 0 rounded up to `bits` significant bits: products of 16 bits with float32
    weights are exact in float64."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.ceil(np.ldexp(mantissa, bits)), exponent - bits))


# --- the shifts of a chain -----------------------------------------------------------------------


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

    `shift_max[i]` is the largest shift of layer i; `noise[i]` the standard deviation that rounding
    in layer i is expected to have in the output when the network is evaluated in float64.
    """

    norms: tuple[Norm, ...]
    shift_max: tuple[float, ...]
    noise: tuple[float, ...]

    def rounding(self, task: Task) -> Vector:
        """By layer the largest error of a float64 evaluation to expect, relative to the output.

        The largest of many rounding errors is about four standard deviations; the size of the
        output is that of its largest entry, for inputs spread over their box.
        """
        outputs = _spread(task.weight, task.magnitude) + np.abs(task.bias)
        size = float(np.max(outputs, initial=0.0)) or 1.0
        return 4.0 * np.array(self.noise) / size


def shift_chain(
    chain: Chain, task: Task, scales: Sequence[LinkScale], unit: float = 1.0
) -> ShiftedChain:
    """The norms of the chain, given all scales; the last one multiplies by `unit`.

    All pieces are half-lines, so that a shift alone moves values into them. Behind each layer
    `h = linear·x + constant`, x the inputs that came in so far, and |h| is typically `typical`.
    """
    linear, constant, typical = np.zeros((0, 0)), extended([]), np.zeros(0)
    norms, shifts, noise = [], [], []
    for link, scale in zip(chain.links, scales, strict=True):
        slope = link.piece.slope
        real = scale.real / slope
        arriving, carried = dense(link.entry), extended(link.bias)
        if link.carry is not None:
            arriving = np.hstack([dense(link.carry) @ linear, arriving])
            carried = _dot(link.carry, constant) + link.bias
        values = np.asarray(real, np.float64)[:, None] * arriving
        reach = task.magnitude[: values.shape[1]]
        # the typical size of what each row sums, in the 2-norm; for M it is ‖M_l‖·‖h‖/√n, as if
        # weights and values were unrelated
        rows = _spread(dense(link.entry), reach[slice(*link.block)])
        if link.carry is not None:
            lengths = np.linalg.norm(dense(link.carry), axis=1)
            rows = rows + lengths * np.linalg.norm(typical) / np.sqrt(link.carry.shape[1])
        terms = np.abs(np.asarray(real, np.float64)) * rows
        lo, hi = task.functionals(padded(values, task.weight.shape[1]))
        # 2^-24 of the terms |M||h| besides: the slack of it, 2^-29, is far above their rounding
        size = np.abs(values) @ reach + 2.0**-24 * np.sqrt(link.width) * terms
        held = find_shift(link.piece, lo, hi, size)
        t = np.asarray(held.shift - real * carried, np.float64)
        norms.append(link.norm.with_effective(scale.s, t))
        shifts.append(held.largest)
        real_s, real_t = real_effective(norms[-1])
        linear, constant = slope * values, slope * (real_s * carried + real_t)
        typical = np.hypot(np.asarray(constant, np.float64), slope * _spread(values, reach))
        columns = np.linalg.norm(np.asarray(scale.B, np.float64), axis=0)
        noise.append(EPS * float(np.linalg.norm(columns * (slope * terms + typical))))
    constant = _dot(chain.end.kernel, constant) + chain.end.bias
    t = np.asarray(task.bias - constant, np.float64)
    norms.append(chain.end.norm.with_effective(np.full(len(t), unit), unit * t))
    return ShiftedChain(tuple(norms), tuple(shifts), tuple(noise))


def padded(values: Array, cols: int) -> NDArray[np.float64]:
    """Functionals of the first inputs as functionals of all of them."""
    whole = np.zeros((len(values), cols))
    whole[:, : values.shape[1]] = values
    return whole


def _spread(rows: NDArray[np.float64], reach: Vector) -> Vector:
    """Standard deviation of `rows·x` for x uniform in a box of half-width `reach`."""
    return np.asarray(np.linalg.norm(rows * reach, axis=1) / np.sqrt(3))


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
