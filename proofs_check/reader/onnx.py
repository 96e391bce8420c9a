"""Plain ONNX models: field numbers are those of onnx.proto, operators those of the sets 7 to 21."""

from __future__ import annotations

import hashlib
import math
import struct
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from proofs_check.reader.plain import NotPlain, Values
from proofs_check.reader.protobuf import Field, Fields, as_bytes, integers, number, parse, text
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

TYPES = {1: "<f4", 7: "<i8", 11: "<f8"}
CASTS = {10: 11, 16: 8}  # float16 and bfloat16, with their binary digits
Shape = tuple[int, ...]
Flow = tuple[str, Shape]  # the node that makes a value, and the shape in which the file has it
Floats = npt.NDArray[np.float64]
Attribute = int | float | str | list[int] | memoryview
T = TypeVar("T", int, float, str, list[int], memoryview)


class _Call:
    """One ONNX node: its name, its inputs as constants or as (node, shape), its attributes."""

    def __init__(self, fields: Fields) -> None:
        self.kind, self.inputs = text(fields[4]), [text([i]) for i in fields[1]]
        (self.output,) = (text([o]) for o in fields[2])
        self.name = text(fields[3]) or self.output
        self.attributes: dict[str, Attribute] = {}
        for entry in fields[5]:
            a = parse(entry, "1 2 3 4 5 7 8 13 20", "1 2 3 4 5 20")
            kind = number(a[20])
            if kind not in (1, 2, 3, 4, 7):
                raise NotPlain("an attribute of another type")
            value: Attribute = integers(a[8])
            if kind == 1:
                value = struct.unpack("<f", as_bytes(a[2][0]))[0] if a[2] else 0.0
            elif kind in (2, 3):
                value = number(a[3]) if kind == 2 else text(a[4])
            elif kind == 4:
                value = as_bytes(a[5][0])
            if text(a[1]) in self.attributes:
                raise NotPlain("an attribute twice")
            self.attributes[text(a[1])] = value

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
        model = parse(memoryview(content), "1 2 3 4 5 6 7 8 14", "7")
        sets = [parse(entry, "1 2") for entry in model[8]]
        versions = [number(s[2]) for s in sets if text(s[1]) in ("", "ai.onnx")]
        if len(versions) != 1 or not 7 <= versions[0] <= 21:
            raise NotPlain("operator sets other than 7 to 21")
        graph = parse(model[7][0], "1 2 5 10 11 12 13")
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
        self.calls = [_Call(parse(n, "1 2 3 4 5 6 7")) for n in graph[1] if not _foreign(n)]
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
                source = next((i for i in call.inputs if i in self.flows), None)
                if source is None:
                    raise NotPlain("a value that no node makes")
                node, shape = self.flows[source]
                self.flows[call.output] = READERS[call.kind](self, call, node, shape)
        last = self.flows[self.output][0]
        whole = Network(self.size, tuple(self.nodes.values()), last, self.source)
        kept = tuple(n for n in whole.nodes if n.name in whole.needed())
        if self.source not in whole.needed():
            raise NotPlain("the output does not depend on the input")
        return Network(self.size, kept, last, self.source)

    # --- constants ---

    def _tensor(self, entry: Field) -> tuple[str, Values]:
        fields = parse(entry, "1 2 4 7 8 9 10 12 13 14", "2 8 9 14")
        shape, dtype = integers(fields[1]), np.dtype(TYPES[number(fields[2])])
        stored = {1: fields[4], 7: fields[7], 11: fields[10]}[number(fields[2])]
        if min(shape, default=1) < 0:
            raise NotPlain("a negative size")
        if number(fields[14]):
            array = self._external(fields[13], math.prod(shape), dtype)
        elif fields[9] and stored:
            raise NotPlain("a tensor that is stored twice")
        elif fields[9]:
            array = np.frombuffer(as_bytes(fields[9][0]), dtype)
        elif dtype.kind == "i":
            array = np.array(integers(stored), dtype)
        else:
            array = np.frombuffer(b"".join(map(as_bytes, stored)), dtype)
        return text(fields[8]), array.reshape(shape)

    def _external(self, entries: list[Field], size: int, dtype: np.dtype[np.generic]) -> Values:
        pairs = [parse(e, "1 2", "1 2") for e in entries]
        told = {text(p[1]): text(p[2]) for p in pairs}
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
    if text(parse(node, "1 2 3 4 5 6 7", "3 4 7")[7]) not in ("", "ai.onnx"):
        raise NotPlain("an operator of another domain")
    return False


def _value_info(entry: Field) -> tuple[str, Shape, int]:
    """A name, its shape, with 1 for a symbolic batch, and its type."""
    fields = parse(entry, "1 2 3", "1 2")
    if not fields[2]:
        return text(fields[1]), (), 0
    tensor = parse(parse(fields[2][0], "1", "1")[1][0], "1 2", "1 2")
    dims = [parse(d, "1 2 3") for d in parse(tensor[2][0], "1")[1]] if tensor[2] else []
    if number(tensor[1]) not in (1, 11):
        raise NotPlain("a value that is neither float32 nor float64")
    sizes = [number(d[1]) for d in dims]
    shape = tuple(n if i or n > 0 else 1 for i, n in enumerate(sizes))
    return text(fields[1]), shape, number(tensor[1])


def read_onnx(content: bytes, folder: Path, told: dict[str, object]) -> Network:
    """The network in a model; hashes of data beside it go to `told`."""
    return _Graph(content, folder, told).network()


# --- operators ------------------------------------------------------------------------------------


def _gemm(graph: _Graph, call: _Call, node: str, shape: Shape) -> Flow:
    alpha, beta = call.take("alpha", 1.0), call.take("beta", 1.0)
    flip, turned = call.take("transA", 0), call.take("transB", 0)
    call.end()
    if (alpha, beta, flip) != (1.0, 1.0, 0) or len(shape) != 2 or shape[0] != 1:
        raise NotPlain("a Gemm with factors")
    weight = graph.array(call, 1) if turned else graph.array(call, 1).T
    bias = graph.array(call, 2).ravel() if graph.given(call, 2) else None
    if bias is not None and bias.shape != (len(weight),):
        raise NotPlain("a Gemm that spreads its bias")
    return graph.emit(call.name, Affine(weight, bias), (node,), (1, len(weight)))


def _matmul(graph: _Graph, call: _Call, node: str, shape: Shape) -> Flow:
    call.end()
    if call.inputs[0] in graph.flows:
        weight = graph.array(call, 1)
        if weight.ndim != 2 or shape != (1, len(weight)):
            raise NotPlain("a product of stacks")
        return graph.emit(call.name, Affine(weight.T), (node,), (1, weight.shape[1]))
    weight = graph.array(call, 0)
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


def _geometry(call: _Call, shape: Shape, kernel: list[int]) -> Geometry:
    """The windows that the attributes describe, which are then all that there are."""
    strides, dilations = call.take("strides", [1, 1]), call.take("dilations", [1, 1])
    pads, mode = call.take("pads", [0, 0, 0, 0]), call.take("auto_pad", "NOTSET")
    call.end()
    if len(shape) != 4 or shape[0] != 1 or mode != "NOTSET" or len(kernel) != 2:
        raise NotPlain("windows other than of images with stated pads")
    window = {"image": shape[1:], "kernel": kernel, "strides": strides, "pads": pads}
    return Geometry.of({**window, "dilations": dilations})


def _conv(graph: _Graph, call: _Call, node: str, shape: Shape) -> Flow:
    kernel = graph.array(call, 1)
    own, groups = list(kernel.shape[2:]), call.take("group", 1)
    if call.take("kernel_shape", own) != own:
        raise NotPlain("a kernel of another shape than stated")
    offsets = graph.array(call, 2) if graph.given(call, 2) else None
    op = Convolution(kernel, _geometry(call, shape, own), offsets, groups)
    return graph.emit(call.name, op, (node,), (1, *op.out_shape))


def _max_pool(graph: _Graph, call: _Call, node: str, shape: Shape) -> Flow:
    kernel: list[int] = call.take("kernel_shape", [])
    if call.take("ceil_mode", 0):
        raise NotPlain("ceil_mode")
    op = MaxPool(_geometry(call, shape, kernel))
    return graph.emit(call.name, op, (node,), (1, *op.out_shape))


def _average(graph: _Graph, call: _Call, node: str, shape: Shape) -> Flow:
    """A sum over windows and a division; pads are counted, or there are none."""
    kernel, counted = call.take("kernel_shape", list(shape[2:])), call.take("count_include_pad", 0)
    if call.take("ceil_mode", 0):
        raise NotPlain("ceil_mode")
    geometry = _geometry(call, shape, kernel)
    if any(geometry.pads) and not counted:
        raise NotPlain("means over parts of windows")
    op = SumPool(geometry)
    made, shape = graph.emit(f"{call.name}/sum", op, (node,), (1, *op.out_shape))
    count = np.full(op.shape[0], float(math.prod(geometry.kernel)))
    return graph.emit(call.name, Scaling(np.ones(op.shape[0]), count), (made,), shape)


def _reduce_sum(graph: _Graph, call: _Call, node: str, shape: Shape) -> Flow:
    """Sums over the pixels of each channel, or over each column of them."""
    if (call.take("keepdims", 1), call.take("noop_with_empty_axes", 0)) != (1, 0):
        raise NotPlain("a sum that drops its axes")
    kernel = {(2, 3): shape[2:], (2,): (shape[2], 1)}[tuple(graph.array(call, 1).tolist())]
    op = SumPool(_geometry(call, shape, list(kernel)))
    return graph.emit(call.name, op, (node,), (1, *op.out_shape))


def _norm(graph: _Graph, call: _Call, node: str, shape: Shape) -> Flow:
    eps, spatial = call.take("epsilon", float(np.float32(1e-5))), call.take("spatial", 1)
    training = call.take("training_mode", 0)
    call.take("momentum", 0.0)  # of training
    call.end()
    gamma, beta, mean, var = parts = [graph.array(call, i) for i in range(1, 5)]
    fits = len(shape) > 1 and shape[0] == 1 and all(p.shape == shape[1:2] for p in parts)
    if training or not spatial or not fits:
        raise NotPlain("a norm in training, or of another shape")
    op = Norm(gamma, beta, mean, var, eps, math.prod(shape[2:]))
    return graph.emit(call.name, op, (node,), shape)


def _relu(graph: _Graph, call: _Call, node: str, shape: Shape) -> Flow:
    call.end()
    return graph.emit(call.name, Relu(), (node,), shape)


def _cast(graph: _Graph, call: _Call, node: str, shape: Shape) -> Flow:
    """To float16 or bfloat16, and back to the network's own type."""
    goal = call.take("to", 0)
    call.end()
    if call.inputs[0] in graph.narrow and goal == graph.kind:
        return node, shape
    if call.inputs[0] in graph.narrow or goal not in CASTS:
        raise NotPlain("a cast other than to float16 or bfloat16 and back")
    graph.narrow.add(call.output)
    return graph.emit(call.name, Cast(math.prod(shape), CASTS[goal]), (node,), shape)


def _clip(graph: _Graph, call: _Call, node: str, shape: Shape) -> Flow:
    call.end()
    ends = [
        float(graph.array(call, i).reshape(())) if graph.given(call, i) else default
        for i, default in ((1, -math.inf), (2, math.inf))
    ]
    if math.isinf(ends[0]) and math.isinf(ends[1]):
        raise NotPlain("a Clip without ends")
    return graph.emit(call.name, Clip(*ends), (node,), shape)


def _arithmetic(graph: _Graph, call: _Call, node: str, shape: Shape) -> Flow:
    """Add, Sub, Mul, Div: of values (Add and Sum alone), or of a value and a constant."""
    call.end()
    flows = [name for name in call.inputs if name in graph.flows]
    if len(flows) > 1 or call.kind == "Sum":
        given = [graph.flows[name] for name in flows]
        same = len(flows) == len(call.inputs) and all(other == shape for _, other in given)
        if call.kind not in ("Add", "Sum") or not same:
            raise NotPlain("values that are not just added")
        return graph.emit(call.name, Add(), tuple(each for each, _ in given), shape)
    place = call.inputs.index(flows[0])
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


def _reshaped(graph: _Graph, call: _Call, node: str, shape: Shape) -> Flow:
    """Reshape, Flatten and Identity: the same values in another shape."""
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


def _gather(graph: _Graph, call: _Call, node: str, shape: Shape) -> Flow:
    """Units of rows, by their places: a block, or a placement."""
    axis = call.take("axis", 0)
    call.end()
    index = graph.array(call, 1)
    size, last = math.prod(shape), len(shape) - 1
    if axis != last or last < 1 or index.dtype != np.int64 or index.min() < 0:
        raise NotPlain("another Gather than of units of rows")
    flat = np.arange(size).reshape(-1, shape[-1])[:, index.ravel()].ravel()
    run = np.array_equal(flat, np.arange(flat[0], flat[0] + flat.size))
    goal = (*shape[:-1], *index.shape)
    if run and flat.size == size:
        return node, goal
    if run:
        return graph.emit(call.name, Select(int(flat[0]), int(flat[-1]) + 1), (node,), goal)
    return graph.emit(call.name, Placement(flat, size), (node,), goal)


def _pad(graph: _Graph, call: _Call, node: str, shape: Shape) -> Flow:
    """A zero behind each row."""
    mode = call.take("mode", "constant")
    call.end()
    pads = graph.array(call, 1).tolist()
    if mode != "constant" or len(call.inputs) > 2 or pads != [0] * (2 * len(shape) - 1) + [1]:
        raise NotPlain("pads other than a zero behind each row")
    size = math.prod(shape)
    index = np.pad(np.arange(size).reshape(-1, shape[-1]), ((0, 0), (0, 1)), constant_values=-1)
    goal = (*shape[:-1], shape[-1] + 1)
    return graph.emit(call.name, Placement(index.ravel(), size), (node,), goal)


def _slice(graph: _Graph, call: _Call, node: str, shape: Shape) -> Flow:
    """A block of a row."""
    call.end()
    (start,), (stop,), (axis,) = (graph.array(call, i).tolist() for i in (1, 2, 3))
    if len(call.inputs) > 4 or len(shape) != 2 or axis != 1 or not 0 <= start < stop <= shape[1]:
        raise NotPlain("a Slice other than a block of a row")
    if stop - start == shape[1]:
        return node, shape
    return graph.emit(call.name, Select(start, stop), (node,), (1, stop - start))


READERS: dict[str, Callable[[_Graph, _Call, str, Shape], Flow]] = {
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
    **dict.fromkeys(("Add", "Sum", "Sub", "Mul", "Div"), _arithmetic),
    **dict.fromkeys(("Reshape", "Flatten", "Identity"), _reshaped),
    "Gather": _gather,
    "Pad": _pad,
    "Slice": _slice,
}
