"""The backward induction over the rationals: the composed map equals W by ==.

Rationals grow: each block multiplies their length by about its number of equations plus one, so
that the last of D blocks has (m·K + 1)^(D−1) times the digits of the first. `height` says how
long they will get; beyond LIMIT `deep_proof` proves that the solution exists without writing it
down.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.constructions.construction import ExactMap, ExactNorm, Task, Vector
from reconstruct.constructions.deep.chain import Chain, Link
from reconstruct.constructions.shifts import Placement, place
from reconstruct.constructions.two_layers import exact_norm
from reconstruct.khatri_rao import solve_exact
from reconstruct.networks import (
    Matrix,
    dense,
)

LIMIT = 200_000  # bits of the longest number: beyond it an exact solve takes minutes
ENTRY_BITS = 30  # of a float32 weight over a common power of two

Rationals = NDArray[Any]  # dtype object, entries Fraction


@dataclass(frozen=True, eq=False)
class ExactChain:
    """The rational scales of the blocks, first to last, `λ_i s_i`; None where a block failed."""

    scales: tuple[tuple[Fraction, ...], ...] | None
    reason: str


def height(chain: Chain, rows: int) -> float:
    """About how many bits the longest numerator of the exact solution will have."""
    longest, before = float(ENTRY_BITS), float(ENTRY_BITS)
    for link in reversed(chain.links):
        equations = rows * (link.block[1] - link.block[0])
        longest = equations * (before + ENTRY_BITS)
        before += longest + ENTRY_BITS
    return longest


def solve_backward_exactly(
    chain: Chain, weight: tuple[tuple[Fraction, ...], ...], near: list[Vector]
) -> ExactChain:
    """`B_i diag(σ_i) A_i == W^(i)`, last block to first; free entries as in the float64 solution.

    `near[i]` is the float64 σ of block i: spare width leaves entries free, and taking them from
    there keeps the exact solution beside the numerical one.
    """
    B = rationals(chain.last.matrix)
    found: list[tuple[Fraction, ...]] = []
    for i in reversed(range(len(chain.links))):
        link = chain.links[i]
        start, stop = link.block
        right = [list(row[start:stop]) for row in weight]
        solution = solve_exact(dense(link.entry), B.tolist(), right, free=near[i].tolist())
        if not solution.solved:
            return ExactChain(None, f"block {i + 1}: {solution.message}")
        found.append(solution.s)
        if link.carry is not None:
            B = multiply(B * np.array(solution.s, dtype=object), rationals(link.carry))
    return ExactChain(tuple(reversed(found)), "")


def exact_norms(
    chain: Chain, scales: tuple[tuple[Fraction, ...], ...], task: Task, exact: ExactMap
) -> list[ExactNorm]:
    """The rational norms: shifts from the exact values, each taken back exactly one layer later."""
    norms: list[ExactNorm] = []
    linear: Rationals = np.zeros((0, 0), dtype=object)
    constant: Rationals = np.zeros(0, dtype=object)
    back = Fraction(1)
    for link, sigma in zip(chain.links, scales, strict=True):
        slope = Fraction(link.piece.slope)
        s = np.array(sigma, dtype=object) / slope
        linear, arriving = _arriving(link, linear, constant)
        values = s[:, None] * linear
        held = _place(link, values, task)
        scale = Fraction(held.scale) if link is chain.links[-1] else Fraction(1)
        shift = np.array([Fraction(float(t)) for t in held.shift], dtype=object)
        norms.append(exact_norm(link.norm, list(scale * s), list(shift - scale * s * arriving)))
        linear, constant, back = slope * scale * values, slope * shift, 1 / scale
    arriving = multiply(rationals(chain.last.matrix), constant[:, None])[:, 0]
    t = np.array(exact.bias, dtype=object) - back * (arriving + rationals(chain.last.bias))
    return [*norms, exact_norm(chain.norm, [back] * len(t), list(t))]


def _arriving(link: Link, linear: Rationals, constant: Rationals) -> tuple[Rationals, Rationals]:
    entry, bias = rationals(link.entry), rationals(link.bias)
    if link.carry is None:
        return entry, bias
    carry = rationals(link.carry)
    carried = multiply(carry, linear)
    return np.hstack([carried, entry]), multiply(carry, constant[:, None])[:, 0] + bias


def _place(link: Link, values: Rationals, task: Task) -> Placement:
    """The placement of the exact values, rounded to float64 for their bounds."""
    rounded = np.zeros((len(values), task.weight.shape[1]))
    rounded[:, : values.shape[1]] = values.astype(np.float64)
    lo, hi = task.functionals(rounded)
    return place(link.piece, lo, hi, np.abs(rounded) @ task.magnitude)


def rationals(values: Matrix) -> Rationals:
    """Floats as the dyadic rationals that they are."""
    array = dense(values)
    flat = [Fraction(float(value)) for value in array.ravel()]
    return np.array(flat, dtype=object).reshape(array.shape)


def multiply(left: Rationals, right: Rationals) -> Rationals:
    """`left @ right` in integers: each row and each column over one denominator."""
    rows = [lcm(*(int(v.denominator) for v in row)) for row in left]
    columns = [lcm(*(int(v.denominator) for v in column)) for column in right.T]
    top = np.array(
        [
            [v.numerator * (d // v.denominator) for v in row]
            for row, d in zip(left, rows, strict=True)
        ],
        dtype=object,
    )
    side = np.array(
        [
            [v.numerator * (d // v.denominator) for v in column]
            for column, d in zip(right.T, columns, strict=True)
        ],
        dtype=object,
    )
    product = top.dot(side.T)
    return np.array(
        [
            [Fraction(v, d * e) for v, e in zip(row, columns, strict=True)]
            for row, d in zip(product, rows, strict=True)
        ],
        dtype=object,
    )
