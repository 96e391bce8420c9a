"""The steps of a random graph: one operator, or one pattern of operators, each."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.attack.graphs import STEPS, Draft, Illegal, Shape, step

__all__ = ["STEPS"]
EDGES = (0.0, 1.0, -1.0, 0.1, 0.5, 2.0, 1e-3)


@step(6)
def arithmetic(d: Draft) -> str:
    kind, flow = d.pick(("Add", "Sub", "Mul", "Div")), d.flow()
    values = d.numbers(d.beside(d.shape(flow)))
    if kind == "Div":
        values = np.where(values == 0, 1.0, values)
        return d.node(kind, [flow, d.constant(values)])
    pair = [flow, d.constant(values)]
    return d.node(kind, pair if d.chance(0.6) else pair[::-1])


@step(2)
def branches(d: Draft) -> str:
    kind = d.pick(("Add", "Sub", "Sum"))
    values = [d.flow(), str(d.pick(d.flows))]
    if kind == "Sum":
        values += [d.constant(d.numbers(d.beside(d.shape(values[0])))) for _ in range(2)]
    return d.node(kind, values)


@step(4)
def matmul(d: Draft) -> str:
    flow = d.flow()
    shape = d.shape(flow)
    if not shape:
        raise Illegal
    n = int(d.rng.integers(1, 5))
    stack = d.beside(shape[:-2]) if d.chance(0.4) else ()
    if d.chance(0.5):
        w: Shape = (shape[-1],) if d.chance(0.15) else (*stack, shape[-1], n)
        return d.node("MatMul", [flow, d.constant(d.numbers(w))])
    inner = shape[-2] if len(shape) > 1 else shape[0]
    w = (inner,) if d.chance(0.15) else (*stack, n, inner)
    return d.node("MatMul", [d.constant(d.numbers(w)), flow])


@step(4)
def gemm(d: Draft) -> str:
    flow = d.flow()
    if len(d.shape(flow)) != 2:
        flow = d.node("Flatten", [flow], axis=int(d.rng.integers(0, len(d.shape(flow)) + 1)))
    m, k = d.shape(flow)
    n = int(d.rng.integers(1, 5))
    ta, tb = int(d.chance(0.3)), int(d.chance(0.5))
    more: dict[str, Any] = {"transA": ta, "transB": tb}
    for key in ("alpha", "beta"):
        if d.chance(0.4):
            more[key] = float(d.pick(EDGES))
    rows, inner = (k, m) if ta else (m, k)
    if d.chance(0.8):
        factors = [flow, d.constant(d.numbers((n, inner) if tb else (inner, n)))]
        made = (rows, n)
    else:
        inner, columns = (k, m) if tb else (m, k)
        factors = [d.constant(d.numbers((inner, n) if ta else (n, inner))), flow]
        made = (n, columns)
    if d.chance(0.3):
        return d.node("Gemm", factors, **more)
    if d.chance(0.2):
        return d.node("Gemm", [*factors, str(d.pick(d.flows))], **more)
    c = d.pick(((), made[1:], (1, made[1]), (made[0], 1), made, (1,)))
    return d.node("Gemm", [*factors, d.constant(d.numbers(c))], **more)


@step(4)
def activation(d: Draft) -> str:
    kind = d.pick(("Relu", "LeakyRelu", "Elu", "Selu", "Neg", "Identity", "Dropout"))
    more: dict[str, Any] = {}
    if kind in ("LeakyRelu", "Elu", "Selu") and d.chance(0.6):
        more["alpha"] = float(d.pick(EDGES))
    if kind == "Selu" and d.chance(0.5):
        more["gamma"] = float(d.pick(EDGES))
    return d.node(kind, [d.flow()], **more)


@step()
def prelu(d: Draft) -> str:
    flow = d.flow()
    shape = d.shape(flow)[int(d.rng.integers(len(d.shape(flow)) + 1)) :]
    sizes = [1 if d.chance(0.5) else n for n in shape]
    return d.node("PRelu", [flow, d.constant(np.full(sizes, d.pick(EDGES)))])


@step(2)
def clip(d: Draft) -> str:
    lo, hi = sorted(float(v) for v in d.rng.choice([-np.inf, -1.0, 0.0, 0.25, 2.0, np.inf], 2))
    if d.opset < 11:
        return d.node("Clip", [d.flow()], min=lo, max=hi)
    ends = [d.constant(v) if d.chance(0.8) else "" for v in (lo, hi)]
    return d.node("Clip", [d.flow(), *ends] if ends[1] else [d.flow(), *ends[:1]])


@step(3)
def extremum(d: Draft) -> str:
    flow = d.flow()
    number = d.pick((0.0, 0.0, 0.5, -1.0, np.inf, -np.inf))
    ones = [1] * int(d.rng.integers(0, 5))
    values = np.full(d.beside(d.shape(flow)) if d.chance(0.3) else tuple(ones), number)
    pair = [flow, d.constant(values)]
    return d.node(d.pick(("Max", "Min")), pair if d.chance(0.5) else pair[::-1])


@step(2)
def leaky(d: Draft) -> str:
    flow = d.flow()
    slope = d.pick((0.5, 0.1, -0.5, 2.0, 1.0, 0.0))
    many = d.node("Mul", [flow, d.constant(np.full([1] * int(d.rng.integers(0, 4)), slope))])
    if d.chance(0.3):
        many = relabelled(d, many)
    pair = [flow, many] if d.chance(0.5) else [many, flow]
    return d.node("Max" if d.chance(0.7) else "Min", pair)


@step(2)
def spelled_elu(d: Draft) -> str:
    def kind(value: float) -> str:
        return d.constant(np.full([1] * int(d.chance(0.3)), value))

    flow = d.flow()
    tail = d.node("Exp", [d.node("Min", [flow, kind(0.0)])])
    tail = d.node("Sub", [tail, kind(1.0)])
    tail = d.node("Mul", [tail, kind(d.pick((0.5, 1.0, 2.0)))])
    head = d.node("Relu", [flow])
    if d.chance(0.2):
        head = relabelled(d, head)
    made = d.node("Add", [head, tail] if d.chance(0.5) else [tail, head])
    return d.node("Mul", [made, kind(1.5)]) if d.chance(0.4) else made


def relabelled(d: Draft, flow: str) -> str:
    """The same values in another shape."""
    shape = d.shape(flow)
    sizes = [int(n) for n in d.rng.permutation(shape)] + [1] * int(d.rng.integers(0, 2))
    return d.node("Reshape", [flow, d.constant(sizes, np.int64)])


@step(2)
def batch_normalization(d: Draft) -> str:
    flow = d.flow()
    shape = d.shape(flow)
    channels = shape[1] if len(shape) > 1 else 1
    parts = [d.constant(d.numbers((channels,))) for _ in range(3)]
    var = d.constant(d.rng.uniform(0.0, 3.0, channels), d.dtype)
    more: dict[str, Any] = {"epsilon": float(d.pick((1e-5, 1.0)))} if d.chance(0.6) else {}
    return d.node("BatchNormalization", [flow, *parts, var], **more)


@step(3)
def reshape(d: Draft) -> str:
    flow = d.flow()
    if d.chance(0.4):
        return relabelled(d, flow)
    sizes = [0 if d.chance(0.4) else n for n in d.shape(flow)]
    if sizes and d.chance(0.6):
        sizes[int(d.rng.integers(len(sizes)))] = -1
    more = {"allowzero": 1} if d.opset >= 14 and d.chance(0.1) else {}
    return d.node("Reshape", [flow, d.constant(sizes, np.int64)], **more)


@step()
def flatten(d: Draft) -> str:
    flow = d.flow()
    rank = len(d.shape(flow))
    low = -rank if d.opset >= 11 else 0
    return d.node("Flatten", [flow], axis=int(d.rng.integers(low, rank + 1)))


@step(2)
def squeeze(d: Draft) -> str:
    flow = d.flow()
    rank = len(d.shape(flow))
    ones = [i for i, n in enumerate(d.shape(flow)) if n == 1]
    axes = [i - rank if d.chance(0.3) and d.opset >= 11 else i for i in ones if d.chance(0.7)]
    if not axes or d.chance(0.1):
        return d.node("Squeeze", [flow])
    return with_axes(d, "Squeeze", flow, axes)


@step(2)
def unsqueeze(d: Draft) -> str:
    flow = d.flow()
    rank = len(d.shape(flow)) + 1
    axis = int(d.rng.integers(-rank if d.opset >= 11 else 0, rank))
    return with_axes(d, "Unsqueeze", flow, [axis])


def with_axes(d: Draft, kind: str, flow: str, axes: list[int]) -> str:
    if d.opset < 13:
        return d.node(kind, [flow], axes=axes)
    return d.node(kind, [flow, d.constant(axes, np.int64)])


@step(2)
def transpose(d: Draft) -> str:
    flow = d.flow()
    if d.chance(0.3):
        return d.node("Transpose", [flow])
    return d.node("Transpose", [flow], perm=[int(i) for i in d.rng.permutation(len(d.shape(flow)))])


@step(3)
def slices(d: Draft) -> str:
    flow = d.flow()
    rank = len(d.shape(flow))
    axes = [int(a) for a in d.rng.permutation(rank)[: int(d.rng.integers(1, 3))]]
    if not axes:
        raise Illegal
    starts = [int(d.pick((0, 1, -1, -2, 5, -9))) for _ in axes]
    ends = [int(d.pick((1, 2, -1, 9, 2**31 - 1, -(2**31)))) for _ in axes]
    if d.opset < 10:
        return d.node("Slice", [flow], starts=starts, ends=ends, axes=axes)
    parts = [d.constant(v, np.int64) for v in (starts, ends)]
    named = [a - rank if d.chance(0.3) else a for a in axes]
    parts.append(d.constant(named, d.pick((np.int64, np.int64))))
    if d.chance(0.5):
        parts.append(d.constant([int(d.pick((1, 2, -1, -2))) for _ in axes], np.int64))
    return d.node("Slice", [flow, *parts])


@step(3)
def gather(d: Draft) -> str:
    flow = d.flow()
    shape = d.shape(flow)
    if not shape:
        raise Illegal
    axis = d.axis(len(shape))
    n = shape[axis]
    low = -n if d.opset >= 11 else 0
    index = d.rng.integers(low, n, size=d.pick(((), (1,), (2,), (3,), (2, 2), (1, 1))))
    return d.node("Gather", [flow, d.constant(index, d.pick((np.int64, np.int32)))], axis=axis)


@step(2)
def split(d: Draft) -> str:
    flow = d.flow()
    shape = d.shape(flow)
    if not shape:
        raise Illegal
    axis = d.axis(len(shape)) if d.opset >= 11 else int(d.rng.integers(0, len(shape)))
    n = shape[axis]
    if n < 2:
        raise Illegal
    first = int(d.rng.integers(1, n))
    if d.opset >= 18 and d.chance(0.4):
        return d.node("Split", [flow], 2, axis=axis, num_outputs=2)
    if d.opset < 13:
        return d.node("Split", [flow], 2, axis=axis, split=[first, n - first])
    sizes = d.constant([first, n - first], np.int64)
    return d.node("Split", [flow, sizes], 2, axis=axis)


@step(2)
def concat(d: Draft) -> str:
    flow = d.flow()
    shape = d.shape(flow)
    if not shape:
        raise Illegal
    axis = d.axis(len(shape)) if d.opset >= 11 else int(d.rng.integers(0, len(shape)))
    grown = list(shape)
    grown[axis] = int(d.rng.integers(1, 4))
    same = [f for f in d.flows if d.shape(f) == shape]
    parts = [flow, d.constant(d.numbers(tuple(grown))), str(d.pick(same))]
    chosen = [parts[i] for i in d.rng.permutation(3)[: int(d.rng.integers(1, 4))]]
    if not any(p in d.flows for p in chosen):
        chosen.append(flow)
    return d.node("Concat", chosen, axis=axis)


@step(2)
def expand(d: Draft) -> str:
    flow = d.flow()
    return d.node("Expand", [flow, d.constant(d.beside(d.shape(flow)), np.int64)])


@step(2)
def by_shape(d: Draft) -> str:
    """Reshape to a shape that is computed from the value's own."""
    flow = d.flow()
    sizes = d.node("Shape", [flow])
    if d.chance(0.5):
        rest = d.constant([-1], np.int64)
        zero = d.constant([0], np.int64)
        first = d.node("Gather", [sizes, zero], axis=0)
        sizes = d.node("Concat", [first, rest], axis=0)
    _forget(d)
    return d.node("Reshape", [flow, sizes])


def _forget(d: Draft) -> None:
    """Shapes of values are no values that depend on the input."""
    kinds = {n.output[0]: n.op_type for n in d.nodes}
    shapes = {"Shape", "Gather", "Concat"}
    d.flows = [f for f in d.flows if not (kinds.get(f) in shapes and _integer(d, f))]


def _integer(d: Draft, name: str) -> bool:
    return bool(d.types[name].tensor_type.elem_type == 7)


@step()
def filled(d: Draft) -> str:
    """Adds a ConstantOfShape."""
    import onnx

    flow = d.flow()
    sizes = d.constant(d.shape(flow), np.int64)
    value = onnx.numpy_helper.from_array(np.array([0.75], d.dtype), "value")
    return d.node("Add", [flow, d.node("ConstantOfShape", [sizes], value=value)])


@step(3)
def narrowed(d: Draft) -> str:
    """A value of the network through other float types, sometimes moved about there."""
    there = d.node("Cast", [d.flow()], to=int(d.pick((1, 11, 10, 16))))
    if d.chance(0.4):
        there = d.node(d.pick(("Relu", "Neg", "Identity", "Transpose", "Flatten")), [there])
    if d.chance(0.2):
        there = d.node("Cast", [there], to=int(d.pick((1, 11, 10, 16))))
    return d.node("Cast", [there], to=d.kind)


@step()
def cast(d: Draft) -> str:
    """A constant through another float type."""
    flow = d.flow()
    there = d.node("Cast", [d.constant(d.numbers((1,)))], to=int(d.pick((1, 11, 10))))
    back = d.node("Cast", [there], to=d.kind)
    d.flows = [f for f in d.flows if f not in (there, back)]
    return d.node("Add", [flow, back])
