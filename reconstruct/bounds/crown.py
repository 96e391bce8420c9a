"""CROWN: linear bounds carried back to the input, with their own rounding counted.

To bound `Λ·v` from below, v the value of a node on a box, the node is replaced by its inputs as
its `Transfer` says, until only the network's input x is left, of which the box is known. An
upper bound of `A·v` is minus the lower bound of `−A·v`.

Rests on proofs_check: back-substitution.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reconstruct.bounds.transfers import Swap, Transfer, dot, pick, source
from reconstruct.networks.activations import Activation
from reconstruct.networks.graph import Network
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.rounding import SLACK, UNIT, down, magnitude, up


def lower_bounds(
    network: Network,
    forms: Mapping[str, Array],
    offsets: Array,
    transfers: Mapping[str, Transfer],
    ranges: Mapping[str, Range],
    boxes: Array | None = None,
) -> Array:
    """Lower bounds of `Σ forms[name]·v_name + offsets`: (boxes, rows).

    Each of `forms` is (1 or boxes, rows, size), `offsets` (1 or boxes, rows). With `boxes`, an
    array of indices, entry i of the batch is taken on box `boxes[i]`.
    """
    form, const = carry_back(network, forms, offsets, transfers, ranges, boxes)
    return on_source(form, const, _on(transfers[network.source], boxes))


def on_source(form: Array, const: Array, box: Transfer) -> Array:
    """The least value of `form·x + const` on the box; what is not finite bounds nothing: −inf."""
    with np.errstate(all="ignore"):
        low = box.constant(form, const)
    return np.where(np.isfinite(low) & np.isfinite(form).all(axis=-1), low, -np.inf)


def carry_back(
    network: Network,
    forms: Mapping[str, Array],
    offsets: Array,
    transfers: Mapping[str, Transfer],
    ranges: Mapping[str, Range],
    boxes: Array | None = None,
) -> tuple[Array, Array]:
    """`(form, const)` with `Σ forms·v + offsets ≥ form·x + const` for every input x of the box.

    Coefficients that meet at a node with several consumers are added; each sum errs by u
    relative, which costs u·|C|·|value|.
    """
    pending = dict(forms)
    const = offsets
    with np.errstate(all="ignore"):
        for node in reversed(network.nodes):
            if node.name not in pending:
                continue
            form = pending.pop(node.name)
            step = _on(transfers[node.name], boxes)
            if step.swap is not None:
                form, const = _swap(step.swap, node.name, form, const, pending, ranges, boxes)
            const = step.constant(form, const)
            pulled = step.pull(form)
            for origin in node.inputs:
                const = _collect(pending, origin, pulled, const, ranges[origin], boxes)
    return pending[network.source], const


def lowest_on_box(
    network: Network,
    name: str,
    form: Array,
    offsets: Array,
    transfers: Mapping[str, Transfer],
    ranges: Mapping[str, Range],
    box: int,
    enough: Array,
) -> Array:
    """Lower bounds of `form·v + offsets` (rows, size) on one box, v the value `name`: (rows,).

    Behind every map the ranges of what is left are put in, which bounds a row already; a row that
    reaches `enough` so is not followed any further. Of thousands of rows nearly all end after one
    or two maps, because other boxes are worse.
    """
    boxes, rows = np.array([box]), np.arange(len(form))
    pending, const, low = {name: form[None]}, offsets[None], np.full(len(form), -np.inf)
    with np.errstate(all="ignore"):
        for node in reversed(network.nodes):
            if node.name not in pending:
                continue
            coefficients = pending.pop(node.name)
            step = transfers[node.name].take(boxes)
            const = step.constant(coefficients, const)
            pulled = step.pull(coefficients)
            for origin in node.inputs:
                const = _collect(pending, origin, pulled, const, ranges[origin], boxes)
            if isinstance(node.op, Activation) and set(pending) != {network.source}:
                continue  # the map before it says much more
            bound = const
            for other, waiting in pending.items():
                lo, hi = ranges[other]
                bound = on_source(waiting, bound, source(lo[boxes], hi[boxes]))
            low[rows] = np.maximum(low[rows], bound[0])
            open_rows = bound[0] < enough[rows]
            if not open_rows.any():
                break
            if not open_rows.all():
                rows, const = rows[open_rows], const[:, open_rows]
                pending = {other: c[:, open_rows] for other, c in pending.items()}
    return low


def _on(step: Transfer, boxes: Array | None) -> Transfer:
    return step if boxes is None else step.take(boxes)


def _swap(
    swap: Swap,
    name: str,
    form: Array,
    const: Array,
    pending: dict[str, Array],
    ranges: Mapping[str, Range],
    boxes: Array | None,
) -> tuple[Array, Array]:
    """Hands the coefficients of swapped units on; returns those that stay, and the constant."""
    const = swap.constants.constant(form, const)
    pending[name] = form * swap.keep[:, None]
    for other, moved in swap.moved(form):
        const = _collect(pending, other, moved, const, ranges[other], boxes)
    return pending.pop(name), const


def _collect(
    pending: dict[str, Array],
    name: str,
    form: Array,
    const: Array,
    value: Range,
    boxes: Array | None,
) -> Array:
    """Adds coefficients to what waits at a node; returns the constant less the sum's rounding."""
    if name not in pending:
        pending[name] = form
        return const
    total = pending[name] + form
    pending[name] = total
    reach = magnitude(*value)
    reach = reach if boxes is None else pick(reach, boxes)
    # u·reach would underflow where values are tiny, and coefficients may make it large again; what
    # underflows here is below u·n·η, or below η: `up` adds that
    error = dot(np.abs(total), reach) * (2.0 * UNIT * SLACK)
    return down(const - up(error))
