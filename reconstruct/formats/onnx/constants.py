"""What is exact, whether a constant is meant or a value: moving numbers about; and constants that
are made of constants, by operators whose result is one definite number.

Moving relabels a shape, selects a block, or becomes a placement: nothing that has to be rebuilt.
ONNX's rules have the new shape, so that what is left to say here is which number goes where.

Arithmetic of constants is that of the file's own type: integers wrap around, +, −, ×, ÷ and √ of
floats are rounded to nearest once, as IEEE 754 says; a product of matrices is the real one, rounded
to float64 and to the type. Whatever else a file computes of its constants is refused: the exporter
can do it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from reconstruct.formats.files import LIMITS, VALUE
from reconstruct.formats.onnx.model import import_onnx
from reconstruct.formats.onnx.values import DOUBLE, Builder, Call, Flow, Value, moved
from reconstruct.networks import Add, Placement, Scaling
from reconstruct.numbers.arrays import Array

VALUES = {  # the attributes in which Constant keeps numbers
    "value": None,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}
PLAIN = (np.float32, np.float64, np.int32, np.int64)


# --- moving ---------------------------------------------------------------------------------------


def relabelled(call: Call, build: Builder) -> Value:
    """Identity, Flatten, Reshape, Squeeze and Unsqueeze: the same numbers in another shape."""
    value = call.value()
    return (
        replace(value, shape=call.shape) if isinstance(value, Flow) else value.reshape(call.shape)
    )


def expand(call: Call, build: Builder) -> Value:
    return moved(build, call, lambda a: np.broadcast_to(a, call.shape))


def transpose(call: Call, build: Builder) -> Value:
    return moved(build, call, lambda a: np.transpose(a, call.attributes.get("perm")))


def slices(call: Call, build: Builder) -> Value:
    given = [
        call.integers(i, name) for i, name in enumerate(("starts", "ends", "axes", "steps"), 1)
    ]
    starts, ends = given[0] or [], given[1] or []
    axes = given[2] if given[2] is not None else range(len(starts))
    shape = call.value().shape
    rows = [np.arange(n) for n in shape]
    for start, end, axis, step in zip(
        starts, ends, axes, given[3] or [1] * len(starts), strict=True
    ):
        rows[axis] = _chosen(start, end, step, shape[axis])
    return moved(build, call, lambda a: a[np.ix_(*rows)])


def _chosen(start: int, end: int, step: int, size: int) -> Array:
    """The rows of one axis by ONNX's rules, which clamp a start where NumPy leaves nothing."""
    start, end = (i + size if i < 0 else i for i in (start, end))
    if step > 0:
        return np.arange(min(max(start, 0), size), min(max(end, 0), size), step)
    return np.arange(min(max(start, 0), size - 1), min(max(end, -1), size - 1), step)


def gather(call: Call, build: Builder) -> Value:
    index = np.asarray(call.constant(1, "indices")).astype(np.int64)
    if call.opset < 11 and np.any(index < 0):
        raise call.refuse("counts from the end, which sets before 11 do not define")
    return moved(build, call, lambda a: np.take(a, index, axis=call.axis))


def split(call: Call, build: Builder) -> list[Value]:
    """Consecutive blocks along an axis."""
    ends = accumulate((shape[call.axis] for shape in call.shapes if shape), initial=0)
    blocks = [np.arange(a, b) for a, b in pairwise(ends)]
    return [moved(build, call, partial(np.take, indices=b, axis=call.axis)) for b in blocks]


def concat(call: Call, build: Builder) -> Value:
    """Every part is put in its place among zeros, and these are added up."""
    values, axis = [call.value(i) for i in range(len(call.inputs))], call.axis
    if len(values) == 1:
        return values[0]
    if all(isinstance(value, np.ndarray) for value in values):
        return np.concatenate([np.asarray(value) for value in values], axis=axis)
    build.budget.take(3 * VALUE * math.prod(call.shape), f"node {call.name!r}")
    parts: list[Flow] = []
    for place, flow in enumerate(values):
        if isinstance(flow, Flow):
            rows = [np.full(v.shape, -1) for v in values]
            rows[place] = flow.places
            op = Placement(np.concatenate(rows, axis=axis).ravel(), flow.size)
            parts.append(build.emit(f"{call.name}/part", op, flow))
    fixed = [np.zeros(v.shape) if isinstance(v, Flow) else v.astype(np.float64) for v in values]
    offset = np.concatenate(fixed, axis=axis).ravel()
    if np.any(offset):
        shift = Scaling(np.ones(offset.size), offset=offset)
        parts[0] = build.emit(f"{call.name}/part", shift, parts[0])
    return parts[0] if len(parts) == 1 else build.emit(call.name, Add(), *parts)


def pad(call: Call, build: Builder) -> Value:
    """Zeros around a tensor; other values and modes are refused."""
    flow, pads, mode = call.flow(), call.integers(1, "pads") or [], call.attributes["mode"]
    filling = call.constant(2, "values")
    filling = call.attributes.get("value", 0.0) if filling is None else filling
    if mode != "constant" or np.any(np.asarray(filling) != 0):
        raise call.refuse(f"pads in mode {mode!r} with {filling}; zeros alone are supported")
    if call.constant(3, "axes") is not None:
        raise call.refuse("pads chosen axes alone; give pads for all of them")
    rank = len(flow.shape)
    index = np.pad(flow.places + 1, list(zip(pads[:rank], pads[rank:], strict=True))) - 1
    return build.emit(call.name, Placement(index.ravel(), flow.size), flow)


# --- constants ------------------------------------------------------------------------------------


def constant(call: Call, build: Builder) -> Array:
    for name, kind in VALUES.items():
        if name in call.attributes:
            return np.asarray(call.attributes[name], dtype=kind)
    raise call.refuse("holds a value that is neither a tensor nor numbers")


def filled(call: Call, build: Builder) -> Array:
    """ConstantOfShape; without a value it is a float32 zero."""
    value = np.asarray(call.attributes.get("value", np.zeros(1, np.float32)))
    build.budget.take(math.prod(call.shape) * value.itemsize, f"the value of node {call.name!r}")
    return np.full(call.shape, value.reshape(()))


def shape_of(call: Call, build: Builder) -> Array:
    """The shape of a tensor as a constant: a symbolic batch counts as 1."""
    shape = np.array(call.value().shape, dtype=np.int64)
    return shape[call.attributes.get("start", 0) : call.attributes.get("end")]


def folded(operation: Callable[..., Any]) -> Callable[[Call, Builder], Array]:
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
    few = a.size * b.shape[-1] <= LIMITS.products and bool(
        np.isfinite(a).all() & np.isfinite(b).all()
    )
    if a.ndim != 2 or b.ndim != 2 or a.dtype != b.dtype or a.dtype.kind != "f" or not few:
        raise call.refuse(
            f"multiplies constants other than matrices of finite floats in at most "
            f"{LIMITS.products} products; fold constants when exporting"
        )
    fractions = np.vectorize(lambda v: Fraction(float(v)), otypes=[object])
    return np.asarray((fractions(a) @ fractions(b)).astype(np.float64).astype(a.dtype))


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
