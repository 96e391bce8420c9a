"""Each kind of operation as ONNX nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from reconstruct.errors import InputError
from reconstruct.formats.onnx.draft import Draft
from reconstruct.networks import (
    Add,
    Clip,
    Convolution,
    Elu,
    Geometry,
    LeakyRelu,
    MaxPool,
    Mixing,
    Node,
    Norm,
    Placement,
    Relu,
    Scaling,
    Select,
    Selu,
    SumPool,
    Unitwise,
)


def write_node(node: Node, draft: Draft) -> None:
    """Writes one node; its value's shape is known to the draft afterwards."""
    for kind in type(node.op).__mro__:
        if kind in WRITERS:
            draft.shapes[node.name] = WRITERS[kind](node, node.op, draft)
            return
    raise InputError(
        f"node {node.name!r} is a {node.op.kind}, which ONNX files cannot hold; save the network "
        "as .npz"
    )


def _mixing(node: Node, op: Mixing, draft: Draft) -> tuple[int, ...]:
    weight = op.matrix.toarray() if sparse.issparse(op.matrix) else op.matrix
    parts = draft.parameters(node, weight=weight, bias=op.bias)
    draft.node("Gemm", [draft.flat(node.inputs[0]), *parts], node.name, transB=1)
    return (op.shape[0],)


def _norm(node: Node, op: Norm, draft: Draft) -> tuple[int, ...]:
    """BatchNormalization; units that share a channel stand along axes of their own."""
    eps = float(np.float32(op.eps))  # ONNX keeps a float32: the variance takes what is left of it
    var = np.maximum(op.var + (op.eps - eps), 0.0)
    parts = draft.parameters(
        node, weight=op.gamma, bias=op.beta, running_mean=op.mean, running_var=var
    )
    shape = draft.shapes[node.inputs[0]]
    if shape[0] != op.channels:
        shape = (op.channels, op.positions) if op.positions > 1 else (op.channels,)
    value = draft.shaped(node.inputs[0], shape)
    draft.node("BatchNormalization", [value, *parts], node.name, epsilon=eps)
    return shape


def _scaling(node: Node, op: Scaling, draft: Draft) -> tuple[int, ...]:
    """Mul, Div and Add, those of them that do something; the last one has the node's name."""
    steps = [
        (kind, key, values)
        for kind, key, values, neutral in (
            ("Mul", "factor", op.factor, 1.0),
            ("Div", "divisor", op.divisor, 1.0),
            ("Add", "offset", op.offset, 0.0),
        )
        if np.any(values != neutral)
    ] or [("Add", "offset", op.offset)]
    (value,) = node.inputs
    shape = draft.shapes[value]
    for place, (kind, key, values) in enumerate(steps, start=1):
        (part,) = draft.parameters(node, **{key: values.reshape(shape)})
        last = node.name if place == len(steps) else draft.fresh(f"{node.name}/{kind.lower()}")
        value = draft.node(kind, [value, part], last)
    return shape


def _add(node: Node, op: Add, draft: Draft) -> tuple[int, ...]:
    shapes = {draft.shapes[i] for i in node.inputs}
    alike = len(shapes) == 1
    values = list(node.inputs) if alike else [draft.flat(i) for i in node.inputs]
    draft.node("Add" if len(values) == 2 else "Sum", values, node.name)
    (shape, *_) = shapes
    return shape if alike else (math.prod(shape),)


def _select(node: Node, op: Select, draft: Draft) -> tuple[int, ...]:
    parts = [
        draft.constant(f"{node.name}.{key}", [value], np.int64)
        for key, value in (("start", op.start), ("stop", op.stop), ("axis", 1))
    ]
    draft.node("Slice", [draft.flat(node.inputs[0]), *parts], node.name)
    return (op.stop - op.start,)


def _placement(node: Node, op: Placement, draft: Draft) -> tuple[int, ...]:
    value = _padded(draft, draft.flat(node.inputs[0]), node.name, op.index)
    index = draft.constant(f"{node.name}.index", op.index % (op.inputs + 1), np.int64)
    draft.node("Gather", [value, index], node.name, axis=1)
    return (len(op.index),)


def _padded(draft: Draft, value: str, name: str, index: Any) -> str:
    """The flat value with a zero behind it, for indices of −1; as it is where there are none."""
    if index.min() >= 0:
        return value
    pads = draft.constant(f"{name}.pads", [0, 0, 0, 1], np.int64)
    return draft.step("Pad", [value, pads], name)


# --- images ---------------------------------------------------------------------------------------


def _window(geometry: Geometry) -> dict[str, Any]:
    return {
        "kernel_shape": geometry.kernel,
        "strides": geometry.strides,
        "pads": geometry.pads,
        "dilations": geometry.dilations,
    }


def _image(node: Node, geometry: Geometry, draft: Draft) -> str:
    return draft.shaped(node.inputs[0], (geometry.channels, geometry.height, geometry.width))


def _convolution(node: Node, op: Convolution, draft: Draft) -> tuple[int, ...]:
    if draft.dtype == np.float64:
        return _as_product(node, op, draft)
    parts = draft.parameters(node, weight=op.kernel, bias=op.offsets)
    value = _image(node, op.geometry, draft)
    draft.node("Conv", [value, *parts], node.name, group=op.groups, **_window(op.geometry))
    return op.out_shape


def _as_product(node: Node, op: Convolution, draft: Draft) -> tuple[int, ...]:
    """kernel · patches: onnxruntime multiplies in float64, but has no Conv for it."""
    groups, rows = op.groups, op.channels // op.groups
    columns = op.kernel[0].size
    value = _patches(node, op, draft)
    shape = (groups, rows, columns) if groups > 1 else (rows, columns)
    parts = draft.parameters(node, weight=op.kernel.reshape(shape), bias=op.offsets[:, None])
    if groups > 1:
        apart = draft.constant(f"{node.name}.groups", [0, groups, columns, op.positions], np.int64)
        value = draft.step("Reshape", [value, apart], node.name)
    product = draft.step("MatMul", [parts[0], value], node.name)
    if groups > 1:
        back = draft.constant(f"{node.name}.joined", [0, op.channels, op.positions], np.int64)
        product = draft.node("Reshape", [product, back], draft.fresh(f"{node.name}/joined"))
    draft.node("Add", [product, parts[1]], node.name)
    return op.channels, op.positions


def _patches(node: Node, op: Convolution, draft: Draft) -> str:
    """The patches as columns: channels·kernel × positions."""
    g = op.geometry
    if g.plain:
        return draft.shaped(node.inputs[0], (g.channels, g.positions))
    places = g.patches(np.arange(1, g.size + 1)[None])[0].reshape(-1, g.positions) - 1
    value = _padded(draft, draft.flat(node.inputs[0]), node.name, places)
    index = draft.constant(f"{node.name}.index", places % (g.size + 1), np.int64)
    return draft.node("Gather", [value, index], draft.fresh(f"{node.name}/gather"), axis=1)


def _sum_pool(node: Node, op: SumPool, draft: Draft) -> tuple[int, ...]:
    """ReduceSum over the pixels, or over the columns that hold the windows' pixels.

    It has no weights, so that a network has as many parameters in the file as elsewhere, and
    onnxruntime has it in float64, which it has neither AveragePool nor Conv in.
    """
    g = op.geometry
    whole = g.kernel == (g.height, g.width) and not g.padded
    columns = g.kernel == (g.height, 1) and g.output == (1, g.width) and not g.padded
    value = _image(node, g, draft) if whole or columns else _windows(node, g, draft)
    axes = draft.constant(f"{node.name}.axes", [2, 3] if whole else [2], np.int64)
    draft.node("ReduceSum", [value, axes], node.name, keepdims=1)
    return op.channels, 1, g.positions


def _windows(node: Node, g: Geometry, draft: Draft) -> str:
    """channels × kernel × positions: the pixels of each window as a column."""
    one = replace(g, channels=1)
    value = draft.shaped(node.inputs[0], (g.channels, g.height * g.width))
    if one.padded:
        pads = draft.constant(f"{node.name}.pads", [0, 0, 0, 0, 0, 1], np.int64)
        value = draft.step("Pad", [value, pads], node.name)
    index = one.windows() % (one.size + 1)
    places = draft.constant(f"{node.name}.index", index, np.int64)
    return draft.node("Gather", [value, places], draft.fresh(f"{node.name}/gather"), axis=2)


def write_mean(node: Node, pool: Node, draft: Draft) -> None:
    """A sum over windows and the division behind it as one AveragePool (in float32)."""
    assert isinstance(pool.op, SumPool)
    value = _image(pool, pool.op.geometry, draft)
    counted = int(pool.op.geometry.padded)
    window = _window(pool.op.geometry)
    del window["dilations"]  # AveragePool has them since operator set 19
    draft.node("AveragePool", [value], node.name, count_include_pad=counted, **window)
    draft.shapes[node.name] = pool.op.out_shape


def _max_pool(node: Node, op: MaxPool, draft: Draft) -> tuple[int, ...]:
    value = _image(node, op.geometry, draft)
    draft.node("MaxPool", [value], node.name, **_window(op.geometry))
    return op.out_shape


def _unitwise(node: Node, op: Unitwise, draft: Draft) -> tuple[int, ...]:
    _write_activation(op, node.inputs[0], node.name, draft)
    return draft.shapes[node.inputs[0]]


# --- activations, in basic steps where onnxruntime has no float64 kernel ---


def _write_activation(op: Any, source: str, name: str, draft: Draft) -> None:
    if isinstance(op, Relu):
        draft.node("Relu", [source], name)
    elif isinstance(op, Clip):
        bounds = ((op.lo, "min"), (op.hi, "max"))
        parts = [
            draft.constant(f"{name}.{key}", value) if np.isfinite(value) else ""
            for value, key in bounds
        ]
        draft.node("Clip", [source, *_without_trailing(parts)], name)
    elif draft.dtype == np.float32:
        kinds = {LeakyRelu: "LeakyRelu", Elu: "Elu", Selu: "Selu"}
        draft.node(kinds[type(op)], [source], name, **_attributes(op))
    else:
        _spell_out(op, source, name, draft)


def _attributes(op: LeakyRelu | Elu | Selu) -> dict[str, Any]:
    if isinstance(op, LeakyRelu):
        return {"alpha": op.slope}
    return {"alpha": op.alpha} | ({"gamma": op.gamma} if isinstance(op, Selu) else {})


def _spell_out(op: LeakyRelu | Elu | Selu, source: str, name: str, draft: Draft) -> None:
    """The activation in basic steps that have float64 kernels (see `elu.py`)."""
    if isinstance(op, LeakyRelu):
        slope = draft.constant(f"{name}.slope", op.slope)
        product = draft.step("Mul", [source, slope], name)
        draft.node("Max" if op.slope <= 1 else "Min", [source, product], name)
        return
    one, zero = draft.constant(f"{name}.one", 1.0), draft.constant(f"{name}.zero", 0.0)
    alpha = draft.constant(f"{name}.alpha", op.alpha)
    below = draft.step("Min", [source, zero], name)
    tail = draft.step("Sub", [draft.step("Exp", [below], name), one], name)
    halves = [draft.step("Relu", [source], name), draft.step("Mul", [tail, alpha], name)]
    if isinstance(op, Elu):
        draft.node("Add", halves, name)
    else:
        gamma = draft.constant(f"{name}.gamma", op.gamma)
        draft.node("Mul", [draft.step("Add", halves, name), gamma], name)


def _without_trailing(parts: list[str]) -> Iterator[str]:
    """The names up to the last one that is not empty."""
    count = max((i + 1 for i, part in enumerate(parts) if part), default=0)
    yield from parts[:count]


WRITERS: dict[type[Any], Callable[[Node, Any, Draft], tuple[int, ...]]] = {
    Mixing: _mixing,
    Norm: _norm,
    Scaling: _scaling,
    Add: _add,
    Select: _select,
    Placement: _placement,
    Convolution: _convolution,
    SumPool: _sum_pool,
    MaxPool: _max_pool,
    Unitwise: _unitwise,
}
