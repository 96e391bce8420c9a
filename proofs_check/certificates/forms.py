"""A value of a network as an exact affine form `v = Σ_j A_j h_j + c` of the cuts before it.

Between two cuts a network is affine, inner activations being lines but for what they are doubted.
Forms are composed node by node; those of hidden layers a block of rows at a time, blocks side by
side.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import lcm

import numpy as np

from proofs_check.certificates.arithmetic import CHUNK, Floats, exact
from proofs_check.certificates.bends import Bend
from proofs_check.certificates.columns import BITS, Column, RationalNorm, columns_of
from proofs_check.certificates.form import Form, stacked
from proofs_check.certificates.pixels import Pixels
from proofs_check.certificates.report import NotCheckable
from proofs_check.certificates.rows import Block, Narrow, Rows, spread
from proofs_check.certificates.threads import side_by_side
from proofs_check.certificates.views import Places, View, kernel_of
from reconstruct.networks import Convolution, LiveNorm, Network, Node
from reconstruct.networks.activations import Unitwise
from reconstruct.networks.maps import Diagonal, Mixing, Placement, Select
from reconstruct.networks.operation import Add

TILE = 2**22  # entries of a map that are held at once
GROUPED = 512  # rows of a grouped layer, about: each has zeros for all that the others see
MOST_WORK = 2**37  # products of one composition: about half an hour


class Forms:
    """The forms of a network's nodes over its sources (`sources`: node name → shared name).

    Without `kernels` every row is one unit, on images too.
    """

    chunk = CHUNK

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
        self.scales: dict[str, Column] = {}  # of inner live norms: gamma/(n·ρ), as far as known
        self.bends: dict[str, Bend] = {}
        self.pixels = Pixels(network, sources) if kernels else None
        self.narrow: Narrow = {}  # what some groups see, in all that their layer sees
        self._seen: dict[str, tuple[View, View, Places] | None] = {}
        self._held: dict[tuple[str, int], Form] = {}
        self._columns: dict[tuple[str, int], tuple[Column, Column]] = {}

    @cached_property
    def looks(self) -> Pixels:
        """What grouped maps look at, rows being units or not."""
        return self.pixels or Pixels(self.network, self.sources)

    def bend(self, node: Node) -> Bend:
        """The meaning of an activation."""
        if node.name not in self.bends:
            assert isinstance(node.op, Unitwise)
            self.bends[node.name] = Bend(node.op)
        return self.bends[node.name]

    def positions(self, name: str) -> int:
        """At how many positions the rows of a node's form stand."""
        return 1 if self.pixels is None else self.pixels.positions(name) or 1

    def blocks(
        self, name: str, positions: int, start: int = 0, stop: int | None = None
    ) -> list[tuple[int, int]]:
        """Spans of rows to look at together: of a grouped layer few groups, for the columns of a
        span are all that its groups see."""
        stop = self.network.sizes[name] // positions if stop is None else stop
        node, step = self.nodes.get(name), self.chunk
        while node and node.name not in self.sources and isinstance(node.op, Diagonal | Unitwise):
            node = self.nodes.get(node.inputs[0])
        op = None if node is None or node.name in self.sources else node.op
        if isinstance(op, Convolution) and op.groups > 1:
            each = op.channels // op.groups
            step = each * max(1, GROUPED // each)
        return [(at, min(stop, at + step)) for at in range(start, stop, step)]

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

    def block(self, name: str, start: int, stop: int, positions: int) -> Block:
        """The same for rows of which only floats and products are wanted, as a rule."""
        found = self._plainly(name, start, stop) if positions == 1 else None
        return self.rows(name, start, stop, positions) if found is None else found

    def _plainly(self, name: str, start: int, stop: int) -> Rows | None:
        """The rows of a map that acts on a source, scaled, shifted and taken as lines since."""
        node = None if name in self.sources else self.nodes.get(name)
        if node is None:
            return None
        op = node.op
        if isinstance(op, Mixing):
            direct = self._entries(node, op, start, stop, 1)
            return None if direct is None else Rows.of(*direct)
        if not isinstance(op, Diagonal | Unitwise):
            return None
        below = self._plainly(node.inputs[0], start, stop)
        if below is None:
            return None
        if isinstance(op, Diagonal):
            scale, shift = self._diagonal(name, op, 1)
            return below.scaled(scale.part(start, stop)).shifted(shift.part(start, stop))
        slope, doubt = op.piece.slope, self.doubts[name][start:stop]
        below = below if slope == 1 else below.scaled(Column.of_floats(np.full(len(doubt), slope)))
        return below.shifted(Column.doubt(doubt)) if doubt.any() else below

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
        if isinstance(op, LiveNorm):
            key = name, 1
            if key not in self._held:
                scaled = self.centred(node, op).scaled(self.scales[name])
                self._held[key] = scaled.shifted(Column.of_floats(op.beta))
            return self._held[key].part(start, stop)
        form = self.rows(node.inputs[0], start, stop, positions)
        if isinstance(op, Add):
            for other in node.inputs[1:]:
                form = form.plus(self.rows(other, start, stop, positions))
            return form
        if isinstance(op, Diagonal):
            scale, shift = self._diagonal(name, op, positions)
            return form.scaled(scale.part(start, stop)).shifted(shift.part(start, stop))
        if isinstance(op, Unitwise):
            slope = op.piece.slope
            line = form if slope == 1 else form.scaled(Column.of_floats(np.full(form.rows, slope)))
            doubt = self.doubts[name].reshape(-1, positions).max(axis=1)[start:stop]
            return line.shifted(Column.doubt(doubt)) if doubt.any() else line
        raise NotCheckable(f"{name!r}: {type(op).__name__} is not an operation the checker knows")

    def centred(self, node: Node, op: LiveNorm) -> Form:
        """n·P z of a live norm, all of its units."""
        form, n = self.whole(node.inputs[0]), op.channels
        scaled = form.scaled(Column.of_floats(np.full(n, float(n))))
        if not op.centred:
            return scaled
        return scaled.minus(form.mixed(np.ones((1, n))).take(np.zeros(n, dtype=np.intp)))

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
        grouped = isinstance(op, Convolution) and op.groups > 1 and op.geometry.plain
        if key not in self._held and grouped and positions == op.positions:
            assert isinstance(op, Convolution)
            self._held[key] = self._group_by_group(node, op, positions)
        if key not in self._held:
            total = Form.constant(op.channel_bias if positions > 1 else op.bias, positions)

            def product(span: tuple[int, int]) -> Form:
                block = self.block(inside, *span, positions)
                _require_bearable(node, op, block)
                return spread(_product(op, block, slice(*span)), self.narrow)

            for part in side_by_side(product, self.blocks(inside, positions)):
                total = total.plus(part)
            self._held[key] = total
        return self._held[key].part(start, stop)

    def _group_by_group(self, node: Node, op: Convolution, positions: int) -> Form:
        """A grouped map of channels: the outputs of a group see inputs of their own."""
        kernel = np.asarray(op.kernel, dtype=np.float64).reshape(op.groups, -1, op.kernel.shape[1])
        rows, inputs = kernel.shape[1:]

        def group(number: int) -> Form:
            bias = op.channel_bias[number * rows : (number + 1) * rows]
            total, first = Form.constant(bias, positions), number * inputs
            for span in self.blocks(node.inputs[0], positions, first, first + inputs):
                block = self.block(node.inputs[0], *span, positions)
                weight = kernel[number, :, span[0] - first : span[1] - first]
                total = total.plus(spread(block.mixed(weight), self.narrow))
            return total

        parts = list(side_by_side(group, range(op.groups)))
        unit = lcm(*(part.unit for part in parts))
        layout = tuple(dict.fromkeys(view for part in parts for view in part.layout))
        return stacked([part.over(layout, unit) for part in parts])

    def _direct(self, node: Node, op: Mixing, start: int, stop: int, positions: int) -> Form | None:
        found = self._entries(node, op, start, stop, positions)
        if found is None:
            return None
        view, rows = found
        return Form((view,), *exact(rows), np.zeros(rows.shape), positions)

    def _entries(
        self, node: Node, op: Mixing, start: int, stop: int, positions: int
    ) -> tuple[View, Floats] | None:
        """The map itself where it acts on a source, or its kernel where that looks at one."""
        (inside,) = node.inputs
        view, weight = None, None
        grouped = None
        if isinstance(op, Convolution) and op.groups > 1 and positions == op.positions:
            grouped = self._of_groups(node, op, start, stop)
        if grouped is not None:
            view, weight = grouped
        elif positions > 1 and self.pixels is not None and isinstance(op, Convolution):
            view = self.pixels.window(node.name, op)
            weight = None if view is None else kernel_of(op, start, stop)
        elif inside in self.sources:
            weight = op.tile(start, stop)
            view = View(self.sources[inside], weight.shape[1])
        if view is None or weight is None:
            return None
        bias = op.channel_bias if positions > 1 else op.bias
        return view, np.column_stack([weight, bias[start:stop]])

    def _of_groups(
        self, node: Node, op: Convolution, start: int, stop: int
    ) -> tuple[View, Floats] | None:
        """Rows of a grouped map over what their groups see of a source; None where it is composed.

        Where two groups see one place, and for all rows together, columns are all that the map
        sees, each place once: so maps are compared, however their groups lie.
        """
        if self.network.source not in self.sources:  # as where a network is evaluated at a point
            return None
        if node.name not in self._seen:
            window = self.looks.window(node.name, op)
            self._seen[node.name] = None if window is None else (window, *_distinct(window, self))
        found = self._seen[node.name]
        if found is None:
            return None
        window, whole, places = found
        each, seen = op.channels // op.groups, window.columns // op.groups
        first, last = start // each, -(-stop // each)
        rows = kernel_of(op.only(first, last))[start - first * each : stop - first * each]
        part = slice(first * seen, last * seen)
        if _apart(places[part]) and last - first < op.groups:
            assert window.index is not None
            view = View.of(window.source, window.index[part])
            self.narrow[view] = whole, places[part]
            return view, rows
        if not all(_apart(places[g * seen : (g + 1) * seen]) for g in range(first, last)):
            return None
        full = np.zeros((len(rows), whole.columns))
        for row, entries in enumerate(rows):
            own = slice((start + row) // each * seen, ((start + row) // each + 1) * seen)
            there = places[own] >= 0
            local = entries[own.start - part.start : own.stop - part.start]
            full[row, places[own][there]] = local[there]
        return whole, full


def _distinct(window: View, forms: Forms) -> tuple[View, Places]:
    """All that a window looks at, each place once and in the order of its first column, and the
    place of every column in it, −1 for what is filled up by zeros."""
    index = window.index
    assert index is not None
    if index.shape[1] == 1:
        (name,) = (n for n, known in forms.sources.items() if known == window.source)
        return View(window.source, forms.network.sizes[name]), index[:, 0]
    _, first, column = np.unique(index, axis=0, return_index=True, return_inverse=True)
    kept = [place for place in np.sort(first) if (index[place] >= 0).any()] or [0]
    number = {place: at for at, place in enumerate(kept)}
    places = np.array([number.get(first[c], -1) for c in column.ravel()])
    return View.of(window.source, index[kept]), places


def _apart(places: Places) -> bool:
    kept = places[places >= 0]
    return len(np.unique(kept)) == len(kept)


def _require_bearable(node: Node, op: Mixing, block: Block) -> None:
    """Refuse what would take hours: what cannot be composed by kernels is composed unrolled."""
    m, n = op.shape if block.positions == 1 else (op.channels, op.shape[1] // block.positions)
    k = block.width
    if m * n * k > MOST_WORK:
        raise NotCheckable(
            f"{node.name!r} is composed of {m} × {n} × {k} products, which is more than the "
            f"checker's {MOST_WORK:.0e}"
        )


def _product(op: Mixing, block: Block, columns: slice) -> Form:
    """The columns of a map times a block of its inputs, a tile of rows at a time."""
    if block.positions > 1 and isinstance(op, Convolution):
        weight = kernel_of(op)[:, columns]
    else:
        weight = np.asarray(op.columns(columns.start, columns.stop), dtype=np.float64)
    step = max(1, TILE // weight.shape[1])
    parts = [block.mixed(weight[start : start + step]) for start in range(0, len(weight), step)]
    unit = lcm(*(part.unit for part in parts))
    return stacked([part.over(part.layout, unit) for part in parts])
