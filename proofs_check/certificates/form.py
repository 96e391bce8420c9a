"""An exact affine form: rows of `Σ_j A_j h_j + c` over the cuts before them.

[A_1 … A_J | c] is a matrix of integers over one denominator, and nothing of it is rounded. Its rows
are units, or on images channels that are the same at every position (see `views`). Two
things are not rational, a norm's scale γ/√(v+ε) in general and the doubt about an activation that
may leave its line; both go into `radius`, a matrix of floats rounded up, and into nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm

import numpy as np
import numpy.typing as npt

from proofs_check.certificates.arithmetic import (
    Floats,
    Whole,
    above,
    below,
    dot,
    exact,
    largest,
    nearest,
    plus,
    times,
)
from proofs_check.certificates.columns import Column
from proofs_check.certificates.report import NotCheckable
from proofs_check.certificates.views import View

MOST_BITS = 2**20  # a denominator of more bits than this is refused

Layout = tuple[View, ...]


@dataclass(frozen=True, eq=False)
class Form:
    """Rows of [A_1 … A_J | c]: `layout` says what the columns look at, in their order.

    Each row stands for `positions` units.
    """

    layout: Layout
    whole: Whole
    unit: int
    radius: Floats
    positions: int = 1

    @classmethod
    def constant(cls, values: npt.ArrayLike, positions: int = 1) -> Form:
        """A constant vector of floats: no sources, one column."""
        column = np.asarray(values, dtype=np.float64).reshape(-1, 1)
        return cls((), *exact(column), np.zeros(column.shape), positions)

    @classmethod
    def identity(cls, view: View, start: int, stop: int, positions: int = 1) -> Form:
        """The rows of what is looked at itself."""
        eye = np.eye(stop - start, view.columns + 1, k=start)
        return cls((view,), *exact(eye), np.zeros(eye.shape), positions)

    @property
    def rows(self) -> int:
        return self.whole.shape[0]

    @property
    def width(self) -> int:
        """Columns, that of the constant included."""
        return int(self.radius.shape[1])

    def part(self, start: int, stop: int) -> Form:
        rows = slice(start, stop)
        return replace(self, whole=self.whole.part(rows), radius=self.radius[rows])

    def take(self, rows: npt.NDArray[np.intp]) -> Form:
        return replace(self, whole=Whole(self.whole.digits[:, rows]), radius=self.radius[rows])

    def placed(self, index: npt.NDArray[np.int64]) -> Form:
        """The rows of these places, zeros for −1."""
        found, there = self.take(np.maximum(index, 0).astype(np.intp)), (index >= 0)[:, None]
        whole = Whole(np.where(there, found.whole.digits, 0))
        return Form(self.layout, whole, self.unit, np.where(there, found.radius, 0.0))

    def parts(self) -> list[tuple[View, slice]]:
        """The columns of each view; the constant is the last column."""
        return _places(self.layout)

    def by_view(self) -> list[Form]:
        """One form for each view, the constant in a form of its own: their sum is this one."""
        last = slice(self.width - 1, self.width)
        pieces: list[tuple[Layout, slice]] = [((view,), part) for view, part in self.parts()]
        found = []
        for layout, part in (*pieces, ((), slice(0, 0))):
            digits, radius = self.whole.digits[:, :, part], self.radius[:, part]
            constant = self.whole.digits[:, :, last], self.radius[:, last]
            if layout:
                constant = np.zeros_like(constant[0]), np.zeros_like(constant[1])
            digits = np.concatenate([digits, constant[0]], axis=2)
            radius = np.concatenate([radius, constant[1]], axis=1)
            found.append(replace(self, layout=layout, whole=Whole(digits), radius=radius))
        return found

    def over(self, layout: Layout, unit: int) -> Form:
        """The same rows with more columns (zeros) and a multiple of the denominator."""
        whole = self.whole.scaled(unit // self.unit)
        if layout == self.layout:
            return Form(layout, whole, unit, self.radius, self.positions)
        columns = sum(view.columns for view in layout) + 1
        digits = np.zeros((len(whole.digits), self.rows, columns), dtype=np.int64)
        radius = np.zeros((self.rows, columns))
        where = dict(_places(layout))
        moves = [(where[view], part) for view, part in self.parts()]
        for to, part in (*moves, (slice(columns - 1, columns), slice(-1, None))):
            digits[:, :, to] = whole.digits[:, :, part]
            radius[:, to] = self.radius[:, part]
        return Form(layout, Whole(digits), unit, radius, self.positions)

    def plus(self, other: Form) -> Form:
        layout = tuple(dict.fromkeys(self.layout + other.layout))
        unit = lcm(self.unit, other.unit)
        if unit.bit_length() > MOST_BITS:
            raise NotCheckable(f"numbers over a denominator of {unit.bit_length()} bits")
        if self.positions != other.positions:
            raise NotCheckable(f"{self.positions} and {other.positions} positions are added")
        a, b = self.over(layout, unit), other.over(layout, unit)
        return Form(layout, a.whole + b.whole, unit, plus(a.radius, b.radius), self.positions)

    def minus(self, other: Form) -> Form:
        return self.plus(replace(other, whole=-other.whole))

    def scaled(self, column: Column) -> Form:
        """Each row times its own factor, known to within the column's slip."""
        whole = self.whole.times(column.whole)
        radius = times(self.radius, column.largest()[:, None])
        if column.slip.any():
            radius = plus(radius, times(self.largest(), column.slip[:, None]))
        return Form(self.layout, whole, self.unit * column.unit, radius, self.positions)

    def shifted(self, column: Column) -> Form:
        """Each row plus its own constant."""
        slip = column.slip[:, None]
        return self.plus(Form((), column.whole, column.unit, slip, self.positions))

    def mixed(self, weight: Floats) -> Form:
        """`weight @ self`."""
        whole, unit = exact(weight)
        radius = np.zeros((len(weight), self.radius.shape[1]))
        if self.radius.any():
            radius = dot(np.abs(weight), self.radius)
        return Form(self.layout, whole @ self.whole, self.unit * unit, radius, self.positions)

    def between(self, lo: Floats, hi: Floats) -> tuple[Floats, Floats]:
        """The least and the largest value for columns in `[lo, hi]`: exact but for the radius.

        A⁺lo + A⁻hi + c and A⁺hi + A⁻lo + c in integers; floats only take the outcome. The ends
        are columns × positions, and so the outcome has a number for each row and position.
        """
        columns, count = lo.shape
        ends = np.ones((columns + 1, 2 * count))
        ends[:-1, :count], ends[:-1, count:] = lo, hi
        whole, unit = exact(ends)
        swapped = Whole(np.roll(whole.digits, count, axis=2))
        falls = self.whole.digits[-1] < 0
        rising, falling = (Whole(np.where(mask, self.whole.digits, 0)) for mask in (~falls, falls))
        middle, error = nearest(rising @ whole + falling @ swapped, self.unit * unit)
        most = np.maximum(np.abs(ends[:, :count]), np.abs(ends[:, count:]))
        error = plus(error, np.tile(dot(self.radius, most), 2))
        low = np.where(error == 0, middle, below(middle - error))[:, :count]
        return low, np.where(error == 0, middle, above(middle + error))[:, count:]

    def largest(self) -> Floats:
        """An upper bound of every |entry|; an exact zero stays zero."""
        return plus(largest(self.whole, self.unit), self.radius)

    def floats(self) -> tuple[Floats, Floats]:
        """(F, E) with |exact − F| ≤ E entry by entry."""
        middle, error = nearest(self.whole, self.unit)
        return middle, plus(error, self.radius)


def _places(layout: Layout) -> list[tuple[View, slice]]:
    places, start = [], 0
    for view in layout:
        places.append((view, slice(start, start + view.columns)))
        start += view.columns
    return places


def stacked(parts: list[Form]) -> Form:
    """Forms over one layout and one denominator, one below the other."""
    if len(parts) == 1:
        return parts[0]
    length = max(len(part.whole.digits) for part in parts)
    digits = [np.zeros((length, *part.whole.shape), dtype=np.int64) for part in parts]
    for room, part in zip(digits, parts, strict=True):
        room[: len(part.whole.digits)] = part.whole.digits
    first = parts[0]
    radius = np.concatenate([part.radius for part in parts])
    return replace(first, whole=Whole(np.concatenate(digits, axis=1)), radius=radius)
