"""A value of a network as an exact affine form `v = Σ_j A_j h_j + c` of the cuts before it.

Between two cuts a network is affine, inner activations being lines but for what they are doubted.
Forms are composed node by node; those of hidden layers a block of rows at a time, blocks side by
side.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm

import numpy as np

from proofs_check.certificates.arithmetic import CHUNK, Floats, exact
from proofs_check.certificates.bends import Bend
from proofs_check.certificates.columns import BITS, Column, RationalNorm, columns_of
from proofs_check.certificates.form import Form, stacked
from proofs_check.certificates.pixels import Pixels
from proofs_check.certificates.report import NotCheckable
from proofs_check.certificates.rows import Block, Rows
from proofs_check.certificates.threads import side_by_side
from proofs_check.certificates.views import View, kernel_of
from reconstruct.networks import Convolution, Network, Node
from reconstruct.networks.activations import Unitwise
from reconstruct.networks.maps import Diagonal, Mixing, Placement, Select
from reconstruct.networks.sums import Add

TILE = 2**22  # entries of a map that are held at once
MOST_WORK = 2**37  # products of one composition: about half an hour


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

            def product(span: tuple[int, int]) -> Form:
                block = self.block(inside, *span, positions)
                _require_bearable(node, op, block)
                return _product(op, block, slice(*span))

            for part in side_by_side(product, self.blocks(inside, positions)):
                total = total.plus(part)
            self._held[key] = total
        return self._held[key].part(start, stop)

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
        if positions > 1 and self.pixels is not None and isinstance(op, Convolution):
            view = self.pixels.window(node.name, op)
            weight = None if view is None else kernel_of(op, start, stop)
        elif inside in self.sources:
            weight = op.tile(start, stop)
            view = View(self.sources[inside], weight.shape[1])
        if view is None or weight is None:
            return None
        bias = op.channel_bias if positions > 1 else op.bias
        return view, np.column_stack([weight, bias[start:stop]])


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
