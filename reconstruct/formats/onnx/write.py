"""Networks written as ONNX models (IR 8, opset 15) that onnxruntime runs in float32 and float64.

The model takes `[N, size_in]`, or images `[N, channels, height, width]` where the network begins
with an operation on images, with a symbolic batch; each node of the network is an ONNX node of the
same name. What onnxruntime has no float64 kernel for (Conv, LeakyRelu, Elu, Selu) is spelled out
in basic steps, which the reader understands.

An ONNX graph while it is written: its nodes, its constants, and the shape of every value.

Each kind of operation as ONNX nodes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.files import LIMITS, rounded, write_atomically, written_whole
from reconstruct.formats.onnx.external import DataFile, holds
from reconstruct.formats.onnx.model import import_onnx
from reconstruct.networks import Add, MatrixProduct, Network, Node, activations, maps
from reconstruct.networks.graph import input_shape
from reconstruct.numbers.arrays import Array
from reconstruct.version import __version__

IR_VERSION, OPSET = 8, 15  # onnx's own defaults are too new for released onnxruntimes
LIVE_OPSET, GELU_OPSET = 17, 20  # the first that have LayerNormalization, and Gelu


def write_onnx(
    network: Network,
    path: str | os.PathLike[str],
    dtype: Any = np.float64,
    finish: Callable[[Draft], None] = lambda draft: None,
) -> None:
    """Writes the network with its numbers rounded to `dtype`, whole or not at all.

    Beyond 512 MiB they go to `<path>.data` beside the model. `finish` may add to the graph.
    """
    kind, goal = np.dtype(dtype), Path(path)
    if stored_bytes(network, kind) <= LIMITS.message:
        model = onnx_model(network, kind, finish)
    else:
        beside = goal.with_name(goal.name + ".data")
        with written_whole(beside) as file:
            data = DataFile(import_onnx("writing ONNX files"), file, beside.name)
            model = onnx_model(network, kind, finish, data)
            data.sign(model)
            goal.unlink(missing_ok=True)  # an older model must not meet the new weights
    write_atomically(goal, model.SerializeToString())


def stored_bytes(network: Network, dtype: Any) -> int:
    """What the parameters take in a file of `dtype`, frozen weights as the float32 they are."""
    kind, ops = np.dtype(dtype), [node.op for node in network.nodes]
    narrowed = sum(op.weights for op in ops for a in op.arrays().values() if narrow(a, kind))
    return int(network.parameters * kind.itemsize - narrowed * (kind.itemsize - 4))


def onnx_model(
    network: Network, kind: Any, finish: Callable[[Draft], None], data: DataFile | None = None
) -> Any:
    """The network as an onnx.ModelProto, its weights in `data` if that is given."""
    onnx = import_onnx("writing ONNX files")
    require_writable(network, kind)
    draft = Draft(onnx, kind, {network.source, *(n.name for n in network.nodes)}, data)
    draft.shapes[network.source] = input_shape(network)
    if any(node.op.kind == "Gelu" for node in network.nodes):
        draft.opset = GELU_OPSET  # ahead of all nodes: some are written otherwise there
    pools = {node.name: _averaged(network, node, kind) for node in network.nodes}
    written = {pool.name for pool in pools.values() if pool is not None}
    for node in network.nodes:
        pool = pools[node.name]
        if pool is not None:
            _mean(node, pool, draft)
        elif node.name not in written:
            write = next(WRITERS[kind] for kind in type(node.op).__mro__ if kind in WRITERS)
            draft.shapes[node.name] = write(node, node.op, draft)
    output = network.output
    if output == network.source:
        output = draft.node("Identity", [output], draft.fresh("output"))
        draft.shapes[output] = draft.shapes[network.source]
    if draft.shapes[output] != (network.size_out,):  # a row of numbers, if it can be by its name
        output = draft.flat(output)
    draft.outputs[output] = ["N", network.size_out]
    finish(draft)
    return draft.model(network.source)


def _averaged(network: Network, node: Node, dtype: Any) -> Node | None:
    """The sum over windows that this node divides by their size: both are one AveragePool, which
    onnxruntime has in float32.

    The sum `mean/sum` of a node `mean` is what AveragePool is read as; other names stay two nodes.
    Dilated windows came to AveragePool in a later operator set than is written here.
    """
    if node.inputs != (f"{node.name}/sum",) or dtype != np.float32:
        return None
    pool = network.node(node.inputs[0])
    alone = len(network.consumers(pool.name)) == 1 and pool.name != network.output
    if not alone or not isinstance(pool.op, maps.SumPool) or pool.op.geometry.dilations != (1, 1):
        return None
    units, area = pool.op.shape[0], float(np.prod(pool.op.geometry.kernel))
    mean = maps.Scaling(np.ones(units), np.full(units, area))
    return pool if node.op.same(mean) else None


# --- draft --------------------------------------------------------------------------------------


def narrow(values: Any, dtype: Any) -> bool:
    """Whether these weights are stored as float32 numbers in a file of wider ones."""
    return bool(values.dtype == np.float32 and dtype != np.float32 and values.size >= LIMITS.narrow)


@dataclass(eq=False)
class Draft:
    """The ONNX nodes and constants written so far.

    `shapes` holds the shape of each value without the batch: flat, or channels first.
    """

    onnx: Any
    dtype: Any
    taken: set[str]
    data: DataFile | None = None
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    outputs: dict[str, list[Any] | None] = field(default_factory=dict)
    opset: int = OPSET

    @property
    def kind(self) -> int:
        """ONNX's number of the file's type."""
        return int(self.onnx.helper.np_dtype_to_tensor_dtype(self.dtype))

    def model(self, source: str) -> Any:
        """The onnx.ModelProto from the input `source` to the outputs."""
        make = self.onnx.helper
        ends = {source: ["N", *self.shapes[source]], **self.outputs}
        first, *last = (
            make.make_tensor_value_info(name, self.kind, shape) for name, shape in ends.items()
        )
        model = make.make_model(
            make.make_graph(self.nodes, "network", [first], last),
            ir_version=IR_VERSION,
            opset_imports=[make.make_opsetid("", self.opset)],
            producer_name="reconstruct",
            producer_version=__version__,
        )
        self.constants.reverse()
        while self.constants:  # each is copied, and no more than one is held twice
            model.graph.initializer.add().CopyFrom(self.constants.pop())
        return model

    def constant(self, name: str, values: Any, dtype: Any = None) -> str:
        unique = self.fresh(name)
        array = np.asarray(values, dtype=dtype or self.dtype, order="C")
        if self.data is not None and holds(array):
            self.constants.append(self.data.tensor(unique, array))
        else:
            self.constants.append(self.onnx.numpy_helper.from_array(array, unique))
        return unique

    def node(
        self, kind: str, inputs: list[str], made: str, name: str | None = None, **attributes: Any
    ) -> str:
        """A node that makes the value `made`, called so itself unless `name` is given."""
        node = self.onnx.helper.make_node(kind, inputs, [made], name=name or made, **attributes)
        self.nodes.append(node)
        return made

    def step(self, kind: str, inputs: list[str], name: str) -> str:
        """A node of our own making, between the network's."""
        return self.node(kind, inputs, self.fresh(f"{name}/{kind.lower()}"))

    def reduced(self, kind: str, value: str, made: str, axis: int) -> str:
        """ReduceMean and the like over one axis, which is an input from operator set 18 on."""
        if self.opset < 18:
            return self.node(kind, [value], made, axes=[axis], keepdims=1)
        axes = self.constant(f"{made}.axes", [axis], np.int64)
        return self.node(kind, [value, axes], made, keepdims=1)

    def fresh(self, name: str) -> str:
        unique, count = name, 1
        while unique in self.taken:
            count += 1
            unique = f"{name}_{count}"
        self.taken.add(unique)
        return unique

    def shaped(self, name: str, shape: tuple[int, ...]) -> str:
        """The value in that shape, through a Reshape where it has another."""
        if self.shapes[name] == shape:
            return name
        goal, made = self.constant(f"{name}.shape", [0, *shape], np.int64), f"{name}/shaped"
        made = self.node("Reshape", [name, goal], self.fresh(made))
        self.shapes[made] = shape
        return made

    def flat(self, name: str) -> str:
        """The value as a row of numbers."""
        return self.shaped(name, (math.prod(self.shapes[name]),))

    def parameters(self, node: Node, **values: Array) -> list[str]:
        """The constants `<node>.<key>`, which must stay finite in the precision of the file.

        Frozen weights are float32 numbers: a float64 file holds them so and casts them.
        """
        found = []
        for key, value in values.items():
            name = f"{node.name}.{key}"
            if narrow(value, self.dtype):
                stored = self.constant(name, value, np.float32)
                cast = self.fresh(f"{stored}/cast")
                found.append(self.node("Cast", [stored], cast, to=self.kind))
            else:
                found.append(self.constant(name, rounded(node.name, key, value, self.dtype)))
        return found


# --- nodes -------------------------------------------------------------------------------------


def require_writable(network: Network, dtype: Any) -> None:
    """Refuses what an ONNX file of `dtype` cannot hold, whatever its numbers are."""
    for node in network.nodes:
        if not any(kind in WRITERS for kind in type(node.op).__mro__):
            raise UnsupportedError(
                f"node {node.name!r} is a {node.op.kind}, which ONNX files cannot hold; save the "
                "network as .npz"
            )
        if node.op.kind in ("Gelu", "HardSwish") and np.dtype(dtype) == np.float64:
            raise UnsupportedError(
                f"node {node.name!r}: no program that evaluates ONNX has {node.op.kind} in "
                "float64; write the network in float32 (--dtype float32), or save it as .npz"
            )


def _mixing(node: Node, op: maps.Mixing, draft: Draft) -> tuple[int, ...]:
    weight = op.matrix.toarray() if sparse.issparse(op.matrix) else op.matrix
    parts = draft.parameters(node, weight=weight, bias=op.bias)
    draft.node("Gemm", [draft.flat(node.inputs[0]), *parts], node.name, transB=1)
    return (op.shape[0],)


def _norm(node: Node, op: maps.Norm, draft: Draft) -> tuple[int, ...]:
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


def _live_norm(node: Node, op: activations.LiveNorm, draft: Draft) -> tuple[int, ...]:
    """LayerNormalization, where its eps, which ONNX keeps in float32, is ours; else in steps.

    ONNX would have the statistics of float64 values in float32 unless stash_type says otherwise.
    """
    shape = (op.positions, op.channels) if op.positions > 1 else (op.channels,)
    value = draft.shaped(node.inputs[0], shape)
    parts = draft.parameters(node, weight=op.gamma, bias=op.beta)
    if isinstance(op, activations.LayerNorm) and op.eps == float(np.float32(op.eps)):
        draft.opset = max(draft.opset, LIVE_OPSET)
        settings: Any = {"axis": -1, "epsilon": op.eps, "stash_type": draft.kind}
        draft.node("LayerNormalization", [value, *parts], node.name, **settings)
        return shape
    eps = draft.constant(f"{node.name}.eps", op.eps)
    if isinstance(op, activations.LayerNorm):
        mean = draft.reduced("ReduceMean", value, draft.fresh(f"{node.name}/mean"), -1)
        value = draft.step("Sub", [value, mean], node.name)
    square = draft.step("Mul", [value, value], node.name)
    square = draft.reduced("ReduceMean", square, draft.fresh(f"{node.name}/mean"), -1)
    root = draft.step("Sqrt", [draft.step("Add", [square, eps], node.name)], node.name)
    value = draft.step("Div", [value, root], node.name)
    draft.node("Add", [draft.step("Mul", [value, parts[0]], node.name), parts[1]], node.name)
    return shape


def _scaling(node: Node, op: maps.Scaling, draft: Draft) -> tuple[int, ...]:
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


def _cast(node: Node, op: maps.Cast, draft: Draft) -> tuple[int, ...]:
    """To the narrower type, under the node's name, and back; float32 itself from float64."""
    goal = getattr(draft.onnx.TensorProto, "FLOAT" if op.to == "float32" else op.to.upper())
    (value,) = node.inputs
    made = draft.fresh(f"{node.name}/{op.to}")
    if goal == draft.kind:
        wide = draft.onnx.TensorProto.DOUBLE
        value = draft.node("Cast", [value], draft.fresh(f"{node.name}/float64"), to=wide)
        made = node.name
    draft.node("Cast", [value], made, node.name, to=goal)
    if goal != draft.kind:
        draft.node("Cast", [made], node.name, f"{node.name}/back", to=draft.kind)
    return draft.shapes[node.inputs[0]]


def _add(node: Node, op: Add, draft: Draft) -> tuple[int, ...]:
    shapes = {draft.shapes[i] for i in node.inputs}
    alike = len(shapes) == 1
    values = list(node.inputs) if alike else [draft.flat(i) for i in node.inputs]
    draft.node("Add" if len(values) == 2 else "Sum", values, node.name)
    (shape, *_) = shapes
    return shape if alike else (math.prod(shape),)


def _product(node: Node, op: MatrixProduct, draft: Draft) -> tuple[int, ...]:
    """MatMul of stacks of matrices."""
    shapes = (op.stack, op.rows, op.inner), (op.stack, op.inner, op.columns)
    factors = [draft.shaped(i, s) for i, s in zip(node.inputs, shapes, strict=True)]
    draft.node("MatMul", factors, node.name)
    return op.stack, op.rows, op.columns


def _softmax(node: Node, op: activations.Softmax, draft: Draft) -> tuple[int, ...]:
    value = draft.shaped(node.inputs[0], (op.rows, op.width))
    draft.node("Softmax", [value], node.name, axis=-1)
    return op.rows, op.width


def _select(node: Node, op: maps.Select, draft: Draft) -> tuple[int, ...]:
    parts = [
        draft.constant(f"{node.name}.{key}", [value], np.int64)
        for key, value in (("start", op.start), ("stop", op.stop), ("axis", 1))
    ]
    draft.node("Slice", [draft.flat(node.inputs[0]), *parts], node.name)
    return (op.stop - op.start,)


def _placement(node: Node, op: maps.Placement, draft: Draft) -> tuple[int, ...]:
    _gathered(node, draft, draft.flat(node.inputs[0]), op.index, op.inputs, node.name)
    return (len(op.index),)


def _gathered(
    node: Node, draft: Draft, value: str, index: Any, size: int, made: str, axis: int = 1
) -> str:
    """The values at these places along the last axis, of that size; 0 where the index is −1."""
    if index.min() < 0:
        pads = draft.constant(f"{node.name}.pads", [0] * (2 * axis + 1) + [1], np.int64)
        value = draft.step("Pad", [value, pads], node.name)
    places = draft.constant(f"{node.name}.index", index % (size + 1), np.int64)
    return draft.node("Gather", [value, places], made, axis=axis)


# --- images ---------------------------------------------------------------------------------------


def _window(geometry: maps.Geometry) -> dict[str, Any]:
    numbers = {key: getattr(geometry, key) for key in ("strides", "pads", "dilations")}
    return {"kernel_shape": geometry.kernel, **numbers}


def _image(node: Node, geometry: maps.Geometry, draft: Draft) -> str:
    return draft.shaped(node.inputs[0], (geometry.channels, geometry.height, geometry.width))


def _convolution(node: Node, op: maps.Convolution, draft: Draft) -> tuple[int, ...]:
    if draft.dtype == np.float64:
        return _as_product(node, op, draft)
    parts = draft.parameters(node, weight=op.kernel, bias=op.offsets)
    value = _image(node, op.geometry, draft)
    draft.node("Conv", [value, *parts], node.name, group=op.groups, **_window(op.geometry))
    return op.out_shape


def _as_product(node: Node, op: maps.Convolution, draft: Draft) -> tuple[int, ...]:
    """kernel · patches: onnxruntime multiplies in float64, but has no Conv for it."""
    lead = (op.groups,) if op.groups > 1 else ()
    rows, columns = op.channels // op.groups, op.kernel[0].size
    weight, bias = draft.parameters(
        node, weight=op.kernel.reshape(*lead, rows, columns), bias=op.offsets[:, None]
    )
    g = op.geometry
    if g.plain:  # every patch is one pixel, in order
        value = draft.shaped(node.inputs[0], (g.channels, g.positions))
    else:
        index, value = g.windows(), draft.fresh(f"{node.name}/gather")
        draft.shapes[value] = index.shape
        _gathered(node, draft, draft.flat(node.inputs[0]), index, g.size, value)
    value = draft.shaped(value, (*lead, columns, op.positions))
    product = draft.step("MatMul", [weight, value], node.name)
    draft.shapes[product] = (*lead, rows, op.positions)
    draft.node("Add", [draft.shaped(product, (op.channels, op.positions)), bias], node.name)
    return op.channels, op.positions


def _sum_pool(node: Node, op: maps.SumPool, draft: Draft) -> tuple[int, ...]:
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


def _windows(node: Node, g: maps.Geometry, draft: Draft) -> str:
    """channels × kernel × positions: the pixels of each window as a column."""
    pixels, made = g.height * g.width, draft.fresh(f"{node.name}/gather")
    value = draft.shaped(node.inputs[0], (g.channels, pixels))
    index = replace(g, channels=1).windows()
    return _gathered(node, draft, value, index, pixels, made, axis=2)


def _mean(node: Node, pool: Node, draft: Draft) -> None:
    """A sum over windows and the division behind it as one AveragePool (in float32)."""
    assert isinstance(pool.op, maps.SumPool)
    value = _image(pool, pool.op.geometry, draft)
    counted = int(pool.op.geometry.padded)
    window = _window(pool.op.geometry)
    del window["dilations"]  # AveragePool has them since operator set 19
    draft.node("AveragePool", [value], node.name, count_include_pad=counted, **window)
    draft.shapes[node.name] = pool.op.out_shape


def _max_pool(node: Node, op: activations.MaxPool, draft: Draft) -> tuple[int, ...]:
    value = _image(node, op.geometry, draft)
    draft.node("MaxPool", [value], node.name, **_window(op.geometry))
    return op.out_shape


def _unitwise(node: Node, op: activations.Unitwise, draft: Draft) -> tuple[int, ...]:
    write_activation(op, node.inputs[0], node.name, draft)
    return draft.shapes[node.inputs[0]]


# --- activations, in basic steps where onnxruntime has no float64 kernel ---


def write_activation(op: Any, source: str, name: str, draft: Draft) -> None:
    """The nodes of an activation, the last of which makes the value `name`."""
    if op.kind == "Silu":
        draft.node("Mul", [source, draft.step("Sigmoid", [source], name)], name)
    elif op.kind == "Clip":
        ends = {"min": op.lo, "max": op.hi}
        parts = [
            draft.constant(f"{name}.{k}", v) if np.isfinite(v) else "" for k, v in ends.items()
        ]
        while parts and not parts[-1]:  # what is left out at the end is not written
            parts.pop()
        draft.node("Clip", [source, *parts], name)
    elif draft.dtype == np.float64 and op.kind in ("LeakyRelu", "Elu", "Selu"):
        _spell_out(op, source, name, draft)
    else:  # onnxruntime has Softplus in float32 alone, ONNX's reference both
        if op.kind == "Gelu":
            draft.opset = GELU_OPSET
        settings = {"alpha" if k == "slope" else k: v for k, v in op.settings().items()}
        draft.node(op.kind, [source], name, **settings)


def _spell_out(op: Any, source: str, name: str, draft: Draft) -> None:
    """LeakyRelu, Elu or Selu in basic steps that have float64 kernels (see `steps`)."""
    if op.kind == "LeakyRelu":
        slope = draft.constant(f"{name}.slope", op.slope)
        product = draft.step("Mul", [source, slope], name)
        draft.node("Max" if op.slope <= 1 else "Min", [source, product], name)
        return
    one, zero = draft.constant(f"{name}.one", 1.0), draft.constant(f"{name}.zero", 0.0)
    alpha = draft.constant(f"{name}.alpha", op.alpha)
    below = draft.step("Min", [source, zero], name)
    tail = draft.step("Sub", [draft.step("Exp", [below], name), one], name)
    halves = [draft.step("Relu", [source], name), draft.step("Mul", [tail, alpha], name)]
    if op.kind == "Elu":
        draft.node("Add", halves, name)
    else:
        gamma = draft.constant(f"{name}.gamma", op.gamma)
        draft.node("Mul", [draft.step("Add", halves, name), gamma], name)


WRITERS: dict[type[Any], Callable[[Node, Any, Draft], tuple[int, ...]]] = {
    maps.Mixing: _mixing,
    maps.Norm: _norm,
    activations.LiveNorm: _live_norm,
    maps.Scaling: _scaling,
    maps.Cast: _cast,
    Add: _add,
    MatrixProduct: _product,
    activations.Softmax: _softmax,
    maps.Select: _select,
    maps.Placement: _placement,
    maps.Convolution: _convolution,
    maps.SumPool: _sum_pool,
    activations.MaxPool: _max_pool,
    activations.Unitwise: _unitwise,
}


# --- the guarded model ----------------------------------------------------------------------------
#
# If no hidden unit of a site leaves its linear piece at x, every site acts as its map at x, so f(x)
# is the composition of the target's maps up to their residuals, for *any* x (proofs_check: guard).
# The model's output `margin` is the least distance of a hidden unit from the end of its piece, over
# units, positions and sites: at margin ≥ 0 the answer is the target's.

MARGIN = "margin"


def write_guarded(
    network: Network,
    watched: Mapping[str, activations.Piece],
    path: str | os.PathLike[str],
    dtype: Any = np.float64,
) -> None:
    """Writes the network with the output `margin` behind its own; `watched` are the inputs of its
    hidden activations by their nodes, and the piece that each has to stay on."""

    def finish(draft: Draft) -> None:
        parts = [part for unit in watched.items() for part in _distances(draft, *unit)]
        if not parts:
            raise InputError("a guard needs hidden activations to watch, but the network has none")
        draft.node("Identity" if len(parts) == 1 else "Min", parts, MARGIN)
        draft.outputs[MARGIN] = ["N", 1]

    write_onnx(network, path, dtype, finish)


def _distances(draft: Draft, name: str, piece: activations.Piece) -> list[str]:
    """The least distance of a value's units from either end of the piece, (N, 1) each."""
    flat = draft.node("Flatten", [name], f"{name}/watched", axis=1)
    found = []
    for word, reduce, end in (("low", "ReduceMin", piece.lo), ("high", "ReduceMax", piece.hi)):
        if not np.isfinite(end):
            continue
        value = draft.reduced(reduce, flat, f"{name}/{word}", 1)
        if word == "high" or end != 0:
            limit = draft.constant(f"{value}.end", end)
            pair = [limit, value] if word == "high" else [value, limit]
            value = draft.node("Sub", pair, f"{value}/away")
        found.append(value)
    return found
