"""Networks in .npz: W1, b1, W2, …, or the graph form, which is JSON and arrays `<node>.<key>`."""

from __future__ import annotations

import io
import json
import math
import zipfile

import numpy as np
from numpy.lib import format as npy

from proofs_check.reader.plain import NotPlain, Values
from reconstruct.networks import Network, Node
from reconstruct.networks.operation import KINDS

MOST = 2**32  # bytes that a file may unpack to here


def read_npz(content: bytes) -> Network:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        keys = [member.filename.removesuffix(".npy") for member in members]
        if sum(m.file_size for m in members) > MOST or len(set(keys)) < len(keys):
            raise NotPlain("too large, or a key twice")
        if not {m.compress_type for m in members} <= {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise NotPlain("compressed as numpy does not")
        arrays = {k: _npy(archive.read(m)) for k, m in zip(keys, members, strict=True)}
    if "graph" in arrays:
        return _graph_form(arrays)
    count = sum(key.startswith("W") for key in arrays)
    names = [f"{letter}{i}" for i in range(1, count + 1) for letter in "Wb"]
    if not set(arrays) <= {*names, "final_relu"} or any(f"{n}" not in arrays for n in names[::2]):
        raise NotPlain("keys other than W1, b1, W2, …")
    ends = np.asarray(arrays.get("final_relu", False))
    if ends.size != 1 or ends.dtype != np.bool_:
        raise NotPlain("final_relu is not true or false")
    floats = {k: _floats(v) for k, v in arrays.items() if k != "final_relu"}
    if any(floats[k].ndim != (2 if k[0] == "W" else 1) for k in floats):
        raise NotPlain("a weight is a matrix, a bias a vector")
    return Network.mlp(
        [floats[n] for n in names[::2]],
        [floats.get(n) for n in names[1::2]],
        final_activation=bool(ends.reshape(())),
    )


def _npy(content: bytes) -> Values:
    file = io.BytesIO(content)
    if npy.read_magic(file) != (1, 0):
        raise NotPlain("another version of the .npy format")
    shape, fortran, dtype = npy.read_array_header_1_0(file)
    data = content[file.tell() :]
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(data):
        raise NotPlain("an array that is not the numbers that its header states")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def _floats(array: Values) -> Values:
    if array.dtype not in (np.float32, np.float64):
        raise NotPlain(f"numbers in {array.dtype}")
    return array


def _graph_form(arrays: dict[str, Values]) -> Network:
    """The graph form: JSON, and arrays `<node>.<key>`."""

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len(dict(pairs)) < len(pairs):
            raise NotPlain("a name twice in one object")
        return dict(pairs)

    graph = json.loads(arrays["graph"].tobytes(), object_pairs_hook=unique)
    if graph["schema"] != "reconstruct.network/1" or arrays["graph"].dtype != np.uint8:
        raise NotPlain("another schema")
    nodes = []
    for fields in graph["nodes"]:
        name, kind, inputs = (fields.pop(key) for key in ("name", "op", "inputs"))
        for value in fields.values():
            if any(type(n) not in (int, float) for n in np.array(value, object).ravel()):
                raise NotPlain("a setting that is not a number")

        def part(key: str, name: str = name) -> Values:
            found = arrays[f"{name}.{key}"]
            return found if found.dtype.kind in "iu" else _floats(found)

        nodes.append(Node(name, KINDS[kind](part, fields), tuple(inputs)))
    if type(graph["size_in"]) is not int:
        raise NotPlain("size_in is not a whole number")
    return Network(graph["size_in"], tuple(nodes), graph["output"], graph["source"])
