"""Pairs of networks whose largest difference is known exactly, by construction.

The frozen layers come first: M1, s and M2 are dyadic numbers of a few bits, and each map of the
target g is *defined* as W = M2 diag(s) M1, so that s solves its system without any rounding and all
weights are float32 numbers. The candidate f is x ↦ M2 relu(diag(s) M1 x + t) + b − M2 t for each
map. Where t keeps every hidden unit active on the box, f = g there in real arithmetic. `lift` says
how far the units stay from their kinks: 0 lets those of the first map touch them.

A pair that differs carries p(x) = relu(a·x − |a|₁ + d) along, from the input to the output, where
v·p is added: on the box [-1, 1] that is max|v|·d at the corner sign(a) and less everywhere else. On
its way p is added to hidden units and taken out again, so that they all take part.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from reconstruct.errors import InputError
from reconstruct.networks import Box, Network
from reconstruct.numbers.arrays import Array

KINDS = {
    "far": "equal; units are active by at least their range",
    "near": "equal; units of the first map touch their kinks",
    "twin": "equal in real numbers, not in float32: large shifts that cancel",
    "more": "differ by 8/7 of the tolerance at one corner, and by less elsewhere",
    "less": "differ by 8/9 of the tolerance at one corner, and by less elsewhere",
}
TOLERANCE = 2.0**-10  # of pairs that are equal
SHIFT = 2.0**20  # of twins: float32 numbers beyond it are 1/8 apart
BITS = 10  # of shifts: with weights of 3 bits and 4,000 summands they fit into float32
SLACK = 2.0**-20  # of sums in float64, which err by less than 2^-40


@dataclass(frozen=True, eq=False)
class Planted:
    """|f − g| is `difference` at `corner` and nowhere more on [-1, 1]; 0 and None where f = g."""

    kind: str
    target: Network
    candidate: Network
    tolerance: float
    difference: Fraction
    corner: tuple[float, ...] | None

    @property
    def box(self) -> Box:
        return Box(-1.0, 1.0).of_size(self.target.size_in)

    @property
    def answer(self) -> str:
        """Whether there is a counterexample, in the words of verifiers."""
        return "sat" if self.difference > Fraction(self.tolerance) else "unsat"


def plant(kind: str, sizes: tuple[int, ...], rng: np.random.Generator) -> Planted:
    """A pair of this kind; g has these sizes, from inputs to outputs."""
    if len(sizes) < 2 or min(sizes) < 1:
        raise InputError(
            f"a pair needs at least two sizes, each at least 1, but got {sizes}; write 3-8-8-2"
        )
    lo, hi = -np.ones(sizes[0]), np.ones(sizes[0])
    slope = _few_bits(rng, sizes[0])
    height = float(np.abs(slope).sum()) / 4
    differs = kind in ("more", "less")
    share = _few_bits(rng, sizes[-1]) / 64 if differs else np.zeros(sizes[-1])
    own: list[tuple[Array, Array]] = []
    frozen: list[tuple[Array, Array]] = []
    last = len(sizes) - 2
    for i, (columns, rows) in enumerate(pairwise(sizes)):
        width = columns * rows
        first = _few_bits(rng, (width, columns)) * _few_bits(rng, width)[:, None]
        scale = 2.0 ** -np.round(np.log2(np.sqrt(width) * columns / 8))
        second = _few_bits(rng, (rows, width)) * scale
        centre, radius = np.abs(first) @ (hi - lo) / 2, first @ (lo + hi) / 2
        least, most = radius - centre, radius + centre
        shift, unit = _shift(kind, least, most, SLACK if i else 0.0)
        step = max(unit * scale / 4, 2.0**-4)
        bias = np.zeros(rows) if kind == "twin" else rng.integers(-8, 9, rows) * step
        whole = second @ first
        own.append((whole, bias))
        offset = bias - second @ shift
        if differs:  # p is one unit more: made from the input, mixed in and taken out, handed on
            mixed = np.abs(_few_bits(rng, width)) if i else np.zeros(width)
            second = np.column_stack([second, -second @ mixed + (share if i == last else 0.0)])
            own_row, start = slope, height - np.abs(slope).sum()
            if i:
                first, start = np.column_stack([first, mixed]), 0.0
                own_row = np.append(np.zeros(columns), 1.0)
            first, shift = np.vstack([first, own_row]), np.append(shift, start)
            if i < last:
                handed = np.append(np.zeros(width), 1.0)
                second, offset = np.vstack([second, handed]), np.append(offset, 0.0)
        frozen += [(first, shift), (second, offset)]
        middle, reach = whole @ (lo + hi) / 2 + bias, np.abs(whole) @ (hi - lo) / 2 * (1 + SLACK)
        lo, hi = np.maximum(middle - reach, 0.0), np.maximum(middle + reach, 0.0)
    largest = Fraction(float(np.abs(share).max())) * Fraction(height)
    ratio = {"more": Fraction(7, 8), "less": Fraction(9, 8)}.get(kind)
    tolerance = TOLERANCE if ratio is None else float(largest * ratio)
    corner = None if ratio is None else tuple(np.sign(slope).tolist())
    target, candidate = (_network(parts) for parts in (own, frozen))
    return Planted(kind, target, candidate, tolerance, largest, corner)


def _few_bits(rng: np.random.Generator, shape: int | tuple[int, ...]) -> Array:
    """±1/4, ±1/2 and ±3/4."""
    return np.asarray(rng.integers(1, 4, shape) * rng.choice([-0.25, 0.25], shape))


def _shift(kind: str, least: Array, most: Array, slack: float) -> tuple[Array, float]:
    """Shifts that keep all units active, and the number that they are multiples of."""
    wanted = -least + slack * np.maximum(np.abs(least), np.abs(most))
    wanted = np.maximum(wanted + (most - least if kind == "far" else 0.0), 0.0)
    top = max(float(wanted.max()), 1.0)
    if kind == "twin":
        return np.full(len(least), max(SHIFT, 2.0 ** np.ceil(np.log2(top)))), SHIFT
    unit = 2.0 ** (np.ceil(np.log2(top)) - BITS)
    return np.ceil(wanted / unit) * unit, float(unit)


def _network(parts: list[tuple[Array, Array]]) -> Network:
    for weight, bias in parts:
        if any(np.any(np.float32(values) != values) for values in (weight, bias)):
            raise InputError(
                f"weights of planted pairs are float32 numbers, but a map of {weight.shape[0]} × "
                f"{weight.shape[1]} has longer sums; take smaller sizes"
            )
    return Network.mlp([weight for weight, _ in parts], [bias for _, bias in parts])
