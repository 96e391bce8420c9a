"""A model that was read against an evaluation of the same model that knows nothing of the reader.

onnxruntime evaluates it, or ONNX's reference implementation where onnxruntime is absent or lacks a
kernel. A model that disagrees is refused, and the first node that does is named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import UnsupportedError
from reconstruct.formats.agreement import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    Followed,
    Format,
    disagreement,
    follow,
    points,
    telling,
)
from reconstruct.formats.onnx.model import Model, import_onnx
from reconstruct.formats.onnx.order import node_name
from reconstruct.formats.onnx.stepwise import stepwise
from reconstruct.formats.onnx.values import Builder, Flow
from reconstruct.networks import Network

Array = NDArray[Any]
STEPWISE = 2**28  # bytes of constants beyond which a model is evaluated a node at a time
ARITHMETIC = {1: FLOAT32, 10: FLOAT16, 11: FLOAT64, 16: BFLOAT16}  # by ONNX's type numbers


@dataclass(frozen=True, eq=False)
class Reading:
    """What was read: the model, the network, and where each tensor's value stands in it.

    `flows` gives each tensor's flow and the revision of its node at that time; `kinds` are the
    float types that occur.
    """

    model: Model
    network: Network
    output: Flow
    flows: dict[str, tuple[Flow, int]]
    kinds: set[int]
    build: Builder

    @property
    def arithmetic(self) -> Format:
        """The coarsest arithmetic on the way."""
        found = [ARITHMETIC[kind] for kind in self.kinds if kind in ARITHMETIC]
        unit = max(f.unit for f in found)
        return Format(unit, max(f.tiny for f in found), min(f.largest for f in found))


def check_agreement(reading: Reading) -> int:
    """Refuses the model if an independent evaluation gives another function.

    Gives the number of points that were compared: those where no value overflows.
    """
    x = points(reading.network)
    followed = follow(reading.network, x, reading.arithmetic)
    evaluator = OnnxEvaluator(reading.model)
    rows = [row for row in range(len(x)) if telling(followed, row, reading.arithmetic)]
    for row in rows:
        (theirs,) = evaluator.run(_input(reading.model, x[row]), [reading.model.output])
        if (place := _differs(followed, reading.output, theirs, row)) >= 0:
            raise _refusal(reading, evaluator, x[row], place, theirs)
    return len(rows)


def _input(model: Model, x: Array) -> Array:
    onnx = import_onnx("reading ONNX files")
    kind = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(model.kind))
    return np.asarray(x.reshape(model.shape).astype(kind))


def _differs(followed: Followed, flow: Flow, theirs: Array, row: int) -> int:
    if tuple(theirs.shape) != flow.shape:
        return 0
    return disagreement(
        theirs.astype(np.float64).ravel(),
        followed.values[flow.node][row],
        followed.errors[flow.node][row],
    )


def _refusal(
    reading: Reading, evaluator: OnnxEvaluator, x: Array, place: int, theirs: Array
) -> UnsupportedError:
    """Names the first node whose value at x differs, in the order of evaluation."""
    flow, maker = reading.output, reading.model.output
    followed = follow(reading.network, x[None], reading.arithmetic, every=True)
    known = {
        name: found
        for name, (found, revision) in reading.flows.items()
        if found.node in followed.values and reading.build.revisions[found.node] == revision
    }
    for name in evaluator.available(known):
        (value,) = evaluator.run(_input(reading.model, x), [name])
        index = _differs(followed, known[name], value, 0)
        if index >= 0:
            flow, maker, place, theirs = known[name], name, index, value
            break
    node = next((n for n in reading.model.nodes if maker in n.output), None)
    where = f"node {node_name(node)!r} ({node.op_type})" if node is not None else "the output"
    if tuple(theirs.shape) != flow.shape:
        told = f"gives shape {tuple(theirs.shape)} where {flow.shape} was read"
    else:
        mine = followed.values[flow.node][0][place]
        told = f"gives {theirs.ravel()[place]} where {mine:.17g} was read"
    return UnsupportedError(
        f"{where}: {evaluator.name} {told}, so that the file would be taken for another function; "
        "export it in simpler operators"
    )


class OnnxEvaluator:
    """onnxruntime on the nodes that were read, or ONNX's reference where that cannot run."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._names = [model.output]
        self._run, self.name = self._open(self._names)

    def run(self, x: Array, names: list[str]) -> list[Array]:
        """The values of these tensors at x."""
        if names != self._names:
            self._names = names
            self._run, self.name = self._open(names)
        return [np.asarray(value) for value in self._run(x)]

    def available(self, names: Any) -> list[str]:
        """Of these tensors the ones that nodes make, in the order of evaluation."""
        return [o for n in self._model.nodes for o in n.output if o in names]

    def _open(self, names: list[str]) -> tuple[Any, str]:
        proto = self._pruned(names)
        reasons = []
        for opened, name in ((self._runtime, "onnxruntime"), (self._reference, "ONNX's reference")):
            try:
                run = opened(proto, names)
                zero = np.zeros(self._model.shape)
                run(_input(self._model, zero.ravel()))
                return run, name
            except Exception as error:  # each has its own exceptions, for want of a kernel or worse
                reasons.append(f"{name}: {str(error).splitlines()[0] if str(error) else error!r}")
        raise UnsupportedError(
            "the model cannot be evaluated independently, so that what was read cannot be checked "
            f"({'; '.join(reason[:160] for reason in reasons)})"
        )

    def _pruned(self, names: list[str]) -> Any:
        """The model with the nodes that were read, sorted, and these outputs."""
        onnx = import_onnx("reading ONNX files")
        proto = onnx.ModelProto()
        source = self._model.proto
        proto.ir_version = source.ir_version
        proto.opset_import.extend(source.opset_import)
        graph = proto.graph
        graph.name = source.graph.name or "graph"
        graph.node.extend(self._model.nodes)
        for node in graph.node:
            node.name = ""  # onnxruntime wants names that differ; they mean nothing
        graph.input.extend(i for i in source.graph.input if i.name == self._model.input)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        used = {i for n in self._model.nodes for i in n.input}
        graph.initializer.extend(t for t in source.graph.initializer if t.name in used)
        return proto  # tensors of `model.apart` have no data of their own here

    def _runtime(self, proto: Any, names: list[str]) -> Any:
        import onnxruntime as ort

        options = _options()
        if sum(array.nbytes for array in self._model.constants.values()) > STEPWISE:
            return stepwise(self._model, options, names)
        apart = [t.name for t in proto.graph.initializer if t.name in self._model.apart]
        if apart:
            values = [self._model.constants[name] for name in apart]
            held = [ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(v)) for v in values]
            options.add_external_initializers(apart, held)
        session = ort.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        source = self._model.input
        return lambda x: session.run(names, {source: x})

    def _reference(self, proto: Any, names: list[str]) -> Any:
        onnx = import_onnx("reading ONNX files")
        from onnx.reference import ReferenceEvaluator

        for tensor in proto.graph.initializer:
            if tensor.name in self._model.apart:
                array = self._model.constants[tensor.name]
                tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
        opened = ReferenceEvaluator(proto)
        source = self._model.input
        return lambda x: opened.run(names, {source: x})


def _options() -> Any:
    """Settings of a session that takes no more memory than it has to."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.disable_prepacking", "1")  # a copy of all weights
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False  # it grows by doubling
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options
