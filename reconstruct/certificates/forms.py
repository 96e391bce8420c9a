"""A node's value as an affine function of the sources: `v = Σ_j A_j h_j + c`, enclosed.

Between two cuts a network is affine: affine maps, norms, sums, selections, and those inner
activations that stay on their linear piece. Sources are the input and the values at the cuts. An
inner activation whose unit may leave the piece by d gives `act(z) = slope·z ± d`: the doubt goes
into the radius of the constant and is carried on like any other radius.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from reconstruct.errors import UnsupportedError
from reconstruct.networks import Activation, Add, Diagonal, Mixing, Network, Node, Select
from reconstruct.numbers.double_double import UNIT, Array, Enclosure, upward
from reconstruct.numbers.splitting import CHUNK, product

LARGE = 2**29  # terms of a product of three matrices above which the order of products matters
CHUNK_ELEMENTS = 2**22  # a block of rows of a wide layer holds at most about this many numbers


@dataclass(frozen=True, eq=False)
class Form:
    """Rows of `[A_1 … A_J | c]`: `layout` lists the sources with their sizes, in column order."""

    layout: tuple[tuple[str, int], ...]
    matrix: Enclosure

    @property
    def constant(self) -> Enclosure:
        return self.matrix[:, -1]

    def parts(self) -> Iterator[tuple[str, Enclosure]]:
        """The sources with their matrices A_j."""
        start = 0
        for source, size in self.layout:
            yield source, self.matrix[:, start : start + size]
            start += size

    def spread(self, layout: tuple[tuple[str, int], ...]) -> Form:
        """The same rows over a larger layout, with zeros for sources that do not occur."""
        if layout == self.layout:
            return self
        own = dict(self.parts())
        rows = self.matrix.shape[0]
        blocks = [own.get(source, Enclosure.zeros((rows, size))) for source, size in layout]
        return Form(layout, _beside([*blocks, self.matrix[:, -1:]]))


def merge(*forms: Form) -> tuple[Form, ...]:
    """The same forms over one common layout."""
    layout = tuple(dict.fromkeys(entry for form in forms for entry in form.layout))
    return tuple(form.spread(layout) for form in forms)


def _beside(blocks: list[Enclosure]) -> Enclosure:
    high, low, radius = (
        np.concatenate([getattr(b, part) for b in blocks], axis=1)
        for part in ("high", "low", "radius")
    )
    return Enclosure(high, low, radius)


class Composites:
    """The forms of a network's nodes, given where it is cut.

    `sources` maps each cut node (and the input) to the name its value goes by, so that target and
    candidate can speak of the same sources. `deviations` fills up while activity is proved: how
    far each inner activation's units may be from their line.
    """

    def __init__(self, network: Network, sources: Mapping[str, str]) -> None:
        self.network = network
        self.sources = dict(sources)
        self.deviations: dict[str, Array] = {}
        self._nodes = {node.name: node for node in network.nodes}
        self._norms: dict[str, tuple[Enclosure, Enclosure]] = {}
        self._cache: dict[str, Form] = {}

    def own(self, name: str) -> Form:
        """The form of a node over the sources before it, even when it is itself a cut."""
        return self._compute(self._nodes[name], 0, self.network.sizes[name])

    def form(self, name: str) -> Form:
        """The form of a node; a source is itself."""
        return self.rows(name, 0, self.network.sizes[name])

    def blocks(self, name: str) -> Iterator[tuple[int, Form]]:
        """The form of a node in blocks of rows, each with its first row."""
        size = self.network.sizes[name]
        step = max(1, min(CHUNK, CHUNK_ELEMENTS // (self._columns(name) + 1)))
        for start in range(0, size, step):
            yield start, self.rows(name, start, min(size, start + step))

    def rows(self, name: str, start: int, stop: int) -> Form:
        """Rows `start:stop` of the form of a node."""
        if name in self.sources:
            size = self.network.sizes[name]
            eye = np.zeros((stop - start, size + 1))
            eye[np.arange(stop - start), np.arange(start, stop)] = 1.0
            return Form(((self.sources[name], size),), Enclosure.exact(eye))
        return self._compute(self._nodes[name], start, stop)

    def _compute(self, node: Node, start: int, stop: int) -> Form:
        op = node.op
        if isinstance(op, Mixing):
            return self._mixing(node, op, start, stop)
        if isinstance(op, Diagonal):
            scale, shift = self._effective(node.name, op)
            form = self.rows(node.inputs[0], start, stop)
            matrix = form.matrix * scale[start:stop, None]
            return Form(form.layout, _with_constant(matrix, shift[start:stop]))
        if isinstance(op, Add):
            forms = merge(*(self.rows(i, start, stop) for i in node.inputs))
            total = forms[0].matrix
            for form in forms[1:]:
                total = total + form.matrix
            return Form(forms[0].layout, total)
        if isinstance(op, Select):
            return self.rows(node.inputs[0], op.start + start, op.start + stop)
        if isinstance(op, Activation):
            form = self.rows(node.inputs[0], start, stop)
            matrix = form.matrix.scaled(op.piece.slope)
            doubt = self.deviations[node.name][start:stop]
            return Form(form.layout, _with_doubt(matrix, doubt))
        raise UnsupportedError(
            f"node {node.name!r}: a certificate needs maps, sums and activations, but this is "
            f"{type(op).__name__}"
        )

    def _mixing(self, node: Node, op: Mixing, start: int, stop: int) -> Form:
        (source,) = node.inputs
        if source in self.sources:
            weight = op.tile(start, stop)
            matrix = np.concatenate([weight, op.bias[start:stop, None]], axis=1)
            return Form(((self.sources[source], weight.shape[1]),), Enclosure.exact(matrix))
        if self._wide(node):
            return self._rough(op, self.form(source), start, stop)
        if node.name not in self._cache:
            pivot = self._pivot(source)
            whole = self._composed(node, op) if pivot is None else self._through(pivot, node, op)
            self._cache[node.name] = whole
        whole = self._cache[node.name]
        return Form(whole.layout, whole.matrix[start:stop])

    def _wide(self, node: Node) -> bool:
        """Whether a map widens a narrow inner value so much that its form is too large to hold."""
        (source,) = node.inputs
        rows, inner = self.network.sizes[node.name], self.network.sizes[source]
        if source in self.sources or rows <= inner:
            return False
        return rows * inner * self._columns(source) > LARGE

    def _pivot(self, name: str) -> str | None:
        """The narrow inner value behind a wide layer, if `name` is the output of such a layer."""
        node = self._nodes[name]
        while name not in self.sources and isinstance(node.op, Diagonal | Activation):
            (name,) = node.inputs
            if name in self.sources:
                return None
            node = self._nodes[name]
        return node.inputs[0] if isinstance(node.op, Mixing) and self._wide(node) else None

    def _through(self, pivot: str, node: Node, op: Mixing) -> Form:
        """The form by way of a pivot: first over the pivot, then the pivot's own form put in."""
        local = Composites(self.network, {pivot: pivot})
        local.deviations = self.deviations
        outer, inner = local._composed(node, op).matrix, self.form(pivot)
        total = _times(outer[:, :-1], inner.matrix)
        return Form(inner.layout, _with_constant(total, outer[:, -1]))

    def _rough(self, op: Mixing, inner: Form, start: int, stop: int) -> Form:
        """Rows of `W·(Σ A_j h_j + c) + b` in plain floats, γ_n|W||A| in the radius: good enough
        to see that units are active; residuals go by way of the pivot."""
        weight = op.tile(start, stop)
        middle = weight @ inner.matrix.high
        size = np.abs(weight) @ np.abs(inner.matrix.high)
        doubt = np.abs(weight) @ (np.abs(inner.matrix.low) + inner.matrix.radius)
        radius = upward(doubt + (weight.shape[1] + 4) * 2 * UNIT * size)
        rows = Enclosure(middle, np.zeros_like(middle), radius)
        bias = Enclosure.exact(op.bias[start:stop])
        return Form(inner.layout, _with_constant(rows, bias))

    def _composed(self, node: Node, op: Mixing) -> Form:
        """`W·(Σ A_j h_j + c) + b`, summed over blocks of the inner width."""
        total: Form | None = None
        for start, block in self.blocks(node.inputs[0]):
            columns = op.columns(start, start + block.matrix.shape[0])
            part = Form(block.layout, product(columns, block.matrix))
            if total is None:
                total = part
            else:
                total, part = merge(total, part)
                total = Form(total.layout, total.matrix + part.matrix)
        assert total is not None
        return Form(total.layout, _with_constant(total.matrix, Enclosure.exact(op.bias)))

    def _effective(self, name: str, op: Diagonal) -> tuple[Enclosure, Enclosure]:
        if name not in self._norms:
            self._norms[name] = op.enclosed()
        return self._norms[name]

    def _columns(self, name: str) -> int:
        """How many columns the form of a node has at most: the sizes of the sources behind it."""
        seen: dict[str, int] = {}
        todo = [name]
        while todo:
            current = todo.pop()
            if current in self.sources:
                seen[current] = self.network.sizes[current]
            elif current not in seen:
                seen[current] = 0
                todo.extend(self._nodes[current].inputs)
        return sum(seen.values())


def _times(left: Enclosure, right: Enclosure) -> Enclosure:
    """The matrix product of two enclosures."""
    total = product(left.high, right) + product(left.low, right)
    return total.widened(left.radius @ right.magnitude()) if left.radius.any() else total


def _with_constant(matrix: Enclosure, constant: Enclosure) -> Enclosure:
    """The rows with `constant` added to their last column."""
    last = matrix[:, -1] + constant
    return _replaced_last(matrix, last)


def _with_doubt(matrix: Enclosure, doubt: Array) -> Enclosure:
    """The rows with `doubt` added to the radius of their last column."""
    return _replaced_last(matrix, matrix[:, -1].widened(doubt)) if doubt.any() else matrix


def _replaced_last(matrix: Enclosure, last: Enclosure) -> Enclosure:
    return _beside([matrix[:, :-1], last[:, None]])
