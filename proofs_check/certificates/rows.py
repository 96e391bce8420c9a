"""Rows of a map as its file has them, scaled and shifted unit by unit: `s∘[A | c] + [0 | t]`.

Hidden layers are of this kind, and there are very many of their rows. Their floats are found
without integers,

    |s w − fl(s' w)| ≤ |s − s'||w| + u|fl(s' w)| + η,

and in a product with the map behind them it is that map which takes the scales, for it has fewer
rows: W (s∘A) = (W∘s) A, in integers as ever. What is asked for exactly becomes a `Form`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeVar, overload

import numpy as np
import numpy.typing as npt

from proofs_check.certificates.arithmetic import (
    TINY,
    UNIT,
    Floats,
    Whole,
    above,
    dot,
    exact,
    plus,
    times,
)
from proofs_check.certificates.columns import Column
from proofs_check.certificates.form import Form, Layout
from proofs_check.certificates.views import Places, View


@dataclass(frozen=True, eq=False)
class Rows:
    """`weight` is [A | c] for what `view` sees, `scale` and `shift` have a number for each row."""

    view: View
    weight: Floats
    scale: Column
    shift: Column

    positions = 1

    @classmethod
    def of(cls, view: View, weight: Floats) -> Rows:
        """The rows as they are."""
        one, nothing = np.ones(len(weight)), np.zeros(len(weight))
        return cls(view, weight, Column.of_floats(one), Column.doubt(nothing))

    @property
    def layout(self) -> Layout:
        return (self.view,)

    @property
    def rows(self) -> int:
        return len(self.weight)

    @property
    def width(self) -> int:
        """Columns, that of the constant included."""
        return int(self.weight.shape[1])

    def parts(self) -> list[tuple[View, slice]]:
        return [(self.view, slice(0, self.view.columns))]

    def scaled(self, column: Column) -> Rows:
        return replace(self, scale=self.scale.times(column), shift=self.shift.times(column))

    def shifted(self, column: Column) -> Rows:
        return replace(self, shift=self.shift.plus(column))

    def take(self, rows: npt.NDArray[np.intp]) -> Form:
        """Some of the rows, exactly."""
        weight = self.weight[rows]
        form = Form(self.layout, *exact(weight), np.zeros(weight.shape))
        return form.scaled(self.scale.take(rows)).shifted(self.shift.take(rows))

    def floats(self) -> tuple[Floats, Floats]:
        """(F, E) with |exact − F| ≤ E entry by entry; no error where an entry is zero."""
        near, off = self.scale.floats()
        with np.errstate(all="ignore"):
            middle = self.weight * near[:, None]
            error = np.abs(self.weight) * off[:, None] + np.abs(middle) * UNIT
            error = above(error * (1 + 2.0**-50) + 4 * TINY)
        zero = (self.weight == 0) | ((near == 0) & (off == 0))[:, None]
        known = np.isfinite(middle) & np.isfinite(error)
        error = np.where(zero, 0.0, np.where(known, error, np.inf))
        middle = np.where(zero | ~known, 0.0, middle)
        middle[:, -1], error[:, -1] = self._constant(middle[:, -1], error[:, -1])
        return middle, error

    def _constant(self, middle: Floats, error: Floats) -> tuple[Floats, Floats]:
        """The last column, the shift included."""
        near, off = self.shift.floats()
        with np.errstate(all="ignore"):
            total = middle + near
            rounding = np.where((middle == 0) | (near == 0), 0.0, above(np.abs(total) * UNIT))
        found = plus(error, off, rounding)
        known = np.isfinite(total) & np.isfinite(found)
        return np.where(known, total, 0.0), np.where(known, found, np.inf)

    def mixed(self, weight: Floats) -> Form:
        """`weight @ self`, exactly but for the slips of scale and shift."""
        outer, unit = exact(weight)
        inner, own = exact(self.weight)
        across = Whole(self.scale.whole.digits.transpose(0, 2, 1))
        whole, size = outer.times(across) @ inner, np.abs(weight)
        radius = np.zeros(whole.shape)
        if self.scale.slip.any():
            radius = dot(times(size, self.scale.slip[None]), np.abs(self.weight))
        form = Form(self.layout, whole, unit * own * self.scale.unit, radius)
        slip = np.zeros(len(weight))
        if self.shift.slip.any():
            slip = dot(size, self.shift.slip[:, None])[:, 0]
        return form.shifted(Column(outer @ self.shift.whole, unit * self.shift.unit, slip))


Block = Form | Rows  # some rows of a value, to be bounded or multiplied
Narrow = dict[View, tuple[View, Places]]
Kind = TypeVar("Kind", bound=np.generic)


@overload
def spread(block: Form, narrow: Narrow) -> Form: ...


@overload
def spread(block: Rows, narrow: Narrow) -> Rows: ...


def spread(block: Block, narrow: Narrow) -> Block:
    """A form over what some groups see, over all that their layer sees."""
    if not any(view in narrow for view in block.layout):
        return block
    if isinstance(block, Form) and len(block.layout) > 1:  # as of layers that inputs enter between
        pieces = [spread(piece, narrow) for piece in block.by_view()]
        return reduce(Form.plus, pieces)
    whole, places = narrow[block.layout[0]]
    there = np.flatnonzero(places >= 0)

    def wide(narrow: npt.NDArray[Kind]) -> npt.NDArray[Kind]:
        out = np.zeros((*narrow.shape[:-1], whole.columns + 1), dtype=narrow.dtype)
        out[..., places[there]] = narrow[..., there]
        out[..., -1] = narrow[..., -1]
        return out

    if isinstance(block, Rows):
        return replace(block, view=whole, weight=wide(block.weight))
    digits, radius = wide(block.whole.digits), wide(block.radius)
    return replace(block, layout=(whole,), whole=Whole(digits), radius=radius)
