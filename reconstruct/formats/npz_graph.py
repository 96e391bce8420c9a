"""The graph form of an .npz network: the graph as JSON text, its numbers as arrays.

`graph` holds UTF-8 JSON as uint8: `{schema, size_in, source, output, nodes: [{name, op, inputs,
…}]}`. A node's arrays are `<node>.weight` and `<node>.bias` (a CSR weight is `<node>.weight.data`,
`.indices`, `.indptr` with its shape in the JSON); a norm has `<node>.weight` (gamma), `.bias`
(beta), `.running_mean` and `.running_var`, with `eps` in the JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from reconstruct.errors import InputError
from reconstruct.formats.precision import rounded
from reconstruct.networks import ACTIVATIONS, Add, Affine, Network, Node, Norm, Op, Select

SCHEMA = "reconstruct.network/1"
Arrays: TypeAlias = dict[str, NDArray[Any]]
SIMPLE: dict[str, Any] = {kind.__name__: kind for kind in (Add, Select, *ACTIVATIONS)}
NORM_KEYS = ("weight", "bias", "running_mean", "running_var")


def graph_arrays(network: Network, dtype: Any = None) -> Arrays:
    """The arrays of the graph form; `dtype` None keeps every weight in its own precision."""
    arrays: Arrays = {}
    nodes = []
    for node in network.nodes:
        fields = _op_fields(node, arrays, dtype)
        kind = type(node.op).__name__
        nodes.append({"name": node.name, "op": kind, "inputs": list(node.inputs)} | fields)
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
    op, name = node.op, node.name
    if isinstance(op, Affine):
        arrays[f"{name}.bias"] = rounded(name, "bias", op.bias, dtype)
        if not sparse.issparse(op.weight):
            arrays[f"{name}.weight"] = rounded(name, "weight", op.weight, dtype)
            return {}
        for part in ("indices", "indptr"):
            arrays[f"{name}.weight.{part}"] = getattr(op.weight, part)
        arrays[f"{name}.weight.data"] = rounded(name, "weight", op.weight.data, dtype)
        return {"shape": [int(n) for n in op.weight.shape]}
    if isinstance(op, Norm):
        values = (op.gamma, op.beta, op.mean, op.var)
        for key, value in zip(NORM_KEYS, values, strict=True):
            arrays[f"{name}.{key}"] = rounded(name, key, value, dtype)
        return {"eps": op.eps}
    return asdict(op)


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


def _op(kind: str, name: str, rest: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Op:
    def part(key: str) -> NDArray[Any]:
        value = arrays.get(f"{name}.{key}")
        if value is None:
            raise InputError(f"the .npz network lacks the array '{name}.{key}'")
        if value.dtype.kind not in "fiu":
            raise InputError(f"array '{name}.{key}' must hold numbers, but has {value.dtype}")
        return value

    if kind == "Affine":
        return Affine(
            _csr(part, rest["shape"]) if "shape" in rest else part("weight"), part("bias")
        )
    if kind == "Norm":
        gamma, beta, mean, var = (part(key) for key in NORM_KEYS)
        return Norm(gamma, beta, mean, var, float(rest["eps"]))
    if kind not in SIMPLE:
        known = ", ".join(["Affine", "Norm", *SIMPLE])
        raise InputError(f"the operation {kind!r} is unknown; known are {known}")
    op: Op = SIMPLE[kind](**{k: _number(k, v) for k, v in rest.items()})
    return op


def _csr(part: Any, shape: list[int]) -> Any:
    triplet = (part("weight.data"), part("weight.indices"), part("weight.indptr"))
    matrix = sparse.csr_array(triplet, shape=tuple(shape))
    matrix.check_format(full_check=True)
    return matrix


def _number(key: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise InputError(f"{key} must be a number, but is {value!r}")
    return value
