"""Affine pieces, exactly: a value of a network as `Σ_j A_j h_j + c` over the cuts before it.

[A_1 … A_J | c] is a matrix of integers over one denominator, and nothing of it is rounded. Two
things are not rational, a norm's scale γ/√(v+ε) in general and the doubt about an activation that
may leave its line; both go into `radius`, a matrix of floats rounded up, and into nothing else.

On images rows are channels, the same at each of P positions, and a column looks at one unit for
each position: so a composed convolution is one small matrix, however many pixels there are. A layer
that is not the same at every position is taken unit by unit, P = 1. Columns that look alike are one
column, in an order of their own: so maps are compared, whatever moved or grouped their units.

Forms are composed node by node; those of hidden layers a block of rows at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TypeVar

import numpy as np

from proofs_check.certificates.activations import Bend
from proofs_check.certificates.arithmetic import (
    CHUNK,
    Digits,
    Floats,
    Whole,
    above,
    carried,
    dot,
    exact,
    short_product,
    side_by_side,
)
from proofs_check.certificates.rationals import (
    BITS,
    Places,
    RationalNorm,
    Rationals,
    columns_of,
    common_unit,
    plain,
)
from proofs_check.certificates.report import NotCheckable
from reconstruct.networks import Convolution, LiveNorm, Network, Node
from reconstruct.networks.activations import Unitwise
from reconstruct.networks.maps import Cast, Diagonal, Mixing, Norm, Placement, Scaling, Select
from reconstruct.networks.operation import Add

MOST_WORK = 2**37  # products of one composition: about half an hour
BLOCK = 2**14  # units whose scales are looked at together
GROUPED = 2**14  # rows of a grouped layer to a block, about: its columns are all that they see
ANY = 0  # as many positions as one likes: a source, or units of it that were moved
Made = TypeVar("Made")
SMALL = 2**11  # units up to which what only moved is taken unit by unit


# --- what columns look at -------------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """Units of a source: `index` (columns × positions) says where each column looks, −1 for a zero.
    Two views are equal if they look alike."""

    source: str
    token: bytes
    index: Places = field(compare=False, repr=False)

    @classmethod
    def of(cls, source: str, index: Places) -> View:
        places = np.ascontiguousarray(index, dtype=np.int64)
        token = hashlib.sha256(repr(places.shape).encode() + places.tobytes()).digest()
        return cls(source, token, places)

    @property
    def columns(self) -> int:
        return int(self.index.shape[-2])

    def met(self, values: Floats) -> Floats:
        """What the columns meet of numbers of the source's units: (columns, positions)."""
        return np.where(self.index >= 0, values[self.index], 0.0)

    def within(self, other: View) -> Places:
        """The columns of another view that look as these do."""
        place = {row.tobytes(): number for number, row in enumerate(other.index)}
        return np.array([place[row.tobytes()] for row in self.index], dtype=np.int64)


Layout = tuple[View, ...]


def _joined(first: Layout, second: Layout) -> Layout:
    """One view for each source, of all the columns of both."""
    found = {view.source: view for view in first}
    for view in second:
        mine = found.setdefault(view.source, view)
        if mine != view:
            index = np.unique(np.concatenate([mine.index, view.index]), axis=0)
            found[view.source] = View.of(view.source, index)
    return tuple(found.values())


def windows(op: Convolution) -> Places:
    """Where each entry of a kernel looks, (c_in·kh·kw) × positions: output (y, x) of entry
    (c, i, j) meets the pixel (y·stride + i·dilation − pad, …) of channel c, or a zero outside."""
    g = op.geometry
    rows = _along(g.height, g.kernel[0], g.strides[0], g.dilations[0], g.pads[0], g.pads[2])
    columns = _along(g.width, g.kernel[1], g.strides[1], g.dilations[1], g.pads[1], g.pads[3])
    y, x = rows[:, None, :, None], columns[None, :, None, :]
    flat = np.where((y >= 0) & (x >= 0), y * g.width + x, -1)
    flat = flat.reshape(-1, rows.shape[1] * x.shape[3])
    channels = np.arange(g.channels)[:, None, None] * (g.height * g.width)
    return np.where(flat >= 0, flat + channels, -1).reshape(-1, flat.shape[1])


def _along(size: int, kernel: int, stride: int, dilation: int, first: int, last: int) -> Places:
    """Along one axis: where kernel entry i looks at output p, −1 for a pad."""
    outputs = (size + first + last - dilation * (kernel - 1) - 1) // stride + 1
    place = np.arange(outputs) * stride + np.arange(kernel)[:, None] * dilation - first
    return np.where((place >= 0) & (place < size), place, -1)


# --- forms ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Form(Rationals):
    """Rows of [A_1 … A_J | c]: `layout` says what the columns look at, in their order, one view for
    each source. Each row stands for `positions` units. Rows of a grouped map may come in `groups`
    that have columns of their own, (groups, columns, positions) of one source, to be mixed."""

    layout: Layout = ()
    positions: int = 1
    groups: int = 1

    @classmethod
    def over_source(cls, source: str, index: Places, matrix: Floats) -> Form:
        """Rows of floats, the constant last, over columns that look there."""
        whole, unit = exact(matrix)
        return cls.merged(source, index, whole.digits, unit, np.zeros(matrix.shape))

    @classmethod
    def merged(cls, source: str, index: Places, digits: Digits, unit: int, radius: Floats) -> Form:
        """Columns that look there, the constant last: those that look alike are added up, and those
        that look at nothing left out."""
        seen, first, place = np.unique(index, axis=0, return_index=True, return_inverse=True)
        start, last = int(len(seen) > 0 and (seen[0] < 0).all()), len(index)
        if len(seen) == last:
            columns = np.append(first[start:], last)
            digits, radius = digits[:, :, columns], radius[:, columns]
        else:
            columns = np.append(place.ravel(), len(seen))
            total = np.zeros((len(seen) + 1, *digits.shape[:2]), dtype=np.int64)
            np.add.at(total, columns, digits.transpose(2, 0, 1))
            digits = carried(np.ascontiguousarray(total[start:].transpose(1, 2, 0)))
            doubt = np.zeros((len(seen) + 1, len(radius)))
            np.add.at(doubt, columns, radius.T)
            radius = above(doubt[start:].T * (1 + last * 2.0**-51)) * (doubt[start:].T > 0)
        layout = (View.of(source, seen[start:]),) if len(seen) > start else ()
        return cls(Whole(digits), unit, radius, layout, index.shape[1])

    def parts(self) -> list[tuple[View, slice]]:
        """The columns of each view; the constant is the last column."""
        ends = np.cumsum([0, *(view.columns for view in self.layout)]).tolist()
        return [(v, slice(*ends[i : i + 2])) for i, v in enumerate(self.layout)]

    def columns(self, part: slice) -> Rationals:
        """Some of the columns, as numbers."""
        return Rationals(self.whole.part(slice(None), part), self.unit, self.radius[:, part])

    def over(self, layout: Layout, unit: int) -> Form:
        """The same rows with more columns (zeros) and a multiple of the denominator."""
        whole = self.whole.scaled(unit // self.unit)
        if layout == self.layout:
            return replace(self, whole=whole, unit=unit)
        goal = replace(self, layout=layout).parts()
        start = {view.source: (view, part.start) for view, part in goal}
        moved = [start[v.source][1] + v.within(start[v.source][0]) for v in self.layout]
        last = sum(view.columns for view in layout)
        columns = np.concatenate([*moved, [last]]).astype(np.int64)
        digits = np.zeros((len(whole.digits), self.rows, last + 1), dtype=np.int64)
        radius = np.zeros((self.rows, last + 1))
        digits[:, :, columns], radius[:, columns] = whole.digits, self.radius
        return Form(Whole(digits), unit, radius, layout, self.positions)

    def plus(self, other: Form) -> Form:
        """The sum over the columns of both."""
        if self.positions != other.positions:
            raise NotCheckable(f"{self.positions} and {other.positions} positions are added")
        layout, unit = _joined(self.layout, other.layout), common_unit(self, other)
        return super(Form, self.over(layout, unit)).plus(other.over(layout, unit))

    def mixed(self, matrix: Rationals) -> Form:
        """`matrix @ self`; of groups the sum over all of them."""
        if self.groups == 1:
            return super().mixed(matrix)
        if matrix.radius.any():
            raise NotCheckable("groups are mixed by numbers that are known alone")
        (view,), rows, width = self.layout, matrix.rows, self.radius.shape[1]
        each = self.rows // self.groups
        left = matrix.whole.digits.reshape(-1, rows, self.groups, each).swapaxes(1, 2)
        right = self.whole.digits.reshape(-1, self.groups, each, width)
        digits = carried(short_product(left, right)).swapaxes(1, 2)
        doubt = np.zeros((rows, self.groups, width))
        if self.radius.any():
            sizes = matrix.largest().reshape(rows, self.groups, each).swapaxes(0, 1)
            doubt = dot(sizes, self.radius.reshape(self.groups, each, width)).swapaxes(0, 1)
        flat = [
            np.append(
                part[..., :-1].reshape(*part.shape[:-2], -1),
                part[..., -1].sum(-1, keepdims=True),
                -1,
            )
            for part in (digits, doubt)
        ]
        index = view.index.reshape(-1, self.positions)
        radius = flat[1] * (1 + self.groups * 2.0**-51)
        return Form.merged(view.source, index, carried(flat[0]), matrix.unit * self.unit, radius)

    def shifted(self, column: Rationals) -> Form:
        """Each row plus its own constant."""
        return self.plus(Form(column.whole, column.unit, column.radius, positions=self.positions))

    def at(self, values: Mapping[str, Rationals]) -> Rationals:
        """What the rows are of these columns of values, a unit for each row and position."""
        ones = Rationals.of(np.ones((1, self.positions)))
        total = ones.mixed(self.columns(slice(-1, None)))
        for view, part in self.parts():
            met = values[view.source].placed(view.index.ravel())
            met = met.reshaped(*view.index.shape)
            total = total.plus(met.mixed(self.columns(part)))
        return total.reshaped(self.rows * self.positions, 1)


def stacked(parts: list[Form]) -> Form:
    """Forms one below the other."""
    if len(parts) == 1:
        return parts[0]
    layout, unit = reduce(_joined, (p.layout for p in parts)), common_unit(*parts)
    found = [part.over(layout, unit) for part in parts]
    length = max(len(part.whole.digits) for part in found)
    longer = [
        np.pad(part.whole.digits, ((0, length - len(part.whole.digits)), (0, 0), (0, 0)))
        for part in found
    ]
    radius = np.concatenate([part.radius for part in found])
    return replace(found[0], whole=Whole(carried(np.concatenate(longer, axis=1))), radius=radius)


# --- composition ----------------------------------------------------------------------------------


class Forms:
    """The forms of a network's nodes over its sources (`sources`: node name → shared name)."""

    def __init__(
        self,
        network: Network,
        sources: Mapping[str, str],
        norms: Mapping[str, RationalNorm] | None = None,
        bits: int = BITS,
        chunk: int = CHUNK,
    ) -> None:
        self.network, self.sources, self.bits, self.chunk = network, sources, bits, chunk
        self.norms = norms or {}  # rational gammas and betas in place of the file's
        self.nodes: dict[str, Node] = {node.name: node for node in network.nodes}
        self.doubts: dict[str, Floats] = {}  # per inner activation: how far from its line
        self.scales: dict[str, Rationals] = {}  # of inner live norms: gamma/(n·ρ), as far as known
        self.bends: dict[str, Bend] = {}
        self._held: dict[tuple[str, int], Form] = {}
        self._plain: dict[str, bool] = {}
        self._columns: dict[tuple[str, int], tuple[Rationals, Rationals]] = {}
        self._windows: dict[str, Places] = {}
        self._moved: dict[str, tuple[str, Places] | None] = {}
        self._positions: dict[str, int] = {}
        for node in network.nodes:  # in their order, so that no chain is too long
            self._moved[node.name] = self._find_moved(node)
            self._positions[node.name] = self._find_positions(node)

    def bend(self, node: Node) -> Bend:
        """The meaning of an activation."""
        if node.name not in self.bends:
            assert isinstance(node.op, Unitwise)
            self.bends[node.name] = Bend(node.op)
        return self.bends[node.name]

    def inner(self) -> list[Node]:
        """The activations between the sources."""
        acting = (node for node in self.network.nodes if isinstance(node.op, Unitwise))
        return [node for node in acting if node.name not in self.sources]

    def forget(self) -> None:
        """What was composed is given up: behind a cut nobody looks at it again, as a rule."""
        self._held.clear()
        self._columns.clear()
        self._windows.clear()

    # --- at how many positions ------------------------------------------------------------------

    def positions(self, name: str) -> int:
        """At how many positions the rows of a node's form stand."""
        return self.stands(name) or 1

    def stands(self, name: str) -> int:
        """The same; ANY for what only moved."""
        return ANY if name in self.sources else self._positions.get(name, 1)

    def own_positions(self, name: str) -> int:
        """The positions of a node's own form over what it takes, though it is a source itself."""
        return self._positions[name] or 1

    def _looked(self, name: str) -> tuple[str, Places] | None:
        """A source, and where in it each unit of a value comes from that only moves units."""
        if name in self.sources:
            return self.sources[name], np.arange(self.network.sizes[name])
        return self._moved.get(name)

    def _find_moved(self, node: Node) -> tuple[str, Places] | None:
        op = node.op
        found = self._looked(node.inputs[0]) if isinstance(op, Cast | Select | Placement) else None
        if found is None or isinstance(op, Cast):
            return found
        source, index = found
        if isinstance(op, Select):
            return source, index[op.start : op.stop]
        assert isinstance(op, Placement)
        return source, np.where(op.index >= 0, index[op.index], -1)

    def _find_positions(self, node: Node) -> int:
        op = node.op
        if self._moved[node.name] is not None:
            return ANY
        counts = [self.stands(name) for name in node.inputs]
        if isinstance(op, Convolution):
            inside = counts[0] == ANY or (op.geometry.plain and counts[0] == op.positions)
            return op.positions if inside else 1
        if isinstance(op, Add):
            return common(counts, 1)
        if isinstance(op, Diagonal):
            return counts[0] if counts[0] > 1 and alike(op, counts[0]) else 1
        return counts[0] or 1 if isinstance(op, Unitwise) else 1

    # --- rows -----------------------------------------------------------------------------------

    def whole(self, name: str, positions: int = 1) -> Form:
        return self.rows(name, 0, self.network.sizes[name] // positions, positions)

    def own(self, node: Node, positions: int = 1) -> Form:
        """The form of a node over the sources before it, though it is a cut itself."""
        return self._computed(node, 0, self.network.sizes[node.name] // positions, positions)

    def blocks(
        self, name: str, positions: int, start: int = 0, stop: int | None = None
    ) -> list[tuple[int, int]]:
        """Spans of rows to look at together: of a grouped layer few groups."""
        stop = self.network.sizes[name] // positions if stop is None else stop
        op, step = self.grouped(name), self.chunk
        if op is not None:
            each = op.channels // op.groups
            step = each * max(1, GROUPED // each)
        return [(at, min(stop, at + step)) for at in range(start, stop, step)]

    def each_block(self, name: str, function: Callable[[Form], Made]) -> list[Made]:
        """What a function makes of the rows of a value, block by block, side by side."""
        positions = self.positions(name)
        spans = self.blocks(name, positions)
        return list(side_by_side(lambda s: function(self.rows(name, *s, positions)), spans))

    def grouped(self, name: str) -> Convolution | None:
        """The grouped map that a value comes from, scaled and shifted since, if it is one."""
        while name in self.nodes and name not in self.sources:
            op = self.nodes[name].op
            if isinstance(op, Convolution) and op.groups > 1:
                return op
            if not isinstance(op, Diagonal | Unitwise):
                break
            (name,) = self.nodes[name].inputs
        return None

    def rows(
        self, name: str, start: int, stop: int, positions: int = 1, grouped: bool = False
    ) -> Form:
        """Rows of a node's form, each at that many positions; a source is itself. `grouped` rows
        may have columns of their own: they have to be mixed."""
        found = self._looked(name)
        if found is None:
            return self._computed(self.nodes[name], start, stop, positions, grouped)
        source, index = found
        eye = np.eye(stop - start, stop - start + 1)
        return Form.over_source(source, index.reshape(-1, positions)[start:stop], eye)

    def _computed(
        self, node: Node, start: int, stop: int, positions: int, grouped: bool = False
    ) -> Form:
        """The same from what the node takes."""
        name, op = node.name, node.op
        if isinstance(op, Mixing):
            return self._mixing(node, op, start, stop, positions, grouped)
        if isinstance(op, Select | Placement) and positions > 1:
            raise NotCheckable(f"{name!r} moves pixels of a composed value")
        if isinstance(op, Select):
            return self.rows(node.inputs[0], op.start + start, op.start + stop)
        if isinstance(op, Placement):
            return self.whole(node.inputs[0]).placed(op.index[start:stop])
        if isinstance(op, LiveNorm):
            if (name, 1) not in self._held:
                scaled = self.centred(node, op).scaled(self.scales[name])
                self._held[name, 1] = scaled.shifted(Rationals.of(op.beta))
            return self._held[name, 1].part(start, stop)
        grouped = grouped and isinstance(op, Diagonal | Unitwise)
        form = self.rows(node.inputs[0], start, stop, positions, grouped)
        if isinstance(op, Add):
            for other in node.inputs[1:]:
                form = form.plus(self.rows(other, start, stop, positions))
            return form
        if isinstance(op, Diagonal):
            scale, shift = self.diagonal(name, op, positions, start, stop)
            form = form.scaled(scale)  # what it was is given up
            return form.shifted(shift)
        if isinstance(op, Unitwise):
            slope = self.bend(node).slope
            line = form if slope == 1 else form.scaled(Rationals.of(np.full(form.rows, slope)))
            doubt = self.doubts[name].reshape(-1, positions)[start:stop].max(axis=1)
            return line.shifted(Rationals.of(np.zeros(len(doubt)), doubt)) if doubt.any() else line
        raise NotCheckable(f"{name!r}: {type(op).__name__} is not an operation the checker knows")

    def centred(self, node: Node, op: LiveNorm) -> Form:
        """n·P z of a live norm, all of its units."""
        form, n = self.whole(node.inputs[0]), op.channels
        scaled = form.scaled(Rationals.of(np.full(n, float(n))))
        if not op.centred:
            return scaled
        return scaled.minus(
            form.mixed(Rationals.of(np.ones((1, n)))).placed(np.zeros(n, dtype=np.int64))
        )

    def diagonal(
        self, name: str, op: Diagonal, positions: int = 1, start: int = 0, stop: int | None = None
    ) -> tuple[Rationals, Rationals]:
        """Rows of `(s, t)` of a node that scales and shifts, found once where the file does not
        have them as they are."""
        key = name, positions
        stop = self.network.sizes[name] // positions if stop is None else stop
        if isinstance(op, Norm) and name not in self.norms:
            if name not in self._plain:
                self._plain[name] = plain(op)
            if self._plain[name]:
                at = np.arange(start, stop) // (op.positions // positions)
                return Rationals.of(op.gamma[at]), Rationals.of(op.beta[at])
        if key not in self._columns:
            self._columns[key] = columns_of(op, self.norms.get(name), self.bits, positions)
        scale, shift = self._columns[key]
        return scale.part(start, stop), shift.part(start, stop)

    def factors(self, name: str, op: Diagonal) -> list[Floats]:
        """The same in floats, for each unit: s, what it may be off by, t, what it may be off by."""
        each = op.positions if isinstance(op, Norm) else 1
        count, found = self.network.sizes[name] // each, []
        for start in range(0, count, BLOCK):
            columns = self.diagonal(name, op, each, start, min(count, start + BLOCK))
            found.append([part[:, 0] for column in columns for part in column.floats()])
        return [np.repeat(np.concatenate(parts), each) for parts in zip(*found, strict=True)]

    def _mixing(
        self, node: Node, op: Mixing, start: int, stop: int, positions: int, grouped: bool
    ) -> Form:
        found = self._looked(node.inputs[0])
        kernels = isinstance(op, Convolution) and positions == op.positions
        if found is not None and kernels:
            assert isinstance(op, Convolution)
            if node.name not in self._windows:
                places = windows(op)
                self._windows[node.name] = np.where(places >= 0, found[1][places], -1)
            return of_windows(op, found[0], self._windows[node.name], start, stop, grouped)
        if found is not None and positions == 1:
            source, index = found
            bias = np.asarray(op.bias[start:stop], dtype=np.float64)
            return Form.over_source(
                source, index[:, None], np.column_stack([op.tile(start, stop), bias])
            )
        key = node.name, positions
        if key not in self._held:
            self._held[key] = self._composed(node, op, positions)
        return self._held[key].part(start, stop)

    def _composed(self, node: Node, op: Mixing, positions: int) -> Form:
        """A map of composed values; a grouped one group by group: each has inputs of its own."""
        (inside,), groups, bias = node.inputs, 1, op.bias
        kernel = None
        if isinstance(op, Convolution) and positions == op.positions and op.geometry.plain:
            groups, bias = op.groups, op.channel_bias
            kernel = op.kernel.reshape(len(bias), -1)
        inputs = self.network.sizes[inside] // positions // groups
        rows = len(bias) // groups

        def product(span: tuple[int, int]) -> Form:
            group, first = span[0] // inputs, span[0] // inputs * inputs
            if kernel is None:
                weight = op.columns(*span)
            else:
                part = slice(group * rows, (group + 1) * rows)
                weight = kernel[part, span[0] - first : span[1] - first]
            form = self.rows(inside, *span, positions, grouped=True)
            if len(weight) * inputs * form.radius.shape[1] > MOST_WORK:
                raise NotCheckable(
                    f"{node.name!r} is composed of {len(weight)} × {inputs} × "
                    f"{form.radius.shape[1]} products, more than the checker's {MOST_WORK:.0e}"
                )
            return form.mixed(Rationals.of(weight))

        parts = []
        for group in range(groups):
            total = replace(Form.of(bias[group * rows : (group + 1) * rows]), positions=positions)
            spans = self.blocks(inside, positions, group * inputs, (group + 1) * inputs)
            for form in side_by_side(product, spans):
                total = total.plus(form)
            parts.append(total)
        return stacked(parts)


def of_windows(
    op: Convolution, source: str, places: Places, start: int, stop: int, grouped: bool = False
) -> Form:
    """Channels of a convolution of a source: their kernels over what their groups see of it."""
    kernel = np.asarray(op.kernel[start:stop], dtype=np.float64).reshape(stop - start, -1)
    each, seen, bias = op.channels // op.groups, kernel.shape[1], op.channel_bias[start:stop]
    group = np.arange(start, stop) // each
    first, last = int(group[0]), int(group[-1]) + 1
    index = places[first * seen : last * seen]
    if grouped and each <= CHUNK and last - first > 1 and len(kernel) == each * (last - first):
        view = View.of(source, index.reshape(last - first, seen, -1))
        whole, unit = exact(np.column_stack([kernel, bias]))
        radius = np.zeros(whole.shape)
        return Form(whole, unit, radius, (view,), index.shape[1], last - first)
    matrix = np.zeros((len(kernel), (last - first) * seen + 1))
    np.put_along_axis(matrix, ((group - first) * seen)[:, None] + np.arange(seen), kernel, axis=1)
    matrix[:, -1] = bias
    return Form.over_source(source, index, matrix)


def alike(op: Diagonal, positions: int) -> bool:
    """Whether the units of a channel are all scaled and shifted alike."""
    if isinstance(op, Norm):
        return op.positions == positions
    if not isinstance(op, Scaling):
        return isinstance(op, Cast)
    parts = (np.asarray(part).reshape(-1, positions) for part in (op.factor, op.divisor, op.offset))
    return all(bool((part == part[:, :1]).all()) for part in parts)


def runs(op: Scaling) -> int:
    """The longest run of neighbours by which a scaling is made of channels, 1 where it is not."""
    parts = np.stack([np.asarray(part) for part in (op.factor, op.divisor, op.offset)])
    differ = np.flatnonzero((parts != parts[:, :1]).any(axis=0))
    length = int(differ[0]) if len(differ) else parts.shape[1]
    return length if parts.shape[1] % length == 0 and alike(op, length) else 1


def common(counts: list[int], size: int) -> int:
    """The positions at which values of one `size` are compared or added."""
    known = {count for count in counts if count != ANY}
    if not known:
        return 1 if size <= SMALL else size
    return known.pop() if len(known) == 1 else 1
