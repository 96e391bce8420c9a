"""What an activation means, derived from its pieces alone.

An activation declares itself as lines and exponentials from −∞ to ∞. From these numbers the
checker takes its values, its range over an interval, its Lipschitz constant, and lines below and
above it: where it is straight between its breakpoints, f(z) − slope·z has its extremes at the
ends and at breakpoints, so that *any* slope gives a bound.

Rests on proofs_check: back-substitution.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, isfinite

import numpy as np

from proofs_check.certificates import curves
from proofs_check.certificates.arithmetic import Floats, Marks, above, below, float_above
from proofs_check.certificates.report import NotCheckable
from reconstruct.networks.activations import Curve, Exponential, Line, Unitwise

DEEP = -800  # e^z is below 2^-1100 from here on
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
            ends = _value_at(left, left.hi), _value_at(right, left.hi)
            if None in ends or ends[0] != ends[1]:
                raise NotCheckable(f"{what} that do not meet at {left.hi}")

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

    def values(self, z: Floats) -> tuple[Floats, Floats]:
        """f(z) between two floats; equal where nothing is rounded."""
        low, high = np.full_like(z, -np.inf), np.full_like(z, np.inf)
        for piece in self.pieces:
            here = (z >= piece.lo) & (z <= piece.hi)
            if here.any():
                low[here], high[here] = _on_piece(piece, z[here])
        return low, high

    def range(self, lo: Floats, hi: Floats) -> tuple[Floats, Floats]:
        """f over `[lo, hi]`: every piece is monotone, so its ends and the breakpoints decide."""
        pairs = [self.values(z) for z in self._vertices(lo, hi)]
        low = np.minimum.reduce([small for small, _ in pairs])
        return self._dipped(lo, hi, low), np.maximum.reduce([large for _, large in pairs])

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

    def band(self, lo: Floats, hi: Floats, slopes: tuple[Floats, Floats]) -> Band:
        """Lines of these slopes, where f is made of lines, and the range elsewhere."""
        usable = self.straight(lo)
        first, second = (np.where(usable & np.isfinite(s), s, 0.0) for s in slopes)
        low, high = np.full_like(lo, np.inf), np.full_like(lo, -np.inf)
        for z in self._vertices(lo, hi):
            small, large = self.values(z)
            low = np.minimum(low, _less(small, first, z, upward=False))
            high = np.maximum(high, _less(large, second, z, upward=True))
        return Band(first, second, self._dipped(lo, hi, low), high)

    def _vertices(self, lo: Floats, hi: Floats) -> list[Floats]:
        return [lo, *(np.clip(point, lo, hi) for point in self.breaks), hi]

    # --- rationals ------------------------------------------------------------------------------

    def at(self, low: Fraction, high: Fraction, bits: int) -> tuple[Fraction, Fraction]:
        """f over an interval of rationals, to within 2^-bits where it is irrational."""
        inside = [Fraction(b) for b in self.breaks if low < b < high]
        ends = [self._at(z, bits) for z in (low, *inside, high)]
        dip = curves.DIPS.get(self.curve.rule) if self.curve is not None else None
        if dip is not None and low <= dip[1] and high >= dip[0]:
            ends.append((dip[2], dip[2]))
        return min(a for a, _ in ends), max(b for _, b in ends)

    def _at(self, z: Fraction, bits: int) -> tuple[Fraction, Fraction]:
        piece = next(p for p in self.pieces if z <= p.hi)
        if isinstance(piece, Line):
            value = Fraction(piece.slope) * z + Fraction(piece.intercept)
            return value, value
        if isinstance(piece, Curve):
            return curves.value(piece.rule, z, bits, exponential)
        factor = Fraction(piece.gain) * Fraction(piece.alpha)
        ends = [factor * (e - 1) for e in exponential(z, bits)]
        return min(ends), max(ends)


def _numbers(piece: Line | Exponential | Curve) -> tuple[float, ...]:
    if isinstance(piece, Curve):
        return ()
    if isinstance(piece, Line):
        return piece.slope, piece.intercept
    return piece.alpha, piece.gain


def _slopes(piece: Line | Exponential | Curve) -> tuple[Fraction, ...]:
    """The extremes of the derivative: 0 and gain·alpha below zero."""
    if isinstance(piece, Curve):
        return -curves.SLOPES[piece.rule], curves.SLOPES[piece.rule]
    if isinstance(piece, Line):
        return (Fraction(piece.slope),)
    return Fraction(0), Fraction(piece.gain) * Fraction(piece.alpha)


def _value_at(piece: Line | Exponential | Curve, z: float) -> Fraction | None:
    """The exact value at a breakpoint, None where it is irrational."""
    if isinstance(piece, Line):
        return Fraction(piece.slope) * Fraction(z) + Fraction(piece.intercept)
    return Fraction(0) if z == 0 else None


def _on_piece(piece: Line | Exponential | Curve, z: Floats) -> tuple[Floats, Floats]:
    if isinstance(piece, Line):
        return _line_value(piece, z)
    if isinstance(piece, Curve):
        return _curve_value(piece.rule, z)
    factor = Fraction(piece.gain) * Fraction(piece.alpha)
    pairs = [_exponential_value(factor, x) for x in z.tolist()]
    return np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])


def _curve_value(rule: str, z: Floats) -> tuple[Floats, Floats]:
    """Between two floats; where z is no number, or an end at infinity, nothing is known."""
    low, high = np.full_like(z, -np.inf), np.full_like(z, np.inf)
    for place, x in enumerate(z.tolist()):
        if isfinite(x):
            least, most = curves.value(rule, Fraction(x), EXP_BITS, exponential)
            low[place], high[place] = -_float_at_least(-least), _float_at_least(most)
    return low, high


def _line_value(piece: Line, z: Floats) -> tuple[Floats, Floats]:
    slope, shift = piece.slope, piece.intercept
    with np.errstate(all="ignore"):
        value = np.zeros_like(z) if slope == 0 else slope * z
    low = high = value
    if abs(slope) not in (0, 1):
        low, high = (np.where(z == 0, 0.0, end) for end in (below(value), above(value)))
    if shift == 0:
        return low, high
    with np.errstate(all="ignore"):
        total = low + shift, high + shift
    if slope == 0:
        return total
    return below(total[0]), above(total[1])


def _exponential_value(factor: Fraction, z: float) -> tuple[float, float]:
    """factor·(e^z − 1) between two floats."""
    low, high = exponential(Fraction(z), EXP_BITS) if isfinite(z) else (Fraction(0), Fraction(0))
    ends = sorted((factor * (low - 1), factor * (high - 1)))
    return -_float_at_least(-ends[0]), _float_at_least(ends[1])


def _float_at_least(value: Fraction) -> float:
    """A float that is no less than any rational."""
    if value >= 0:
        return float_above(value)
    return float(above(float(value))) if Fraction(float(value)) < value else float(value)


def _less(value: Floats, slope: Floats, z: Floats, *, upward: bool) -> Floats:
    """`value − slope·z` rounded outward; an exact product and an exact zero stay as they are."""
    with np.errstate(all="ignore"):
        part = np.where(slope == 0, 0.0, slope * z)
        exact = (slope == 0) | (np.abs(slope) == 1) | (z == 0)
        part = np.where(exact, part, below(part) if upward else above(part))
        gap = value - part
    exact = (exact & (gap == 0)) | (part == 0) | (value == 0)
    return np.where(exact, gap, above(gap) if upward else below(gap))


def exponential(z: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Rationals around e^z for z ≤ 0, about 2^-bits apart: (e^(z/2^k))^(2^k) in integers.

    With 0 ≤ y = −z/2^k ≤ 1/2 the terms y^n/n! fall by half or more: what is left out is no more
    than the last term. Terms and squares are rounded down and up to multiples of 2^-work.
    """
    if z > 0:
        raise NotCheckable("an exponential is only evaluated below 0")
    if z < DEEP:
        return Fraction(0), Fraction(1, 2**1100)
    halvings = int(-z).bit_length() + 1
    one = 1 << (bits + 2 * halvings + 16)
    y = -z / 2**halvings
    low = high = below_term = above_term = one
    n = 0
    while above_term > 1:
        n += 1
        below_term = below_term * y.numerator // (y.denominator * n)
        above_term = -(-above_term * y.numerator // (y.denominator * n))
        if n % 2:
            low, high = low - above_term, high - below_term
        else:
            low, high = low + below_term, high + above_term
    low, high = low - above_term, high + above_term
    for _ in range(halvings):
        low, high = low * low // one, -(-high * high // one)
    return Fraction(low, one), Fraction(high, one)
