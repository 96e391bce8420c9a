"""Exact affine forms: a value of a network as `v = Σ_j A_j h_j + c` over the cuts before it.

[A_1 … A_J | c] is a matrix of integers over one denominator, and nothing of it is rounded. Its rows
are units, or on images channels that are the same at every position (see `views`). Two
things are not rational, a norm's scale γ/√(v+ε) in general and the doubt about an activation that
may leave its line; both go into `radius`, a matrix of floats rounded up, and into nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import lcm

import numpy as np
import numpy.typing as npt

from proofs_check.certificates.arithmetic import (
    CHUNK,
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
from proofs_check.certificates.bends import Bend
from proofs_check.certificates.columns import BITS, Column, RationalNorm, columns_of
from proofs_check.certificates.pixels import Pixels
from proofs_check.certificates.report import NotCheckable
from proofs_check.certificates.views import View, kernel_of
from reconstruct.networks import Convolution, Network, Node
from reconstruct.networks.activations import Unitwise
from reconstruct.networks.maps import Diagonal, Mixing, Placement, Select
from reconstruct.networks.sums import Add

TILE = 2**22  # entries of a map that are held at once
MOST_WORK = 2**37  # products of one composition: about half an hour
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


class Forms:
    """The forms of a network's nodes over its sources (`sources`: node name → shared name).

    Without `kernels` every row is one unit, on images too.
    """

    def __init__(
        self,
        network: Network,
        sources: Mapping[str, str],
        norms: Mapping[str, RationalNorm] | None = None,
        bits: int = BITS,
        kernels: bool = True,
    ) -> None:
        self.network, self.sources, self.bits = network, sources, bits
        self.norms = norms or {}  # rational gammas and betas in place of the file's
        self.nodes: dict[str, Node] = {node.name: node for node in network.nodes}
        self.doubts: dict[str, Floats] = {}  # per inner activation: how far from its line
        self.bends: dict[str, Bend] = {}
        self.pixels = Pixels(network, sources) if kernels else None
        self._held: dict[tuple[str, int], Form] = {}
        self._columns: dict[tuple[str, int], tuple[Column, Column]] = {}

    def bend(self, node: Node) -> Bend:
        """The meaning of an activation."""
        if node.name not in self.bends:
            assert isinstance(node.op, Unitwise)
            self.bends[node.name] = Bend(node.op)
        return self.bends[node.name]

    def positions(self, name: str) -> int:
        """At how many positions the rows of a node's form stand."""
        return 1 if self.pixels is None else self.pixels.positions(name) or 1

    def blocks(self, name: str, positions: int) -> list[tuple[int, int]]:
        size = self.network.sizes[name] // positions
        return [(start, min(size, start + CHUNK)) for start in range(0, size, CHUNK)]

    def whole(self, name: str, positions: int = 1) -> Form:
        return self.rows(name, 0, self.network.sizes[name] // positions, positions)

    def own(self, node: Node, positions: int = 1) -> Form:
        """The form of a node over the sources before it, though it is a cut itself."""
        return self._computed(node, 0, self.network.sizes[node.name] // positions, positions)

    def rows(self, name: str, start: int, stop: int, positions: int = 1) -> Form:
        """Rows of a node's form, each at that many positions; a source is itself."""
        view = self._looks(name, positions)
        if view is not None:
            return Form.identity(view, start, stop, positions)
        return self._computed(self.nodes[name], start, stop, positions)

    def _computed(self, node: Node, start: int, stop: int, positions: int) -> Form:
        """The same from what the node takes."""
        name, op = node.name, node.op
        if isinstance(op, Select | Placement) and positions > 1:
            raise NotCheckable(f"{name!r} moves pixels of a composed value")
        if isinstance(op, Mixing):
            return self._mixing(node, op, start, stop, positions)
        if isinstance(op, Select):
            return self.rows(node.inputs[0], op.start + start, op.start + stop)
        if isinstance(op, Placement):
            return self.whole(node.inputs[0]).placed(op.index[start:stop])
        form = self.rows(node.inputs[0], start, stop, positions)
        if isinstance(op, Add):
            for other in node.inputs[1:]:
                form = form.plus(self.rows(other, start, stop, positions))
            return form
        if isinstance(op, Diagonal):
            scale, shift = self._diagonal(name, op, positions)
            return form.scaled(scale.part(start, stop)).shifted(shift.part(start, stop))
        if isinstance(op, Unitwise):
            line = form.scaled(Column.of_floats(np.full(form.rows, op.piece.slope)))
            doubt = self.doubts[name].reshape(-1, positions).max(axis=1)
            return line.shifted(Column.doubt(doubt[start:stop]))
        raise NotCheckable(f"{name!r}: {type(op).__name__} is not an operation the checker knows")

    def _looks(self, name: str, positions: int) -> View | None:
        """A view of a source, if the node is one, or only moves units of one over an image."""
        if positions > 1 and self.pixels is not None:
            return self.pixels.view(name, positions)
        if name in self.sources:
            return View(self.sources[name], self.network.sizes[name])
        return None

    def _diagonal(self, name: str, op: Diagonal, positions: int) -> tuple[Column, Column]:
        key = name, positions
        if key not in self._columns:
            self._columns[key] = columns_of(op, self.norms.get(name), self.bits, positions)
        return self._columns[key]

    def _mixing(self, node: Node, op: Mixing, start: int, stop: int, positions: int) -> Form:
        (inside,) = node.inputs
        direct = self._direct(node, op, start, stop, positions)
        if direct is not None:
            return direct
        key = node.name, positions
        if key not in self._held:
            total = Form.constant(op.channel_bias if positions > 1 else op.bias, positions)
            for first, last in self.blocks(inside, positions):
                block = self.rows(inside, first, last, positions)
                _require_bearable(node, op, block)
                total = total.plus(_product(op, block, slice(first, last)))
            self._held[key] = total
        return self._held[key].part(start, stop)

    def _direct(self, node: Node, op: Mixing, start: int, stop: int, positions: int) -> Form | None:
        """The map itself where it acts on a source, or its kernel where that looks at one."""
        (inside,) = node.inputs
        view, weight = None, None
        if positions > 1 and self.pixels is not None and isinstance(op, Convolution):
            view = self.pixels.window(node.name, op)
            weight = None if view is None else kernel_of(op, start, stop)
        elif inside in self.sources:
            weight = op.tile(start, stop)
            view = View(self.sources[inside], weight.shape[1])
        if view is None or weight is None:
            return None
        bias = op.channel_bias if positions > 1 else op.bias
        rows = np.column_stack([weight, bias[start:stop]])
        return Form((view,), *exact(rows), np.zeros(rows.shape), positions)


def _require_bearable(node: Node, op: Mixing, block: Form) -> None:
    """Refuse what would take hours: what cannot be composed by kernels is composed unrolled."""
    m, n = op.shape if block.positions == 1 else (op.channels, op.shape[1] // block.positions)
    k = block.radius.shape[1]
    if m * n * k > MOST_WORK:
        raise NotCheckable(
            f"{node.name!r} is composed of {m} × {n} × {k} products, which is more than the "
            f"checker's {MOST_WORK:.0e}"
        )


def _product(op: Mixing, block: Form, columns: slice) -> Form:
    """The columns of a map times a block of its inputs, a tile of rows at a time."""
    if block.positions > 1 and isinstance(op, Convolution):
        weight = kernel_of(op)[:, columns]
    else:
        weight = np.asarray(op.columns(columns.start, columns.stop), dtype=np.float64)
    step = max(1, TILE // weight.shape[1])
    parts = [block.mixed(weight[start : start + step]) for start in range(0, len(weight), step)]
    unit = lcm(*(part.unit for part in parts))
    return _stacked([part.over(part.layout, unit) for part in parts])


def _stacked(parts: list[Form]) -> Form:
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
