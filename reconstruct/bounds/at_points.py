"""The values of a network at given inputs, to about 2^-100: what intervals of floats cannot give.

Interval arithmetic multiplies an error by |W| at every layer, ResNet-20 by 10^20 in all: in floats
nothing is left of a bound. Enclosures of two floats and a radius begin at 2^-100, so that after as
many layers the values are still known to the last digit of a float. Where an operation has no rule
here its interval is taken, and what follows is as wide as that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from reconstruct.bounds.propagation import image
from reconstruct.networks import Add, MatrixProduct, Network, Operation, activations, maps
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.double_double import Enclosure, exponential, quotient, square_root, upward
from reconstruct.numbers.rounding import midpoint, up
from reconstruct.numbers.splitting import product


def ranges_at(network: Network, x: Array) -> dict[str, Range]:
    """Bounds of all values at each row of x, each (rows, size)."""
    found = {
        name: (np.empty((len(x), size)), np.empty((len(x), size)))
        for name, size in network.sizes.items()
    }
    with np.errstate(all="ignore"):
        for i, row in enumerate(x):
            for name, value in enclosures(network, row).items():
                found[name][0][i], found[name][1][i] = value.ends()
    return found


def enclosures(network: Network, x: Array) -> dict[str, Enclosure]:
    """The value of every node at one input."""
    values = {network.source: Enclosure.exact(x)}
    for node in network.nodes:
        values[node.name] = value_of(node.op, [values[name] for name in node.inputs])
    return values


def value_of(op: Operation, inputs: list[Enclosure]) -> Enclosure:
    """What an operation makes of its inputs' values."""
    for kind in type(op).__mro__:
        if kind in RULES:
            return RULES[kind](op, *inputs)
    lo, hi = image(op, *((lo[None], hi[None]) for lo, hi in (one.ends() for one in inputs)))
    middle, radius = midpoint(lo[0], hi[0])
    return Enclosure(middle, np.zeros_like(middle), radius)


def _dense(op: maps.Dense, h: Enclosure) -> Enclosure:
    made = product(np.asarray(op.weight, dtype=np.float64), h[:, None])
    return made[:, 0] + Enclosure.exact(op.bias)


def _convolution(op: maps.Convolution, h: Enclosure) -> Enclosure:
    columns = h.each(
        lambda part: op.geometry.patches(part[None])[0].reshape(op.groups, -1, op.positions)
    )
    made = product(np.stack(op.kernels).astype(np.float64), columns)
    return made.each(np.ravel) + Enclosure.exact(op.bias)


def _diagonal(op: maps.Diagonal, h: Enclosure) -> Enclosure:
    scale, shift = op.enclosed()
    return h * scale + shift


def _placement(op: maps.Placement, h: Enclosure) -> Enclosure:
    return h.each(lambda part: np.where(op.index >= 0, part[op.index], 0.0))


def _relu(op: activations.Relu, h: Enclosure) -> Enclosure:
    """Positive units as they are, negative ones zero; a unit of unknown sign is in [0, hi]."""
    lo, hi = h.ends()
    half = np.where((lo < 0) & (hi > 0), up(0.5 * np.maximum(hi, 0.0)), 0.0)
    kept = h.each(lambda part: np.where(lo >= 0, part, 0.0))
    return Enclosure(kept.high + half, kept.low, kept.radius + half)


def _max_pool(op: activations.MaxPool, h: Enclosure) -> Enclosure:
    """The largest pixel of each window; where another may be larger still, up to what that is."""
    lo, hi = h.ends()
    place = op.chosen(lo[None], hi[None])[0]
    rest = np.where(
        op.windows == place, -np.inf, np.where(op.windows >= 0, hi[op.windows], -np.inf)
    )
    half = up(0.5 * np.maximum(up(rest.max(axis=0) - lo[place]), 0.0))
    found = h[place]
    return found + Enclosure(half, np.zeros_like(half), half)


def _live_norm(op: activations.LiveNorm, z: Enclosure) -> Enclosure:
    """gamma·P z/ρ + beta at each position; sums over the units are products with ones.

    Where the radius does not leave ρ away from 0 nothing is known.
    """
    n = op.channels
    rows = z.each(lambda part: part.reshape(op.positions, n).T)
    if op.centred:
        rows = rows - _mean(rows)
    square = _mean(rows * rows) + Enclosure.exact(np.full((1, op.positions), op.eps))
    safe = square.high > 4 * upward(np.abs(square.low) + square.radius)
    known = square.each(lambda part: np.where(safe, part, 0.0))
    whole = Enclosure(np.where(safe, known.high, 1.0), known.low, known.radius)
    root = square_root(whole).widened(np.where(safe, 0.0, np.inf))
    made = quotient(rows, root.each(lambda part: np.broadcast_to(part, rows.shape)))
    made = made * Enclosure.exact(op.gamma[:, None]) + Enclosure.exact(op.beta[:, None])
    return made.each(lambda part: part.T.ravel())


def _softmax(op: activations.Softmax, z: Enclosure) -> Enclosure:
    """Exponentials of what each unit lacks to the largest of its row, over their sum."""
    rows = z.each(lambda part: part.reshape(op.rows, op.width).T)
    top = np.broadcast_to(rows.high.max(axis=0), rows.shape)
    powers = exponential(rows - Enclosure.exact(top))
    total = product(np.ones((1, op.width)), powers)
    made = quotient(powers, total.each(lambda part: np.broadcast_to(part, rows.shape)))
    return made.each(lambda part: part.T.ravel())


def _mean(rows: Enclosure) -> Enclosure:
    """Of each column."""
    count, columns = rows.shape
    total = product(np.ones((1, count)), rows)
    return quotient(total, Enclosure.exact(np.full((1, columns), float(count))))


RULES: dict[type[Any], Callable[..., Enclosure]] = {
    Add: lambda op, *inputs: reduce(Enclosure.__add__, inputs),
    MatrixProduct: lambda op, a, b: op.summed(a, b),
    maps.Convolution: _convolution,
    maps.Dense: _dense,
    maps.Diagonal: _diagonal,
    maps.Placement: _placement,
    maps.Select: lambda op, h: h[op.start : op.stop],
    activations.LiveNorm: _live_norm,
    activations.MaxPool: _max_pool,
    activations.Relu: _relu,
    activations.Softmax: _softmax,
}
