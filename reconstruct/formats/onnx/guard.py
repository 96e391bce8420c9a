"""The guarded model: the network with a second output that says how far it may be trusted.

If no hidden unit of a site leaves its linear piece at x, every site acts as its map at x, so f(x)
is the composition of the target's maps up to their residuals, for *any* x (proofs_check: guard).
The model's output `margin` is the least distance of a hidden unit from the end of its piece, over
units, positions and sites: at margin ≥ 0 the answer is the target's.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from reconstruct.errors import InputError
from reconstruct.formats.onnx.write import Draft, write_onnx
from reconstruct.networks import Network, Piece

MARGIN = "margin"


class WatchedUnits(Protocol):
    """The input of a hidden activation by its node, and the piece that it has to stay on."""

    @property
    def node(self) -> str: ...

    @property
    def piece(self) -> Piece: ...


def write_guarded(
    network: Network,
    watched: Sequence[WatchedUnits],
    path: str | os.PathLike[str],
    dtype: Any = np.float64,
) -> None:
    """Writes the network with the output `margin` behind its own."""

    def finish(draft: Draft) -> None:
        parts = [name for unit in watched for name in _distances(draft, unit)]
        if not parts:
            raise InputError("a guard needs hidden activations to watch, but the network has none")
        draft.node("Identity" if len(parts) == 1 else "Min", parts, MARGIN)
        draft.outputs[MARGIN] = ["N", 1]

    write_onnx(network, path, dtype, finish)


def _distances(draft: Draft, unit: WatchedUnits) -> list[str]:
    """The least distance of the unit's values from either end of the piece, (N, 1) each."""
    flat = draft.node("Flatten", [unit.node], f"{unit.node}/watched", axis=1)
    found = []
    for word, reduce, end in (
        ("low", "ReduceMin", unit.piece.lo),
        ("high", "ReduceMax", unit.piece.hi),
    ):
        if not np.isfinite(end):
            continue
        value = draft.reduced(reduce, flat, f"{unit.node}/{word}", 1)
        if word == "high" or end != 0:
            limit = draft.constant(f"{value}.end", end)
            pair = [limit, value] if word == "high" else [value, limit]
            value = draft.node("Sub", pair, f"{value}/away")
        found.append(value)
    return found
