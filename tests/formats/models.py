"""Small ONNX models, onnxruntime as the independent evaluation, and networks drawn at random."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

from reconstruct.networks import (
    Add,
    Affine,
    Clip,
    Elu,
    LeakyRelu,
    Network,
    Node,
    Norm,
    Relu,
    Select,
    Selu,
    dense,
)

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "targets"


def onnx_bytes(
    nodes: list[tuple],
    shape: list[Any],
    constants: dict[str, Any] | None = None,
    *,
    opset: int = 15,
    dtype: Any = np.float64,
    outputs: tuple[str, ...] = ("y",),
    inputs: dict[str, list[Any]] | None = None,
) -> bytes:
    """A model from `(kind, inputs, output[, attributes])` tuples; the input is `x`."""
    import onnx
    from onnx import helper, numpy_helper

    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    tensors = [
        numpy_helper.from_array(_cast(value, dtype), name)
        for name, value in (constants or {}).items()
    ]
    made = [
        helper.make_node(kind, sources, [goal] if isinstance(goal, str) else goal, **dict(*rest))
        for kind, sources, goal, *rest in nodes
    ]
    infos = [
        helper.make_tensor_value_info(name, number, dims)
        for name, dims in (inputs or {"x": shape}).items()
    ]
    goals = [helper.make_tensor_value_info(name, number, None) for name in outputs]
    graph = helper.make_graph(made, "test", infos, goals, tensors)
    model = helper.make_model(
        graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", opset)]
    )
    return model.SerializeToString()


def _cast(value: Any, dtype: Any) -> Any:
    array = np.asarray(value)
    return array.astype(dtype) if array.dtype.kind == "f" else array


def session(model: bytes | str) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run(model: bytes | str, x: Any) -> Any:
    """What onnxruntime gives at `x`."""
    opened = session(model)
    return opened.run(None, {opened.get_inputs()[0].name: x})[0]


def in_float64(content: bytes) -> bytes:
    """A float32 model with every tensor converted to float64."""
    import onnx
    from onnx import numpy_helper

    model = onnx.ModelProto.FromString(content)
    graph = model.graph
    tensors = [*graph.initializer, *(a.t for n in graph.node for a in n.attribute if a.type == 4)]
    for tensor in tensors:
        if tensor.data_type == 1:
            double = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(double, tensor.name))
    for info in (*graph.input, *graph.output, *graph.value_info):
        if info.type.tensor_type.elem_type == 1:
            info.type.tensor_type.elem_type = 11
    return model.SerializeToString()


def assert_same_graph(a: Network, b: Network, dtype: Any = np.float64) -> None:
    """Same nodes, same wiring, and every number equal to the bit in `dtype`."""
    assert (a.size_in, a.source, a.output) == (b.size_in, b.source, b.output)
    assert [(n.name, n.inputs) for n in a.nodes] == [(n.name, n.inputs) for n in b.nodes]
    for first, second in zip(a.nodes, b.nodes, strict=True):
        assert first.op.kind == second.op.kind, first.name
        for one, other in zip(numbers(first.op), numbers(second.op), strict=True):
            np.testing.assert_array_equal(one.astype(dtype), other.astype(dtype))


def numbers(op: Any) -> list[Any]:
    """All numbers of an operation, as dense arrays."""
    if op.kind == "Affine":
        return [dense(op.weight), op.bias]
    return [*op.arrays().values(), *(np.asarray(v) for v in op.settings().values())]


@st.composite
def networks(draw: Any) -> Network:
    """A directed acyclic network with all operations, whose loose ends meet in its output."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.integers(1, 5))
    sizes, nodes, loose = {"input": size}, [], []
    for i in range(draw(st.integers(1, 8))):
        source = draw(st.sampled_from(sorted(sizes)))
        op, inputs = _draw_op(draw, rng, source, sizes)
        name = draw(st.sampled_from(["layer", "x/y:", "node."])) + str(i)
        nodes.append(Node(name, op, inputs))
        sizes[name] = Network(size, tuple(nodes), name).size_out
        loose = [n for n in loose if n not in inputs] + [name]
    if len(loose) > 1:
        ends = []
        for name in loose:
            ends.append(f"end of {name}")
            weight = rng.normal(size=(2, sizes[name]))
            nodes.append(Node(ends[-1], Affine(weight, rng.normal(size=2)), (name,)))
        nodes.append(Node("all", Add(), tuple(ends)))
    return Network(size, tuple(nodes), nodes[-1].name)


def _draw_op(draw: Any, rng: Any, source: str, sizes: dict[str, int]) -> tuple[Any, tuple]:
    k = sizes[source]
    kind = draw(st.sampled_from(["affine", "sparse", "norm", "add", "select", "activation"]))
    if kind == "affine":
        m = draw(st.integers(1, 5))
        dtype = draw(st.sampled_from([np.float32, np.float64]))
        return Affine(rng.normal(size=(m, k)).astype(dtype), rng.normal(size=m)), (source,)
    if kind == "sparse":
        mask = rng.random((3, k)) < 0.5
        return Affine(sparse.csr_array(mask * rng.normal(size=(3, k)))), (source,)
    if kind == "norm":
        parts = rng.normal(size=(3, k))
        return Norm(*parts, var=rng.uniform(0, 3, k), eps=draw(st.floats(2.0**-20, 1, width=32))), (
            source,
        )
    if kind == "add":
        same = sorted(n for n, s in sizes.items() if s == k)
        more = draw(st.lists(st.sampled_from(same), min_size=1, max_size=3))
        return Add(), (source, *more)
    if kind == "select" and k > 1:
        start = draw(st.integers(0, k - 2))
        return Select(start, draw(st.integers(start + 1, k - 1))), (source,)
    number = draw(st.floats(0.01, 0.9))
    activations = [
        Relu(),
        LeakyRelu(number),
        Elu(number),
        Selu(),
        Selu(number, 2 * number),
        Clip(-number, 3 * number),
        Clip(-number, np.inf),
        Clip(-np.inf, number),
    ]
    return draw(st.sampled_from(activations)), (source,)
