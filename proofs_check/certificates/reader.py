"""The checker's own reader: plain networks in .onnx and .npz, by no code of `reconstruct.formats`.

Whoever misreads a file misreads it for certifier and checker alike, as long as both read with one
program. So what `run` writes, and plain Gemm, MatMul, Conv, Add, Relu, BatchNormalization and pool
targets, are read here a second time, from the bytes on: protobuf's wire format, ONNX's operators,
zip members. Names and merging (a constant that is added to a product is its bias) are as in the
other reader, because a certificate speaks of nodes by name; where the two differ in meaning, the
certificate's claims do not follow. Everything else raises `NotPlain`: the shared reader reads it,
and the acceptance says so.

Field numbers are those of onnx.proto; operators are read in the sets 7 to 21.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from proofs_check.certificates.arithmetic import Floats
from reconstruct.errors import InputError
from reconstruct.networks import (
    Add,
    Affine,
    Cast,
    Clip,
    Convolution,
    Dense,
    Geometry,
    MaxPool,
    Network,
    Node,
    Norm,
    Operation,
    Placement,
    Relu,
    Scaling,
    Select,
    SumPool,
)
from reconstruct.networks.operation import KINDS

MOST = 2**32  # bytes that a file may unpack to here
DENSE = 2**18  # entries up to which moves of units are matrices
TYPES = {1: "<f4", 7: "<i8", 11: "<f8"}
CASTS = {10: 11, 16: 8}  # float16 and bfloat16, with their binary digits
Shape = tuple[int, ...]
Flow = tuple[str, Shape]  # the node that makes a value, and the shape in which the file has it
Values = npt.NDArray[np.generic]  # a tensor of the file, in its own type
Field = int | memoryview  # of protobuf's wire format
Fields = dict[int, list[Field]]
Attribute = int | float | str | list[int] | memoryview
T = TypeVar("T", int, float, str, list[int], memoryview)


class NotPlain(Exception):
    """The file is not one of those that are read here."""


def read_plain(path: Path) -> Network:
    """The network in a plain .onnx or .npz file, with the hashes of its bytes in `metadata`."""
    kind = path.suffix.lower()
    if kind not in (".onnx", ".npz"):
        raise NotPlain(f"{kind} files are read by the shared reader")
    content = path.read_bytes()
    told: dict[str, object] = {"sha256": hashlib.sha256(content).hexdigest()}
    try:
        if kind == ".npz":
            network = _npz(content)
        else:
            network = _Graph(content, path.parent, told).network()
    except (InputError, ValueError, TypeError, KeyError, IndexError, EOFError) as error:
        raise NotPlain(str(error)) from None
    except (struct.error, zipfile.BadZipFile, zlib.error, RuntimeError, OverflowError) as error:
        raise NotPlain(str(error)) from None
    return Network(network.size_in, network.nodes, network.output, network.source, told)


# --- .npz -----------------------------------------------------------------------------------------


def _npz(content: bytes) -> Network:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        keys = [member.filename.removesuffix(".npy") for member in members]
        if sum(m.file_size for m in members) > MOST or len(set(keys)) < len(keys):
            raise NotPlain("too large, or a key twice")
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


# --- protobuf's wire format -----------------------------------------------------------------------


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value & (2**64 - 1), at
        if shift > 63:
            raise NotPlain("a number of more than 64 bits")


def _fields(message: Field, known: str, single: str = "") -> Fields:
    """The fields of a message: whole numbers, or bytes of whatever they hold.

    `known` lists the numbers of the fields that may occur, `single` those that may occur once.
    """
    data, at = _bytes(message), 0
    found: Fields = {int(number): [] for number in known.split()}
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if number not in found:
            raise NotPlain(f"field {number} of a message")
        if wire == 0:
            value, at = _varint(data, at)
            found[number].append(value)
            continue
        size = {1: 8, 5: 4}.get(wire)
        if wire == 2:
            size, at = _varint(data, at)
        if size is None or at + size > len(data):
            raise NotPlain("a message that is cut short")
        found[number].append(data[at : at + size])
        at += size
    if any(len(found[int(number)]) > 1 for number in single.split()):
        raise NotPlain("a field that is said twice")
    return found


def _bytes(field: Field) -> memoryview:
    if isinstance(field, int):
        raise NotPlain("a number where a message was expected")
    return field


def _text(found: list[Field]) -> str:
    return bytes(_bytes(found[0])).decode() if found else ""


def _number(found: list[Field]) -> int:
    if not found:
        return 0
    if not isinstance(found[0], int):
        raise NotPlain("a message where a number was expected")
    return _signed(found[0])


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _integers(found: list[Field]) -> list[int]:
    """Repeated whole numbers, one to a field or packed into one."""
    values = []
    for entry in found:
        if isinstance(entry, int):
            values.append(_signed(entry))
            continue
        at = 0
        while at < len(entry):
            value, at = _varint(entry, at)
            values.append(_signed(value))
    return values


# --- ONNX -----------------------------------------------------------------------------------------


class _Call:
    """One ONNX node: its name, its inputs as constants or as (node, shape), its attributes."""

    def __init__(self, fields: Fields) -> None:
        self.kind, self.inputs = _text(fields[4]), [_text([i]) for i in fields[1]]
        (self.output,) = (_text([o]) for o in fields[2])
        self.name = _text(fields[3]) or self.output
        self.attributes: dict[str, Attribute] = {}
        for entry in fields[5]:
            a = _fields(entry, "1 2 3 4 5 7 8 13 20", "1 2 3 4 5 20")
            kind = _number(a[20])
            if kind not in (1, 2, 3, 4, 7):
                raise NotPlain("an attribute of another type")
            value: Attribute = _integers(a[8])
            if kind == 1:
                value = struct.unpack("<f", _bytes(a[2][0]))[0] if a[2] else 0.0
            elif kind in (2, 3):
                value = _number(a[3]) if kind == 2 else _text(a[4])
            elif kind == 4:
                value = _bytes(a[5][0])
            if _text(a[1]) in self.attributes:
                raise NotPlain("an attribute twice")
            self.attributes[_text(a[1])] = value

    def take(self, key: str, default: T) -> T:
        """The value of an attribute, of the type that its default has."""
        value = self.attributes.pop(key, default)
        if not isinstance(value, type(default)):
            raise NotPlain(f"the attribute {key} of {self.kind}")
        return value

    def end(self) -> None:
        """The node may have no attributes but those that were taken."""
        if self.attributes:
            raise NotPlain(f"attributes of {self.kind}")


class _Graph:
    """The walk along the nodes: `flows` are (node, shape), `constants` arrays."""

    def __init__(self, content: bytes, folder: Path, told: dict[str, object]) -> None:
        model = _fields(memoryview(content), "1 2 3 4 5 6 7 8 14", "7")
        sets = [_fields(entry, "1 2") for entry in model[8]]
        versions = [_number(s[2]) for s in sets if _text(s[1]) in ("", "ai.onnx")]
        if len(versions) != 1 or not 7 <= versions[0] <= 21:
            raise NotPlain("operator sets other than 7 to 21")
        graph = _fields(model[7][0], "1 2 5 10 11 12 13")
        self.folder, self.told = folder, told
        self.digests: dict[str, str] = {}
        self.data: dict[str, bytes] = {}
        self.constants: dict[str, Values] = {}
        for entry in graph[5]:
            name, array = self._tensor(entry)
            if name in self.constants:
                raise NotPlain("a tensor twice")
            self.constants[name] = array
        inputs = [i for i in map(_value_info, graph[11]) if i[0] not in self.constants]
        (self.source, shape, self.kind), (self.output, *_) = inputs[0], _value_info(graph[12][0])
        if len(inputs) != 1 or len(graph[12]) != 1 or not shape or min(shape[1:], default=1) < 1:
            raise NotPlain("one input and one output are needed")
        self.calls = [_Call(_fields(n, "1 2 3 4 5 6 7")) for n in graph[1] if not _foreign(n)]
        self.uses = Counter(name for call in self.calls for name in call.inputs)
        self.uses[self.output] += 1
        self.size = math.prod(shape)
        self.flows: dict[str, Flow] = {self.source: (self.source, shape)}
        self.nodes: dict[str, Node] = {}
        self.narrow: set[str] = set()  # values that were cast to a narrower type

    def network(self) -> Network:
        for call in self.calls:
            if call.output in self.flows or call.output in self.constants:
                raise NotPlain("a value that is made twice")
            if call.kind != "Cast" and not self.narrow.isdisjoint(call.inputs):
                raise NotPlain("arithmetic in a narrower type than the network's")
            values = [self.constants.get(i) for i in call.inputs]
            if all(v is not None for v in values):
                self.constants[call.output] = self._folded(call)
            else:
                self.flows[call.output] = READERS[call.kind](self, call)
        last = self.flows[self.output][0]
        whole = Network(self.size, tuple(self.nodes.values()), last, self.source)
        kept = tuple(n for n in whole.nodes if n.name in whole.needed())
        if self.source not in whole.needed():
            raise NotPlain("the output does not depend on the input")
        return Network(self.size, kept, last, self.source)

    # --- constants ---

    def _tensor(self, entry: Field) -> tuple[str, Values]:
        fields = _fields(entry, "1 2 4 7 8 9 10 12 13 14", "2 8 9 14")
        shape, dtype = _integers(fields[1]), np.dtype(TYPES[_number(fields[2])])
        stored = {1: fields[4], 7: fields[7], 11: fields[10]}[_number(fields[2])]
        if min(shape, default=1) < 0:
            raise NotPlain("a negative size")
        if _number(fields[14]):
            array = self._external(fields[13], math.prod(shape), dtype)
        elif fields[9] and stored:
            raise NotPlain("a tensor that is stored twice")
        elif fields[9]:
            array = np.frombuffer(_bytes(fields[9][0]), dtype)
        elif dtype.kind == "i":
            array = np.array(_integers(stored), dtype)
        else:
            array = np.frombuffer(b"".join(map(_bytes, stored)), dtype)
        return _text(fields[8]), array.reshape(shape)

    def _external(self, entries: list[Field], size: int, dtype: np.dtype[np.generic]) -> Values:
        pairs = [_fields(e, "1 2", "1 2") for e in entries]
        told = {_text(p[1]): _text(p[2]) for p in pairs}
        name, offset = told["location"], int(told.get("offset", "0"))
        length = int(told.get("length", size * dtype.itemsize))
        if name not in self.data:
            path = self.folder / name
            if Path(name).name != name or path.is_symlink() or not path.is_file():
                raise NotPlain("data that do not lie beside the model")
            if path.stat().st_size > path.stat().st_blocks * 512:
                raise NotPlain("a data file with holes")
            self.data[name] = path.read_bytes()
            self.digests[name] = hashlib.sha256(self.data[name]).hexdigest()
            self.told["data_sha256"] = self.digests
        if length != size * dtype.itemsize or offset < 0:
            raise NotPlain("a tensor of another length")
        return np.frombuffer(self.data[name], dtype, size, offset)

    def _folded(self, call: _Call) -> Values:
        """Constant, and Cast from float32 to float64, which changes no number."""
        if call.kind == "Constant":
            tensor = call.take("value", memoryview(b""))
            call.end()
            return self._tensor(tensor)[1]
        (value,) = (self.constants[i] for i in call.inputs)
        if call.kind == "Cast" and call.take("to", 0) == 11 and value.dtype.kind == "f":
            return value if value.size >= 2**16 else value.astype(np.float64)
        if call.kind == "Transpose":
            return value.transpose(call.take("perm", list(range(value.ndim))[::-1]))
        if call.kind == "Identity":
            return value
        raise NotPlain(f"a constant made by {call.kind}")

    def array(self, call: _Call, index: int) -> Values:
        return self.constants[call.inputs[index]]

    def given(self, call: _Call, index: int) -> bool:
        return index < len(call.inputs) and bool(call.inputs[index])

    # --- nodes ---

    def emit(self, name: str, op: Operation, inputs: tuple[str, ...], shape: Shape) -> Flow:
        if name in self.nodes or name == self.source:
            raise NotPlain("two nodes of one name")
        self.nodes[name] = Node(name, op, inputs)
        return name, shape

    def exchange(self, name: str, old: str, op: Operation, shape: Shape) -> Flow:
        """Another operation, and perhaps name, for a node that nothing else uses."""
        inputs = self.nodes[old].inputs
        if name == old:
            self.nodes[old] = Node(old, op, inputs)
            return old, shape
        del self.nodes[old]
        return self.emit(name, op, inputs, shape)

    def before(self, call: _Call, index: int = 0) -> Operation | None:
        """The operation that made this input, if nothing else uses its value."""
        node = self.flows[call.inputs[index]][0]
        alone = all(self.uses[name] == 1 for name, (n, _) in self.flows.items() if n == node)
        return self.nodes[node].op if node in self.nodes and alone else None


def _foreign(node: Field) -> bool:
    if _text(_fields(node, "1 2 3 4 5 6 7", "3 4 7")[7]) not in ("", "ai.onnx"):
        raise NotPlain("an operator of another domain")
    return False


def _value_info(entry: Field) -> tuple[str, Shape, int]:
    """A name, its shape, with 1 for a symbolic batch, and its type."""
    fields = _fields(entry, "1 2 3", "1 2")
    if not fields[2]:
        return _text(fields[1]), (), 0
    tensor = _fields(_fields(fields[2][0], "1", "1")[1][0], "1 2", "1 2")
    dims = [_fields(d, "1 2 3") for d in _fields(tensor[2][0], "1")[1]] if tensor[2] else []
    if _number(tensor[1]) not in (1, 11):
        raise NotPlain("a value that is neither float32 nor float64")
    sizes = [_number(d[1]) for d in dims]
    shape = tuple(n if i or n > 0 else 1 for i, n in enumerate(sizes))
    return _text(fields[1]), shape, _number(tensor[1])


# --- operators ------------------------------------------------------------------------------------


def _gemm(graph: _Graph, call: _Call) -> Flow:
    alpha, beta = call.take("alpha", 1.0), call.take("beta", 1.0)
    flip, turned = call.take("transA", 0), call.take("transB", 0)
    call.end()
    node, shape = graph.flows[call.inputs[0]]
    if (alpha, beta, flip) != (1.0, 1.0, 0) or len(shape) != 2 or shape[0] != 1:
        raise NotPlain("a Gemm with factors")
    weight = graph.array(call, 1) if turned else graph.array(call, 1).T
    bias = graph.array(call, 2).ravel() if graph.given(call, 2) else None
    if bias is not None and bias.shape != (len(weight),):
        raise NotPlain("a Gemm that spreads its bias")
    return graph.emit(call.name, Affine(weight, bias), (node,), (1, len(weight)))


def _matmul(graph: _Graph, call: _Call) -> Flow:
    call.end()
    if call.inputs[0] in graph.flows:
        node, shape = graph.flows[call.inputs[0]]
        weight = graph.array(call, 1)
        if weight.ndim != 2 or shape != (1, len(weight)):
            raise NotPlain("a product of stacks")
        return graph.emit(call.name, Affine(weight.T), (node,), (1, weight.shape[1]))
    weight, (node, shape) = graph.array(call, 0), graph.flows[call.inputs[1]]
    groups = shape[1] if len(shape) == 4 else 1
    stack = (1, groups, weight.shape[-1]) if len(shape) == 4 else (1, weight.shape[-1])
    if weight.ndim != len(shape) - 1 or weight.shape[:-2] not in ((), (groups,)):
        raise NotPlain("a product of stacks")
    if shape[:-1] != stack:
        raise NotPlain("a product of stacks")
    if weight.ndim == 2 and shape[-1] == 1:  # one column of one group
        return graph.emit(call.name, Affine(weight), (node,), (*stack[:-1], len(weight), 1))
    kernel = weight.reshape(-1, weight.shape[-1], 1, 1)
    pixels = Geometry(groups * weight.shape[-1], 1, shape[-1], (1, 1))
    op = Convolution(kernel, pixels, None, groups)
    return graph.emit(call.name, op, (node,), (*shape[:-2], weight.shape[-2], shape[-1]))


def _geometry(graph: _Graph, call: _Call, kernel: list[int]) -> tuple[str, Geometry]:
    """The windows that the attributes describe, which are then all that there are."""
    node, shape = graph.flows[call.inputs[0]]
    strides, dilations = call.take("strides", [1, 1]), call.take("dilations", [1, 1])
    pads, mode = call.take("pads", [0, 0, 0, 0]), call.take("auto_pad", "NOTSET")
    call.end()
    if len(shape) != 4 or shape[0] != 1 or mode != "NOTSET" or len(kernel) != 2:
        raise NotPlain("windows other than of images with stated pads")
    window = {"image": shape[1:], "kernel": kernel, "strides": strides, "pads": pads}
    return node, Geometry.of({**window, "dilations": dilations})


def _conv(graph: _Graph, call: _Call) -> Flow:
    kernel = graph.array(call, 1)
    own, groups = list(kernel.shape[2:]), call.take("group", 1)
    if call.take("kernel_shape", own) != own:
        raise NotPlain("a kernel of another shape than stated")
    node, geometry = _geometry(graph, call, own)
    offsets = graph.array(call, 2) if graph.given(call, 2) else None
    op = Convolution(kernel, geometry, offsets, groups)
    return graph.emit(call.name, op, (node,), (1, *op.out_shape))


def _max_pool(graph: _Graph, call: _Call) -> Flow:
    kernel: list[int] = call.take("kernel_shape", [])
    if call.take("ceil_mode", 0):
        raise NotPlain("ceil_mode")
    node, geometry = _geometry(graph, call, kernel)
    op = MaxPool(geometry)
    return graph.emit(call.name, op, (node,), (1, *op.out_shape))


def _average(graph: _Graph, call: _Call) -> Flow:
    """A sum over windows and a division; pads are counted, or there are none."""
    kernel: list[int] = []
    if call.kind == "GlobalAveragePool":
        call.end()
        kernel, counted = list(graph.flows[call.inputs[0]][1][2:]), 1
    else:
        kernel, counted = call.take("kernel_shape", kernel), call.take("count_include_pad", 0)
        if call.take("ceil_mode", 0):
            raise NotPlain("ceil_mode")
    node, geometry = _geometry(graph, call, kernel)
    if any(geometry.pads) and not counted:
        raise NotPlain("means over parts of windows")
    op = SumPool(geometry)
    made, shape = graph.emit(f"{call.name}/sum", op, (node,), (1, *op.out_shape))
    count = np.full(op.shape[0], float(math.prod(geometry.kernel)))
    return graph.emit(call.name, Scaling(np.ones(op.shape[0]), count), (made,), shape)


def _reduce_sum(graph: _Graph, call: _Call) -> Flow:
    """Sums over the pixels of each channel, or over each column of them."""
    if (call.take("keepdims", 1), call.take("noop_with_empty_axes", 0)) != (1, 0):
        raise NotPlain("a sum that drops its axes")
    (_, shape), axes = graph.flows[call.inputs[0]], graph.array(call, 1).tolist()
    kernel = {(2, 3): shape[2:], (2,): (shape[2], 1)}[tuple(axes)]
    node, geometry = _geometry(graph, call, list(kernel))
    op = SumPool(geometry)
    return graph.emit(call.name, op, (node,), (1, *op.out_shape))


def _norm(graph: _Graph, call: _Call) -> Flow:
    eps, spatial = call.take("epsilon", float(np.float32(1e-5))), call.take("spatial", 1)
    training = call.take("training_mode", 0)
    call.take("momentum", 0.0)  # of training
    call.end()
    node, shape = graph.flows[call.inputs[0]]
    gamma, beta, mean, var = parts = [graph.array(call, i) for i in range(1, 5)]
    fits = len(shape) > 1 and shape[0] == 1 and all(p.shape == shape[1:2] for p in parts)
    if training or not spatial or not fits:
        raise NotPlain("a norm in training, or of another shape")
    op = Norm(gamma, beta, mean, var, eps, math.prod(shape[2:]))
    return graph.emit(call.name, op, (node,), shape)


def _relu(graph: _Graph, call: _Call) -> Flow:
    call.end()
    node, shape = graph.flows[call.inputs[0]]
    return graph.emit(call.name, Relu(), (node,), shape)


def _cast(graph: _Graph, call: _Call) -> Flow:
    """To float16 or bfloat16, and back to the network's own type."""
    goal = call.take("to", 0)
    call.end()
    node, shape = graph.flows[call.inputs[0]]
    if call.inputs[0] in graph.narrow and goal == graph.kind:
        return node, shape
    if call.inputs[0] in graph.narrow or goal not in CASTS:
        raise NotPlain("a cast other than to float16 or bfloat16 and back")
    graph.narrow.add(call.output)
    return graph.emit(call.name, Cast(math.prod(shape), CASTS[goal]), (node,), shape)


def _clip(graph: _Graph, call: _Call) -> Flow:
    call.end()
    node, shape = graph.flows[call.inputs[0]]
    ends = [
        float(graph.array(call, i).reshape(())) if graph.given(call, i) else default
        for i, default in ((1, -math.inf), (2, math.inf))
    ]
    if math.isinf(ends[0]) and math.isinf(ends[1]):
        raise NotPlain("a Clip without ends")
    return graph.emit(call.name, Clip(*ends), (node,), shape)


def _arithmetic(graph: _Graph, call: _Call) -> Flow:
    """Add, Sub, Mul, Div: of two values (Add alone), or of a value and a constant."""
    call.end()
    flows = [name for name in call.inputs if name in graph.flows]
    if len(flows) == 2:
        (first, shape), (second, other) = (graph.flows[name] for name in flows)
        if call.kind != "Add" or shape != other:
            raise NotPlain("two values that are not just added")
        return graph.emit(call.name, Add(), (first, second), shape)
    place = call.inputs.index(flows[0])
    node, shape = graph.flows[flows[0]]
    constant = graph.array(call, 1 - place).astype(np.float64)
    fits = np.broadcast_shapes(shape, constant.shape) == shape
    if (place and call.kind in ("Sub", "Div")) or not fits:
        raise NotPlain("a constant that is spread, or first")
    spread = np.broadcast_to(constant, shape).ravel()
    op = graph.before(call, place)
    if call.kind in ("Add", "Sub"):
        return _shifted(graph, call, (node, shape), spread if call.kind == "Add" else -spread, op)
    neutral = np.ones_like(spread)
    if np.all(spread == 1):
        return node, shape
    if call.kind == "Mul":
        return graph.emit(call.name, Scaling(spread), (node,), shape)
    if isinstance(op, Scaling) and not op.offset.any() and np.all(op.divisor == 1):
        return graph.exchange(call.name, node, Scaling(op.factor, spread), shape)
    return graph.emit(call.name, Scaling(neutral, spread), (node,), shape)


def _shifted(graph: _Graph, call: _Call, flow: Flow, offset: Floats, op: Operation | None) -> Flow:
    """`flow + offset`: the bias of a map that has none, or an operation of its own."""
    node, shape = flow
    if not offset.any():
        return flow
    if isinstance(op, Dense) and not op.bias.any():
        return graph.exchange(node, node, Affine(op.weight, offset), shape)
    if isinstance(op, Convolution) and not isinstance(op, SumPool) and not op.offsets.any():
        pixels = offset.reshape(op.channels, -1)
        if np.all(pixels == pixels[:, :1]):
            made = Convolution(op.kernel, op.geometry, pixels[:, 0], op.groups)
            return graph.exchange(node, node, made, shape)
    if isinstance(op, Scaling) and not op.offset.any():
        return graph.exchange(call.name, node, Scaling(op.factor, op.divisor, offset), shape)
    return graph.emit(call.name, Scaling(np.ones_like(offset), offset=offset), (node,), shape)


def _reshaped(graph: _Graph, call: _Call) -> Flow:
    """Reshape, Flatten and Identity: the same values in another shape."""
    node, shape = graph.flows[call.inputs[0]]
    size = math.prod(shape)
    if call.kind == "Identity":
        return node, shape
    if call.kind == "Flatten":
        axis = call.take("axis", 1)
        goal = [math.prod(shape[:axis]), math.prod(shape[axis:])]
    else:
        zeros = call.take("allowzero", 0)
        goal = [int(n) for n in graph.array(call, 1).ravel()]
        goal = [shape[i] if n == 0 and not zeros else n for i, n in enumerate(goal)]
        known = math.prod(n for n in goal if n != -1)
        goal = [size // known if n == -1 else n for n in goal]
    call.end()
    if math.prod(goal) != size or min(goal) < 1:
        raise NotPlain("a shape that does not fit")
    return node, tuple(goal)


def _gather(graph: _Graph, call: _Call) -> Flow:
    """Units of rows, by their places: a block, a small matrix, or a placement."""
    axis = call.take("axis", 0)
    call.end()
    (node, shape), index = graph.flows[call.inputs[0]], graph.array(call, 1)
    size, last = math.prod(shape), len(shape) - 1
    if axis != last or last < 1 or index.dtype != np.int64 or index.min() < 0:
        raise NotPlain("another Gather than of units of rows")
    flat = np.arange(size).reshape(-1, shape[-1])[:, index.ravel()].ravel()
    windowed = any(n.op.windowed for n in graph.nodes.values())
    image = len(shape) > 2 or index.ndim > 1 or windowed
    moves = image or flat.size > size or flat.size * size > DENSE
    run = np.array_equal(flat, np.arange(flat[0], flat[0] + flat.size))
    goal = (*shape[:-1], *index.shape)
    if run and flat.size == size:
        return node, goal
    if run:
        return graph.emit(call.name, Select(int(flat[0]), int(flat[-1]) + 1), (node,), goal)
    if moves:
        return graph.emit(call.name, Placement(flat, size), (node,), goal)
    matrix = np.zeros((flat.size, size))
    matrix[np.arange(flat.size), flat] = 1.0
    return graph.emit(call.name, Affine(matrix), (node,), goal)


def _pad(graph: _Graph, call: _Call) -> Flow:
    """A zero behind each row."""
    mode = call.take("mode", "constant")
    call.end()
    (node, shape), pads = graph.flows[call.inputs[0]], graph.array(call, 1).tolist()
    if mode != "constant" or len(call.inputs) > 2 or pads != [0] * (2 * len(shape) - 1) + [1]:
        raise NotPlain("pads other than a zero behind each row")
    size = math.prod(shape)
    index = np.pad(np.arange(size).reshape(-1, shape[-1]), ((0, 0), (0, 1)), constant_values=-1)
    goal = (*shape[:-1], shape[-1] + 1)
    return graph.emit(call.name, Placement(index.ravel(), size), (node,), goal)


def _slice(graph: _Graph, call: _Call) -> Flow:
    """A block of a row."""
    call.end()
    (node, shape), ends = graph.flows[call.inputs[0]], [graph.array(call, i) for i in (1, 2, 3)]
    (start,), (stop,), (axis,) = (e.tolist() for e in ends)
    if len(call.inputs) > 4 or len(shape) != 2 or axis != 1 or not 0 <= start < stop <= shape[1]:
        raise NotPlain("a Slice other than a block of a row")
    if stop - start == shape[1]:
        return node, shape
    return graph.emit(call.name, Select(start, stop), (node,), (1, stop - start))


READERS: dict[str, Callable[[_Graph, _Call], Flow]] = {
    "Gemm": _gemm,
    "MatMul": _matmul,
    "Conv": _conv,
    "Relu": _relu,
    "Cast": _cast,
    "Clip": _clip,
    "BatchNormalization": _norm,
    "MaxPool": _max_pool,
    "AveragePool": _average,
    "GlobalAveragePool": _average,
    "ReduceSum": _reduce_sum,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), _arithmetic),
    **dict.fromkeys(("Reshape", "Flatten", "Identity"), _reshaped),
    "Gather": _gather,
    "Pad": _pad,
    "Slice": _slice,
}
