"""The graph form of an .npz network: the graph as JSON text, its numbers as arrays.

`graph` holds UTF-8 JSON as uint8: `{schema, size_in, source, output, nodes: [{name, op, inputs,
…}]}`. What an operation keeps as arrays, `<node>.<key>`, and what as numbers in the JSON, it says
itself (`Operation.arrays`, `Operation.settings`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError
from reconstruct.formats.limits import Budget
from reconstruct.formats.precision import rounded
from reconstruct.networks import Network, Node, Operation
from reconstruct.networks.operation import KINDS

SCHEMA = "reconstruct.network/1"
DIGITS = 18  # of whole numbers: sizes and indices fit, and no more is needed
Arrays: TypeAlias = dict[str, NDArray[Any]]


def graph_arrays(network: Network, dtype: Any = None) -> Arrays:
    """The arrays of the graph form; `dtype` None keeps every weight in its own precision."""
    arrays: Arrays = {}
    nodes = []
    for node in network.nodes:
        for key, values in node.op.arrays().items():
            kept = values if values.dtype.kind in "iu" else rounded(node.name, key, values, dtype)
            arrays[f"{node.name}.{key}"] = kept
        fields = {"name": node.name, "op": node.op.kind, "inputs": list(node.inputs)}
        nodes.append(fields | node.op.settings())
    graph = {
        "schema": SCHEMA,
        "size_in": network.size_in,
        "source": network.source,
        "output": network.output,
        "nodes": nodes,
    }
    arrays["graph"] = np.frombuffer(json.dumps(graph).encode(), dtype=np.uint8)
    return arrays


def network_from_graph(arrays: Mapping[str, NDArray[Any]], budget: Budget) -> Network:
    """The network stored in the graph form."""
    try:
        graph = parsed(arrays)
        if graph["schema"] != SCHEMA:
            raise InputError(
                f"the graph must have the schema {SCHEMA!r}, but has {graph['schema']!r}"
            )
        nodes = tuple(_node(fields, arrays) for fields in graph["nodes"])
        size, output, source = graph["size_in"], graph["output"], graph["source"]
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InputError(f"size_in must be a positive whole number, but is {size!r}")
        budget.tensor((size,), "the input")
        return Network(size, nodes, _name(output), _name(source))
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise InputError(f"the graph of the .npz network is malformed ({error!r})") from None


def parsed(arrays: Mapping[str, NDArray[Any]]) -> Any:
    """The JSON text of the graph; numbers that no float64 comes near are refused."""
    text = arrays["graph"]
    if text.dtype != np.uint8:
        raise InputError(f"the graph must be UTF-8 text as uint8, but has dtype {text.dtype}")
    try:
        return json.loads(text.tobytes().decode(), parse_float=_float, parse_int=_integer)
    except RecursionError:
        raise InputError("the graph of the .npz network is malformed (nested too deeply)") from None


def _float(literal: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise InputError(f"the number {_short(literal)} of the graph does not fit into float64")
    return value


def _integer(literal: str) -> int:
    if len(literal) > DIGITS:
        raise InputError(f"the number {_short(literal)} of the graph has more than {DIGITS} digits")
    return int(literal)


def _short(literal: str) -> str:
    return literal if len(literal) <= 24 else f"{literal[:20]}…"


def _name(value: Any) -> str:
    """A name: text that UTF-8 can write."""
    if not isinstance(value, str):
        raise InputError(f"names in the graph must be text, but one is {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"the name {value!r} of the graph is no valid text") from None
    return value


def _node(fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Node:
    rest = {k: v for k, v in fields.items() if k not in ("name", "op", "inputs")}
    name = _name(fields["name"])
    try:
        op = _operation(fields["op"], name, rest, arrays)
    except InputError as error:
        raise InputError(f"node {name!r}: {error}") from None
    return Node(name, op, tuple(_name(i) for i in fields["inputs"]))


def _operation(
    kind: Any, name: str, rest: dict[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> Operation:
    def part(key: str) -> NDArray[Any]:
        value = arrays.get(f"{name}.{key}")
        if value is None:
            raise InputError(f"the .npz network lacks the array '{name}.{key}'")
        if value.dtype.kind not in "fiu":
            raise InputError(f"array '{name}.{key}' must hold numbers, but has {value.dtype}")
        if value.dtype.kind == "f" and value.dtype.itemsize > 8:
            raise InputError(
                f"array '{name}.{key}' has {value.dtype}, which float64 cannot hold; save float64"
            )
        return value

    if kind not in KINDS:
        known = ", ".join(KINDS)
        raise InputError(f"the operation {kind!r} is unknown; known are {known}")
    for key, value in rest.items():
        _check_setting(key, value)
    return KINDS[kind](part, rest)


def _check_setting(key: str, value: Any) -> None:
    numbers = value if isinstance(value, list) else [value]
    if any(isinstance(n, bool) or not isinstance(n, int | float) or n != n for n in numbers):
        raise InputError(f"{key} must be a number, but is {value!r}")
