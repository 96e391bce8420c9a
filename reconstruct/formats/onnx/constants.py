"""Constants made of constants, by operators whose result is one definite number.

Moving values about is exact and shared with what depends on the input (`shapes`). Arithmetic is
that of the file's own type: integers wrap around, +, −, ×, ÷ and √ of floats are rounded to
nearest once, as IEEE 754 says; a product of matrices is the real one, rounded to float64 and to
the type. Whatever else a file computes of its constants is refused: the exporter can do it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from reconstruct.formats.files import LIMITS
from reconstruct.formats.onnx.model import import_onnx
from reconstruct.formats.onnx.values import DOUBLE, Builder, Call
from reconstruct.numbers.arrays import Array

VALUES = {  # the attributes in which Constant keeps numbers
    "value": None,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}
PLAIN = (np.float32, np.float64, np.int32, np.int64)


def constant(call: Call, build: Builder) -> Array:
    for name, kind in VALUES.items():
        if name in call.attributes:
            return np.asarray(call.attributes[name], dtype=kind)
    raise call.refuse("holds a value that is neither a tensor nor numbers")


def filled(call: Call, build: Builder) -> Array:
    """ConstantOfShape; without a value it is a float32 zero."""
    value = np.asarray(call.attributes.get("value", np.zeros(1, np.float32)))
    shape = call.integers(0, "shape")
    if shape is None or any(n < 0 for n in shape) or value.size != 1:
        raise call.fault(f"needs a shape and one value, but has {shape} and {value.size} values")
    build.budget.take(math.prod(shape) * value.itemsize, f"the value of node {call.name!r}")
    return np.full(shape, value.reshape(()))


def shape_of(call: Call, build: Builder) -> Array:
    """The shape of a tensor as a constant: a symbolic batch counts as 1."""
    shape = np.array(call.value().shape, dtype=np.int64)
    return shape[call.attributes.get("start", 0) : call.attributes.get("end")]


def arithmetic(operation: Callable[..., Any]) -> Callable[[Call, Builder], Array]:
    """An operation that NumPy rounds correctly, on one or more constants of one type."""

    def made(call: Call, build: Builder) -> Array:
        values = [_own(call, i) for i in range(len(call.inputs))]
        if len({v.dtype for v in values}) != 1 or values[0].dtype not in PLAIN:
            kinds = ", ".join(str(v.dtype) for v in values)
            raise call.refuse(f"computes a constant in {kinds}; fold it when exporting")
        with np.errstate(all="ignore"):  # what is not finite is refused when the network is built
            found = values[0] if len(values) > 1 else operation(values[0])
            for value in values[1:]:
                found = operation(found, value)
        return np.asarray(found, dtype=values[0].dtype)

    return made


def _own(call: Call, index: int) -> Array:
    """The constant in its own type: large float32 numbers that were widened are kept narrow."""
    value = np.asarray(call.value(index))
    return value.astype(np.float64) if call.kinds[index] == DOUBLE else value


def rectified(a: Array) -> Array:
    return np.asarray(np.maximum(a, a.dtype.type(0)))


def quotient(a: Array, b: Array) -> Array:
    """Div: integers are divided towards zero."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    if not np.all(b):
        raise ZeroDivisionError("integers divided by zero")
    return np.asarray((np.sign(a) * np.sign(b)) * (np.abs(a) // np.abs(b)))


def matmul(call: Call, build: Builder) -> Array:
    a, b = (_own(call, i) for i in range(2))
    if a.ndim != 2 or b.ndim != 2 or a.dtype != b.dtype or a.dtype.kind != "f":
        raise call.refuse("multiplies constants other than matrices of floats; fold it")
    if a.size * b.shape[1] > LIMITS.products or not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise call.refuse(
            f"multiplies constants in more than {LIMITS.products} products, or such as are not "
            "finite; fold constants when exporting"
        )
    rows, columns = ([[Fraction(float(v)) for v in row] for row in m] for m in (a, b.T))
    exact = [[float(_dot(row, column)) for column in columns] for row in rows]
    return np.array(exact, np.float64).reshape(len(a), b.shape[1]).astype(a.dtype)


def _dot(a: list[Fraction], b: list[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def cast(call: Call, build: Builder) -> Array:
    """Between numbers: to floats rounded to nearest; to integers what fits, cut at the point."""
    onnx = import_onnx("reading ONNX files")
    value, kind = np.asarray(call.value()), int(call.attributes["to"])
    if kind in (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED):
        raise call.refuse("converts a constant to text")
    goal = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    if value.dtype.kind in "OSU" or "float8" in goal.name or "float4" in goal.name:
        raise call.refuse(f"converts a constant from {value.dtype} to {goal}; fold it")
    if value.dtype == np.float32 and goal == np.float64 and value.size >= LIMITS.narrow:
        return value  # the same numbers in half the space
    with np.errstate(all="ignore"):
        found = np.asarray(value.astype(goal))
    if goal.kind in "iu" or "int" in goal.name:
        exact = np.trunc(value.astype(np.float64)) if value.dtype.kind != "b" else value
        if value.dtype.kind not in "iub" and not np.array_equal(found.astype(np.float64), exact):
            raise call.refuse(f"converts constants to {goal} that do not fit into it")
    return found
