"""Whether a network computes what an independent evaluation of its file computes.

The two are compared at many points, drawn from the domain that is asked about, beside it, and at
all scales, by a generator that the file's own hash seeds. The tolerance is the rounding error that
an evaluation in the file's precision u may make in any order of summation, followed along the
network: a map v = L h + c with k summands turns an error e of h into

    |L| e + (k + 8)·u·(|L||h| + |c|),

a sum adds errors up, an activation multiplies by its Lipschitz constant. Agreement at points
refutes a wrong reading; it does not prove a right one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError
from reconstruct.networks import Activation, Add, Box, Map, Mixing, Network, Node, Norm, Points
from reconstruct.networks.evaluation import last_uses

Array = NDArray[Any]
TILE = 2**20  # entries of a matrix that are taken to float64 at once
HUGE = 2**24  # parameters beyond which two points must do
MANY, FEW = 32, 4  # points
WORK = 2**28  # products of an evaluation times points, about
SCALES = (1.0, 64.0, 0.0, 2.0**-8, 2.0**11)
OPERATIONS = 8  # roundings of one unit besides its sum: casts, factors, offsets, exp


@dataclass(frozen=True)
class Format:
    """Unit roundoff, smallest normal number and largest number of the file's arithmetic."""

    unit: float
    tiny: float
    largest: float


FLOAT32 = Format(2.0**-24, 2.0**-126, float(np.finfo(np.float32).max))
FLOAT64 = Format(2.0**-53, 2.0**-1022, float(np.finfo(np.float64).max))


@dataclass(frozen=True, eq=False)
class SecondReading:
    """Where a reading is compared, and whether it may stand if no other program can evaluate it."""

    near: Box | Points | None = None
    unchecked: bool = False


@dataclass(frozen=True, eq=False)
class Followed:
    """A node's values at all points, what rounding may have done to them, and at which points no
    value up to here can have overflowed: beyond, the file's arithmetic says nothing."""

    name: str
    values: Array
    errors: Array
    telling: Array

    def disagreement(self, row: int, theirs: Array) -> int:
        """The index of the first entry that rounding cannot explain, −1 where there is none."""
        if theirs.size != self.values.shape[1]:
            return 0
        if not self.telling[row]:
            return -1
        with np.errstate(all="ignore"):
            off = np.abs(theirs.astype(np.float64).ravel() - self.values[row])
            found = np.flatnonzero(~(off <= 2 * self.errors[row]))
        return int(found[0]) if found.size else -1


def points(network: Network, seed: bytes, near: Box | Points | None = None) -> Array:
    """Points of all scales, and with `near` as many in that domain and beside it: float32 numbers.

    Nobody who writes a file can know them: they follow from its hash.
    """
    rng = np.random.default_rng(list(seed))
    size = network.size_in
    try:
        near = None if near is None else near.of_size(size)
    except InputError:  # a domain for another network: whoever uses the two says so
        near = None
    # a value that is written, fetched and compared takes as long as some 32 products
    products = sum((_summands(n) + 32) * network.sizes[n.name] for n in network.nodes)
    count = int(np.clip(WORK // max(products, 1), FEW, MANY))
    count = 2 if network.parameters > HUGE else count
    scales = (SCALES * count)[: count if near is None else max(count // 4, 1)]
    rows = [rng.uniform(-1, 1, size) * SCALES[0], *(rng.normal(size=size) * s for s in scales[1:])]
    if near is not None:
        lo, hi = _box(near, rng, count)
        beside = rng.choice([0.0, 0.0, 0.5], (count, 1)) * (hi - lo)
        rows += list(lo - beside + rng.random((count, size)) * (hi - lo + 2 * beside))
    with np.errstate(over="ignore"):
        return np.array(rows).astype(np.float32).astype(np.float64)


def _box(near: Box | Points, rng: np.random.Generator, count: int) -> tuple[Array, Array]:
    """The ends of boxes in which to draw, as rows."""
    if isinstance(near, Points):
        x = near.x[rng.integers(len(near.x), size=count)]
        return x - near.radius, x + near.radius
    return near.lo[None], near.hi[None]


def follow(network: Network, x: Array, arithmetic: Format) -> Iterator[Followed]:
    """Every node's values at the points x in float64, with bounds on rounding errors in u."""
    values = {network.source: x}
    errors = {network.source: arithmetic.unit * np.abs(x) + arithmetic.tiny}  # of a conversion
    peak = np.abs(x).max(axis=1)
    yield Followed(network.source, x, errors[network.source], peak < arithmetic.largest)
    last_use = last_uses([(n.name, n.inputs) for n in network.nodes], network.output)
    for place, node in enumerate(network.nodes):
        with np.errstate(all="ignore"):
            value, size, carried = _evaluated(node, values, errors)
            steps = _summands(node) + OPERATIONS
            unit = arithmetic.unit + 2 * FLOAT64.unit  # ours is rounded too
            made = steps * (unit * (size + carried) + arithmetic.tiny)
            values[node.name], errors[node.name] = value, carried + made
            peak = np.maximum(peak, (size + carried + made).max(axis=1))
            telling = np.asarray(peak < arithmetic.largest)
        yield Followed(node.name, value, errors[node.name], telling)
        for used in set(node.inputs):
            if last_use[used] == place:
                del values[used], errors[used]


def _evaluated(
    node: Node, values: dict[str, Array], errors: dict[str, Array]
) -> tuple[Array, Array, Array]:
    """The value of a node, how large its parts are, and the errors of its inputs carried along."""
    op, first = node.op, node.inputs[0]
    if isinstance(op, Mixing) and op.weights > TILE and op.hidden_rows(0, 1) is not None:
        return _by_tiles(op, values[first], errors[first])
    return op(*(values[i] for i in node.inputs)), *_sizes(node, values, errors)


def _by_tiles(op: Mixing, h: Array, error: Array) -> tuple[Array, Array, Array]:
    """The same for a large map, some channels at a time: no copy of it in float64 is made."""
    step, found = max(TILE // op.summands, 1), []
    for start in range(0, op.channels, step):
        tile = op.hidden_rows(start, min(start + step, op.channels))
        assert tile is not None
        size = tile.absolute(np.abs(h)) + np.abs(tile.bias)
        found.append((tile(h), size, tile.absolute(error)))
    value, size, carried = (np.concatenate(part, axis=1) for part in zip(*found, strict=True))
    return value, size, carried


def _sizes(node: Node, values: dict[str, Array], errors: dict[str, Array]) -> tuple[Array, Array]:
    """How large the parts of the value are, and the errors of the inputs carried along."""
    op, first = node.op, node.inputs[0]
    if isinstance(op, Map):
        size = op.absolute(np.abs(values[first])) + np.abs(op.shift)
        if isinstance(op, Norm):  # z − mean may cancel
            size = size + 2 * op.absolute(np.broadcast_to(np.abs(op.spread(op.mean)), size.shape))
            size = size + np.abs(op.spread(op.beta))
        return size, op.absolute(errors[first])
    if isinstance(op, Add):
        size = np.sum([np.abs(values[i]) for i in node.inputs], axis=0)
        return size, np.sum([errors[i] for i in node.inputs], axis=0)
    assert isinstance(op, Activation)
    return op.magnitude(np.abs(values[first]) + 1), op.carried(errors[first])


def _summands(node: Node) -> int:
    """How many products or values a unit adds up."""
    if isinstance(node.op, Mixing):
        return node.op.summands
    return len(node.inputs)
