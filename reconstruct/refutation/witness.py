"""From a suspicion to a witness: the same point again, in exact arithmetic, inside of the box."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from reconstruct.networks import Domain, Network
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.rationals import RationalInterval
from reconstruct.refutation.exact_point import Evaluator

SHRINK = (0.0, 2.0**-40, 2.0**-24, 2.0**-12)  # how far a point on the border is drawn inside
PROBES = 256
SEED = 7


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
    """The values as they are claimed: an irrational one with room for another's arithmetic.

    Who encloses it less narrowly than we do can then still confirm the claim.
    """
    return tuple(
        (lo, hi) if lo == hi else (lo - _room(lo, hi), hi + _room(lo, hi)) for lo, hi in values
    )


def _room(lo: Fraction, hi: Fraction) -> Fraction:
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
        lo, hi = self._around(point)
        centre = 0.5 * lo + 0.5 * hi
        for shrink in SHRINK:
            moved = np.clip(point + shrink * (centre - point), lo, hi)
            if not strictly_inside(moved, self.box):
                continue
            left, right = (evaluate(moved) for evaluate in self._exact)
            left, right = _stated(left), _stated(right)
            gap = least_difference(left, right)
            if gap > Fraction(tolerance):
                return Witness(tuple(moved.tolist()), left, right, gap, True)
        return None

    def _around(self, point: Array) -> tuple[Array, Array]:
        """The box of the domain that the point lies in."""
        lo, hi = self.box.boxes
        which = int(np.argmax(np.all((point >= lo) & (point <= hi), axis=1)))
        return lo[which], hi[which]

    def probe(self) -> tuple[Array, Array]:
        """Points of the box with the float64 differences there, largest first."""
        rng = np.random.default_rng(SEED)
        points = self.box.sample(PROBES, rng)
        if self.box.kind != "points":  # given inputs have no corners: they were all sampled
            points = np.concatenate([points, self.box.corners(PROBES, rng)])
        with np.errstate(all="ignore"):
            gaps = np.max(np.abs(self.target(points) - self.candidate(points)), axis=1, initial=0)
        gaps = np.where(np.isnan(gaps), np.inf, gaps)  # where floats overflow only a replay can say
        order = np.argsort(-gaps, kind="stable")
        return points[order], gaps[order]
