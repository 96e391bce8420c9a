"""Bounds of every node's value on many boxes at once, in the order of the graph: intervals from
those of its inputs, (boxes, size) each, and linear bounds carried back.

Rests on proofs_check: active-relu-is-identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from reconstruct.bounds.crown import Backward, Swap, source, transfer
from reconstruct.networks import Activation, Add, Map, MatrixProduct, Network, Node, Operation, maps
from reconstruct.networks.activations import Support
from reconstruct.numbers.arrays import Array, Matrix, Range, dense
from reconstruct.progress import Progress, Step, silent

TILE_ELEMENTS = 2**19  # coefficients worked on at once: 4 MiB, so that a tile stays in cache


def image(op: Operation, *inputs: Range) -> Range:
    """Bounds of what `op` gives for inputs within their bounds: each says its own."""
    if isinstance(op, Add | MatrixProduct):
        return op.image(*inputs)
    assert isinstance(op, Map | Activation)
    return op.image(*inputs[0])


def affine(weight: Matrix, bias: Array, lo: Array, hi: Array) -> Range:
    """Bounds of `W h + b` for `lo ≤ h ≤ hi`, W dense or sparse."""
    dense_map = not hasattr(weight, "tocsr")
    made = maps.Dense.over(weight, bias) if dense_map else maps.Sparse(weight, bias)
    return made.image(lo, hi)


@dataclass(frozen=True, eq=False)
class Ranges:
    """Bounds of all values of `network` on a batch of boxes, each (boxes, size).

    `backward` is empty for interval arithmetic; otherwise it holds, for each kind of support line,
    the network seen backwards, and `functionals` takes the best of them.
    """

    network: Network
    values: Mapping[str, Range]
    backward: tuple[Backward, ...]

    @property
    def boxes(self) -> int:
        return len(self.values[self.network.source][0])

    def functionals(self, name: str, forms: Matrix, offsets: Array) -> Range:
        """Bounds of `forms·v + offsets` (rows × size, rows) on each box: (boxes, rows)."""
        lo, hi = affine(forms, offsets, *self.values[name])
        if self.backward and name != self.network.source:
            whole = dense(forms)
            both = np.concatenate([whole, -whole])[None]
            low = self.lower({name: both}, np.concatenate([offsets, -offsets])[None])
            lo = np.maximum(lo, low[:, : len(whole)])
            hi = np.minimum(hi, -low[:, len(whole) :])
        return lo, hi

    def lower(self, forms: Mapping[str, Array], offsets: Array) -> Array:
        """The best CROWN bounds of `Σ forms·v + offsets`; arguments as of `lower_bounds`."""
        best = np.maximum.reduce([seen.lower_bounds(forms, offsets) for seen in self.backward])
        return np.broadcast_to(best, (self.boxes, best.shape[1]))

    def worst_functionals(self, name: str, forms: Array, offsets: Array) -> Range:
        """Bounds of `forms·v + offsets` over all boxes together: (rows,).

        The bound over the union is the smallest of the boxes' lower bounds. Intervals give a
        quick one on every box; forms are carried back on a box only where that is below the least
        found so far, the widest boxes first.
        """
        quick, high = affine(forms, offsets, *self.values[name])
        if name == self.network.source or not self.backward:
            return quick.min(axis=0), high.max(axis=0)
        quick = np.concatenate([quick, -high], axis=1)
        rows, shifts = np.concatenate([forms, -forms]), np.concatenate([offsets, -offsets])
        low, high = self.values[name]
        with np.errstate(all="ignore"):
            order = np.argsort(-np.nan_to_num(high - low).sum(axis=1), kind="stable")
        best = np.full(len(rows), np.inf)
        for box in order.tolist():
            low = quick[box]
            for seen in self.backward:
                some = np.flatnonzero(~(low >= best))
                if len(some):
                    given = name, rows[some], shifts[some], box, best[some]
                    low[some] = np.maximum(low[some], seen.lowest_on_box(*given))
            best = np.minimum(best, low)
        return best[: len(forms)], -best[len(forms) :]


# Finds a swap for an activation's units; called when the bounds of its input are known.
Linker: TypeAlias = Callable[[Ranges, Node], Swap | None]


def propagate(
    network: Network,
    lo: Array,
    hi: Array,
    *,
    backward: bool,
    known: Mapping[str, Range] = MappingProxyType({}),
    lean: bool = False,
    supports: tuple[Support, ...] = tuple(Support),
    link: Linker | None = None,
    progress: Progress = silent,
) -> Ranges:
    """Bounds of all values for inputs in the boxes `lo ≤ x ≤ hi`, each (boxes, size_in).

    Forward through the graph: each node's interval from its inputs' bounds, cut with what is
    `known`, and, with `backward`, with the CROWN bounds of every value that an activation takes
    or that is the output. `lean` does so only for units that intervals leave in doubt about the
    activation's piece, and not for the output. `supports` are the kinds of lines tried; `link`
    may say how units of an activation hang together with units of earlier ones.
    """
    values: dict[str, Range] = {network.source: (lo, hi)}
    kinds = supports if backward else ()
    first = source(lo, hi)
    views = tuple(Backward(network, values, {network.source: first}) for _ in kinds)
    state = Ranges(network, values, views)
    bent = {n.inputs[0]: n.op for n in network.nodes if isinstance(n.op, Activation)}
    for done, node in enumerate(network.nodes):
        progress(Step("bounds of values", done, len(network.nodes)))
        bends = isinstance(node.op, Activation)
        value = image(node.op, *(values[name] for name in node.inputs))
        values[node.name] = meet(value, known[node.name]) if node.name in known else value
        swap = link(state, node) if link is not None and bends else None
        for seen, kind in zip(views, kinds, strict=True):
            seen.steps[node.name] = replace(transfer(node, values, kind), swap=swap)
        if not backward or bends:
            continue
        if node.name in bent or (node.name == network.output and not lean):
            values[node.name] = _sharpen(state, node.name, bent[node.name] if lean else None)
    return state


def merged(network: Network, batches: list[Mapping[str, Range]], backward: bool) -> Ranges:
    """The values of several batches of boxes as one."""
    values = {
        name: (
            np.concatenate([b[name][0] for b in batches]),
            np.concatenate([b[name][1] for b in batches]),
        )
        for name in network.sizes
    }
    if not backward:
        return Ranges(network, values, ())
    first = {network.source: source(*values[network.source])}
    steps = [first | {n.name: transfer(n, values, kind) for n in network.nodes} for kind in Support]
    return Ranges(network, values, tuple(Backward(network, values, one) for one in steps))


def _sharpen(state: Ranges, name: str, lean: Activation | None) -> Range:
    """The value's bounds, those of its units carried back to the input, a tile at a time; for an
    activation, of those units alone for which it is not one line."""
    lo, hi = (end.copy() for end in state.values[name])
    rows = np.arange(state.boxes)[:, None]
    marks = np.ones(lo.shape, dtype=bool) if lean is None else ~lean.straight(lo, hi)
    units = doubtful(marks)
    step = tile_rows(state.network, state.boxes)
    for start in range(0, units.shape[1], step):
        part = units[:, start : start + step]
        forms = one_each(part[:1] if lean is None else part, lo.shape[1])
        low = state.lower({name: np.concatenate([forms, -forms], axis=1)}, np.zeros((1, 1)))
        ends = low[:, : part.shape[1]], -low[:, part.shape[1] :]
        # no unit's range depends on which boxes are bounded beside it
        lo[rows, part] = np.maximum(lo[rows, part], np.where(marks[rows, part], ends[0], -np.inf))
        hi[rows, part] = np.minimum(hi[rows, part], np.where(marks[rows, part], ends[1], np.inf))
    return lo, hi


def doubtful(marks: Array) -> Array:
    """The numbers of the marked units of each box, filled up with others to one length."""
    count = int(marks.sum(axis=1).max(initial=0))
    return np.argsort(~marks, axis=1, kind="stable")[:, :count]


def one_each(units: Array, size: int) -> Array:
    """For each box a row for each of its units, 1 there and 0 elsewhere."""
    forms = np.zeros((*units.shape, size))
    np.put_along_axis(forms, units[:, :, None], 1.0, axis=2)
    return forms


def meet(first: Range, second: Range) -> Range:
    """The intersection of two pairs of bounds that both hold."""
    return np.maximum(first[0], second[0]), np.minimum(first[1], second[1])


def tile_rows(network: Network, boxes: int) -> int:
    """How many linear forms to carry back at once."""
    return max(1, TILE_ELEMENTS // (2 * boxes * max(network.sizes.values())))


def tiles(forms: Matrix, offsets: Array, rows: int) -> Iterator[tuple[slice, Array, Array]]:
    """The forms a tile of rows at a time, dense and in float64."""
    for start in range(0, forms.shape[0], rows):
        part = slice(start, min(start + rows, forms.shape[0]))
        yield part, dense(forms[part]), offsets[part]
