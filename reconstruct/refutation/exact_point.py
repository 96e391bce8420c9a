"""The value of a network at a point in exact arithmetic.

Floats are dyadic rationals, so affine maps, sums, ReLU, LeakyReLU and Clip are evaluated without
any rounding. A norm is exact where √(v + ε) makes its scale a dyadic rational (in drawn networks
it is 1); otherwise, and for exp in Elu and Selu, the value is an interval of rationals that is as
narrow as `bits` asks.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from reconstruct.errors import InputError
from reconstruct.networks import Activation, Map, Network
from reconstruct.numbers.dyadic import Dyadic
from reconstruct.numbers.rationals import RationalInterval

BITS = 256
MOST_BITS = 2**13  # an exact value with more binary places than this is enclosed from there on


def evaluate_exact(network: Network, x: ArrayLike) -> tuple[Fraction, ...]:
    """The value at x as rational numbers; an InputError where it is not known to be rational."""
    values = Evaluator(network)(x)
    if any(lo != hi for lo, hi in values):
        raise InputError(
            "an exact value needs norms whose √(var + eps) is rational and no exponentials, but "
            "this network has others; use `enclose`, which gives an interval of rationals"
        )
    return tuple(lo for lo, _ in values)


def enclose(network: Network, x: ArrayLike, bits: int = BITS) -> tuple[RationalInterval, ...]:
    """An interval of rationals around each output at x; of no width where the value is exact."""
    return Evaluator(network, bits)(x)


class Evaluator:
    """A network ready for exact evaluation at many points: maps keep their integers."""

    def __init__(self, network: Network, bits: int = BITS) -> None:
        self.network, self.bits = network, bits

    def __call__(self, x: ArrayLike) -> tuple[RationalInterval, ...]:
        point = np.asarray(x, dtype=np.float64)
        if point.shape != (self.network.size_in,) or not np.all(np.isfinite(point)):
            raise InputError(
                f"exact evaluation needs one point of {self.network.size_in} finite numbers, but "
                f"got shape {point.shape}"
            )
        values = {self.network.source: Dyadic.exact(point)}
        for node in self.network.nodes:
            value, *others = (values[i] for i in node.inputs)
            if isinstance(node.op, Map | Activation):
                value = node.op.exact(value, self.bits)
            for other in others:  # a sum
                value = value + other
            values[node.name] = value.trimmed(self.bits, MOST_BITS)
        return values[self.network.output].fractions()
