"""Forms: rows of numbers over what they look at.

On dense networks a form looks at whole sources. On images its rows are channels, the same at every
position, and its columns look at a window of a source that moves with the position: so a composed
convolution is one small matrix, however many pixels there are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic

import numpy as np

from reconstruct.certificates.arithmetic import Arithmetic, N
from reconstruct.numbers.arrays import Array


@dataclass(frozen=True)
class View:
    """What the columns of a form look at: all of a source, or a window of it at each position.

    `index` (columns × positions) says where column j looks at position p, −1 for a zero; None
    stands for the source itself, at one position. Two views are the same if they look alike.
    """

    source: str
    columns: int
    token: bytes = b""
    index: Array | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, source: str, index: Array) -> View:
        places = np.ascontiguousarray(index, dtype=np.int64)
        token = hashlib.sha256(repr(places.shape).encode() + places.tobytes()).digest()
        return cls(source, len(places), token, places)

    def __call__(self, values: Array) -> Array:
        """Numbers of the source's units as those that the columns meet: (columns, positions)."""
        if self.index is None:
            return values
        return np.where(self.index >= 0, values[self.index], 0.0)

    def columns_of(self, values: Array) -> Array:
        """The same, (columns, positions) in any case."""
        return self(values).reshape(self.columns, -1)

    def reached(self, size: Array, values: Array) -> Array:
        """`size` (rows × columns) times what the columns meet, position by position: of numbers of
        the source's units, (boxes, units), those of the rows, (boxes, rows · positions)."""
        if self.index is None:
            return np.asarray(values @ size.T)
        return np.stack([(size @ self(one)).ravel() for one in values])

    def worst(self, values: Array) -> Array:
        """For each column the largest number that it meets at any position."""
        seen = self(values)
        return seen if seen.ndim == 1 else np.asarray(seen.max(axis=1))


Layout = tuple[View, ...]


@dataclass(frozen=True, eq=False)
class Form(Generic[N]):
    """Rows of `[A_1 … A_J | c]`: `layout` lists the views with their sizes, in column order.

    A row is a unit, or on images a channel, the same at each of `positions` positions.
    """

    layout: Layout
    matrix: N
    positions: int = 1

    @property
    def constant(self) -> N:
        return self.matrix[:, -1]

    def parts(self) -> Iterator[tuple[View, N]]:
        """The views with their matrices A_j."""
        start = 0
        for view in self.layout:
            yield view, self.matrix[:, start : start + view.columns]
            start += view.columns

    def spread(self, channels: Array) -> Array:
        """Numbers of rows as numbers of units."""
        return channels if self.positions == 1 else np.repeat(channels, self.positions)


def merge(arithmetic: Arithmetic[N], *forms: Form[N]) -> tuple[Form[N], ...]:
    """The same forms over one common layout, with zeros for sources that do not occur."""
    layout = tuple(dict.fromkeys(entry for form in forms for entry in form.layout))
    return tuple(_spread(arithmetic, form, layout) for form in forms)


def _spread(arithmetic: Arithmetic[N], form: Form[N], layout: Layout) -> Form[N]:
    if layout == form.layout:
        return form
    own = dict(form.parts())
    rows = form.matrix.shape[0]
    blocks = [
        own[view] if view in own else arithmetic.exact(np.zeros((rows, view.columns)))
        for view in layout
    ]
    return Form(layout, arithmetic.beside([*blocks, form.matrix[:, -1:]]), form.positions)
