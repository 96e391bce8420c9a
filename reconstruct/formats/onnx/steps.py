"""Operations that a file spells out in steps: activations and norms, recognised by their patterns.

    leaky(h) = max(h, slope·h),   slopes above 1: min         silu(h) = h·sigmoid(h)
    elu(h) = relu(h) + alpha·(exp(min(h, 0)) − 1)             selu(h) = gamma·elu(h)
    gelu(h) = h·(1 + erf(h/√2))/2, √2 being the float nearest to it
    layernorm(h) = d/√(mean(d²) + eps), d = h − mean(h)       rmsnorm(h) = h/√(mean(h²) + eps)

The writer does so in float64, where onnxruntime lacks kernels, and exporters before operator set 17
with norms, whose root is sometimes a factor 1/√. What no network has an operation for (an
exponential, a square, a root) stays `Unfinished` until its pattern is complete; a step that begins
no pattern is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from reconstruct.formats.onnx.values import REASON, Builder, Call, Flow, Unfinished, Value
from reconstruct.networks import Clip, Elu, Relu, Scaling, Selu, activations

Found: TypeAlias = dict[str, Any]  # what the words of a pattern stand for
Pattern: TypeAlias = "str | float | tuple[Any, ...]"
Maker: TypeAlias = Callable[[Found], activations.Activation | None]

EITHER_ORDER = ("Add", "Mul", "Max", "Min")

# In a pattern the word "h" is a value and any other word a number, both the same wherever they
# stand; (kind, …) is a step, (class, …) an operation that a node of the network has already.
TAIL = ("Sub", ("Exp", (Clip, "h", -math.inf, 0.0)), 1.0)
SPREAD = ("Sub", "h", ("ReduceMean", "h"))


def _leaky(*, above: bool) -> Maker:
    return lambda found: (
        activations.LeakyRelu(found["slope"]) if (found["slope"] > 1) == above else None
    )


def _norm(kind: type[activations.LiveNorm]) -> Maker:
    def made(found: Found) -> activations.LiveNorm:
        h = found["h"]
        units = h.shape[-1]
        return kind(np.ones(units), np.zeros(units), found.get("eps", 0.0), h.size // units)

    return made


def _gelu(size: float) -> Maker:
    near = size, float(np.float32(size))
    return lambda found: activations.Gelu() if found["size"] in near else None


def _gelus() -> Iterator[tuple[Pattern, Maker]]:
    """As torch and as transformers export it, multiplied by 1/√2 or divided by √2."""
    for size, inner in (
        (math.sqrt(0.5), (Scaling, "h", "size")),
        (math.sqrt(2), (Scaling, "h", 1.0, "size")),
    ):
        above = ("Add", ("Erf", inner), 1.0)
        for pattern in (("Mul", ("Mul", "h", above), 0.5), ("Mul", (Scaling, "h", 0.5), above)):
            yield pattern, _gelu(size)


def _norms() -> Iterator[tuple[Pattern, Maker]]:
    for d, kind in ((SPREAD, activations.LayerNorm), ("h", activations.RMSNorm)):
        mean = ("ReduceMean", ("Mul", d, d))
        for inner in (mean, ("Add", mean, "eps")):
            yield ("Div", d, ("Sqrt", inner)), _norm(kind)
            yield ("Mul", d, ("Reciprocal", ("Sqrt", inner))), _norm(kind)


PATTERNS: list[tuple[Any, Maker]] = [
    (("Mul", "h", (activations.Sigmoid, "h")), lambda found: activations.Silu()),
    (("Max", "h", (Scaling, "h", "slope")), _leaky(above=False)),
    (("Min", "h", (Scaling, "h", "slope")), _leaky(above=True)),
    (("Add", (Relu, "h"), TAIL), lambda found: Elu()),
    (("Add", (Relu, "h"), ("Mul", TAIL, "alpha")), lambda found: Elu(found["alpha"])),
    (
        ("Mul", (Elu, "h", "alpha"), "gamma"),
        lambda found: Selu(found["alpha"], found["gamma"]) if found["gamma"] > 0 else None,
    ),
    *_gelus(),
    *_norms(),
]


def _steps(pattern: Pattern) -> Iterator[tuple[Any, ...]]:
    """The steps inside of a pattern."""
    for part in pattern[1:] if isinstance(pattern, tuple) else ():
        if isinstance(part, tuple) and isinstance(part[0], str):
            yield part
        yield from _steps(part)


BEGINNINGS = [step for pattern, _ in PATTERNS for step in _steps(pattern)]


def recognised(
    call: Call, build: Builder, kind: str, *values: Value | None
) -> Flow | Unfinished | None:
    """The operation that `kind` of these values completes, or the step that it is; None where it is
    neither and holds no step."""
    parts = tuple(_number(v) if isinstance(v, np.ndarray) else v for v in values)
    step = Unfinished(kind, parts, call.shape)
    for pattern, made in PATTERNS:
        found: Found = {}
        op = made(found) if _matches(pattern, step, build, found) else None
        if op is not None:
            if isinstance(op, activations.Gelu):  # no float is √2
                build.nearly.append(call.name)
            return build.emit(call.name, op, found["h"])
    if any(_matches(pattern, step, build, {}) for pattern in BEGINNINGS):
        return step
    if any(isinstance(value, Unfinished) for value in values):
        raise call.refuse(REASON)
    return None


def part(call: Call, build: Builder) -> Flow | Unfinished:
    """Exp, Erf, Sqrt, Reciprocal and Pow, which are nothing but steps; of powers the square."""
    kind, values = call.kind, call.inputs
    if kind == "Pow":
        square = np.all(np.asarray(call.constant(1, "exponents")) == 2)
        kind, values = ("Mul" if square else kind), (call.get(0), call.get(0))
    made = recognised(call, build, kind, *values)
    if made is None:
        raise call.refuse(REASON)
    return made


def mean(call: Call, build: Builder) -> Flow | Unfinished | None:
    """The mean over the last axis of rows, or of a step; None where it is another one."""
    value = call.get(0)
    rows = isinstance(value, Unfinished) or (isinstance(value, Flow) and len(value.shape) == 2)
    if value is None or not (rows and call.attributes["keepdims"]):
        return None
    axes, last = call.integers(1, "axes"), len(value.shape) - 1
    if axes is None or [a % (last + 1) for a in axes] != [last]:
        return None
    return recognised(call, build, "ReduceMean", value)


def _number(value: Any) -> float | None:
    return float(value.item()) if value.size == 1 and value.dtype.kind in "fiu" else None


def _matches(pattern: Pattern, value: Any, build: Builder, found: Found) -> bool:
    """Whether the value is what the pattern says; the meaning of its words is put into `found`."""
    if isinstance(pattern, str):
        fits = isinstance(value, Flow if pattern == "h" else float)
        return fits and bool(found.setdefault(pattern, value) == value)
    if isinstance(pattern, float):
        return bool(value == pattern)
    kind, *wanted = pattern
    parts = _parts(build, value, kind)
    for order in (wanted, wanted[::-1]) if kind in EITHER_ORDER else (wanted,):
        trial = dict(found)
        pairs = zip(order, parts, strict=False)
        if len(parts) == len(order) and all(_matches(p, v, build, trial) for p, v in pairs):
            found.update(trial)
            return True
    return False


def _parts(build: Builder, value: Any, kind: Any) -> tuple[Any, ...]:
    """What a step of that kind, or a node with an operation of that class, was made of."""
    if isinstance(value, Unfinished):
        return value.parts if value.kind == kind else ()
    op = build.op(value) if isinstance(value, Flow) else None
    if not isinstance(kind, type) or not isinstance(op, kind) or not isinstance(value, Flow):
        return ()
    source = Flow(build.inputs(value)[0], value.shape)
    if isinstance(op, activations.Unitwise):
        return (source, *op.settings().values())
    assert isinstance(op, Scaling)
    factor, divisor = float(op.factor[0]), float(op.divisor[0])
    if op.offset.any() or np.any(op.factor != factor) or np.any(op.divisor != divisor):
        return ()
    return (source, factor) if divisor == 1 else (source, factor, divisor)
