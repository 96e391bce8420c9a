"""Models with many weights evaluated by onnxruntime a node at a time.

A session holds whatever its graph makes of constants, such as all weights cast to float64, at once.
A session for each node holds that node's alone: values are dropped when no later node needs them,
and what is made of constants is made right before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.formats.onnx.model import Model, import_onnx

Array = NDArray[Any]


def stepwise(model: Model, options: Any, names: list[str]) -> Callable[[Array], list[Array]]:
    """The values of these tensors at one input, as a function of it."""
    nodes = ordered(model.nodes, set(model.constants))
    last = {name: place for place, node in enumerate(nodes) for name in node.input}
    last |= dict.fromkeys(names, len(nodes))

    def run(x: Array) -> list[Array]:
        values: dict[str, Array] = {model.input: x}
        for place, node in enumerate(nodes):
            feed = {n: values[n] if n in values else model.constants[n] for n in node.input if n}
            values.update(_evaluated(node, feed, model, options))
            for name in [n for n in values if last.get(n, -1) <= place]:
                del values[name]
        return [values[name] for name in names]

    return run


def ordered(nodes: Sequence[Any], constants: set[str]) -> list[Any]:
    """The same nodes, those of constants alone right before the first that needs them."""
    fixed, found = set(constants), list[Any]()
    waiting: dict[str, Any] = {}

    def settle(node: Any) -> None:
        for name in node.input:
            if name in waiting:
                made = waiting[name]
                for output in made.output:
                    waiting.pop(output, None)
                settle(made)
        found.append(node)

    for node in nodes:
        if all(name in fixed for name in node.input if name):
            fixed.update(node.output)
            waiting.update(dict.fromkeys(node.output, node))
        else:
            settle(node)
    return found


def _evaluated(node: Any, feed: dict[str, Array], model: Model, options: Any) -> dict[str, Array]:
    onnx = import_onnx("reading ONNX files")
    import onnxruntime as ort

    info = onnx.helper.make_tensor_value_info
    inputs = [
        info(n, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), list(a.shape))
        for n, a in feed.items()
    ]
    outputs = [name for name in node.output if name]
    graph = onnx.GraphProto(name="step", node=[node], input=inputs)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    proto = onnx.ModelProto(graph=graph, ir_version=model.proto.ir_version)
    proto.opset_import.extend(model.proto.opset_import)
    session = ort.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    made = session.run(outputs, {n: np.ascontiguousarray(a) for n, a in feed.items()})
    return dict(zip(outputs, made, strict=True))
