"""Values at a given input, known to 2^-bits: integers over a power of two, each with a radius.

Intervals of floats begin at 2^-53, and every layer multiplies them by |W|: deep networks leave
nothing of them. A ball N/2^bits ± r begins wherever one likes. A form A ± ΔA (`forms`) takes it to

    ⌊A N⌋ in units of 2^-bits,  ±  |A| r + |ΔA| (|N|/2^bits + r) + 2^-bits,

where the product is exact and radii are floats rounded up. Pieces of lines act on the integers;
where a unit may be on two pieces, its range in floats is taken.

Rests on proofs_check: exact-splitting, accumulated-rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from proofs_check.certificates.affine import Form, Places, View
from proofs_check.certificates.arithmetic import (
    BASE,
    BITS,
    Digits,
    Floats,
    Marks,
    Whole,
    above,
    below,
    dot,
    exact,
    float_above,
    largest,
    nearest,
    plus,
    times,
)
from proofs_check.certificates.bends import Bend
from proofs_check.certificates.columns import Column, Interval
from proofs_check.certificates.report import NotCheckable
from proofs_check.certificates.windows import Windows
from reconstruct.networks.activations import Line

# --------------------------------------------------------------------------------------------------
# Digits of long integers moved and compared: what values at a given input need beside products.
#
# A number Σ_p d_p 2^(20p) has digits in [0, 2^20) but for the last, which has the sign; so dropping
# digits from the lower end rounds down, and numbers compare by their digits from the upper end.


def rescaled(whole: Whole, unit: int, bits: int) -> tuple[Whole, Marks]:
    """⌊N·2^bits/D⌋, and where it is not exact (then it is less by less than 1)."""
    shift = unit.bit_length() - 1 - bits
    if unit != 1 << unit.bit_length() - 1:
        pairs = [divmod(number << bits, unit) for number in whole.integers()]
        lost = np.array([rest != 0 for _, rest in pairs]).reshape(whole.shape)
        return Whole.of_integers([number for number, _ in pairs], whole.shape), lost
    if shift <= 0:
        return whole.scaled(1 << -shift), np.zeros(whole.shape, dtype=bool)
    return _shifted(whole, shift)


def _shifted(whole: Whole, shift: int) -> tuple[Whole, Marks]:
    """⌊N/2^shift⌋: digits but the last are not negative, so that dropping them rounds down."""
    places, small = divmod(shift, BITS)
    digits = _longer(whole.digits, max(len(whole.digits), places + 1))
    lost = (digits[:places] != 0).any(axis=0) | (digits[places] & ((1 << small) - 1) != 0)
    kept = digits[places:]
    low = kept >> small
    low[:-1] |= (kept[1:] & ((1 << small) - 1)) << (BITS - small)
    return Whole(low) + Whole.zeros(*whole.shape), np.asarray(lost)


def alike(first: Digits, second: Digits) -> tuple[Digits, Digits]:
    """The digits of two arrays of numbers, equally many."""
    length = max(len(first), len(second))
    return _longer(first, length), _longer(second, length)


def _longer(digits: Digits, length: int) -> Digits:
    """The same numbers with more digits: the last one alone has a sign."""
    more = length - len(digits)
    if more == 0:
        return digits
    low = np.concatenate([digits[:-1], digits[-1:] & (BASE - 1)])
    zeros = np.zeros((more - 1, *digits.shape[1:]), dtype=np.int64)
    sign = digits[-1:] >> BITS
    filled = np.where(sign < 0, BASE - 1, zeros) if more > 1 else zeros
    return np.concatenate([low, filled, sign])


def exceeds(first: Digits, second: Digits) -> Marks:
    """Which numbers are larger, by their digits from the last one on."""
    sign = np.zeros(first.shape[1:], dtype=np.int64)
    for one, other in zip(first[::-1], second[::-1], strict=True):
        sign = np.where(sign == 0, np.sign(one - other), sign)
    return np.asarray(sign > 0)


SPARE = 32  # binary digits that the entries of a form are known to beyond those of values


@dataclass(frozen=True, eq=False)
class Balls:
    """Units of a value: `whole`/2^bits (a column), each within `radius` of the truth."""

    whole: Whole
    radius: Floats
    bits: int

    @classmethod
    def of(cls, values: npt.ArrayLike, radius: Floats | float, bits: int) -> Balls:
        """Floats that are off by at most `radius`."""
        column = np.asarray(values, dtype=np.float64).reshape(-1, 1)
        whole, unit = exact(column)
        return cls.rounded(whole, unit, np.broadcast_to(radius, (len(column),)), bits)

    @classmethod
    def rounded(cls, whole: Whole, unit: int, radius: Floats, bits: int) -> Balls:
        """Integers over any denominator, rounded down to multiples of 2^-bits."""
        kept, lost = rescaled(whole, unit, bits)
        return cls(kept, plus(radius, np.where(lost[:, 0], 2.0**-bits, 0.0)), bits)

    @classmethod
    def between(cls, values: list[Interval], bits: int) -> Balls:
        """Intervals of rationals."""
        one = 1 << bits
        middles = [int((low + high) * one // 2) for low, high in values]
        radius = [
            float_above(max(high - Fraction(n, one), Fraction(n, one) - low))
            for n, (low, high) in zip(middles, values, strict=True)
        ]
        return cls(Whole.of_integers(middles, (len(middles), 1)), np.array(radius), bits)

    def intervals(self) -> list[Interval]:
        """The same as intervals of rationals; refused where nothing is known."""
        if not np.isfinite(self.radius).all():
            raise NotCheckable("a value at the witness is beyond what the checker can enclose")
        one, ends = 1 << self.bits, zip(self.whole.integers(), self.radius.tolist(), strict=True)
        return [(Fraction(n, one) - Fraction(r), Fraction(n, one) + Fraction(r)) for n, r in ends]

    def __len__(self) -> int:
        return len(self.radius)

    def ends(self) -> tuple[Floats, Floats]:
        """Floats around each unit."""
        middle, error = nearest(self.whole, 1 << self.bits)
        middle, room = middle[:, 0], plus(error[:, 0], self.radius)
        with np.errstate(all="ignore"):
            return (
                np.where(room == 0, middle, below(middle - room)),
                np.where(room == 0, middle, above(middle + room)),
            )

    def apart(self, other: Balls) -> tuple[Floats, Floats]:
        """|self − other| unit by unit: from below and from above."""
        middle, error = nearest(self.whole + -other.whole, 1 << self.bits)
        size, room = np.abs(middle[:, 0]), plus(error[:, 0], self.radius, other.radius)
        with np.errstate(all="ignore"):
            return np.maximum(below(size - room), 0.0), plus(size, room)

    def met(self, view: View) -> Balls:
        """What the columns of a view meet: (columns, positions)."""
        return Balls(
            Whole(np.where(view.index >= 0, self.whole.digits[:, view.index, 0], 0)),
            np.where(view.index >= 0, self.radius[view.index], 0.0),
            self.bits,
        )

    # --- one unit for each ----------------------------------------------------------------------

    def placed(self, index: Places) -> Balls:
        """The units of these places, zeros for −1."""
        return self.met(View.of("", index[:, None]))._column()

    def _column(self) -> Balls:
        digits = self.whole.digits
        return Balls(Whole(digits.reshape(len(digits), -1, 1)), self.radius.ravel(), self.bits)

    def plus(self, other: Balls) -> Balls:
        return Balls(self.whole + other.whole, plus(self.radius, other.radius), self.bits)

    def scaled(self, scale: Column, shift: Column) -> Balls:
        """scale·z + shift, unit by unit, their own doubts included."""
        far = plus(largest(self.whole, 1 << self.bits)[:, 0], self.radius)
        size = largest(scale.whole, scale.unit)[:, 0]
        radius = plus(times(size, self.radius), times(scale.slip, far))
        unit = scale.unit << self.bits
        made = Balls.rounded(self.whole.times(scale.whole), unit, radius, self.bits)
        return made.plus(Balls.rounded(shift.whole, shift.unit, shift.slip, self.bits))

    # --- activations ----------------------------------------------------------------------------

    def bent(self, bend: Bend) -> Balls:
        """Behind an activation: each piece that is a line for the units that are on it for sure."""
        lo, hi = self.ends()
        start, end = bend.range(lo, hi)
        with np.errstate(all="ignore"):
            middle = np.where(start == end, start, 0.5 * start + 0.5 * end)
            room = np.where(start == end, 0.0, above(np.maximum(end - middle, middle - start)))
        known = np.isfinite(middle) & np.isfinite(room)
        found = Balls.of(np.where(known, middle, 0.0), np.where(known, room, np.inf), self.bits)
        for piece in bend.pieces:
            if isinstance(piece, Line):
                found = found._where((lo >= piece.lo) & (hi <= piece.hi), self._on(piece))
        return found

    def _on(self, piece: Line) -> Balls:
        """slope·z + intercept."""
        if (piece.slope, piece.intercept) == (1.0, 0.0):
            return self
        numbers = (np.full(len(self), number) for number in (piece.slope, piece.intercept))
        return self.scaled(*map(Column.of_floats, numbers))

    def _where(self, marks: Marks, other: Balls) -> Balls:
        """Those of `other` where marked, these elsewhere."""
        mine, theirs = alike(self.whole.digits, other.whole.digits)
        digits = np.where(marks[:, None], theirs, mine)
        return Balls(Whole(digits), np.where(marks, other.radius, self.radius), self.bits)

    def greatest(self, windows: Windows) -> Balls:
        """The maximum over each window: that of the middles is off by the largest radius."""
        digits, radius = self.whole.digits[:, :, 0], self.radius
        first = np.argmax(windows.there, axis=0)
        places = windows.places[first, np.arange(windows.places.shape[1])]
        best, room = digits[:, places], radius[places]
        for row, there in zip(windows.places, windows.there, strict=True):
            other = digits[:, row]
            best = np.where(there & exceeds(other, best), other, best)
            room = np.where(there, np.maximum(room, radius[row]), room)
        return Balls(Whole(best[:, :, None]), room, self.bits)


@dataclass(frozen=True, eq=False)
class Applied:
    """A form that is applied to many values: its entries to 2^-(bits + SPARE), and their sizes."""

    form: Form
    size: Floats
    bits: int

    @classmethod
    def of(cls, form: Form, bits: int) -> Applied:
        whole, lost = rescaled(form.whole, form.unit, bits + SPARE)
        radius = plus(form.radius, np.where(lost, 2.0 ** -(bits + SPARE), 0.0))
        kept = Form(form.layout, whole, 1 << bits + SPARE, radius, form.positions)
        return cls(kept, largest(whole, kept.unit), bits)

    def __call__(self, values: Mapping[str, Balls]) -> Balls:
        """The value of the form, a unit for each row and position."""
        form, shape = self.form, (self.form.rows, self.form.positions)
        constant = form.whole.part(slice(None), slice(-1, None)).scaled(1 << self.bits)
        total = Whole(np.repeat(constant.digits, form.positions, axis=2))
        radius = np.repeat(form.radius[:, -1:], form.positions, axis=1)
        for view, part in form.parts():
            met = values[view.source].met(view)
            total = total + form.whole.part(slice(None), part) @ met.whole
            wide = met.radius.reshape(view.columns, -1)
            radius = plus(radius, dot(self.size[:, part], wide))
            if form.radius[:, part].any():
                far = plus(largest(met.whole, 1 << self.bits), wide)
                radius = plus(radius, dot(form.radius[:, part], far))
        column = Whole(total.digits.reshape(-1, shape[0] * shape[1], 1))
        return Balls.rounded(column, form.unit << self.bits, radius.ravel(), self.bits)
