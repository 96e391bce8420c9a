"""An ONNX file as a checked model: one input of known shape, one output, constants, calls."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError, MissingDependencyError, UnsupportedError
from reconstruct.formats.onnx.external import check_data

Array = NDArray[Any]
LARGEST = 2**26  # values in one tensor; beyond it the flattened maps would not fit in memory


@dataclass(frozen=True, eq=False)
class Model:
    """A parsed ONNX model. `batch` is true when one dimension of the input is symbolic."""

    graph: Any
    opset: int
    input: str
    shape: tuple[int, ...]
    batch: bool
    output: str
    constants: dict[str, Array]
    uses: Counter[str]
    data_sha256: str | None


def import_onnx(purpose: str) -> Any:
    """The package onnx, with the submodules used here."""
    try:
        import onnx
        import onnx.external_data_helper
        import onnx.helper
        import onnx.numpy_helper
    except ImportError:
        raise MissingDependencyError("onnx", "onnx", purpose) from None
    return onnx


def read_model(content: bytes, folder: Path) -> Model:
    """The model in these bytes; tensors kept in files beside it are looked up in `folder`."""
    graph, opset, data_sha256 = _parse(content, folder)
    constants = {t.name: constant(t, folder) for t in graph.initializer}
    inputs = [i for i in graph.input if i.name not in constants]
    if len(inputs) != 1 or len(graph.output) != 1:
        raise UnsupportedError(
            "a network with one input and one output is needed, but the ONNX graph has "
            f"{_listed(inputs, 'input')} and {_listed(graph.output, 'output')}"
        )
    shape, batch = _input_shape(inputs[0])
    uses = Counter(name for node in graph.node for name in node.input)
    uses[graph.output[0].name] += 1
    return Model(
        graph,
        opset,
        inputs[0].name,
        shape,
        batch,
        graph.output[0].name,
        constants,
        uses,
        data_sha256,
    )


def _parse(content: bytes, folder: Path) -> tuple[Any, int, str | None]:
    onnx = import_onnx("reading ONNX files")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except Exception:  # protobuf's own DecodeError, whose module has no types
        raise InputError(
            "this is not an ONNX model, or one that was cut short; fetch or export it again"
        ) from None
    if not model.HasField("graph") or not (model.graph.node or model.graph.input):
        raise InputError("the ONNX model holds no graph; was it written completely?")
    if model.graph.sparse_initializer:
        raise UnsupportedError(
            "the ONNX model holds sparse initializers, but only dense ones can be read; "
            "export it with dense weights"
        )
    versions = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]
    if not versions and model.ir_version >= 3:  # earlier models meant opset 1
        raise InputError("the ONNX model states no operator set; was it cut short?")
    return model.graph, int(versions[0]) if versions else 1, check_data(model, folder)


def constant(tensor: Any, folder: Path) -> Array:
    """A tensor as an array; every float type smaller than float32 becomes float32, exactly."""
    onnx = import_onnx("reading ONNX files")
    try:
        array = np.asarray(onnx.numpy_helper.to_array(tensor, base_dir=str(folder)))
        if array.dtype.kind not in "fiubSUO" or array.dtype == np.float16:
            array = array.astype(np.float32)
    except Exception as error:  # the decoder raises whatever the damage provokes
        raise InputError(f"the tensor {tensor.name!r} of the model is damaged ({error})") from None
    return array


def _input_shape(info: Any) -> tuple[tuple[int, ...], bool]:
    """The input's shape with 1 for its symbolic dimension, if it has one."""
    onnx = import_onnx("reading ONNX files")
    kinds = onnx.TensorProto
    tensor = info.type.tensor_type
    if tensor.elem_type not in (kinds.FLOAT, kinds.DOUBLE, kinds.FLOAT16, kinds.BFLOAT16):
        raise UnsupportedError(f"the input {info.name!r} must be a tensor of real numbers")
    if not tensor.HasField("shape"):
        raise UnsupportedError(
            f"the input {info.name!r} has no shape; export the model with a fixed input shape"
        )
    sizes = [d.dim_value if d.dim_value > 0 else 0 for d in tensor.shape.dim]
    if sizes.count(0) > 1:
        raise UnsupportedError(
            f"the input {info.name!r} has {sizes.count(0)} dimensions of unknown size, but only "
            "the batch may be symbolic; export the model with a fixed input shape"
        )
    shape = tuple(size or 1 for size in sizes)
    return checked_size(shape, f"the input {info.name!r}"), 0 in sizes


def checked_size(shape: tuple[int, ...], what: str) -> tuple[int, ...]:
    """The shape, unless it has too many values to be worked with as one vector."""
    if math.prod(shape) > LARGEST:
        raise UnsupportedError(
            f"{what} has shape {shape}, more than the {LARGEST} values that a tensor may have"
        )
    return shape


def _listed(values: Any, kind: str) -> str:
    names = [repr(v.name) for v in values]
    shown = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    return f"{len(names)} {kind}s" + (f" ({shown})" if len(names) > 1 else "")


def attributes(node: Any, folder: Path) -> dict[str, Any]:
    """The attributes of an ONNX node as Python values, tensors as arrays."""
    try:
        return dict(_attributes(node, folder))
    except (ValueError, TypeError) as error:
        raise InputError(f"node {node.name!r} has a malformed attribute ({error})") from None


def _attributes(node: Any, folder: Path) -> Iterator[tuple[str, Any]]:
    onnx = import_onnx("reading ONNX files")
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.TENSOR:
            yield attribute.name, constant(attribute.t, folder)
        else:
            value = onnx.helper.get_attribute_value(attribute)
            yield attribute.name, value.decode() if isinstance(value, bytes) else value
