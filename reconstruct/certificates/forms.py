"""A node's value as an affine function of the sources: `v = Σ_j A_j h_j + c`.

Between two cuts a network is affine: affine maps, norms, sums, selections, and those inner
activations that stay on their linear piece. Sources are the input and the values at the cuts. An
inner activation whose unit may leave the piece by d gives `act(z) = slope·z ± d`: the doubt goes
into the constant and is carried on like any other. The numbers are enclosures for the rigorous
proof and rationals for the exact one: see `arithmetic`.

On dense networks a form looks at whole sources. On images its rows are channels, the same at every
position, and its columns look at a window of a source that moves with the position: so a composed
convolution is one small matrix, however many pixels there are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Generic

import numpy as np

from reconstruct.certificates.arithmetic import Arithmetic, N
from reconstruct.errors import UnsupportedError
from reconstruct.networks import (
    Activation,
    Add,
    Cast,
    Convolution,
    Dense,
    Diagonal,
    LiveNorm,
    Mixing,
    Network,
    Node,
    Operation,
    Placement,
    Select,
    Sparse,
)
from reconstruct.numbers.arrays import Array, dense
from reconstruct.numbers.parallel import parallel_map


@dataclass(frozen=True)
class FormLimits:
    """Sizes that decide which forms are held, and how many rows are made at a time."""

    terms: int = 2**29  # products of a wide layer from which on its rows are made when asked for
    rows: int = 2**13  # of a wide layer that are looked at together
    elements: int = 2**20  # a block of them holds at most about this many numbers: 8 MiB
    units: int = 2**11  # up to which the form of a cut itself is written as a matrix
    depth: int = 32  # steps in a row after which a form is kept: no chain is too long to follow


LIMITS = FormLimits()


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
    own: dict[View, N] = dict(form.parts())
    rows = form.matrix.shape[0]
    blocks: list[N] = [
        own[view] if view in own else arithmetic.exact(np.zeros((rows, view.columns)))
        for view in layout
    ]
    blocks.append(form.matrix[:, -1:])
    return Form(layout, arithmetic.beside(blocks), form.positions)


@dataclass(frozen=True, eq=False)
class Grouping:
    """A grouped layer of a source, and where in the source each of its entries lies (entries ×
    positions)."""

    op: Convolution
    source: str
    index: Array

    @property
    def height(self) -> int:
        """Rows of a group."""
        return self.op.channels // self.op.groups

    @property
    def seen(self) -> int:
        """Entries that a group looks at."""
        return len(self.index) // self.op.groups

    def spans(self) -> list[tuple[int, int]]:
        """Groups that are looked at together: where they start and stop."""
        step = max(1, LIMITS.elements // (self.height * (self.seen + 1)))
        return [(i, min(i + step, self.op.groups)) for i in range(0, self.op.groups, step)]


@dataclass(frozen=True, eq=False)
class GroupedForm(Generic[N]):
    """Some groups of a grouped layer, n × (b + 1) with the constant last: the rows of group g look
    at the rows g·b … (g+1)·b of `index` (entries × positions), where in the source each entry
    lies."""

    source: str
    index: Array
    matrix: N
    groups: int


class Composites(Generic[N]):
    """The forms of a network's nodes, given where it is cut.

    `sources` maps each cut node (and the input) to the name its value goes by, so that target and
    candidate can speak of the same sources. `deviations` fills up while activity is proved: how
    far each inner activation's units, or the channels of an image, may be from their line. `tick`
    is called on the way of long chains, for whoever keeps the time.
    """

    def __init__(
        self,
        network: Network,
        sources: Mapping[str, str],
        arithmetic: Arithmetic[N],
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        self.arithmetic: Arithmetic[N] = arithmetic
        self.network, self._tick = network, tick
        self.sources = dict(sources)
        self._source_sizes = {known: network.sizes[name] for name, known in sources.items()}
        self.deviations: dict[str, Array] = {}
        self.scales: dict[str, N] = {}  # of inner live norms: gamma/(n·ρ), ρ known to be near √eps
        self._factors: dict[tuple[str, int], tuple[N, N]] = {}
        self._cache: dict[str, Form[N]] = {}
        self._magnitudes: dict[str, list[tuple[View, Array]]] = {}
        self._place = {node.name: place for place, node in enumerate(network.nodes)}
        self._landings = self._find_landings()

    def positions(self, name: str) -> int:
        """At how many positions a node's channels stand, as far as the maps before it say."""
        while name not in self.sources:
            node = self.network.node(name)
            if isinstance(node.op, Mixing):
                return node.op.positions
            if isinstance(node.op, Add):
                return max(self.positions(i) for i in node.inputs)
            if isinstance(node.op, Placement | Select):
                return 1
            (name,) = node.inputs
        return 1

    def moves(self, name: str) -> bool:
        """Whether a value is a source, or units of one that only moved."""
        return self._looked_through(name) is not None

    def own(self, name: str, positions: int | None = None) -> Form[N]:
        """The form of a node over the sources before it, even when it is itself a cut."""
        self._land(name)
        node = self.network.node(name)
        count = self.own_positions(name) if positions is None else positions
        return self._compute(node, 0, self.network.sizes[name] // count, count)

    def own_positions(self, name: str) -> int:
        """The same for a node that is itself a cut; units of cuts that are many stay as they are,
        one row at every unit."""
        node, size = self.network.node(name), self.network.sizes[name]
        moved = [self.moves(i) for i in node.inputs]
        counts = (0 if m else self.positions(i) for m, i in zip(moved, node.inputs, strict=True))
        count = node.op.positions_for(*counts) or 1
        if count > 1 or not all(moved):
            return count
        if len(moved) > 1:
            return size if size > LIMITS.units else 1
        return int(getattr(node.op, "repeats", getattr(node.op, "positions", 1)))

    def form(self, name: str, positions: int | None = None) -> Form[N]:
        """The form of a node; a source is itself."""
        count = self.positions(name) if positions is None else positions
        return self.rows(name, 0, self.network.sizes[name] // count, count)

    def magnitudes(self, name: str) -> list[tuple[View, Array]]:
        """Bounds of the entries of a node's form, by what they look at."""
        if name not in self._magnitudes:
            parts = self.form(name).parts()
            self._magnitudes[name] = [(view, part.near().magnitude()) for view, part in parts]
        return self._magnitudes[name]

    def block(self, name: str, span: tuple[int, int]) -> Form[N]:
        """Some rows of the form of a node."""
        return self.rows(name, *span, self.positions(name))

    def spans(self, name: str) -> list[tuple[int, int]]:
        """The rows of the form of a node, block by block: where they start and stop."""
        size = self.network.sizes[name] // self.positions(name)
        step = max(1, min(LIMITS.rows, LIMITS.elements // (self._columns(name) + 1)))
        return [(start, min(size, start + step)) for start in range(0, size, step)]

    def rows(self, name: str, start: int, stop: int, positions: int = 1) -> Form[N]:
        """Rows `start:stop` of the form of a node, its channels at that many positions."""
        if name in self.sources:
            return self._identity(self._source_view(name, positions), start, stop, positions)
        self._land(name)
        if name in self._cache:
            return self._rows_of(self._cache[name], start, stop)
        return self._compute(self.network.node(name), start, stop, positions)

    def _source_view(self, name: str, positions: int) -> View:
        size = self.network.sizes[name]
        if positions == 1:
            return View(self.sources[name], size)
        return View.of(self.sources[name], np.arange(size).reshape(-1, positions))

    def _identity(self, view: View, start: int, stop: int, positions: int) -> Form[N]:
        eye = np.zeros((stop - start, view.columns + 1))
        eye[np.arange(stop - start), np.arange(start, stop)] = 1.0
        return Form((view,), self.arithmetic.exact(eye), positions)

    def combine(self, forms: list[Form[N]]) -> Form[N]:
        """The sum of forms."""
        spread = merge(self.arithmetic, *forms)
        total = spread[0].matrix
        for form in spread[1:]:
            total = total + form.matrix
        return Form(spread[0].layout, total, spread[0].positions)

    @staticmethod
    def _rows_of(form: Form[N], start: int, stop: int) -> Form[N]:
        return Form(form.layout, form.matrix[start:stop], form.positions)

    def _compute(self, node: Node, start: int, stop: int, positions: int = 1) -> Form[N]:
        op = node.op
        if isinstance(op, Mixing):
            if op.positions == positions:
                return self._mixing(node, op, start, stop)
            return self._seen(node, start, stop, positions)
        if isinstance(op, Add):
            return self.combine([self.rows(i, start, stop, positions) for i in node.inputs])
        if isinstance(op, Diagonal):
            form = self.rows(node.inputs[0], start, stop, positions)
            scaled = self._scaled(node, op, form.matrix, slice(start, stop), positions)
            return Form(form.layout, scaled, positions)
        if isinstance(op, Placement | Select):
            return self._moved(node, op, start, stop, positions)
        if isinstance(op, LiveNorm):
            return self._rows_of(self._live(node, op), start, stop)
        if isinstance(op, Activation):
            form = self.rows(node.inputs[0], start, stop, positions)
            doubt = self._doubt(node.name, start, stop, positions)
            return Form(form.layout, self._on_line(op, form.matrix, doubt), positions)
        raise UnsupportedError(
            f"node {node.name!r}: a certificate needs maps, sums and activations, but this is "
            f"{type(op).__name__}"
        )

    def centred(self, node: Node, op: LiveNorm) -> Form[N]:
        """n·P z of an inner live norm, all of its units."""
        form, n = self.form(node.inputs[0], 1), op.channels
        matrix = form.matrix.scaled(float(n))
        if op.centred:
            matrix = matrix - self.arithmetic.product(np.ones((1, n)), form.matrix)
        return Form(form.layout, matrix)

    def _live(self, node: Node, op: LiveNorm) -> Form[N]:
        """gamma∘P z/ρ + beta, a map as far as ρ is one number."""
        if node.name not in self._cache:
            form = self.centred(node, op)
            rows = form.matrix * self.scales[node.name][:, None]
            shifted = self._shifted(rows, self.arithmetic.exact(op.beta))
            self._cache[node.name] = Form(form.layout, shifted)
        return self._cache[node.name]

    def _scaled(self, node: Node, op: Diagonal, matrix: N, rows: slice, positions: int) -> N:
        """Some channels scaled and shifted."""
        scale, shift = self._channel_factors(node, op, positions)
        return self._shifted(matrix * scale[rows, None], shift[rows])

    def _on_line(self, op: Activation, matrix: N, doubt: Array) -> N:
        """An activation as its line, but for a doubt."""
        matrix = matrix.scaled(op.piece.slope)
        if not doubt.any():
            return matrix
        return self._with_last(matrix, self.arithmetic.doubted(matrix[:, -1], doubt))

    def _doubt(self, name: str, start: int, stop: int, positions: int) -> Array:
        """How far the units of rows may be from their line, known for units or for channels."""
        known = self.deviations[name]
        each = self.network.sizes[name] // len(known)
        if each == positions:
            return known[start:stop]
        units = np.repeat(known, each)[start * positions : stop * positions]
        return np.asarray(units.reshape(-1, positions).max(axis=1))

    def _channel_factors(self, node: Node, op: Diagonal, positions: int) -> tuple[N, N]:
        """`(s, t)` of each channel; refused where the pixels of a channel differ."""
        key = node.name, positions
        if key not in self._factors:
            scale, shift = self.arithmetic.factors(node.name, op)
            if positions > 1:
                s, t = (part.reshape(-1, positions) for part in op.effective())
                if np.any(s != s[:, :1]) or np.any(t != t[:, :1]):
                    raise _not_composed(node, "the pixels of a channel are scaled differently")
                first = np.arange(len(s)) * positions  # one number for each channel, and no more
                scale, shift = scale[first], shift[first]
            self._factors[key] = scale, shift
        return self._factors[key]

    def _moved(
        self, node: Node, op: Placement | Select, start: int, stop: int, positions: int
    ) -> Form[N]:
        """Units that only move: another look at a source, or other rows of a form."""
        if positions > 1:
            return self._seen(node, start, stop, positions)
        if isinstance(op, Select):
            return self.rows(node.inputs[0], op.start + start, op.start + stop)
        return self._placed(self.form(node.inputs[0], 1), op.index[start:stop])

    def _seen(self, node: Node, start: int, stop: int, positions: int) -> Form[N]:
        """Units of a source that only moved, as channels at that many positions."""
        found = self._through_places(node)
        if found is None:
            raise _not_composed(node, f"pixels of {positions} positions are themselves composed")
        source, index = found
        view = View.of(source, index.reshape(-1, positions))
        return self._identity(view, start, stop, positions)

    def _looked_through(self, name: str) -> tuple[str, Array] | None:
        """A value that only moves units of a source: the source, and where each unit comes from."""
        if name in self.sources:
            return self.sources[name], np.arange(self.network.sizes[name])
        return self._through_places(self.network.node(name))

    def _through_places(self, node: Node) -> tuple[str, Array] | None:
        """The same for the node's operation, even when its value is itself a cut: a cut must never
        be compared by a form over itself."""
        index = places(node.op)
        below = None if index is None else self._looked_through(node.inputs[0])
        if index is None or below is None:
            return None
        source, inside = below
        return source, np.where(index >= 0, inside[index], -1)

    def _convolved(self, node: Node, op: Convolution, start: int, stop: int) -> Form[N] | None:
        """A convolution of a source, in windows of it; None where its input is composed."""
        found = self._looked_through(node.inputs[0])
        if found is None:
            return None
        source, inside = found
        windows = op.geometry.windows()
        index = np.where(windows >= 0, inside[windows], -1)
        kernel = op.spread_rows(start, stop)
        view = View.of(source, index)
        if op.positions == 1 and _distinct(index):
            view, kernel = self._whole(source, index[:, 0], kernel)
        matrix = np.concatenate([kernel, op.offsets[start:stop, None]], axis=1)
        return Form((view,), self.arithmetic.exact(matrix), op.positions)

    def _whole(self, source: str, index: Array, kernel: Array) -> tuple[View, Array]:
        """A single window as a matrix on the whole source, as dense maps have it."""
        matrix = np.zeros((len(kernel), self._source_sizes[source]))
        seen = index >= 0
        matrix[:, index[seen]] = kernel[:, seen]
        return View(source, self._source_sizes[source]), matrix

    def _placed(self, form: Form[N], index: Array) -> Form[N]:
        """The rows of a form at these places, zeros where there is none."""
        rows = form.matrix[np.maximum(index, 0)]
        if np.any(index < 0):
            rows = rows * self.arithmetic.exact((index >= 0).astype(np.float64)[:, None])
        return Form(form.layout, rows)

    def _mixing(self, node: Node, op: Mixing, start: int, stop: int) -> Form[N]:
        (source,) = node.inputs
        if isinstance(op, Convolution):
            direct = self._convolved(node, op, start, stop)
            if direct is not None:
                return direct
            if not op.geometry.plain:
                raise _not_composed(node, "its windows look at values that are themselves composed")
        elif (found := self._looked_through(source)) is not None and _distinct(found[1]):
            view, weight = self._whole(*found, op.tile(start, stop))
            matrix = np.concatenate([weight, op.bias[start:stop, None]], axis=1)
            return Form((view,), self.arithmetic.exact(matrix))
        if self._wide(node):
            inner = self.form(source)
            rows = self.arithmetic.product(op.tile(start, stop), inner.matrix)
            bias = self.arithmetic.exact(op.bias[start:stop])
            return Form(inner.layout, self._shifted(rows, bias))
        if node.name not in self._cache:
            self._cache[node.name] = self._by_blocks(node, op) or self._composed(node, op)
        return self._rows_of(self._cache[node.name], start, stop)

    # --- grouped layers ------------------------------------------------------------------------

    def grouped(self, name: str) -> Grouping | None:
        """The grouped layer of a source that a value comes from, scaled and bent since."""
        while name not in self.sources:
            node = self.network.node(name)
            op = node.op
            if isinstance(op, Convolution) and op.groups > 1:
                found = self._looked_through(node.inputs[0])
                if found is None:
                    return None
                windows = op.geometry.windows()
                return Grouping(op, found[0], np.where(windows >= 0, found[1][windows], -1))
            if not isinstance(op, Diagonal | Activation) or isinstance(op, LiveNorm):
                return None
            (name,) = node.inputs
        return None

    def blocks(self, name: str, layer: Grouping, first: int, last: int) -> GroupedForm[N]:
        """Some groups of the value of a grouped layer: a row has as many columns as its group has
        inputs. Hidden layers are wide: they are never held whole."""
        index = layer.index[first * layer.seen : last * layer.seen]
        rows = slice(first * layer.height, last * layer.height)
        matrix = self._rows_of_blocks(name, rows, index.shape[1])
        return GroupedForm(layer.source, index, matrix, last - first)

    def _rows_of_blocks(self, name: str, rows: slice, positions: int) -> N:
        node = self.network.node(name)
        op = node.op
        if isinstance(op, Convolution):
            kernel = op.kernel[rows].reshape(rows.stop - rows.start, -1)
            return self.arithmetic.exact(np.column_stack([kernel, op.offsets[rows]]))
        below = self._rows_of_blocks(node.inputs[0], rows, positions)
        if isinstance(op, Diagonal):
            return self._scaled(node, op, below, rows, positions)
        assert isinstance(op, Activation)
        return self._on_line(op, below, self._doubt(name, rows.start, rows.stop, positions))

    def _by_blocks(self, node: Node, op: Mixing) -> Form[N] | None:
        """A 1×1 layer, grouped or not, behind a grouped one, n·b² products: block by block."""
        inner, groups = self.grouped(node.inputs[0]), getattr(op, "groups", 1)
        if inner is None or inner.op.groups % groups:
            return None
        weight = op.kernel if isinstance(op, Convolution) else dense(op.matrix)
        if weight.shape[1] * groups != inner.op.channels:  # it mixes positions, too
            return None
        view, columns = self._columns_of(inner)
        each = inner.op.groups // groups
        seen = columns.reshape(groups, -1)
        if any(len(np.unique(c[c >= 0])) < np.sum(c >= 0) for c in seen):
            return None
        kernel = weight.reshape(groups, -1, each, inner.height)
        rows = np.arange(kernel.shape[1])[:, None]
        block, entry = np.divmod(np.arange(each * inner.seen), inner.seen)
        zero = self.arithmetic.exact(np.zeros((kernel.shape[1], 1)))

        def of_group(i: int) -> N:
            matrix = self.blocks(node.inputs[0], inner, i * each, (i + 1) * each).matrix
            blocks = matrix[np.arange(matrix.shape[0]).reshape(each, -1)]
            made = self.arithmetic.product(kernel[i].transpose(1, 0, 2).astype(np.float64), blocks)
            constant = self.arithmetic.product(np.ones((1, each)), made[..., -1])[0]
            place = np.full(view.columns, len(block))
            place[seen[i][seen[i] >= 0]] = np.flatnonzero(seen[i] >= 0)
            wide = self.arithmetic.beside([made[block, rows, entry], zero])[:, place]
            return self.arithmetic.beside([wide, constant[:, None]])

        total = self.arithmetic.beside(list(parallel_map(of_group, range(groups))), 0)
        bias = self.arithmetic.exact(op.channel_bias)
        return Form((view,), self._shifted(total, bias), op.positions)

    def _columns_of(self, inner: Grouping) -> tuple[View, Array]:
        """The view that all blocks together have, and the column of each of their entries."""
        source, index = inner.source, inner.index
        if index.shape[1] == 1:
            return View(source, self._source_sizes[source]), index[:, 0]
        _, first, column = np.unique(index, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        kept = first[order]
        empty: Array = np.all(index[kept] < 0, axis=1)
        if empty.any():  # what fills up blocks is no column
            shifted = np.cumsum(~empty) - 1
            columns = np.where(empty[place[column.ravel()]], -1, shifted[place[column.ravel()]])
            return View.of(source, index[kept[~empty]]), columns
        return View.of(source, index[kept]), place[column.ravel()]

    def _wide(self, node: Node) -> bool:
        """Whether a map widens a narrow inner value so much that its form is too large to hold."""
        (source,) = node.inputs
        rows, inner = self.network.sizes[node.name], self.network.sizes[source]
        if source in self.sources or rows <= inner or isinstance(node.op, Convolution):
            return False
        return rows * inner * self._columns(source) > LIMITS.terms

    def _composed(self, node: Node, op: Mixing) -> Form[N]:
        """`W·(Σ A_j h_j + c) + b`, summed over blocks of the inner width."""
        total: Form[N] | None = None
        for part in parallel_map(partial(self._summand, node, op), self.spans(node.inputs[0])):
            total = part if total is None else self.combine([total, part])
        assert total is not None
        constant = self.arithmetic.exact(op.channel_bias)
        return Form(total.layout, self._shifted(total.matrix, constant), op.positions)

    def _summand(self, node: Node, op: Mixing, span: tuple[int, int]) -> Form[N]:
        """What a block of the inner width contributes."""
        block = self.block(node.inputs[0], span)
        if block.positions != op.positions:
            raise _not_composed(node, f"{op.positions} positions meet {block.positions}")
        columns = op.spread_columns(*span) if isinstance(op, Convolution) else op.columns(*span)
        return Form(block.layout, self.arithmetic.product(columns, block.matrix), op.positions)

    def _shifted(self, matrix: N, constant: N) -> N:
        """The rows with `constant` added to their last column."""
        return self._with_last(matrix, matrix[:, -1] + constant)

    def _with_last(self, matrix: N, last: N) -> N:
        return self.arithmetic.beside([matrix[:, :-1], last[:, None]])

    def _columns(self, name: str) -> int:
        """How many columns the form of a node has at most: the sizes of the sources behind it."""
        seen: dict[str, int] = {}
        todo = [name]
        while todo:
            current = todo.pop()
            op = None if current in self.sources else self.network.node(current).op
            if isinstance(op, Convolution) and not op.geometry.plain:
                seen[current] = op.summands * op.groups
            elif current in self.sources:
                seen[current] = self.network.sizes[current]
            elif current not in seen:
                seen[current] = 0
                todo.extend(self.network.node(current).inputs)
        return sum(seen.values())

    # --- long chains ----------------------------------------------------------------------------

    def _find_landings(self) -> list[str]:
        """Nodes, in order, at most 2·`depth` steps apart; maps where possible, kept in any case."""
        used, found = self.network.needed(), []
        steps = dict.fromkeys([self.network.source, *self.sources], 0)
        for node in self.network.nodes:
            if node.name in steps or node.name not in used:
                continue
            below = 1 + max(steps[i] for i in node.inputs)
            landing = below >= (LIMITS.depth if isinstance(node.op, Mixing) else 2 * LIMITS.depth)
            steps[node.name] = 0 if landing else below
            if landing:
                found.append(node.name)
        return found

    def _land(self, name: str) -> None:
        """Makes the forms of the landings before `name`, the first one first."""
        while self._landings and self._place[self._landings[0]] < self._place[name]:
            self._tick()
            landing = self._landings.pop(0)
            count = self.positions(landing)
            rows = self.network.sizes[landing] // count
            self._cache[landing] = self._compute(self.network.node(landing), 0, rows, count)


def _distinct(index: Array) -> bool:
    """Whether no unit is seen twice."""
    return len(np.unique(index[index >= 0])) == int(np.sum(index >= 0))


def places(op: Operation) -> Array | None:
    """Where each unit comes from, −1 for a zero, if the operation only moves units about."""
    if isinstance(op, Select):
        return np.arange(op.start, op.stop)
    if isinstance(op, Placement):
        return op.index
    if isinstance(op, Cast):
        return np.arange(op.units)
    if not isinstance(op, Dense | Sparse) or op.bias.any() or op.nonzeros > op.shape[0]:
        return None
    rows, columns = op.weight.nonzero()
    if len(np.unique(rows)) < len(rows) or np.any(op.weight[rows, columns] != 1):
        return None
    index = np.full(op.shape[0], -1)
    index[rows] = columns
    return index


def _not_composed(node: Node, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"node {node.name!r} ({node.op.kind}) cannot be composed with the maps before it: {why}"
    )
