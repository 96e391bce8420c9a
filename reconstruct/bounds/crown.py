"""CROWN: linear bounds carried back to the input, with their own rounding counted.

To bound `Λ·v` from below, v the value of a node on a box, the node is replaced by its inputs as
its `Transfer` says, until only the network's input x is left, of which the box is known. An
upper bound of `A·v` is minus the lower bound of `−A·v`.

A node's `Transfer` says, for coefficients Λ of its value v on a box,

    Λ·v ≥ C·inputs + Λ·plain + |Λ|·signed − floor,   C = fl(pull(Λ)).

Everything that is not linear with sign lies in `signed`, negative for the most part: the gap
between the two lines around an activation, the uncertainty of a norm's scale, and all rounding,
because

    |pull(Λ) − C|·|inputs| ≤ |Λ|·e,   e from γ_n and the magnitudes of the inputs' bounds:

for an affine map |fl(ΛW) − ΛW||h| ≤ γ_n |Λ|(|W||h|), so one vector e per node is enough. Arrays: Λ
is (boxes, rows, size), bounds and vectors are (boxes, size); a leading 1 stands for all boxes.

Rests on proofs_check: back-substitution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from reconstruct.networks import Activation, Map
from reconstruct.networks.activations import Band, Support
from reconstruct.networks.graph import Network, Node
from reconstruct.networks.maps import Affine
from reconstruct.numbers import rounding
from reconstruct.numbers.arrays import Array, Matrix, Range
from reconstruct.numbers.rounding import SLACK, TINY, UNIT, down, gamma, inflate, magnitude, up

# The linear part of a node, transposed: from coefficients of its value to its input's. The second
# argument says of which boxes they are, None of all.
Pull: TypeAlias = Callable[[Array, Array | None], Array]


def pick(values: Array, boxes: Array | None) -> Array:
    """Rows for a choice of boxes; one row that stands for all boxes stays one row."""
    return values if boxes is None or len(values) == 1 else values[boxes]


@dataclass(frozen=True, eq=False)
class Transfer:
    """One node seen backwards: `Λ·v ≥ pull(Λ)·input + Λ·plain + |Λ|·signed − floor`.

    A `swap` comes first: it writes some units of the node in terms of units of other nodes.
    """

    pull: Pull
    plain: Array
    signed: Array
    floor: Array
    swap: Swap | None = None

    def constant(self, form: Array, const: Array) -> Array:
        """`const + Λ·plain + |Λ|·signed − floor`, rounded down."""
        total = down(dot(form, self.plain) + dot(np.abs(form), self.signed))
        return down(down(const - self.floor[:, None]) + total)

    def take(self, boxes: Array) -> Transfer:
        """The same node, without a swap, on a choice of boxes."""
        plain, signed, floor = (pick(p, boxes) for p in (self.plain, self.signed, self.floor))
        return Transfer(lambda form, _: self.pull(form, boxes), plain, signed, floor)


@dataclass(frozen=True, eq=False)
class Swap:
    """Units of a node written through units of others, each through one: v_i = |c| v_j + r for
    c ≥ 0, else |c| (v_j − z_j) + r, where r lies below `above`·δ + ρ and above `below`·δ − ρ, with
    δ = z_i − c z_j for the inputs.

    `keep` (boxes, size) is 0 for the units that are swapped and 1 for the others; `below` and
    `above` are (boxes, size) too, `negative` (size,) says where c < 0, `own` names the node's
    input, and `moves` pairs the names of a partner and of its input with |c| as a matrix (size ×
    units there), or as its diagonal. `constants` has ρ, and the rounding.
    """

    keep: Array
    below: Array
    above: Array
    negative: Array
    own: str
    moves: tuple[tuple[str, str, Matrix], ...]
    constants: Transfer

    def moved(self, form: Array) -> Iterator[tuple[str, Array]]:
        """Where coefficients of swapped units go: names of values, with coefficients of these."""
        swapped = form * (1.0 - self.keep)[:, None]
        share = _by_band(self.below, self.above, swapped, None)
        yield self.own, share
        rest = np.where(self.negative, swapped - share, share)
        for name, taken, matrix in self.moves:
            yield name, _times(swapped, matrix)
            yield taken, -_times(rest, matrix)


def _times(form: Array, matrix: Matrix) -> Array:
    """`form` times a matrix, or times its diagonal: units paired by position are most of them."""
    return form * matrix if matrix.ndim == 1 else Affine(matrix).pull(form, matrix.shape[1])


def as_is(form: Array, boxes: Array | None) -> Array:
    """A sum hands its coefficients on."""
    return form


# What a `partial` of these is, is pickled with the bounds of a result: a function inside of a
# function would not be.


def _by_map(op: Map, size: int, form: Array, boxes: Array | None) -> Array:
    """Through a map: its own `pull`, the same on every box."""
    return op.pull(form, size)


def _by_band(lower_slope: Array, upper_slope: Array, form: Array, boxes: Array | None) -> Array:
    """Through the line below where a coefficient is positive, through the one above elsewhere."""
    below, above = (pick(slope, boxes)[:, None] for slope in (lower_slope, upper_slope))
    # one of the two products is 0, so that the sum is exact; three times as fast as a choice
    return np.asarray(np.maximum(form, 0.0) * below + np.minimum(form, 0.0) * above)


def _by_choice(inner: Pull, chosen: Array, size: int, form: Array, boxes: Array | None) -> Array:
    """Coefficients of chosen inputs, added up where an input was chosen more than once."""
    pulled, own = inner(form, boxes), pick(chosen, boxes)
    count = max(len(pulled), len(own))
    rows = np.broadcast_to(pulled, (count, *pulled.shape[1:]))
    out = np.zeros((count, size, rows.shape[1]))
    for box in range(count):
        np.add.at(out[box], own[box if len(own) > 1 else 0], rows[box].T)
    return out.swapaxes(1, 2)


def transfer(node: Node, ranges: Mapping[str, Range], support: Support = Support.AREA) -> Transfer:
    """The node seen backwards, given the bounds of its inputs."""
    op = node.op
    lo, hi = ranges[node.inputs[0]]
    size = int(lo.shape[1])
    with np.errstate(all="ignore"):
        if isinstance(op, Map):
            return _map(op, magnitude(lo, hi), size)
        if isinstance(op, Activation):
            return _activation(op, lo, hi, support)
        none = np.zeros((1, size))
        return Transfer(as_is, none, none, np.zeros(1))


def source(lo: Array, hi: Array) -> Transfer:
    """The input itself: `Λ·x ≥ Λ·mid − |Λ|·rad` on the box."""
    with np.errstate(all="ignore"):
        mid, rad = rounding.midpoint(lo, hi)
        return charged(as_is, mid, -rad, np.zeros_like(mid), np.zeros(1))


def _map(op: Map, reach: Array, size: int) -> Transfer:
    """A map, with what its pull loses; nothing is charged where nothing can be lost."""
    lost = op.pull_error(reach)
    none, pull = np.zeros((1, lost.plain.shape[1])), partial(_by_map, op, size)
    if not (lost.plain.any() or lost.error.any() or lost.floor.any()):
        return Transfer(pull, none, none, np.zeros(1))
    return charged(pull, lost.plain, none, lost.error, lost.floor)


def _activation(op: Activation, lo: Array, hi: Array, support: Support) -> Transfer:
    band, chosen, reach = op.band(lo, hi, support), op.chosen(lo, hi), magnitude(lo, hi)
    if chosen is None:
        return _band(band, reach)
    step = _band(band, np.take_along_axis(reach, chosen, axis=1))
    copies = int(max(np.bincount(row).max() for row in chosen))
    error = gamma(copies) * SLACK * np.take_along_axis(reach, chosen, axis=1) + TINY
    pull = partial(_by_choice, step.pull, chosen, int(lo.shape[1]))
    return replace(step, pull=pull, signed=down(step.signed - error * SLACK))


def _band(band: Band, reach: Array) -> Transfer:
    """Λ⁺ takes the line below and Λ⁻ the line above: `Λ⁺·lower + Λ⁻·upper ≥ Λ·p + |Λ|·q`.

    That holds when `q ≤ min(lower − p, p − upper)`; p is their middle. The product of a
    coefficient with a slope errs by u relative, and by nothing for the slopes 0 and 1.
    """
    plain = 0.5 * band.lower + 0.5 * band.upper
    below, above = band.lower - plain, plain - band.upper
    gap = np.minimum(below, above)
    gap = np.where((below == 0) & (above == 0), 0.0, down(gap))
    steep = np.maximum(_inexact(band.lower_slope), _inexact(band.upper_slope))
    error = inflate(steep, UNIT * SLACK) * reach
    floor = TINY * reach.sum(axis=1) * SLACK
    pull = partial(_by_band, band.lower_slope, band.upper_slope)
    return charged(pull, plain, gap, error, floor)


def _inexact(slope: Array) -> Array:
    return np.where((slope == 0) | (slope == 1), 0.0, np.abs(slope))


def charged(pull: Pull, plain: Array, gap: Array, error: Array, floor: Array) -> Transfer:
    """Charges the rounding of the two dot products too, γ_n(|p| + |q|) per unit of |Λ|.

    signed = q − e with e ≥ (error + γ_n(|p| + |q|))(1 + small), so that the rounding of
    |Λ|·signed itself is covered; SLACK stands for the small terms. 4n·η in all cover what the
    products with Λ lose by underflow. Per unit of |Λ|, `error` and `own` lose at most η/2 each:
    `down` takes off at least η, the distance to the next float less the rounding of the
    difference, and of γ_{n+2} two roundings are to spare.
    """
    terms = int(plain.shape[1])
    own = gamma(terms + 2) * (np.abs(plain) + np.abs(gap))
    total = (error + own) * (SLACK * SLACK)
    return Transfer(pull, plain, down(gap - total), up(floor * SLACK + 4 * terms * TINY))


def dot(form: Array, vector: Array) -> Array:
    """`Λ·vector` for every row of every box."""
    if form.shape[1] == 1:
        return np.asarray(np.einsum("brn,bn->br", form, vector))
    return np.asarray(np.matmul(form, vector[:, :, None])[..., 0])


# --- carrying back --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Backward:
    """A network seen backwards on a batch of boxes: a `Transfer` for each node, by one kind of
    support line, and the bounds of all values. Each of `forms` is (1 or boxes, rows, size),
    `offsets` (1 or boxes, rows)."""

    network: Network
    ranges: Mapping[str, Range]
    steps: dict[str, Transfer]

    def lower_bounds(self, forms: Mapping[str, Array], offsets: Array) -> Array:
        """Lower bounds of `Σ forms[name]·v_name + offsets`: (boxes, rows)."""
        form, const = self.carry_back(forms, offsets)
        return on_source(form, const, self.steps[self.network.source])

    def carry_back(self, forms: Mapping[str, Array], offsets: Array) -> tuple[Array, Array]:
        """`(form, const)` with `Σ forms·v + offsets ≥ form·x + const` for every input x of the box.

        Coefficients that meet at a node with several consumers are added; each sum errs by u
        relative, which costs u·|C|·|value|.
        """
        pending = dict(forms)
        const = offsets
        with np.errstate(all="ignore"):
            for node in reversed(self.network.nodes):
                if node.name not in pending:
                    continue
                form = pending.pop(node.name)
                step = self.steps[node.name]
                if (swap := step.swap) is not None:  # hands the coefficients of swapped units on
                    const = swap.constants.constant(form, const)
                    pending[node.name] = form * swap.keep[:, None]
                    for other, moved in swap.moved(form):
                        const = _collect(pending, other, moved, const, self.ranges[other])
                    form = pending.pop(node.name)
                const = step.constant(form, const)
                pulled = step.pull(form, None)
                for origin in node.inputs:
                    const = _collect(pending, origin, pulled, const, self.ranges[origin])
        return pending[self.network.source], const

    def lowest_on_box(
        self, name: str, form: Array, offsets: Array, box: int, enough: Array
    ) -> Array:
        """Lower bounds of `form·v + offsets` (rows, size) on one box, v the value `name`: (rows,).

        Behind every map the ranges of what is left are put in, which bounds a row already; a row
        that reaches `enough` so is not followed any further. Of thousands of rows nearly all end
        after one or two maps, because other boxes are worse.
        """
        boxes, rows = np.array([box]), np.arange(len(form))
        pending, const, low = {name: form[None]}, offsets[None], np.full(len(form), -np.inf)
        with np.errstate(all="ignore"):
            for node in reversed(self.network.nodes):
                if node.name not in pending:
                    continue
                coefficients = pending.pop(node.name)
                step = self.steps[node.name].take(boxes)
                const = step.constant(coefficients, const)
                pulled = step.pull(coefficients, None)
                for origin in node.inputs:
                    lo, hi = self.ranges[origin]
                    const = _collect(pending, origin, pulled, const, (lo[boxes], hi[boxes]))
                if isinstance(node.op, Activation) and set(pending) != {self.network.source}:
                    continue  # the map before it says much more
                bound = const
                for other, waiting in pending.items():
                    lo, hi = self.ranges[other]
                    bound = on_source(waiting, bound, source(lo[boxes], hi[boxes]))
                low[rows] = np.maximum(low[rows], bound[0])
                open_rows = bound[0] < enough[rows]
                if not open_rows.any():
                    break
                if not open_rows.all():
                    rows, const = rows[open_rows], const[:, open_rows]
                    pending = {other: c[:, open_rows] for other, c in pending.items()}
        return low


def on_source(form: Array, const: Array, box: Transfer) -> Array:
    """The least value of `form·x + const` on the box; what is not finite bounds nothing: −inf."""
    with np.errstate(all="ignore"):
        low = box.constant(form, const)
    return np.where(np.isfinite(low) & np.isfinite(form).all(axis=-1), low, -np.inf)


def _collect(
    pending: dict[str, Array],
    name: str,
    form: Array,
    const: Array,
    value: Range,
) -> Array:
    """Adds coefficients to what waits at a node; returns the constant less the sum's rounding."""
    if name not in pending:
        pending[name] = form
        return const
    total = pending[name] + form
    pending[name] = total
    # u·reach would underflow where values are tiny, and coefficients may make it large again; what
    # underflows here is below u·n·η, or below η: `up` adds that
    error = dot(np.abs(total), magnitude(*value)) * (2.0 * UNIT * SLACK)
    return down(const - up(error))
