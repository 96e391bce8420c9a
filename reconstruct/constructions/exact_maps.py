"""The composition of a run of affine nodes in rational arithmetic, for the exact solver."""

from __future__ import annotations

from fractions import Fraction

from reconstruct.constructions.construction import ExactMap
from reconstruct.constructions.shifts import rational_root
from reconstruct.constructions.two_layers import exact_map
from reconstruct.errors import InputError
from reconstruct.networks import (
    Mixing,
    Network,
    Norm,
    Select,
    dense,
)

Rows = list[list[Fraction]]


def exact_composition(network: Network, chain: tuple[str, ...]) -> ExactMap:
    """The affine map that the nodes of `chain` make together, first to last, exactly."""
    nodes = [network.node(name) for name in chain]
    size = network.sizes[nodes[0].inputs[0]]
    total = _as_map(nodes[0].op, size, nodes[0].name)
    for node in nodes[1:]:
        total = _compose(_as_map(node.op, len(total.bias), node.name), total)
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


def _as_map(op: object, size: int, name: str) -> ExactMap:
    if isinstance(op, Mixing):
        return exact_map(dense(op.matrix), op.bias)
    if isinstance(op, Select):
        rows = tuple(
            tuple(Fraction(int(i == j)) for j in range(size)) for i in range(op.start, op.stop)
        )
        return ExactMap(rows, (Fraction(0),) * len(rows))
    assert isinstance(op, Norm)
    scale, offset = [], []
    for i in range(size):
        root = rational_root(Fraction(float(op.var[i])) + Fraction(op.eps))
        if root is None:
            raise InputError(
                f"the exact solver needs targets whose norms have a rational √(var + eps), but "
                f"channel {i} of {name!r} has var + eps = {op.var[i] + op.eps:.9g}; use another "
                f"solver, which bounds the rounding of the folded norm instead"
            )
        s = Fraction(float(op.gamma[i])) / root
        scale.append(s)
        offset.append(Fraction(float(op.beta[i])) - s * Fraction(float(op.mean[i])))
    rows = tuple(
        tuple(scale[i] if i == j else Fraction(0) for j in range(size)) for i in range(size)
    )
    return ExactMap(rows, tuple(offset))
