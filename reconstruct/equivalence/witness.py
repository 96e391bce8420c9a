"""From a suspicion to a witness: the same point again, in exact arithmetic, inside of the box.

Floats are dyadic rationals, so affine maps, sums, ReLU, LeakyReLU and Clip are evaluated without
any rounding. A norm is exact where √(v + ε) makes its scale a dyadic rational (in drawn networks
it is 1); otherwise, and for exp in Elu and Selu, the value is an interval of rationals that is as
narrow as `bits` asks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from reconstruct.errors import InputError
from reconstruct.networks import Activation, Domain, Map, MatrixProduct, Network
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.exact import Dyadic, RationalInterval


@dataclass(frozen=True)
class ExactLimits:
    """How exactly points are evaluated, and which."""

    bits: int = 256  # binary places of what is irrational
    most_bits: int = 2**13  # an exact value with more binary places is enclosed from there on
    inside: tuple[float, ...] = (0.0, 2.0**-40, 2.0**-24, 2.0**-12)  # steps away from the border
    probes: int = 256  # points, and as many corners, that are tried before any proof


LIMITS = ExactLimits()


def evaluate_exact(network: Network, x: ArrayLike) -> tuple[Fraction, ...]:
    """The value at x as rational numbers; an InputError where it is not known to be rational."""
    values = Evaluator(network)(x)
    if any(lo != hi for lo, hi in values):
        raise InputError(
            "an exact value needs norms whose √(var + eps) is rational and no exponentials, but "
            "this network has others; use `enclose`, which gives an interval of rationals"
        )
    return tuple(lo for lo, _ in values)


def enclose(
    network: Network, x: ArrayLike, bits: int = LIMITS.bits
) -> tuple[RationalInterval, ...]:
    """An interval of rationals around each output at x; of no width where the value is exact."""
    return Evaluator(network, bits)(x)


class Evaluator:
    """A network ready for exact evaluation at many points: maps keep their integers."""

    def __init__(self, network: Network, bits: int = LIMITS.bits) -> None:
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
            if isinstance(node.op, MatrixProduct):
                value = node.op.summed(value, *others)
                others = []
            for other in others:  # a sum
                value = value + other
            values[node.name] = value.trimmed(self.bits, LIMITS.most_bits)
        return values[self.network.output].fractions()


@dataclass(frozen=True)
class Witness:
    """An input where the networks differ, with both values enclosed in exact arithmetic.

    `difference` is a lower bound of max_j |f_j − g_j| at `point`; `exact` says that the values
    are known as rational numbers and not only enclosed.
    """

    point: tuple[float, ...]
    target: tuple[tuple[Fraction, Fraction], ...]
    candidate: tuple[tuple[Fraction, Fraction], ...]
    difference: Fraction
    strictly_inside: bool

    @property
    def exact(self) -> bool:
        return all(lo == hi for lo, hi in (*self.target, *self.candidate))


def least_difference(
    first: Iterable[RationalInterval], second: Iterable[RationalInterval]
) -> Fraction:
    """A lower bound of max_j |a_j − b_j| for a_j, b_j in these intervals."""
    gaps = [
        max(a_low - b_high, b_low - a_high, Fraction(0))
        for (a_low, a_high), (b_low, b_high) in zip(first, second, strict=True)
    ]
    return max(gaps, default=Fraction(0))


def strictly_inside(point: Array, domain: Domain) -> bool:
    """Inside of the interior of one of the domain's boxes, as far as it has one: a side of no
    width cannot be left, so that a given input is inside of itself."""
    lo, hi = domain.boxes
    flat = (lo == hi) & (point == lo)
    return bool(np.any(np.all(flat | ((point > lo) & (point < hi)), axis=1)))


def _stated(values: Iterable[RationalInterval]) -> tuple[RationalInterval, ...]:
    """The values as they are claimed: an irrational one with slack for another's arithmetic.

    Who encloses it less narrowly than we do can then still confirm the claim.
    """
    return tuple(
        (lo, hi) if lo == hi else (lo - _slack(lo, hi), hi + _slack(lo, hi)) for lo, hi in values
    )


def _slack(lo: Fraction, hi: Fraction) -> Fraction:
    """2^-100 of the magnitude, to the next power of two: a short number."""
    top = max(abs(lo), abs(hi))
    power = top.numerator.bit_length() - top.denominator.bit_length() - 100
    return Fraction(2) ** power


class Replay:
    """Both networks ready for exact evaluation; turns points into witnesses."""

    def __init__(self, target: Network, candidate: Network, box: Domain) -> None:
        self.target, self.candidate, self.box = target, candidate, box
        self._exact = (Evaluator(target), Evaluator(candidate))

    def witness(self, point: Array, tolerance: float) -> Witness | None:
        """The point (drawn inside of the box if need be) if the difference there is above
        the tolerance for certain, else None."""
        lows, highs = self.box.boxes  # of the domain, of which the point lies in one
        which = int(np.argmax(np.all((point >= lows) & (point <= highs), axis=1)))
        lo, hi = lows[which], highs[which]
        centre = 0.5 * lo + 0.5 * hi
        for shrink in LIMITS.inside:
            moved = np.clip(point + shrink * (centre - point), lo, hi)
            if not strictly_inside(moved, self.box):
                continue
            left, right = (evaluate(moved) for evaluate in self._exact)
            left, right = _stated(left), _stated(right)
            gap = least_difference(left, right)
            if gap > Fraction(tolerance):
                return Witness(tuple(moved.tolist()), left, right, gap, True)
        return None

    def probe(self) -> tuple[Array, Array]:
        """Points of the box with the float64 differences there, largest first."""
        rng = np.random.default_rng(7)
        points = self.box.sample(LIMITS.probes, rng)
        if self.box.kind != "points":  # given inputs have no corners: they were all sampled
            points = np.concatenate([points, self.box.corners(LIMITS.probes, rng)])
        with np.errstate(all="ignore"):
            gaps = np.max(np.abs(self.target(points) - self.candidate(points)), axis=1, initial=0)
        gaps = np.where(np.isnan(gaps), np.inf, gaps)  # where floats overflow only a replay can say
        order = np.argsort(-gaps, kind="stable")
        return points[order], gaps[order]
