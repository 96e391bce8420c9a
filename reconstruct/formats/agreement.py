"""Whether a network computes what an independent evaluation of its file computes.

The two are compared at a few points. The tolerance is the rounding error that an evaluation in the
file's precision u may make in any order of summation, followed along the network: a map v = L h + c
with k summands turns an error e of h into

    |L| e + (k + 8)·u·(|L||h| + |c|),

a sum adds errors up, an activation multiplies by its Lipschitz constant. Agreement at points
refutes a wrong reading; it does not prove a right one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.networks import (
    Activation,
    Add,
    Map,
    Mixing,
    Network,
    Node,
    Norm,
)
from reconstruct.networks.evaluation import last_uses

Array = NDArray[Any]
SEED = 20230712
TILE = 2**20  # entries of a matrix that are taken to float64 at once
HUGE = 2**24  # parameters beyond which two points must do
OPERATIONS = 8  # roundings of one unit besides its sum: casts, factors, offsets, exp


@dataclass(frozen=True)
class Format:
    """Unit roundoff, smallest normal number and largest number of the file's arithmetic."""

    unit: float
    tiny: float
    largest: float


FLOAT16 = Format(2.0**-11, 2.0**-14, 65504.0)
BFLOAT16 = Format(2.0**-8, 2.0**-126, 3.3895313892515355e38)
FLOAT32 = Format(2.0**-24, 2.0**-126, float(np.finfo(np.float32).max))
FLOAT64 = Format(2.0**-53, 2.0**-1022, float(np.finfo(np.float64).max))


@dataclass(frozen=True, eq=False)
class Followed:
    """Values of the nodes at some points, with what rounding may have done to them.

    `peak` is the largest magnitude that occurred on the way to each point's output.
    """

    values: dict[str, Array]
    errors: dict[str, Array]
    peak: Array


def points(network: Network) -> Array:
    """Zero, small, ordinary and large points, float16 numbers all of them; seeded."""
    rng = np.random.default_rng(SEED)
    size = network.size_in
    rows = [
        rng.uniform(-1, 1, size),
        rng.normal(size=size) * 64,
        np.zeros(size),
        rng.normal(size=size) * 2.0**-8,
        rng.normal(size=size) * 2.0**11,
    ]
    kept = rows[:2] if network.parameters > HUGE else rows
    return np.array(kept).astype(np.float16).astype(np.float64)


def follow(network: Network, x: Array, arithmetic: Format, *, every: bool = False) -> Followed:
    """The output at the points x in float64 with a bound on its rounding error in u, or with
    `every` all values: of wide networks on images they are too many to be held together."""
    values = {network.source: x}
    errors = {network.source: arithmetic.unit * np.abs(x) + arithmetic.tiny}  # of a conversion
    peak = np.abs(x).max(axis=1)
    last_use = last_uses([(n.name, n.inputs) for n in network.nodes], network.output)
    with np.errstate(all="ignore"):
        for place, node in enumerate(network.nodes):
            value, size, carried = _evaluated(node, values, errors)
            steps = _summands(node) + OPERATIONS
            unit = arithmetic.unit + 2 * FLOAT64.unit  # ours is rounded too
            made = steps * (unit * (size + carried) + arithmetic.tiny)
            values[node.name], errors[node.name] = value, carried + made
            peak = np.maximum(peak, (size + carried).max(axis=1))
            for used in set(node.inputs):
                if last_use[used] == place and not every:
                    del values[used], errors[used]
    return Followed(values, errors, peak)


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


def telling(followed: Followed, row: int, arithmetic: Format) -> bool:
    """Whether the file's arithmetic cannot overflow at that point: beyond, it says nothing."""
    return bool(followed.peak[row] < arithmetic.largest / 2)


def disagreement(theirs: Array, ours: Array, error: Array) -> int:
    """The index of the first entry that rounding cannot explain, −1 where there is none."""
    with np.errstate(all="ignore"):
        found = np.flatnonzero(~(np.abs(theirs - ours) <= 2 * error))
    return int(found[0]) if found.size else -1
