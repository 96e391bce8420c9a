"""The graph form of an .npz network: the graph as JSON text, its numbers as arrays.

`graph` holds UTF-8 JSON as uint8: `{schema, size_in, source, output, nodes: [{name, op, inputs,
…}]}`. A node's arrays are `<node>.weight` and `<node>.bias` (a CSR weight is `<node>.weight.data`,
`.indices`, `.indptr` with its shape in the JSON); a norm has `<node>.weight` (gamma), `.bias`
(beta), `.running_mean` and `.running_var`, with `eps` in the JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError
from reconstruct.formats.precision import rounded
from reconstruct.networks import Network, Node, Operation
from reconstruct.networks.operation import KINDS

SCHEMA = "reconstruct.network/1"
Arrays: TypeAlias = dict[str, NDArray[Any]]


def graph_arrays(network: Network, dtype: Any = None) -> Arrays:
    """The arrays of the graph form; `dtype` None keeps every weight in its own precision."""
    arrays: Arrays = {}
    nodes = []
    for node in network.nodes:
        fields = _op_fields(node, arrays, dtype)
        nodes.append({"name": node.name, "op": node.op.kind, "inputs": list(node.inputs)} | fields)
    graph = {
        "schema": SCHEMA,
        "size_in": network.size_in,
        "source": network.source,
        "output": network.output,
        "nodes": nodes,
    }
    arrays["graph"] = np.frombuffer(json.dumps(graph).encode(), dtype=np.uint8)
    return arrays


def _op_fields(node: Node, arrays: Arrays, dtype: Any) -> dict[str, Any]:
    for key, values in node.op.arrays().items():
        kept = values.dtype.kind == "f"
        arrays[f"{node.name}.{key}"] = rounded(node.name, key, values, dtype) if kept else values
    return node.op.settings()


def network_from_graph(arrays: Mapping[str, NDArray[Any]]) -> Network:
    """The network stored in the graph form."""
    try:
        graph = json.loads(arrays["graph"].astype(np.uint8).tobytes().decode())
        if graph["schema"] != SCHEMA:
            raise InputError(
                f"the graph must have the schema {SCHEMA!r}, but has {graph['schema']!r}"
            )
        nodes = tuple(_node(fields, arrays) for fields in graph["nodes"])
        size, output, source = graph["size_in"], graph["output"], graph["source"]
        if not isinstance(size, int) or size < 1:
            raise InputError(f"size_in must be a positive whole number, but is {size!r}")
        return Network(size, nodes, output, source)
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"the graph of the .npz network is malformed ({error!r})") from None


def _node(fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Node:
    rest = {k: v for k, v in fields.items() if k not in ("name", "op", "inputs")}
    name = fields["name"]
    try:
        op = _op(fields["op"], name, rest, arrays)
    except InputError as error:
        raise InputError(f"node {name!r}: {error}") from None
    return Node(name, op, tuple(fields["inputs"]))


def _op(
    kind: str, name: str, rest: dict[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> Operation:
    def part(key: str) -> NDArray[Any]:
        value = arrays.get(f"{name}.{key}")
        if value is None:
            raise InputError(f"the .npz network lacks the array '{name}.{key}'")
        if value.dtype.kind not in "fiu":
            raise InputError(f"array '{name}.{key}' must hold numbers, but has {value.dtype}")
        return value

    if kind not in KINDS:
        raise InputError(f"the operation {kind!r} is unknown; known are {', '.join(KINDS)}")
    return KINDS[kind](part, {k: _setting(k, v) for k, v in rest.items()})


def _setting(key: str, value: Any) -> Any:
    return (
        [_number(key, item) for item in value] if isinstance(value, list) else _number(key, value)
    )


def _number(key: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise InputError(f"{key} must be a number, but is {value!r}")
    return value
