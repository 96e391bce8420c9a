"""What was read of a model against another program's evaluation of the same file.

onnxruntime opens the file's own nodes and tensors, external data by its own code, with every value
that the file names as an output; where it lacks a kernel (float64 convolutions), ONNX's reference
implementation does. All values are compared, so that a part that is misread shows at its own node
even where it hardly reaches the output. A model that disagrees is refused, and the first node that
does is named; one that nobody can evaluate is refused unless the user says otherwise.

Whether a network computes what an independent evaluation of its file computes.

The two are compared at many points, drawn from the domain that is asked about, beside it, and at
all scales, by a generator that the file's own hash seeds. The tolerance is the rounding error that
an evaluation in the file's precision u may make in any order of summation, followed along the
network: a map v = L h + c with k summands turns an error e of h into

    |L| e + (k + 8)·u·(|L||h| + |c|),

a sum adds errors up, an activation multiplies by its Lipschitz constant. Agreement at points
refutes a wrong reading; it does not prove a right one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.onnx.model import Model, import_onnx, node_name
from reconstruct.formats.onnx.values import DOUBLE, Flow
from reconstruct.networks import Add, Box, MatrixProduct, Network, Node, Points, activations, maps
from reconstruct.numbers.arrays import Array
from reconstruct.numbers.precision import Precision
from reconstruct.numbers.rounding import UNIT

Program: TypeAlias = Callable[[dict[str, Array]], list[Array]]  # outputs from inputs by name
FOLDER = "session.model_external_initializers_file_folder_path"


@dataclass(frozen=True)
class ComparisonEffort:
    """How much is tried before a reading is believed, and what is held meanwhile."""

    huge: int = 2**24  # parameters beyond which two points must do
    vast: int = 2**24  # values of one evaluation beyond which a single point must do
    many: int = 32  # points
    few: int = 4
    work: int = 2**28  # products of an evaluation times points, about
    scales: tuple[float, ...] = (1.0, 64.0, 0.0, 2.0**-8, 2.0**11)
    operations: int = 8  # roundings of one unit besides its sum: casts, factors, offsets, exp
    held: int = 2**22  # values of another program that are held at once


EFFORT = ComparisonEffort()


@dataclass(frozen=True, eq=False)
class Reading:
    """What was read: the bytes, the model, the network, where each tensor stands in it, and the
    constants that nodes made."""

    content: bytes
    folder: Path
    model: Model
    network: Network
    flows: dict[str, Flow]
    folded: dict[str, Array]
    kinds: set[int]


class CannotEvaluate(UnsupportedError):
    """No other program evaluates the model, or none of its values is an ordinary number."""


def compared(reading: Reading, near: Box | Points | None, unchecked: bool) -> dict[str, Any] | None:
    """Which program gave the same values at how many points; None where none could be asked.

    Raises where one gives others, and, unless it may stand `unchecked`, where none could be asked.
    """
    try:
        return _compared(reading, near)
    except CannotEvaluate as error:
        if unchecked:
            return None
        raise UnsupportedError(
            f"{error}, so that what was read cannot be compared with another program; if you "
            "trust this reading, say --unchecked-reading"
        ) from None


def _compared(reading: Reading, near: Box | Points | None) -> dict[str, Any]:
    network, other = reading.network, _Evaluator(reading)
    x = points(network, hashlib.sha256(reading.content).digest(), near)
    standing: dict[str, list[str]] = {}  # by node of the network, the tensors that it is
    for name, flow in reading.flows.items():
        standing.setdefault(flow.node, []).append(name)
    order = [name for node in network.sizes for name in standing.get(node, ())]
    constants = [name for name, array in reading.folded.items() if array.dtype.kind in "fiub"]
    stream = other.values([*constants, *order], x)
    for name in constants:
        _check_constant(reading, other, name, next(stream)[:1])
    arithmetic = Precision(np.float64 if reading.kinds == {DOUBLE} else np.float32)
    for step in follow(network, x, arithmetic):
        for name in standing.get(step.name, ()):
            _check_value(reading, other, name, step, next(stream))
    return {"by": other.name, "points": len(x), "values": len(order) + len(constants)}


def _check_constant(reading: Reading, other: _Evaluator, name: str, theirs: list[Array]) -> None:
    """A constant that nodes make is a definite number; its last places may differ: those of a
    product of matrices, whose order of summation is free, by their largest entry."""
    ours = reading.folded[name]
    if np.array_equal(ours, theirs[0]):  # as casts are, of which there are large ones
        return
    unit = {8: 2.0**-50, 4: 2.0**-22}.get(theirs[0].dtype.itemsize, 2.0**-22)
    values = ours.astype(np.float64).reshape(1, -1)
    size = np.abs(values)
    if any(n.op_type == "MatMul" and name in n.output for n in reading.model.nodes):
        size = np.full_like(size, size.max(initial=0.0))
    errors = size * (unit / 2 if theirs[0].dtype.kind == "f" else 0.0)
    step = Followed(name, values, errors, np.ones(1, bool))
    _check_value(reading, other, name, step, theirs)


def _check_value(
    reading: Reading, other: _Evaluator, name: str, step: Followed, theirs: list[Array]
) -> None:
    """Refuses the reading where another program gives another shape, or other numbers."""
    if not step.telling.any():
        raise CannotEvaluate(f"the value {name!r} may overflow wherever the model was tried")
    shape = (reading.folded if name in reading.folded else reading.flows)[name].shape
    told = next((f"shape {v.shape} where {shape}" for v in theirs if v.shape != shape), None)
    if told is None and (found := step.disagreement(theirs)) is not None:
        row, place = found
        told = f"{theirs[row].ravel()[place]} where {step.values[row][place]:.17g}"
    if told is not None:
        node = next((n for n in reading.model.nodes if name in n.output), None)
        where = f"node {node_name(node)!r} ({node.op_type})" if node is not None else "the output"
        raise UnsupportedError(
            f"{where}: {other.name} gives {told} was read, so that the file would be taken for "
            "another function; export it in simpler operators"
        )


class _Evaluator:
    """The model's bytes in another program."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self.name = ""
        # Of a model with many values: those that are known go on, so that none is computed twice.
        self._known: dict[str, list[Array]] = {}

    def values(self, names: list[str], x: Array) -> Iterator[list[Array]]:
        """For each tensor its values at all points, some tensors at a time."""
        model = self._reading.model
        tensors: dict[str, Any] = {**self._reading.flows, **self._reading.folded}
        kind = np.float64 if model.kind == DOUBLE else np.float32
        rows = [np.asarray(row.reshape(model.shape).astype(kind)) for row in x]
        while names:
            held = accumulate(tensors[name].size * len(x) for name in names)
            count = max(1, sum(size <= EFFORT.held for size in held))
            now, names = names[:count], names[count:]
            feeds = [
                {model.input: row, **{name: values[i] for name, values in self._known.items()}}
                for i, row in enumerate(rows)
            ]
            run, first = self._chosen(now, feeds[0])
            found = [first, *(run(feed) for feed in feeds[1:])]
            del run, feeds  # the session has a copy of all weights
            self._known |= {now[i]: [v[i] for v in found] for i in range(count)}
            _, needed = self._behind(names)
            self._known = {name: v for name, v in self._known.items() if name in needed}
            for place in range(count):
                yield [np.asarray(values[place]) for values in found]
            del first, found

    def _behind(self, names: list[str]) -> tuple[list[Any], set[str]]:
        """The nodes that these values need beyond those that are known, and all that they need."""
        needed, kept = set(names), list[Any]()
        for node in reversed(self._reading.model.nodes):
            if needed.intersection(node.output) - self._known.keys():
                needed.update(node.input)
                kept.append(node)
        return kept[::-1], needed

    def _chosen(self, names: list[str], feed: dict[str, Array]) -> tuple[Program, list[Array]]:
        """The program that can evaluate these values, onnxruntime, else ONNX's reference; and the
        values for what it is fed. The one that was taken first is asked ever after."""
        reasons = []
        programs = {"onnxruntime": self._runtime, "ONNX's reference": self._reference}
        for program in [self.name] if self.name else programs:
            try:
                run = programs[program](names)
                found = run(feed)
            except Exception as error:  # each has its own exceptions, for want of a kernel or worse
                told = str(error).splitlines()[0] if str(error) else repr(error)
                reasons.append(f"{program}: {told[:160]}")
            else:
                self.name = program
                return run, found
        raise CannotEvaluate(f"the model can be evaluated by nobody else ({'; '.join(reasons)})")

    def _bytes(self, names: list[str]) -> bytes:
        """The file's model with these outputs, what they need, and no more: nodes that nothing
        needs would be run, and nodes out of order, or with clashing names (which mean nothing),
        are refused by other programs."""
        onnx = import_onnx("reading ONNX files")
        content, model = self._reading.content, self._reading.model
        proto, (kept, needed) = onnx.ModelProto.FromString(content), self._behind(names)
        inputs, constants = (  # the one input, and constants that old files list as inputs too
            [part for part in parts if part.name in {*needed, model.input} - self._known.keys()]
            for parts in (proto.graph.input, proto.graph.initializer)
        )
        for name, (first, *_) in self._known.items():  # beyond which nothing is needed
            kind = onnx.helper.np_dtype_to_tensor_dtype(first.dtype)
            inputs.append(onnx.helper.make_tensor_value_info(name, kind, first.shape))
        outputs = [onnx.ValueInfoProto(name=name) for name in names]
        parts = {"input": inputs, "initializer": constants, "node": kept, "output": outputs}
        for field, found in parts.items():
            proto.graph.ClearField(field)
            getattr(proto.graph, field).extend(found)
        for node in proto.graph.node:
            node.name = ""
        return bytes(proto.SerializeToString())

    def _runtime(self, names: list[str]) -> Program:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.disable_prepacking", "1")  # copies all weights
        options.add_session_config_entry(FOLDER, str(self._reading.folder.absolute()))
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False  # it grows by doubling
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(
            self._bytes(names), options, providers=["CPUExecutionProvider"]
        )
        return lambda feed: list(session.run(names, feed))

    def _reference(self, names: list[str]) -> Program:
        onnx = import_onnx("reading ONNX files")
        from onnx.external_data_helper import load_external_data_for_model
        from onnx.reference import ReferenceEvaluator

        proto = onnx.ModelProto.FromString(self._bytes(names))
        load_external_data_for_model(proto, str(self._reading.folder.absolute()))
        opened = ReferenceEvaluator(proto)
        return lambda feed: list(opened.run(names, feed))


# --- agreement ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Followed:
    """A node's values at all points, what rounding may have done to them, and at which points no
    value up to here can have overflowed: beyond, the file's arithmetic says nothing."""

    name: str
    values: Array
    errors: Array
    telling: Array

    def disagreement(self, theirs: list[Array]) -> tuple[int, int] | None:
        """The first point and entry that rounding cannot explain, None where there is none."""
        for row in np.flatnonzero(self.telling):
            ours, given = self.values[row], np.ravel(theirs[row]).astype(np.float64)
            with np.errstate(all="ignore"):
                near = np.abs(given - ours) <= 2 * self.errors[row]
            places = np.flatnonzero(~(near | (given == ours) | (np.isnan(given) & np.isnan(ours))))
            if len(places):
                return int(row), int(places[0])
        return None


def points(network: Network, seed: bytes, near: Box | Points | None = None) -> Array:
    """Points of all scales, and with `near` as many in that domain and beside it: float32 numbers.

    Nobody who writes a file can know them: they follow from its hash.
    """
    rng = np.random.default_rng(list(seed))
    size = network.size_in
    try:
        near = None if near is None else near.of_size(size)
    except InputError:  # a domain for another network: whoever uses the two says so
        near = None
    # a value that is written, fetched and compared takes as long as some 32 products
    products = sum((_summands(n) + 32) * network.sizes[n.name] for n in network.nodes)
    count = int(np.clip(EFFORT.work // max(products, 1), EFFORT.few, EFFORT.many))
    count = 2 if network.parameters > EFFORT.huge else count
    count = 1 if sum(network.sizes.values()) > EFFORT.vast else count
    scales = (EFFORT.scales * count)[: count if near is None else max(count // 4, 1)]
    rows = [
        rng.uniform(-1, 1, size) * EFFORT.scales[0],
        *(rng.normal(size=size) * s for s in scales[1:]),
    ]
    if near is not None:
        lo, hi = near.boxes
        chosen = rng.integers(len(lo), size=count)
        lo, hi = lo[chosen], hi[chosen]
        beside = rng.choice([0.0, 0.0, 0.5], (count, 1)) * (hi - lo)
        rows += list(lo - beside + rng.random((count, size)) * (hi - lo + 2 * beside))
    with np.errstate(over="ignore"):
        return np.array(rows).astype(np.float32).astype(np.float64)


def follow(network: Network, x: Array, arithmetic: Precision) -> Iterator[Followed]:
    """Every node's values at the points x in float64, with bounds on rounding errors in u."""
    values = {network.source: x}
    errors = {network.source: arithmetic.unit * np.abs(x) + arithmetic.tiny}  # of a conversion
    peak = np.abs(x).max(axis=1)
    yield Followed(network.source, x, errors[network.source], peak < arithmetic.largest)
    for node in network.nodes:
        with np.errstate(all="ignore"):
            value = node.op(*(values[i] for i in node.inputs))
            size, carried = _sizes(node, values, errors)
            steps = _summands(node) + EFFORT.operations
            unit = arithmetic.unit + 2 * UNIT  # ours is rounded too
            size = size + carried  # wide values are large, so that few of them are held at once
            made = unit * size
            made += arithmetic.tiny
            made *= steps
            if isinstance(node.op, maps.Cast):
                made += node.op.moved(size)
            carried = carried + made
            peak = np.maximum(peak, np.add(size, made, out=size).max(axis=1))
            values[node.name], errors[node.name] = value, carried
            telling = np.asarray(peak < arithmetic.largest)
        del size, made  # of wide values each part counts, while the others are computed
        for used in network.finished[node.name]:
            del values[used], errors[used]
        yield Followed(node.name, value, carried, telling)


def _sizes(node: Node, values: dict[str, Array], errors: dict[str, Array]) -> tuple[Array, Array]:
    """How large the parts of the value are, and the errors of the inputs carried along."""
    op, first = node.op, node.inputs[0]
    if isinstance(op, maps.Map):
        size = op.absolute(np.abs(values[first]))
        size += np.abs(op.shift)
        if isinstance(op, maps.Norm) and op.mean.any():  # z − mean and beta − s mean may cancel
            size = size + 2 * op.absolute(np.broadcast_to(np.abs(op.spread(op.mean)), size.shape))
            size = size + np.abs(op.spread(op.beta))
        return size, op.absolute(errors[first])
    if isinstance(op, Add):
        size = np.sum([np.abs(values[i]) for i in node.inputs], axis=0)
        return size, np.sum([errors[i] for i in node.inputs], axis=0)
    if isinstance(op, MatrixProduct):
        (a, b), (e, f) = ([np.abs(part[i]) for i in node.inputs] for part in (values, errors))
        return op(a, b), op(e, b) + op(a + e, f)
    if isinstance(op, activations.LiveNorm):
        near = op.carried_near(errors[first], values[first], values[first])
        return op.sizes(values[first]), near
    if isinstance(op, activations.Softmax):
        return op.sizes(values[first]), op.carried(errors[first])
    assert isinstance(op, activations.Activation)
    return op.magnitude(np.abs(values[first]) + 1), op.carried(errors[first])


def _summands(node: Node) -> int:
    """How many products or values a unit adds up."""
    if isinstance(node.op, maps.Mixing):
        return node.op.summands
    if isinstance(node.op, activations.LiveNorm):
        return 2 * node.op.channels
    if isinstance(node.op, activations.Softmax | MatrixProduct):
        return int(getattr(node.op, "inner", getattr(node.op, "width", 1)))
    return len(node.inputs)
