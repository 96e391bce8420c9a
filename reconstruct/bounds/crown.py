"""CROWN: linear bounds carried back to the input, with their own rounding counted.

To bound `Λ·v` from below, v the value of a node on a box, the node is replaced by its inputs as
its `Transfer` says, until only the network's input x is left, of which the box is known. An
upper bound of `A·v` is minus the lower bound of `−A·v`.

Rests on proofs_check: back-substitution.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reconstruct.bounds.transfers import Swap, Transfer, dot, pick
from reconstruct.networks.graph import Network
from reconstruct.networks.maps import Affine
from reconstruct.numbers.arrays import Array, Range
from reconstruct.numbers.rounding import SLACK, TINY, UNIT, down, magnitude, up


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
    pending[name] = form * swap.keep
    for other, matrix in swap.moves:
        moved = Affine(matrix).pull(form, matrix.shape[1])
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
    error = dot(np.abs(total), (2.0 * UNIT) * reach) * SLACK
    return down(const - up(error + 4 * reach.shape[1] * TINY))
