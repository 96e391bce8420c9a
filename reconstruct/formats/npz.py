"""NumPy's .npz archives, and the networks in them: layers in a row, any graph, or a ResNet's state.

Archives are read by hand: sizes first, no pickle, every byte accounted for. NumPy's own reader
takes the memory that a header announces before it looks at the data. Here the archive's directory
is read first, each member is unpacked up to the size it announces, and the shape in its header
must fit the bytes that follow.

Simple form: `W1, b1, W2, b2, …` with `W_i` of shape (outputs, inputs), ReLU between the maps;
the biases are optional, and `final_relu` (true or false) puts a ReLU after the last map.

Graph form: `graph` holds UTF-8 JSON as uint8: `{schema, size_in, source, output, nodes: [{name,
op, inputs, …}]}`. What an operation keeps as arrays, `<node>.<key>`, and what as numbers in the
JSON, it says itself (`Operation.arrays`, `Operation.settings`).

State dicts of CIFAR ResNets: `conv1`, `bn1`, `layer1.0.conv1` … `linear`. The names and shapes of
the arrays say all of the architecture but three things, which are those of the networks that people
train: images of 32 × 32 pixels, norms with torch's eps of 1e-5, and blocks that change the number
of channels halve the image (stride 2). A block without shortcut arrays has the identity, or, where
the sizes change, every other pixel with zero channels on either side.
"""

from __future__ import annotations

import io
import json
import math
import re
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.files import LIMITS, Budget, parse_json, rounded
from reconstruct.networks import Add, Geometry, Network, Node, Operation, Relu, maps
from reconstruct.networks.maps.diagonal import KEYS as NORM_KEYS
from reconstruct.networks.operation import KINDS
from reconstruct.numbers.given import representable

Arrays: TypeAlias = dict[str, NDArray[Any]]
ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")  # the second one: an archive of nothing
SCHEMA = "reconstruct.network/1"
KEYS = (
    "W1, b1, W2, b2, … (weights of shape outputs × inputs, biases optional, final_relu optional) "
    "or the graph form that reconstruct.save writes"
)


def read_arrays(content: bytes, budget: Budget) -> Arrays:
    """All arrays of an archive; pickled objects are refused and never loaded."""
    if not content.startswith(ZIP_MAGIC):
        raise InputError("this is not an .npz archive (a zip file that numpy.savez writes)")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _members(archive, budget)
    except InputError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise InputError(
            f"the .npz archive is damaged ({error}); was the file cut short? fetch it again"
        ) from None
    except (NotImplementedError, RuntimeError, KeyError, ValueError) as error:
        raise InputError(f"the .npz archive cannot be read ({error})") from None


def _members(archive: zipfile.ZipFile, budget: Budget) -> Arrays:
    arrays: Arrays = {}
    for member in archive.infolist():
        key = member.filename.removesuffix(".npy")
        if key in arrays:
            raise InputError(f"the .npz archive holds {key!r} twice; remove one of them")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InputError(
                f"entry {key!r} of the .npz archive is compressed in a way that numpy does not "
                f"write; save it by numpy.savez or numpy.savez_compressed"
            )
        budget.take(member.file_size, f"entry {key!r} of the .npz archive")
        arrays[key] = _npy_array(key, archive.read(member))
    return arrays


def _npy_array(key: str, content: bytes) -> NDArray[Any]:
    """The array in the bytes of one .npy file."""
    if not content.startswith(np.lib.format.MAGIC_PREFIX):
        raise InputError(f"entry {key!r} of the .npz archive is not an array")
    try:
        shape, fortran, dtype, end = _npy_header(content[: _announced(content)])
    except (ValueError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError,
            tokenize.TokenError) as e:  # fmt: skip
        said = str(e).partition(" on line ")[0]  # then comes where Python keeps it
        raise InputError(
            f"array {key!r} of the .npz archive is damaged ({said}): its header cannot be read"
        ) from None
    if dtype.hasobject:
        raise InputError(
            f"array {key!r} of the .npz archive holds pickled Python objects, which could run "
            "code when loaded and are never read; save plain arrays of numbers instead"
        )
    data = memoryview(content)[end:]
    if any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize != len(data):
        raise InputError(
            f"array {key!r} of the .npz archive is damaged: its header states shape {shape} of "
            f"{dtype}, but {len(data)} bytes follow"
        )
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def _announced(content: bytes) -> int:
    """Where the header ends by the length that it states, in two bytes or, since 2.0, in four."""
    start = 10 if content[6:7] == b"\x01" else 12
    return start + int.from_bytes(content[8:start], "little")


@lru_cache(256)  # the arrays of a network have the same few shapes
def _npy_header(content: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"version {version} of the .npy format")
    shape, fortran, dtype = readers[version](file, max_header_size=LIMITS.header)
    return tuple(int(n) for n in shape), bool(fortran), dtype, file.tell()


# --- networks ---


def real_array(key: str, value: NDArray[Any]) -> NDArray[Any]:
    """The array if it holds real numbers (float32 and float64 as they are), else a refusal."""
    if value.dtype.kind not in "fiub":
        raise InputError(f"array {key!r} must hold real numbers, but has dtype {value.dtype}")
    representable(value, f"array {key!r}")
    return value if value.dtype in (np.float32, np.float64) else value.astype(np.float64)


def read_npz(content: bytes, budget: Budget) -> Network:
    """The network that an .npz archive holds, in either form."""
    arrays = read_arrays(content, budget)
    if "graph" in arrays:
        return network_from_graph(arrays, budget)
    keys = {key.removeprefix("module.") for key in arrays}
    if "conv1.weight" in keys and any(map(BLOCK.match, keys)):  # as a ResNet's state dict has them
        return _ResNet({k: real_array(k, value) for k, value in arrays.items()}).network()
    return _layers(arrays)


def _layers(arrays: Mapping[str, NDArray[Any]]) -> Network:
    _check_keys(arrays)
    parts = {key: real_array(key, value) for key, value in arrays.items() if key != "final_relu"}
    count = sum(1 for key in parts if key.startswith("W"))
    weights, biases = ([parts.get(f"{key}{i}") for i in range(1, count + 1)] for key in "Wb")
    flag = arrays.get("final_relu", np.array(False))
    if flag.size != 1 or flag.dtype.kind not in "biu" or int(flag.reshape(())) not in (0, 1):
        raise InputError("array 'final_relu' must be a single true or false")
    return Network.mlp(weights, biases, final_activation=bool(flag.reshape(())))


def _check_keys(arrays: Mapping[str, NDArray[Any]]) -> None:
    for key, value in arrays.items():
        if value.ndim == 4:
            raise UnsupportedError(
                f"array {key!r} of shape {value.shape} is the kernel of a convolution, but the "
                f"archive is not the state dict of a ResNet (conv1, bn1, layer1.0.conv1, …, "
                f"linear); an .npz network has the keys {KEYS}"
            )
    unknown = [k for k in arrays if not re.fullmatch(r"[Wb][1-9][0-9]{0,5}|final_relu", k)]
    if unknown or "W1" not in arrays:
        shown = ", ".join(sorted(arrays)[:6]) + (", …" if len(arrays) > 6 else "")
        raise InputError(
            f"an .npz network needs the keys {KEYS}, but this one has {shown or 'no arrays'}"
        )
    indices = sorted(int(k[1:]) for k in arrays if k[0] == "W")
    missing = set(range(1, indices[-1] + 1)) - set(indices)
    lonely = {int(k[1:]) for k in arrays if k[0] == "b"} - set(indices)
    if missing or lonely:
        index = min(missing | lonely)
        raise InputError(f"the .npz network lacks the weight matrix W{index}; add it")


# --- the graph form ---


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
    """The JSON text of the graph."""
    text = arrays["graph"]
    if text.dtype != np.uint8:
        raise InputError(f"the graph must be UTF-8 text as uint8, but has dtype {text.dtype}")
    return parse_json(text.tobytes().decode(), "the graph of the .npz network")


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
    name, kind = _name(fields["name"]), fields["op"]

    def part(key: str) -> NDArray[Any]:
        value, what = arrays.get(f"{name}.{key}"), f"array '{name}.{key}'"
        if value is None:
            raise InputError(f"the .npz network lacks the {what}; add it")
        if value.dtype.kind not in "fiu":
            raise InputError(f"{what} must hold numbers, but has {value.dtype}")
        return representable(value, what)

    try:
        if kind not in KINDS:
            known = ", ".join(KINDS)
            raise InputError(f"the operation {kind!r} is unknown; known are {known}")
        for key, value in rest.items():
            given = value if isinstance(value, list) else [value]
            if any(isinstance(n, bool) or not isinstance(n, int | float) or n != n for n in given):
                raise InputError(f"{key} must be a number, but is {value!r}")
        op = KINDS[kind](part, rest)
    except InputError as error:
        raise InputError(f"node {name!r}: {error}") from None
    return Node(name, op, tuple(_name(i) for i in fields["inputs"]))


# --- resnet ---------------------------------------------------------------------------------------


BLOCK = re.compile(r"layer(\d+)\.(\d+)\.conv1\.weight")


class _ResNet:
    """The network of a state dict, while its layers are put one behind the other."""

    side = 32  # pixels
    eps = 1e-5  # torch's BatchNorm

    def __init__(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.state = {key.removeprefix("module."): value for key, value in state.items()}
        self.nodes: list[Node] = []
        self.used: set[str] = set()
        self.colours = int(self.array("conv1.weight").shape[1])
        self.image = (self.colours, self.side, self.side)

    def array(self, key: str) -> NDArray[Any]:
        if key not in self.state:
            raise InputError(f"the state dict of a ResNet lacks the array {key!r}")
        self.used.add(key)
        return self.state[key]

    def emit(self, name: str, op: Operation, *inputs: str) -> str:
        self.nodes.append(Node(name, op, inputs))
        return name

    def network(self) -> Network:
        size = math.prod(self.image)
        last = self.emit("relu1", Relu(), self.convolved("conv1", "bn1", "input", 1))
        found = sorted(tuple(map(int, m.groups())) for key in self.state if (m := BLOCK.match(key)))
        for layer, block in found:
            last = self.block(f"layer{layer}.{block}", last)
        channels, height, width = self.image
        pool = maps.SumPool(Geometry(channels, height, width, (height, width)))
        area = np.full(channels, float(height * width))
        last = self.emit("mean/sum", pool, last)
        last = self.emit("mean", maps.Scaling(np.ones(channels), area), last)
        head = "linear" if "linear.weight" in self.state else "fc"
        self.emit(head, maps.Affine(self.array(f"{head}.weight"), self.array(f"{head}.bias")), last)
        unused = sorted(k for k in self.state if k not in self.used and "num_batches" not in k)
        if unused:
            raise UnsupportedError(f"a ResNet has no array {unused[0]!r}")
        metadata = {"input_shape": [1, self.colours, self.side, self.side]}
        return Network(size, tuple(self.nodes), head, "input", metadata)

    def block(self, name: str, source: str) -> str:
        """Two convolutions, and around them one, or the identity, or every other pixel."""
        before = self.image
        stride = 1 if self.array(f"{name}.conv1.weight").shape[0] == before[0] else 2
        first = self.convolved(f"{name}.conv1", f"{name}.bn1", source, stride)
        inner = self.emit(f"{name}.relu1", Relu(), first)
        second = self.convolved(f"{name}.conv2", f"{name}.bn2", inner, 1)
        ways = (f"{name}.shortcut", f"{name}.downsample")
        around = next((way for way in ways if f"{way}.0.weight" in self.state), None)
        if around is not None:
            self.image = before
            source = self.convolved(f"{around}.0", f"{around}.1", source, stride)
        elif self.image != before:
            index = _subsampled(before, self.image[0]).ravel()
            op = maps.Placement(index, math.prod(before))
            source = self.emit(f"{name}.shortcut", op, source)
        total = self.emit(f"{name}.add", Add(), second, source)
        return self.emit(f"{name}.relu2", Relu(), total)

    def convolved(self, conv: str, norm: str, source: str, stride: int) -> str:
        kernel, bias = self.array(f"{conv}.weight"), f"{conv}.bias"
        if kernel.ndim != 4 or kernel.shape[1] != self.image[0]:
            raise InputError(
                f"array '{conv}.weight' must be a kernel with {self.image[0]} input channels, but "
                f"has shape {kernel.shape}"
            )
        pad, window = kernel.shape[2] // 2, (int(kernel.shape[2]), int(kernel.shape[3]))
        geometry = Geometry(*self.image, window, (stride, stride), (pad,) * 4)
        offsets = self.array(bias) if bias in self.state else None
        op = maps.Convolution(kernel, geometry, offsets)
        self.image = op.out_shape
        gamma, beta, mean, var = (self.array(f"{norm}.{key}") for key in NORM_KEYS)
        made = self.emit(conv, op, source)
        return self.emit(norm, maps.Norm(gamma, beta, mean, var, self.eps, op.positions), made)


def _subsampled(before: tuple[int, int, int], channels: int) -> NDArray[Any]:
    """Every other pixel, and zero channels before and after, as places (−1 for none)."""
    places = np.arange(math.prod(before)).reshape(before)[:, ::2, ::2]
    extra = channels - before[0]
    return np.pad(places, ((extra // 2, extra - extra // 2), (0, 0), (0, 0)), constant_values=-1)
