"""The composition of a run of maps in rational arithmetic, for solvers over the rationals."""

from __future__ import annotations

from fractions import Fraction

from reconstruct.constructions.construction import ExactMap
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.networks import Diagonal, Mixing, Network, Node, Select, dense
from reconstruct.numbers.rationals import RationalInterval

BITS = 64  # to which an irrational factor would be enclosed: it is refused then


def exact_composition(network: Network, chain: tuple[str, ...]) -> ExactMap:
    """The affine map that the nodes of `chain` make together, first to last, exactly."""
    nodes = [network.node(name) for name in chain]
    size = network.sizes[nodes[0].inputs[0]]
    total = _as_map(nodes[0], size)
    for node in nodes[1:]:
        total = _compose(_as_map(node, len(total.bias)), total)
    return total


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
    if not isinstance(op, Diagonal):
        raise UnsupportedError(
            f"the exact solver needs maps with rational entries, but {node.name!r} is a "
            f"{type(op).__name__}; use another solver"
        )
    scales, shifts = op.rationals(BITS)
    exact = [_rational(node, i, pair) for i, pair in enumerate(scales)]
    offset = [_rational(node, i, pair) for i, pair in enumerate(shifts)]
    rows = tuple(
        tuple(exact[i] if i == j else Fraction(0) for j in range(size)) for i in range(size)
    )
    return ExactMap(rows, tuple(offset))


def _rational(node: Node, unit: int, between: RationalInterval) -> Fraction:
    low, high = between
    if low != high:
        raise InputError(
            f"the exact solver needs targets whose norms have a rational √(var + eps), but unit "
            f"{unit} of {node.name!r} is scaled by an irrational number near {float(low):.9g}; use "
            f"another solver, which bounds the rounding of the folded norm instead"
        )
    return low
