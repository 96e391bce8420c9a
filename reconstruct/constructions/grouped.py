"""The grouped construction: cost linear in the number of the target's weights.

Inputs in blocks of b, outputs in blocks of b, ⌈c·b²⌉ hidden units for each pair of blocks: a unit
sees one block of inputs and feeds one block of outputs. In the frozen network

    h ↦ N2( M2 · act( N1( M1 · P h ) ) ),

P repeats the inputs once for each block of outputs, M1 and M2 are grouped maps (grouped 1×1
convolutions on a vector, grouped convolutions of the target's geometry on an image). So
M2 diag(s) M1 P = W falls apart into (m/b)·(k/b) systems of b² equations, each of full rank with
probability one, with the width c·m·k of Theorem 1 and 2·b·c·m·k weights in place of (m+k)·c·m·k.

Rests on proofs_check: block-systems, khatri-rao-full-rank, two-frozen-layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import log, prod
from typing import ClassVar

import numpy as np

from reconstruct.constructions import sites
from reconstruct.constructions.chain import Chain, End, Link, Shift, find_shift
from reconstruct.constructions.construction import Construction, SitePlan, SiteSolution, Task
from reconstruct.constructions.sites import Blueprint, LayerPlan, Site, hidden_width
from reconstruct.constructions.wide import WidePlan, channels, two_norms
from reconstruct.errors import InputError
from reconstruct.khatri_rao import RankProof, Solver, prove_full_rank
from reconstruct.khatri_rao.blocks import solve_blocks
from reconstruct.networks import Convolution, Geometry, Matrix, Mixing, Placement, dense
from reconstruct.numbers.arrays import Array, to_dense
from reconstruct.progress import Progress

NUMBERS = 2**21  # entries of functionals that are bounded together


@dataclass(frozen=True)
class Grouped(Construction):
    """`block` b: systems of about b² equations; `ratio` hidden units for each equation."""

    block: int = 8
    ratio: float = 1.5

    summary: ClassVar[str] = (
        "each affine map of the target is rebuilt by two frozen grouped layers, whose hidden "
        "units see one block of inputs and feed one block of outputs"
    )

    def plan(self, op: Mixing) -> GroupedPlan:
        return GroupedPlan(op, self.block, self.ratio)


@dataclass(frozen=True, eq=False)
class GroupedPlan(SitePlan):
    """The map `op` in blocks of about b × b."""

    op: Mixing
    block: int
    ratio: float

    @cached_property
    def map(self) -> Convolution:
        """The map as a convolution."""
        return _as_convolution(self.op)

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        """Outputs and input channels of a block, blocks of inputs, and hidden units of a block.

        The number of outputs is that divisor of m which is nearest to b, so that nothing is to be
        taken away behind; inputs are filled up by zeros where their number does not divide.
        """
        (m, channels), pixels, b = self.map.kernel.shape[:2], _pixels(self.map), self.block
        rows = m // self.map.groups
        divisors = [d for d in range(1, rows + 1) if rows % d == 0]
        outputs = min(divisors, key=lambda d: (abs(log(d / b)), d))
        wanted = min(channels, max(1, round(b * b / (outputs * pixels))))
        inputs = -(-channels // -(-channels // wanted))
        blocks = -(-channels // inputs)
        return outputs, inputs, blocks, hidden_width(self.ratio, outputs * inputs * pixels)

    @property
    def blueprint(self) -> Blueprint:
        outputs, inputs, blocks, width = self.sizes
        m, geometry = len(self.map.kernel), self.map.geometry
        many = m // outputs  # blocks of outputs
        moved = replace(geometry, channels=many * blocks * inputs)
        pixels = Geometry(many * blocks * width, *geometry.output, (1, 1))
        seen = inputs * _pixels(self.map)
        layers = (
            LayerPlan(
                many * blocks * width,
                (0, seen),
                carry=False,
                cols=seen,
                made=partial(_convolution, moved, many * blocks),
            ),
            LayerPlan(m, cols=blocks * width, made=partial(_convolution, pixels, many)),
        )
        return Blueprint(m, seen, layers, moved=self._repeated())

    def _repeated(self) -> Placement:
        """The inputs once for each block of outputs, filled up to whole blocks."""
        outputs, inputs, blocks, _ = self.sizes
        m, each = self.map.kernel.shape[:2]
        groups, geometry = self.map.groups, self.map.geometry
        positions = geometry.height * geometry.width
        own = np.full(blocks * inputs, -1, dtype=np.int64)
        own[:each] = np.arange(each)
        channels = np.where(own >= 0, own + np.arange(groups)[:, None, None] * each, -1)
        channels = np.repeat(channels, m // groups // outputs, axis=1).reshape(-1, 1)
        index = np.where(channels >= 0, channels * positions + np.arange(positions), -1)
        return Placement(index.ravel(), geometry.size)

    @property
    def systems(self) -> tuple[tuple[int, int, int], ...]:
        outputs, inputs, blocks, width = self.sizes
        seen = inputs * _pixels(self.map)
        return ((outputs, seen, width),) * (len(self.map.kernel) // outputs * blocks)

    def check(self, site: Site) -> None:
        found = BlockSystems.at(site, self.map)
        outputs, seen, width = found.outputs, found.first.shape[2], found.first.shape[1]
        if width < outputs * seen:
            raise InputError(
                f"{site.where} needs at least {outputs}·{seen} = "
                f"{outputs * seen} hidden units for each pair of blocks, but the frozen network "
                f"has {width} at {site.layers[0].norm!r}; widen it by {outputs * seen - width} each"
            )

    def solve(
        self, tasks: Sequence[Task], site: Site, solver: Solver, progress: Progress
    ) -> SiteSolution:
        blocks = BlockSystems.at(site, self.map)
        solution, s = solve_blocks(blocks.first, blocks.second, blocks.weights, solver, progress)
        m, k = len(self.map.kernel), self.map.kernel[0].size
        full = solution.rank == blocks.weights.size  # zeros that fill up blocks are counted there
        solution = solution.replace(shape=(m, k), rank=m * k if full else solution.rank)
        whole = replace(tasks[0], bias=np.concatenate([part.bias for part in tasks]))
        if solution.rationals is not None:
            exact = [part.rational for part in tasks]
            biases = np.concatenate([part.bias for part in exact])
            whole = replace(whole, exact=replace(exact[0], bias=biases))
        hidden = _placed(blocks, tasks, s)
        return SiteSolution.joined(site, [two_norms(blocks.layers, whole, solution, hidden)])

    def prove_ranks(self, site: Site) -> tuple[RankProof | None, ...]:
        """One proof for all blocks: full if each of them is."""
        blocks = BlockSystems.at(site, self.map)
        pairs = zip(blocks.first, blocks.second, strict=True)
        found = [prove_full_rank(A, B) for A, B in pairs]
        rank, needed = (sum(getattr(p, key) for p in found) for key in ("rank", "needed"))
        primes = max(p.prime for p in found)
        return (RankProof(primes, rank, needed, all(p.proved for p in found)),)


def recognised(plan: SitePlan, site: Site) -> SitePlan:
    """The plan of a wide or grouped site by what it is: brought layers may be of the other kind.

    Grouped layers see channels that are repeated first, or more groups than the target's map has;
    blocks in dense layers are found by their zeros (`blocks.solve_apart`).
    """
    if not (type(plan) is WidePlan or isinstance(plan, GroupedPlan)):
        return plan  # the others have sites of their own
    entry = site.frozen.node(site.layers[0].entry or "")
    groups = len(sites.mixing_at(site.frozen, entry.name).kernels)
    if entry.inputs[0] != site.source or groups != len(plan.op.kernels):
        return plan if isinstance(plan, GroupedPlan) else GroupedPlan(plan.op, 1, 1.0)
    return WidePlan(plan.op, channels(site, site.layers[0]) // groups)


def _convolution(geometry: Geometry, groups: int, kernel: Matrix) -> Convolution:
    rows = to_dense(kernel)
    return Convolution(rows.reshape(len(rows), -1, *geometry.kernel), geometry, None, groups)


@dataclass(frozen=True, eq=False)
class BlockSystems:
    """Two frozen layers as systems: `first` A_g (G × q × c), `second` B_g (G × o × q) for the
    blocks `weights` W_g of the target; block g sees the columns `seen[g]` of the kernels of all
    groups side by side, −1 for none."""

    first: Array
    second: Array
    weights: Array
    seen: Array
    layers: Chain

    @property
    def outputs(self) -> int:
        return int(self.second.shape[1])

    @classmethod
    def at(cls, site: Site, target: Convolution) -> BlockSystems:
        """The blocks of a site, whatever their size; refused if they do not cover the map."""
        (one, two), frozen, where = site.layers, site.frozen, site.where
        m, each_in = target.kernel.shape[:2]
        per_group = m // target.groups
        entry, carry = (_as_convolution(sites.mixing_at(frozen, n)) for n in (one.entry, two.carry))
        expected = replace(target.geometry, channels=entry.geometry.channels)
        if entry.geometry != expected or not carry.geometry.plain:
            raise InputError(
                f"{where} needs a frozen convolution that moves as the target's does, {expected}, "
                f"and a 1×1 convolution behind it, but the frozen network has {entry.geometry} and "
                f"{carry.geometry}; give them these geometries"
            )
        channels = _channels(site, target).reshape(entry.groups, -1)
        groups, each = carry.groups, entry.groups // max(1, carry.groups)
        outputs = carry.channels // groups
        fits = entry.groups == groups * each and per_group % outputs == 0
        if not fits or carry.channels != m:
            raise InputError(
                f"{where} needs groups of inputs that belong to one group of outputs each, but the "
                f"frozen network has {entry.groups} groups before and {groups} behind, for "
                f"{m} outputs; let the first be a multiple of the second"
            )
        first = entry.kernel.reshape(entry.groups, entry.channels // entry.groups, -1)
        width = first.shape[1]
        second = carry.kernel.reshape(groups, outputs, each, width).transpose(0, 2, 1, 3)
        home = np.arange(groups) * outputs // per_group * each_in
        _check_cover(channels.reshape(groups, -1), home, each_in, where)
        pixels = np.arange(_pixels(target))
        seen = np.where(channels[:, :, None] >= 0, channels[:, :, None] * len(pixels) + pixels, -1)
        seen = seen.reshape(entry.groups, -1)
        # the rows of a block of outputs at the columns that it sees, 0 where it sees none
        kernels = target.kernel.reshape(groups, outputs, -1)
        own = np.arange(groups).repeat(each)
        inside = np.where(seen >= 0, seen - home[own][:, None] * len(pixels), 0)
        weights = kernels[own[:, None], :, inside] * (seen >= 0)[:, :, None]
        norm = sites.norm_at(frozen, one.norm)
        piece = sites.activation_at(frozen, one.activation).piece
        rows = first.reshape(-1, first.shape[2])
        link = Link(None, rows, (0, first.shape[2]), entry.offsets, norm, piece, one.norm)
        end = End(carry.kernels, carry.offsets, sites.norm_at(frozen, two.norm))
        blocks = second.reshape(entry.groups, outputs, width)
        return cls(first, blocks, weights.transpose(0, 2, 1), seen, Chain((link,), end))


def _pixels(op: Convolution) -> int:
    """Of its kernel."""
    return prod(op.geometry.kernel)


def _as_convolution(op: Mixing) -> Convolution:
    """A dense layer as the 1×1 convolution of one group that it is."""
    if isinstance(op, Convolution):
        return op
    matrix = dense(op.matrix)
    return Convolution(matrix[:, :, None, None], Geometry(matrix.shape[1], 1, 1, (1, 1)), op.bias)


def _channels(site: Site, target: Convolution) -> Array:
    """The input channel that each channel of the first layer sees, −1 for none."""
    entry = site.frozen.node(site.layers[0].entry or "")
    size = target.geometry.height * target.geometry.width
    if entry.inputs[0] == site.source:
        return np.arange(target.geometry.channels)
    op = site.frozen.node(entry.inputs[0]).op
    assert isinstance(op, Placement)
    index = op.index.reshape(-1, size)
    first = np.where(index[:, :1] >= 0, index[:, :1] // size, -1)
    if np.any(index != np.where(first >= 0, first * size + np.arange(size), -1)):
        raise InputError(
            f"{site.where} needs inputs that move channel by channel, but {entry.inputs[0]!r} "
            f"moves single pixels; move whole channels"
        )
    return np.asarray(first[:, 0])


def _check_cover(channels: Array, home: Array, inputs: int, where: str) -> None:
    """Every block of outputs must see every input of its group once."""
    for seen, start in zip(channels, home, strict=True):
        kept = np.sort(seen[seen >= 0])
        if not np.array_equal(kept, np.arange(start, start + inputs)):
            raise InputError(
                f"{where} needs each of the inputs {start} to {start + inputs - 1} once for every "
                f"block of outputs, but one block sees {len(kept)} inputs, {len(np.unique(kept))} "
                f"of them different; repeat the inputs for every block of outputs"
            )


def _placed(blocks: BlockSystems, tasks: Sequence[Task], s: Array) -> Shift:
    """Where hidden values have to be moved.

    A unit sees the few inputs of its block, so that their ranges say nearly as much as linear
    bounds of the unit would, at a cost that does not grow with the network.
    """
    ends = zip(*(part.ends for part in tasks), strict=True)
    low, high = (np.concatenate([*side, [0.0]]) for side in ends)
    size = np.concatenate([part.magnitude for part in tasks])
    # Inputs of a block may all be 0 on the domain, as of units that never fire: its own units then
    # need no shift, but rounding errors of their inputs would push them below 0. A millionth of
    # the layer's largest input is far above these errors, and costs nothing.
    size = np.concatenate([np.maximum(size, 2.0**-20 * size.max(initial=0.0)), [0.0]])
    lo, hi, magnitude = (np.empty(blocks.first.shape[:2]) for _ in range(3))
    step = max(1, NUMBERS // blocks.first[0].size)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused by `place`
        for start in range(0, len(s), step):
            part = slice(start, start + step)
            seen = blocks.seen[part, :, None]  # −1 is the zero at the end
            form = s[part, :, None] * blocks.first[part]
            above, below = np.maximum(form, 0.0), np.minimum(form, 0.0)
            lo[part] = (above @ low[seen] + below @ high[seen])[:, :, 0]
            hi[part] = (above @ high[seen] + below @ low[seen])[:, :, 0]
            magnitude[part] = (np.abs(form) @ size[seen])[:, :, 0]
    return find_shift(blocks.layers.first.piece, lo.ravel(), hi.ravel(), magnitude.ravel())
