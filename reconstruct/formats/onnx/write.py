"""Networks written as ONNX models (IR 8, opset 15) that onnxruntime runs in float32 and float64.

The model takes `[N, size_in]`, or images `[N, channels, height, width]` where the network begins
with an operation on images, with a symbolic batch; each node of the network is an ONNX node of the
same name. What onnxruntime has no float64 kernel for (Conv, LeakyRelu, Elu, Selu) is spelled out
in basic steps, which the reader understands.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.errors import InputError
from reconstruct.formats.files import write_atomically, written_whole
from reconstruct.formats.onnx.draft import Draft, narrow
from reconstruct.formats.onnx.external import DataFile
from reconstruct.formats.onnx.model import import_onnx
from reconstruct.formats.onnx.write_nodes import write_mean, write_node
from reconstruct.networks import Network, Node, Scaling, SumPool
from reconstruct.networks.inputs import input_shape
from reconstruct.version import __version__

IR_VERSION, OPSET = 8, 15  # onnx's own defaults are too new for released onnxruntimes
FLOAT32 = 4  # bytes
PROTOBUF_LIMIT = 2**29  # bytes of weights in one file: protobuf ends at 2 GiB, and holds them
# several times in memory while it writes and reads them


def write_onnx(network: Network, path: str | os.PathLike[str], dtype: Any = np.float64) -> None:
    """Writes the network with its numbers rounded to `dtype`, whole or not at all.

    Beyond 512 MiB they go to `<path>.data` beside the model.
    """
    kind, goal = np.dtype(dtype), Path(path)
    if stored_bytes(network, kind) <= PROTOBUF_LIMIT:
        write_atomically(goal, onnx_model(network, kind).SerializeToString())
        return
    beside = goal.with_name(goal.name + ".data")
    with written_whole(beside) as file:
        data = DataFile(import_onnx("writing ONNX files"), file, beside.name)
        model = onnx_model(network, kind, data)
        data.sign(model)
        goal.unlink(missing_ok=True)  # an older model must not meet the new weights
    write_atomically(goal, model.SerializeToString())


def stored_bytes(network: Network, dtype: Any) -> int:
    """What the parameters take in a file of `dtype`, frozen weights as the float32 they are."""
    kind = np.dtype(dtype)
    narrowed = sum(
        node.op.weights
        for node in network.nodes
        for a in node.op.arrays().values()
        if narrow(a, kind)
    )
    return int(network.parameters * kind.itemsize - narrowed * (kind.itemsize - FLOAT32))


def onnx_model(network: Network, dtype: Any = np.float64, data: DataFile | None = None) -> Any:
    """The network as an onnx.ModelProto, its weights in `data` if that is given."""
    onnx = import_onnx("writing ONNX files")
    kind = np.dtype(dtype)
    if kind not in (np.float32, np.float64):
        raise InputError(f"ONNX files are written in float32 or float64, but got {kind}")
    draft = Draft(onnx, kind, {network.source, *(n.name for n in network.nodes)}, data)
    draft.shapes[network.source] = input_shape(network)
    means = _means(network) if kind == np.float32 else {}
    pools = {pool.name for pool in means.values()}
    for node in network.nodes:
        if node.name in means:
            write_mean(node, means[node.name], draft)
        elif node.name not in pools:
            write_node(node, draft)
    output = network.output
    if output == network.source:
        output = draft.node("Identity", [output], draft.fresh("output"))
        draft.shapes[output] = draft.shapes[network.source]
    output = _flattened(network, output, draft)
    number = onnx.helper.np_dtype_to_tensor_dtype(kind)
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        draft.nodes,
        "network",
        [info(network.source, number, ["N", *draft.shapes[network.source]])],
        [info(output, number, ["N", network.size_out])],
        draft.constants,
    )
    return onnx.helper.make_model(
        graph,
        ir_version=IR_VERSION,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        producer_name="reconstruct",
        producer_version=__version__,
    )


def _means(network: Network) -> dict[str, Node]:
    """Divisions by the size of a window behind its sum, by name, with the sum: AveragePool.

    The sum `mean/sum` of a node `mean` is what AveragePool is read as; other names stay two nodes.
    Dilated windows came to AveragePool in a later operator set than is written here.
    """
    found = {}
    for node in network.nodes:
        before = network.node(node.inputs[0]) if node.inputs[0] != network.source else node
        if isinstance(node.op, Scaling) and isinstance(before.op, SumPool):
            area = float(np.prod(before.op.geometry.kernel))
            mean = Scaling(np.ones(node.op.units), np.full(node.op.units, area))
            alone = len(network.consumers(before.name)) == 1 and before.name != network.output
            flat = before.op.geometry.dilations == (1, 1)
            if before.name == f"{node.name}/sum" and alone and flat and node.op.same(mean):
                found[node.name] = before
    return found


def _flattened(network: Network, output: str, draft: Draft) -> str:
    """The output as a row of numbers, under the name of the node that makes it if that can be."""
    if draft.shapes[output] == (network.size_out,):
        return output
    return draft.flat(output)
