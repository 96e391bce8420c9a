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
from reconstruct.formats.onnx.model import import_onnx
from reconstruct.formats.onnx.write import write_onnx
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
    onnx, kind = import_onnx("writing ONNX files"), np.dtype(dtype)

    def finish(model: Any) -> None:
        graph, axes = model.graph, ""
        if model.opset_import[0].version >= 18:  # from there on axes are an input
            axes = f"{MARGIN}.axes"
            graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), axes))
        parts = [name for unit in watched for name in _distances(onnx, graph, unit, kind, axes)]
        if not parts:
            raise InputError("a guard needs hidden activations to watch, but the network has none")
        least = "Identity" if len(parts) == 1 else "Min"
        graph.node.append(onnx.helper.make_node(least, parts, [MARGIN], name=MARGIN))
        number = onnx.helper.np_dtype_to_tensor_dtype(kind)
        graph.output.append(onnx.helper.make_tensor_value_info(MARGIN, number, ["N", 1]))

    write_onnx(network, path, dtype, finish)


def _distances(onnx: Any, graph: Any, unit: WatchedUnits, kind: Any, axes: str) -> list[str]:
    """The least distance of the unit's values from either end of the piece, (N, 1) each."""

    def node(op: str, inputs: list[str], name: str, **attributes: Any) -> str:
        graph.node.append(onnx.helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    flat = node("Flatten", [unit.node], f"{unit.node}/watched", axis=1)
    found = []
    for word, reduce, end in (
        ("low", "ReduceMin", unit.piece.lo),
        ("high", "ReduceMax", unit.piece.hi),
    ):
        if not np.isfinite(end):
            continue
        given, settings = ([flat, axes], {}) if axes else ([flat], {"axes": [1]})
        value = node(reduce, given, f"{unit.node}/{word}", keepdims=1, **settings)
        if word == "high" or end != 0:
            limit = f"{value}.end"
            graph.initializer.append(onnx.numpy_helper.from_array(np.array([end], kind), limit))
            pair = [limit, value] if word == "high" else [value, limit]
            value = node("Sub", pair, f"{value}/away")
        found.append(value)
    return found
