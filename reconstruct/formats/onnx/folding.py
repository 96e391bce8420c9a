"""Constants that are computed from constants: in the file's own arithmetic, by ONNX's reference.

A node whose inputs are all constant is evaluated as the file states it: float32 constants in
float32, integers in their own type with its wrap-around, Cast with ONNX's rounding. Where that
differs from real arithmetic, (1e8 + 1) − 1e8 = 0 in float32, the file's value is the network's, and
a note says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats.onnx.inference import same_type
from reconstruct.formats.onnx.model import attributes, import_onnx
from reconstruct.formats.onnx.order import node_name

Array = NDArray[Any]
RANDOM = ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial")
NOT_CONSTANT = frozenset((*RANDOM, "Bernoulli", "If", "Loop", "Scan", "SequenceMap"))
SHAPING = ("Identity", "Flatten", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Dropout")
TAKING = ("Slice", "Gather", "Split", "Concat", "Expand", "ConstantOfShape", "Tile", "Where", "Pad")
MOVES = frozenset((*SHAPING, *TAKING, "Neg", "Abs", "Relu", "Max", "Min", "Clip"))  # none rounds
VALUES = {  # the attributes in which Constant keeps numbers
    "value": None,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


@dataclass(eq=False)
class Folding:
    """Evaluates nodes of constants and remembers where that rounded."""

    opset: int
    rounded: list[str] = field(default_factory=list)

    def fold(
        self, node: Any, inputs: list[Array | None], kinds: list[tuple[int, Any]]
    ) -> list[Array]:
        """What the node makes of constants; `kinds` are ONNX's types and shapes for it."""
        made = self._made(node, inputs)
        for array, (kind, shape) in zip(made, kinds, strict=False):
            told = shape is None or tuple(array.shape) == shape
            if not told or (kind and not same_type(array, kind)):
                raise UnsupportedError(
                    f"is evaluated to {array.dtype} of shape {array.shape}, which is not what "
                    "ONNX's rules say; replace it by its value when exporting"
                )
        if rounds(node, inputs, made, self.opset):
            self.rounded.append(f"{node_name(node)!r} ({node.op_type})")
        return made

    def _made(self, node: Any, inputs: list[Array | None]) -> list[Array]:
        if node.op_type == "Constant":
            return [_constant(node)]
        if node.op_type in NOT_CONSTANT:
            raise UnsupportedError("makes random numbers or holds a graph of its own")
        return evaluated(node, inputs, self.opset)

    def notes(self) -> list[str]:
        """One sentence on all that was rounded, if anything was."""
        if not self.rounded:
            return []
        more = f" and {len(self.rounded) - 1} more" if len(self.rounded) > 1 else ""
        return [
            f"constants are folded in the file's own arithmetic, which rounds at {self.rounded[0]}"
            f"{more}"
        ]


def _constant(node: Any) -> Array:
    found = attributes(node)
    for name, kind in VALUES.items():
        if name in found:
            return np.asarray(found[name], dtype=kind)
    raise UnsupportedError("holds a value that is neither a tensor nor numbers")


def evaluated(node: Any, inputs: list[Array | None], opset: int) -> list[Array]:
    """The node evaluated on these arrays by ONNX's reference implementation."""
    onnx = import_onnx("reading ONNX files")
    from onnx.reference import ReferenceEvaluator

    feed = {n: a for n, a in zip(node.input, inputs, strict=True) if n and a is not None}
    graph = onnx.GraphProto(name="constants", node=[node])
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in feed)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused when the network is built
            made = iter(ReferenceEvaluator(graph, opsets={"": opset}).run(None, feed))
    except Exception as error:  # the reference raises whatever a malformed node provokes
        raise InputError(f"cannot be evaluated on its constants ({error})") from None
    return [np.asarray(next(made)) if name else np.empty(0) for name in node.output]


def rounds(node: Any, inputs: list[Array | None], made: list[Array], opset: int) -> bool:
    """Whether the file's arithmetic gave something else than a wider one does."""
    if not any(_is_float(a) for a in made) or not inputs:
        return False
    if node.op_type in ("Cast", "CastLike"):
        return not _equal(inputs[0], made[0])
    wide = [_wider(a) for a in inputs]
    if node.op_type in MOVES or all(w is a for w, a in zip(wide, inputs, strict=True)):
        return False
    try:
        better = evaluated(node, wide, opset)
    except InputError:
        return True
    return not all(_equal(a, b) for a, b in zip(better, made, strict=True))


def _is_float(array: Array) -> bool:
    return array.dtype.kind == "f" or array.dtype.kind == "V"


def _wider(array: Array | None) -> Array | None:
    if array is None or not _is_float(array):
        return array
    return array.astype(np.longdouble if array.dtype == np.float64 else np.float64)


def _equal(a: Array | None, b: Array) -> bool:
    """Equal as numbers, in a type that holds both."""
    if a is None or a.shape != b.shape:
        return False
    return bool(np.all(a.astype(np.longdouble) == b.astype(np.longdouble)))
