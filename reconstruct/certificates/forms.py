"""A node's value as an affine function of the sources: `v = Σ_j A_j h_j + c`.

Between two cuts a network is affine: affine maps, norms, sums, selections, and those inner
activations that stay on their linear piece. Sources are the input and the values at the cuts. An
inner activation whose unit may leave the piece by d gives `act(z) = slope·z ± d`: the doubt goes
into the constant and is carried on like any other. The numbers are enclosures for the rigorous
proof and rationals for the exact one: see `arithmetic`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic

import numpy as np

from reconstruct.certificates.arithmetic import Arithmetic, N
from reconstruct.errors import UnsupportedError
from reconstruct.networks import (
    Activation,
    Add,
    Diagonal,
    Mixing,
    Network,
    Node,
    Placement,
    Select,
)
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.splitting import CHUNK

LARGE = 2**29  # terms of a product of three matrices above which the order of products matters
CHUNK_ELEMENTS = 2**22  # a block of rows of a wide layer holds at most about this many numbers
DEPTH = 32  # steps in a row after which a form is kept, so that no chain is too long to follow

Layout = tuple[tuple[str, int], ...]


@dataclass(frozen=True, eq=False)
class Form(Generic[N]):
    """Rows of `[A_1 … A_J | c]`: `layout` lists the sources with their sizes, in column order."""

    layout: Layout
    matrix: N

    @property
    def constant(self) -> N:
        return self.matrix[:, -1]

    def parts(self) -> Iterator[tuple[str, N]]:
        """The sources with their matrices A_j."""
        start = 0
        for source, size in self.layout:
            yield source, self.matrix[:, start : start + size]
            start += size


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
        own[source] if source in own else arithmetic.exact(np.zeros((rows, size)))
        for source, size in layout
    ]
    return Form(layout, arithmetic.beside([*blocks, form.matrix[:, -1:]]))


class Composites(Generic[N]):
    """The forms of a network's nodes, given where it is cut.

    `sources` maps each cut node (and the input) to the name its value goes by, so that target and
    candidate can speak of the same sources. `deviations` fills up while activity is proved: how
    far each inner activation's units may be from their line. `tick` is called on the way of long
    chains, for whoever keeps the time.
    """

    def __init__(
        self,
        network: Network,
        sources: Mapping[str, str],
        arithmetic: Arithmetic[N],
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        self.network, self.arithmetic, self._tick = network, arithmetic, tick
        self.sources = dict(sources)
        self.deviations: dict[str, Array] = {}
        self._factors: dict[str, tuple[N, N]] = {}
        self._cache: dict[str, Form[N]] = {}
        self._place = {node.name: place for place, node in enumerate(network.nodes)}
        self._landings = self._find_landings()

    def own(self, name: str) -> Form[N]:
        """The form of a node over the sources before it, even when it is itself a cut."""
        self._land(name)
        return self._compute(self.network.node(name), 0, self.network.sizes[name])

    def form(self, name: str) -> Form[N]:
        """The form of a node; a source is itself."""
        return self.rows(name, 0, self.network.sizes[name])

    def blocks(self, name: str) -> Iterator[tuple[int, Form[N]]]:
        """The form of a node in blocks of rows, each with its first row."""
        size = self.network.sizes[name]
        step = max(1, min(CHUNK, CHUNK_ELEMENTS // (self._columns(name) + 1)))
        for start in range(0, size, step):
            yield start, self.rows(name, start, min(size, start + step))

    def rows(self, name: str, start: int, stop: int) -> Form[N]:
        """Rows `start:stop` of the form of a node."""
        if name in self.sources:
            size = self.network.sizes[name]
            eye = np.zeros((stop - start, size + 1))
            eye[np.arange(stop - start), np.arange(start, stop)] = 1.0
            return Form(((self.sources[name], size),), self.arithmetic.exact(eye))
        self._land(name)
        if name in self._cache:
            return self._rows_of(self._cache[name], start, stop)
        return self._compute(self.network.node(name), start, stop)

    def combine(self, forms: list[Form[N]]) -> Form[N]:
        """The sum of forms."""
        spread = merge(self.arithmetic, *forms)
        total = spread[0].matrix
        for form in spread[1:]:
            total = total + form.matrix
        return Form(spread[0].layout, total)

    @staticmethod
    def _rows_of(form: Form[N], start: int, stop: int) -> Form[N]:
        return Form(form.layout, form.matrix[start:stop])

    def _compute(self, node: Node, start: int, stop: int) -> Form[N]:
        op = node.op
        if isinstance(op, Mixing):
            return self._mixing(node, op, start, stop)
        if isinstance(op, Add):
            return self.combine([self.rows(i, start, stop) for i in node.inputs])
        if isinstance(op, Select):
            return self.rows(node.inputs[0], op.start + start, op.start + stop)
        if isinstance(op, Diagonal):
            scale, shift = self._effective(node.name, op)
            form = self.rows(node.inputs[0], start, stop)
            matrix = form.matrix * scale[start:stop, None]
            return Form(form.layout, self._shifted(matrix, shift[start:stop]))
        if isinstance(op, Placement):
            return self._placed(self.form(node.inputs[0]), op.index[start:stop])
        if isinstance(op, Activation):
            form = self.rows(node.inputs[0], start, stop)
            matrix = form.matrix.scaled(op.piece.slope)
            doubt = self.deviations[node.name][start:stop]
            last = self.arithmetic.doubted(matrix[:, -1], doubt)
            return Form(form.layout, self._with_last(matrix, last) if doubt.any() else matrix)
        raise UnsupportedError(
            f"node {node.name!r}: a certificate needs maps, sums and activations, but this is "
            f"{type(op).__name__}"
        )

    def _placed(self, form: Form[N], index: Array) -> Form[N]:
        """The rows of a form at these places, zeros where there is none."""
        rows = form.matrix[np.maximum(index, 0)]
        if np.any(index < 0):
            rows = rows * self.arithmetic.exact((index >= 0).astype(np.float64)[:, None])
        return Form(form.layout, rows)

    def _mixing(self, node: Node, op: Mixing, start: int, stop: int) -> Form[N]:
        (source,) = node.inputs
        if source in self.sources:
            weight = op.tile(start, stop)
            matrix = np.concatenate([weight, op.bias[start:stop, None]], axis=1)
            layout = ((self.sources[source], weight.shape[1]),)
            return Form(layout, self.arithmetic.exact(matrix))
        if self._wide(node):
            inner = self.form(source)
            rows = self.arithmetic.rough(op.tile(start, stop), inner.matrix)
            bias = self.arithmetic.exact(op.bias[start:stop])
            return Form(inner.layout, self._shifted(rows, bias))
        if node.name not in self._cache:
            pivot = self._pivot(source)
            whole = self._composed(node, op) if pivot is None else self._through(pivot, node, op)
            self._cache[node.name] = whole
        return self._rows_of(self._cache[node.name], start, stop)

    def _wide(self, node: Node) -> bool:
        """Whether a map widens a narrow inner value so much that its form is too large to hold."""
        (source,) = node.inputs
        rows, inner = self.network.sizes[node.name], self.network.sizes[source]
        if source in self.sources or rows <= inner:
            return False
        return rows * inner * self._columns(source) > LARGE

    def _pivot(self, name: str) -> str | None:
        """The narrow inner value behind a wide layer, if `name` is the output of such a layer."""
        node = self.network.node(name)
        while name not in self.sources and isinstance(node.op, Diagonal | Activation):
            (name,) = node.inputs
            if name in self.sources:
                return None
            node = self.network.node(name)
        return node.inputs[0] if isinstance(node.op, Mixing) and self._wide(node) else None

    def _through(self, pivot: str, node: Node, op: Mixing) -> Form[N]:
        """The form by way of a pivot: first over the pivot, then the pivot's own form put in."""
        local = Composites(self.network, {pivot: pivot}, self.arithmetic)
        local.deviations, local._landings = self.deviations, []
        outer, inner = local._composed(node, op).matrix, self.form(pivot)
        total = self.arithmetic.times(outer[:, :-1], inner.matrix)
        return Form(inner.layout, self._shifted(total, outer[:, -1]))

    def _composed(self, node: Node, op: Mixing) -> Form[N]:
        """`W·(Σ A_j h_j + c) + b`, summed over blocks of the inner width."""
        total: Form[N] | None = None
        for start, block in self.blocks(node.inputs[0]):
            columns = op.columns(start, start + block.matrix.shape[0])
            part = Form(block.layout, self.arithmetic.product(columns, block.matrix))
            total = part if total is None else self.combine([total, part])
        assert total is not None
        return Form(total.layout, self._shifted(total.matrix, self.arithmetic.exact(op.bias)))

    def _effective(self, name: str, op: Diagonal) -> tuple[N, N]:
        if name not in self._factors:
            self._factors[name] = self.arithmetic.factors(name, op)
        return self._factors[name]

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
            if current in self.sources:
                seen[current] = self.network.sizes[current]
            elif current not in seen:
                seen[current] = 0
                todo.extend(self.network.node(current).inputs)
        return sum(seen.values())

    # --- long chains ----------------------------------------------------------------------------

    def _find_landings(self) -> list[str]:
        """Nodes, in order, at most 2·DEPTH steps apart; maps where possible, kept in any case."""
        used, found = self.network.needed(), []
        steps = dict.fromkeys([self.network.source, *self.sources], 0)
        for node in self.network.nodes:
            if node.name in steps or node.name not in used:
                continue
            below = 1 + max(steps[i] for i in node.inputs)
            landing = below >= (DEPTH if isinstance(node.op, Mixing) else 2 * DEPTH)
            steps[node.name] = 0 if landing else below
            if landing:
                found.append(node.name)
        return found

    def _land(self, name: str) -> None:
        """Makes the forms of the landings before `name`, the first one first."""
        while self._landings and self._place[self._landings[0]] < self._place[name]:
            self._tick()
            landing = self._landings.pop(0)
            whole = self._compute(self.network.node(landing), 0, self.network.sizes[landing])
            self._cache[landing] = whole
