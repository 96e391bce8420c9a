"""The values of a network at given inputs, to about 2^-100: what intervals of floats cannot give.

Interval arithmetic multiplies an error by |W| at every layer, ResNet-20 by 10^20 in all: in floats
nothing is left of a bound. Enclosures of two floats and a radius begin at 2^-100, so that after as
many layers the values are still known to the last digit of a float. Where an operation has no rule
here its interval is taken, and what follows is as wide as that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from reconstruct.bounds.propagation import image
from reconstruct.networks import (
    Add,
    Convolution,
    Dense,
    Diagonal,
    LiveNorm,
    MatrixProduct,
    Network,
    Operation,
    Placement,
    Relu,
    Select,
    Softmax,
)
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
        values[node.name] = _value(node.op, [values[name] for name in node.inputs])
    return values


def _value(op: Operation, inputs: list[Enclosure]) -> Enclosure:
    for kind in type(op).__mro__:
        if kind in RULES:
            return RULES[kind](op, *inputs)
    lo, hi = image(op, *((lo[None], hi[None]) for lo, hi in (one.ends() for one in inputs)))
    middle, radius = midpoint(lo[0], hi[0])
    return Enclosure(middle, np.zeros_like(middle), radius)


def _dense(op: Dense, h: Enclosure) -> Enclosure:
    made = product(np.asarray(op.weight, dtype=np.float64), h[:, None])
    return made[:, 0] + Enclosure.exact(op.bias)


def _convolution(op: Convolution, h: Enclosure) -> Enclosure:
    columns = [
        op.geometry.patches(part[None])[0].reshape(op.groups, -1, op.positions)
        for part in (h.high, h.low, h.radius)
    ]
    kernels = [np.asarray(kernel, dtype=np.float64) for kernel in op.kernels]
    made = [
        product(kernel, Enclosure(*(part[g] for part in columns)))
        for g, kernel in enumerate(kernels)
    ]
    whole = (np.concatenate([getattr(m, key) for m in made]).ravel() for key in KEYS)
    return Enclosure(*whole) + Enclosure.exact(op.bias)


def _diagonal(op: Diagonal, h: Enclosure) -> Enclosure:
    scale, shift = op.enclosed()
    return h * scale + shift


def _placement(op: Placement, h: Enclosure) -> Enclosure:
    parts = (getattr(h, key) for key in KEYS)
    return Enclosure(*(np.where(op.index >= 0, part[op.index], 0.0) for part in parts))


def _relu(op: Relu, h: Enclosure) -> Enclosure:
    """Positive units as they are, negative ones zero; a unit of unknown sign is in [0, hi]."""
    lo, hi = h.ends()
    half = up(0.5 * np.maximum(hi, 0.0))
    known, zero = lo >= 0, np.zeros_like(lo)
    doubt = ~known & (hi > 0)
    high = np.where(known, h.high, np.where(doubt, half, 0.0))
    return Enclosure(
        high, np.where(known, h.low, zero), np.where(known, h.radius, np.where(doubt, half, zero))
    )


def _live_norm(op: LiveNorm, z: Enclosure) -> Enclosure:
    """gamma·P z/ρ + beta at each position; sums over the units are products with ones.

    Where the radius does not leave ρ away from 0 nothing is known.
    """
    n = op.channels
    rows = Enclosure(*(getattr(z, key).reshape(op.positions, n).T for key in KEYS))
    if op.centred:
        rows = rows - quotient(product(np.ones((1, n)), rows), _same(n, op.positions))
    square = quotient(product(np.ones((1, n)), rows * rows), _same(n, op.positions))
    square = square + Enclosure.exact(np.full((1, op.positions), op.eps))
    safe = square.high > 4 * upward(np.abs(square.low) + square.radius)
    whole = Enclosure(
        np.where(safe, square.high, 1.0),
        np.where(safe, square.low, 0.0),
        np.where(safe, square.radius, 0.0),
    )
    root = square_root(whole).widened(np.where(safe, 0.0, np.inf))
    made = quotient(
        rows, Enclosure(*(np.broadcast_to(getattr(root, key), rows.shape) for key in KEYS))
    )
    made = made * Enclosure.exact(op.gamma[:, None]) + Enclosure.exact(op.beta[:, None])
    return Enclosure(*(getattr(made, key).T.ravel() for key in KEYS))


def _softmax(op: Softmax, z: Enclosure) -> Enclosure:
    """Exponentials of what each unit lacks to the largest of its row, over their sum."""
    rows = Enclosure(*(getattr(z, key).reshape(op.rows, op.width).T for key in KEYS))
    top = np.broadcast_to(rows.high.max(axis=0), rows.shape)
    powers = exponential(rows - Enclosure.exact(top))
    total = product(np.ones((1, op.width)), powers)
    whole = Enclosure(*(np.broadcast_to(getattr(total, key), rows.shape) for key in KEYS))
    made = quotient(powers, whole)
    return Enclosure(*(getattr(made, key).T.ravel() for key in KEYS))


def _same(number: float, count: int) -> Enclosure:
    return Enclosure.exact(np.full((1, count), float(number)))


def _sum(op: Add, *inputs: Enclosure) -> Enclosure:
    total = inputs[0]
    for more in inputs[1:]:
        total = total + more
    return total


KEYS = ("high", "low", "radius")
RULES: dict[type[Any], Callable[..., Enclosure]] = {
    Add: _sum,
    Convolution: _convolution,
    Dense: _dense,
    Diagonal: _diagonal,
    LiveNorm: _live_norm,
    Placement: _placement,
    MatrixProduct: lambda op, a, b: op.summed(a, b),
    Relu: _relu,
    Select: lambda op, h: h[op.start : op.stop],
    Softmax: _softmax,
}
