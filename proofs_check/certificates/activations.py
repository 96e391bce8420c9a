"""What an activation means, derived from its pieces alone, or from its windows.

An activation declares itself as lines and exponentials from −∞ to ∞. From these numbers the
checker takes its values, its range over an interval, its Lipschitz constant, and lines below and
above it: where it is straight between its breakpoints, f(z) − slope·z has its extremes at the
ends and at breakpoints, so that *any* slope gives a bound.

A maximum over windows, from the places that it declares: y_i = max of z over window i, pads left
out. It is monotone, so ranges go through it end by end; and |max z − max z'| ≤ max|z − z'|, so
errors do. For linear bounds let j be the place of the window with the largest lower bound: y_i ≥
z_j always, y_i = z_j where no other place can exceed it, and y_i ≤ the largest upper bound
otherwise.

Rests on proofs_check: back-substitution, window-maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite

import numpy as np

from proofs_check.certificates import curves
from proofs_check.certificates.arithmetic import (
    Floats,
    Marks,
    above,
    below,
    float_above,
    plus,
    times,
)
from proofs_check.certificates.rationals import Interval, Places, Range
from proofs_check.certificates.report import NotCheckable
from reconstruct.networks.activations import Curve, Exponential, Line, MaxPool, Unitwise

Piece = Line | Exponential | Curve
Outward = Callable[[Floats], Floats]
EXP_BITS = 192


@dataclass(frozen=True, eq=False)
class Band:
    """`below·z + low ≤ f(z) ≤ above·z + high` on an interval, unit by unit."""

    below: Floats
    above: Floats
    low: Floats
    high: Floats


class Bend:
    """An activation as the checker understands it; anything it does not is refused."""

    def __init__(self, op: Unitwise) -> None:
        self.pieces = tuple(op.pieces)
        known = all(isinstance(p, Line | Exponential | Curve) for p in self.pieces)
        if not self.pieces or not known:
            raise NotCheckable(f"{type(op).__name__} declares no pieces that the checker knows")
        found = [p for p in self.pieces if isinstance(p, Curve)]
        self.curve = found[0] if found else None
        if found and (len(self.pieces) > 1 or found[0].rule not in curves.SLOPES):
            raise NotCheckable(f"{type(op).__name__} is a curve that the checker does not know")
        self.breaks = tuple(piece.hi for piece in self.pieces[:-1])
        self._require(op)
        slopes = [abs(end) for piece in self.pieces for end in _slopes(piece)]
        self.lipschitz = float_above(max(slopes))
        self.op = op

    def _require(self, op: Unitwise) -> None:
        """Pieces that cover the line without a gap, of finite numbers, and meet in one value."""
        what = f"{type(op).__name__} declares pieces"
        if self.pieces[0].lo != -inf or self.pieces[-1].hi != inf:
            raise NotCheckable(f"{what} that do not cover the line")
        for piece in self.pieces:
            if not all(map(isfinite, _numbers(piece))) or not piece.lo <= piece.hi:
                raise NotCheckable(f"{what} with numbers that are not finite")
            if isinstance(piece, Exponential) and piece.hi > 0:
                raise NotCheckable(f"{what} with an exponential above 0")
        for left, right in zip(self.pieces, self.pieces[1:], strict=False):
            if left.hi != right.lo or not isfinite(left.hi):
                raise NotCheckable(f"{what} with a gap")
            ends = (_enclosed(piece, Fraction(left.hi), EXP_BITS) for piece in (left, right))
            if len({end for pair in ends for end in pair}) != 1:
                raise NotCheckable(f"{what} that do not meet at {left.hi}")

    @property
    def slope(self) -> float:
        """Of the line that inner units are on."""
        return float(self.op.piece.slope)

    def steepness(self, slope: float) -> float:
        """A Lipschitz constant of f(z) − slope·z."""
        ends = [abs(end - Fraction(slope)) for piece in self.pieces for end in _slopes(piece)]
        return float_above(max(ends))

    @property
    def rest(self) -> float:
        """How far f may be from its line on that line's interval; 0 unless it is a curve."""
        return 0.0 if self.curve is None else curves.NEARLY.get(self.curve.rule, (0.0,))[-1]

    def line(self, slope: float) -> tuple[float, float]:
        """Where f(z) = slope·z, up to `rest`, from the pieces that say so."""
        if self.curve is not None and slope == 1 and self.curve.rule in curves.NEARLY:
            return curves.NEARLY[self.curve.rule][:2]
        found = [p for p in self.pieces if isinstance(p, Line) and p.slope == slope]
        found = [p for p in found if p.intercept == 0]
        if not found:
            raise NotCheckable(f"no piece of an activation is the line of slope {slope}")
        return min(p.lo for p in found), max(p.hi for p in found)

    # --- floats ---------------------------------------------------------------------------------

    def deviation(self, lo: Floats, hi: Floats) -> Floats:
        """sup |f(z) − slope·z| over a range: steepness times the way off the line, and its rest."""
        ends, outside = self.line(self.slope), np.zeros(len(lo))
        for end, bound, sign in ((ends[0], lo, -1.0), (ends[1], hi, 1.0)):
            if isfinite(end):
                past = np.where(bound == end, 0.0, sign * (bound - end))
                outside = np.maximum(outside, np.where(past > 0, above(past), 0.0))
            outside = np.where(np.isnan(bound), np.inf, outside)
        if not (outside.any() or self.rest):  # all on their line, of millions of units perhaps
            return np.broadcast_to(0.0, outside.shape)
        off = times(outside, np.full(1, self.steepness(self.slope)))
        return plus(off, np.full(1, self.rest))

    def values(self, z: Floats) -> Range:
        """f(z) between two floats; equal where nothing is rounded."""
        low, high = np.full_like(z, -np.inf), np.full_like(z, np.inf)
        for piece in self.pieces:
            here = (z >= piece.lo) & (z <= piece.hi)
            if here.any():
                low[here], high[here] = _on_piece(piece, z[here])
        return low, high

    def range(self, lo: Floats, hi: Floats) -> Range:
        """f over `[lo, hi]`: every piece is monotone, so its ends and the breakpoints decide."""
        first, *others = self._vertices(lo, hi)
        low, high = self.values(first)
        for z in others:
            small, large = self.values(z)
            low, high = np.minimum(low, small), np.maximum(high, large)
        return self._dipped(lo, hi, low), high

    def _dipped(self, lo: Floats, hi: Floats, low: Floats) -> Floats:
        """The least value, that of a minimum inside of the interval included."""
        dip = curves.DIPS.get(self.curve.rule) if self.curve is not None else None
        if dip is None:
            return low
        left, right, floor = (float(below(float(end))) for end in dip)
        inside = (lo <= float(above(right))) & (hi >= left)
        return np.where(inside, np.minimum(low, float(below(floor))), low)

    def straight(self, lo: Floats) -> Marks:
        """Whether all of [lo, ∞) is made of lines."""
        ends = [p.hi for p in self.pieces if isinstance(p, Exponential | Curve)]
        return np.asarray(lo >= max(ends)) if ends else np.ones(lo.shape, dtype=bool)

    def band(self, lo: Floats, hi: Floats, slopes: Range) -> Band:
        """Lines of these slopes, where f is made of lines, and the range elsewhere."""
        usable = self.straight(lo)
        first, second = (np.where(usable & np.isfinite(s), s, 0.0) for s in slopes)
        low, high = np.full_like(lo, np.inf), np.full_like(lo, -np.inf)
        for z in self._vertices(lo, hi):
            small, large = self.values(z)
            low = np.minimum(low, along(-first, z, small, below))
            high = np.maximum(high, along(-second, z, large, above))
        return Band(first, second, self._dipped(lo, hi, low), high)

    def _vertices(self, lo: Floats, hi: Floats) -> list[Floats]:
        """The ends, and the breakpoints that are between them on any interval."""
        inside = (point for point in self.breaks if ((lo < point) & (point < hi)).any())
        return [lo, *(np.clip(point, lo, hi) for point in inside), hi]

    # --- rationals ------------------------------------------------------------------------------

    def at(self, low: Fraction, high: Fraction, bits: int) -> Interval:
        """f over an interval of rationals, to within 2^-bits where it is irrational."""
        inside = [Fraction(b) for b in self.breaks if low < b < high]
        ends = [self._at(z, bits) for z in (low, *inside, high)]
        dip = curves.DIPS.get(self.curve.rule) if self.curve is not None else None
        if dip is not None and low <= dip[1] and high >= dip[0]:
            ends.append((dip[2], dip[2]))
        return min(a for a, _ in ends), max(b for _, b in ends)

    def _at(self, z: Fraction, bits: int) -> Interval:
        return _enclosed(next(p for p in self.pieces if z <= p.hi), z, bits)


def _numbers(piece: Piece) -> tuple[float, ...]:
    if isinstance(piece, Curve):
        return ()
    if isinstance(piece, Line):
        return piece.slope, piece.intercept
    return piece.alpha, piece.gain


def _slopes(piece: Piece) -> tuple[Fraction, ...]:
    """The extremes of the derivative: 0 and gain·alpha below zero."""
    if isinstance(piece, Curve):
        return -curves.SLOPES[piece.rule], curves.SLOPES[piece.rule]
    if isinstance(piece, Line):
        return (Fraction(piece.slope),)
    return Fraction(0), Fraction(piece.gain) * Fraction(piece.alpha)


def _enclosed(piece: Piece, z: Fraction, bits: int) -> Interval:
    """The piece at z, to within 2^-bits where it is irrational."""
    if isinstance(piece, Line):
        value = Fraction(piece.slope) * z + Fraction(piece.intercept)
        return value, value
    if isinstance(piece, Curve):
        return curves.value(piece.rule, z, bits)
    factor = Fraction(piece.gain) * Fraction(piece.alpha)
    ends = [factor * (e - 1) for e in curves.exponential(z, bits)]
    return min(ends), max(ends)


def _on_piece(piece: Piece, z: Floats) -> Range:
    """The same between two floats; a curve at an end at infinity may be anything."""
    if isinstance(piece, Line):
        if abs(piece.slope) in (0, 1) and piece.intercept == 0:  # nothing is rounded
            return (np.zeros_like(z) if piece.slope == 0 else piece.slope * z,) * 2
        low, high = (along(piece.slope, z, piece.intercept, outward) for outward in (below, above))
        return low, high
    low, high = np.full_like(z, -np.inf), np.full_like(z, np.inf)
    known = (
        z if isinstance(piece, Curve) else np.maximum(z, 2 * curves.DEEP)
    )  # e^z hardly changes below
    for place in np.flatnonzero(np.isfinite(known)).tolist():
        least, most = _enclosed(piece, Fraction(known[place]), EXP_BITS)
        low[place], high[place] = -float_above(-least), float_above(most)
    return low, high


def along(slope: Floats | float, z: Floats, shift: Floats | float, outward: Outward) -> Floats:
    """`slope·z + shift` rounded outward, by `above` or `below`; an exact product and an exact zero
    stay as they are."""
    product = np.where(slope == 0, 0.0, slope * z)
    exact = (slope == 0) | (np.abs(slope) == 1) | (z == 0)
    part = np.where(exact, product, outward(product))
    total = part + shift
    known = (part == 0) | (np.asarray(shift) == 0) | (exact & (total == 0))
    return np.where(known, total, outward(total))


# --- maxima over windows --------------------------------------------------------------------------

TIE = 2.0**-30  # of the largest end in a window


class Windows:
    """Places of each window, (places, outputs), −1 for a pad."""

    def __init__(self, op: MaxPool, inputs: int) -> None:
        self.places: Places = np.asarray(op.windows, dtype=np.int64)
        self.there: Marks = self.places >= 0
        fits = self.places.ndim == 2 and bool((self.places < inputs).all())
        if not fits or not self.there.any(axis=0).all():
            raise NotCheckable("a maximum over windows that hold nothing, or more than there is")

    def held(self) -> list[list[int]]:
        """The places of each window, pads left out."""
        pairs = zip(self.places.T, self.there.T, strict=True)
        return [places[there].tolist() for places, there in pairs]

    def largest(self, values: Floats) -> Floats:
        """The maximum over each window, (…, windows); NaN is infinite."""
        known = np.where(np.isnan(values), np.inf, values)
        return np.asarray(np.where(self.there, known[..., self.places], -np.inf).max(axis=-2))

    def range(self, lo: Floats, hi: Floats) -> Range:
        return self.largest(np.where(np.isnan(lo), -np.inf, lo)), self.largest(hi)

    def chosen(self, lo: Floats, hi: Floats) -> Places:
        """For each window the place with the largest lower bound, the first of those that are so
        but for rounding, (boxes, windows): then no choice hangs on who computes. Any is sound."""
        known = np.where(self.there, lo[:, self.places], -np.inf)
        size = np.where(self.there, np.maximum(np.abs(lo), np.abs(hi))[:, self.places], 0.0)
        far = known < (known.max(axis=1) - TIE * size.max(axis=1))[:, None]
        row = np.argmax(self.there & ~far, axis=1)
        return np.asarray(self.places[row, np.arange(self.places.shape[1])])

    def band(self, lo: Floats, hi: Floats, chosen: Places) -> Band:
        """Lines around y as functions of the chosen place, (boxes, windows)."""
        rivals = self.there & (self.places != chosen[:, None])
        others = np.where(rivals, hi[:, self.places], -np.inf).max(axis=1)
        settled = others <= np.take_along_axis(lo, chosen, axis=1)  # False for what is no number
        one, zero = np.ones(chosen.shape), np.zeros(chosen.shape)
        top = self.largest(hi)
        return Band(one, np.where(settled, one, zero), zero, np.where(settled, zero, top))
