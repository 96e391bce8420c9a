"""The composition of a run of maps in rational arithmetic, for solvers over the rationals."""

from __future__ import annotations

from fractions import Fraction

from reconstruct.constructions.construction import ExactMap
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.networks import Diagonal, Mixing, Network, Node, Select, dense
from reconstruct.numbers.rationals import RationalInterval

BITS = 64  # to which an irrational factor would be enclosed: it is refused then


def exact_composition(network: Network, chain: tuple[str, ...]) -> tuple[ExactMap, ...]:
    """The kernels that the nodes of `chain` make together, first to last, exactly.

    One for each group of a convolution, which only norms and scalings are folded into; of any other
    chain the one map that it is.
    """
    first, *rest = (network.node(name) for name in chain)
    if isinstance(first.op, Mixing) and not first.op.own_entries:
        return _kernels(first.op, rest)
    total = _as_map(first, network.sizes[first.inputs[0]])
    for node in rest:
        total = _compose(_as_map(node, len(total.bias)), total)
    return (total,)


def _kernels(op: Mixing, scalings: list[Node]) -> tuple[ExactMap, ...]:
    """The kernels of a convolution, each channel scaled and shifted as all of its pixels are."""
    weight = [
        row for kernel in op.kernels for row in ExactMap.of(dense(kernel), op.bias[:0]).weight
    ]
    bias = [Fraction(float(b)) for b in op.channel_bias]
    for node in scalings:
        scales, shifts = (part[:: op.positions] for part in _factors(node))
        weight = [tuple(s * w for w in row) for s, row in zip(scales, weight, strict=True)]
        bias = [s * b + t for s, b, t in zip(scales, bias, shifts, strict=True)]
    rows = len(bias) // len(op.kernels)
    return tuple(
        ExactMap(tuple(weight[start : start + rows]), tuple(bias[start : start + rows]))
        for start in range(0, len(bias), rows)
    )


def _compose(after: ExactMap, before: ExactMap) -> ExactMap:
    columns = list(zip(*before.weight, strict=True))
    weight = tuple(
        tuple(
            sum((a * b for a, b in zip(row, col, strict=True) if a and b), Fraction(0))
            for col in columns
        )
        for row in after.weight
    )
    bias = tuple(
        sum((a * b for a, b in zip(row, before.bias, strict=True)), offset)
        for row, offset in zip(after.weight, after.bias, strict=True)
    )
    return ExactMap(weight, bias)


def _as_map(node: Node, size: int) -> ExactMap:
    op = node.op
    if isinstance(op, Mixing):
        return ExactMap.of(dense(op.matrix), op.bias)
    if isinstance(op, Select):
        kept = range(size)[op.block]
        rows = tuple(tuple(Fraction(int(i == j)) for j in range(size)) for i in kept)
        return ExactMap(rows, (Fraction(0),) * len(rows))
    exact, offset = _factors(node)
    rows = tuple(
        tuple(exact[i] if i == j else Fraction(0) for j in range(size)) for i in range(size)
    )
    return ExactMap(rows, tuple(offset))


def _factors(node: Node) -> tuple[list[Fraction], list[Fraction]]:
    """What a norm or a scaling multiplies each unit by, and what it adds."""
    if not isinstance(node.op, Diagonal):
        raise UnsupportedError(
            f"the exact solver needs maps with rational entries, but {node.name!r} is a "
            f"{type(node.op).__name__}; use another solver"
        )
    scales, shifts = node.op.rationals(BITS)
    exact = [_rational(node, i, pair) for i, pair in enumerate(scales)]
    return exact, [_rational(node, i, pair) for i, pair in enumerate(shifts)]


def _rational(node: Node, unit: int, between: RationalInterval) -> Fraction:
    low, high = between
    if low != high:
        raise InputError(
            f"the exact solver needs targets whose norms have a rational √(var + eps), but unit "
            f"{unit} of {node.name!r} is scaled by an irrational number near {float(low):.9g}; use "
            f"another solver, which bounds the rounding of the folded norm instead"
        )
    return low
