"""The steps of a random graph that act on images and sequences: Conv, pooling, Pad, means."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.attack.graphs import STEPS, Draft, Illegal, step

__all__ = ["STEPS"]


def image(d: Draft) -> str:
    """A value with one sample, channels and one or two sides."""
    found = [f for f in d.flows if len(d.shape(f)) in (3, 4) and d.shape(f)[0] == 1]
    if not found:
        raise Illegal
    return found[-1] if d.chance(0.8) else str(d.pick(found))


def windows(d: Draft, sides: int, *, pooled: bool) -> dict[str, Any]:
    """Random strides, pads and dilations at their edges."""
    more: dict[str, Any] = {}
    if d.chance(0.6):
        more["strides"] = [int(n) for n in d.rng.integers(1, 4, sides)]
    if d.chance(0.4) and (not pooled or d.opset >= 19):
        more["dilations"] = [int(n) for n in d.rng.integers(1, 3, sides)]
    kind = d.pick(("none", "none", "pads", "pads", "SAME_UPPER", "SAME_LOWER", "VALID"))
    if kind == "pads":
        more["pads"] = [int(n) for n in d.rng.integers(0, 2 if pooled else 3, 2 * sides)]
    elif kind != "none":
        more["auto_pad"] = kind
        if pooled and kind != "VALID":
            more.pop("dilations", None)  # runtimes and ONNX's rules differ there
    return more


@step(5)
def conv(d: Draft) -> str:
    flow = image(d)
    _, channels, *sides = d.shape(flow)
    groups = int(d.pick([g for g in (1, 1, 2, channels) if channels % g == 0]))
    window = [int(n) for n in d.rng.integers(1, 4, len(sides))]
    made = groups * int(d.rng.integers(1, 3))
    parts = [flow, d.constant(d.numbers((made, channels // groups, *window)))]
    if d.chance(0.6):
        parts.append(d.constant(d.numbers((made,))))
    more = windows(d, len(sides), pooled=False)
    if groups > 1 or d.chance(0.2):
        more["group"] = groups
    if d.chance(0.5):
        more["kernel_shape"] = window
    return d.node("Conv", parts, **more)


@step(4)
def pool(d: Draft) -> str:
    flow = image(d)
    sides = len(d.shape(flow)) - 2
    kind = d.pick(("MaxPool", "AveragePool"))
    more = windows(d, sides, pooled=True)
    if d.chance(0.3) and d.opset >= 10 and "auto_pad" not in more:  # the reference is wrong there
        more["ceil_mode"] = 1
    if kind == "AveragePool" and d.chance(0.4):
        more["count_include_pad"] = 1
    return d.node(kind, [flow], kernel_shape=[int(n) for n in d.rng.integers(2, 4, sides)], **more)


@step()
def whole(d: Draft) -> str:
    kind = d.pick(("GlobalAveragePool", "GlobalMaxPool", "ReduceMean"))
    flow = image(d)
    if kind != "ReduceMean":
        return d.node(kind, [flow])
    rank = len(d.shape(flow))
    axes = [a - rank if d.chance(0.5) and d.opset >= 11 else a for a in range(2, rank)]
    more = {"keepdims": int(d.chance(0.5))} if d.chance(0.5) else {}
    if d.opset < 18:
        return d.node(kind, [flow], 1, axes=axes, **more)
    return d.node(kind, [flow, d.constant(axes, np.int64)], 1, **more)


@step(2)
def pad(d: Draft) -> str:
    flow = d.flow()
    pads = [int(n) for n in d.rng.integers(0, 3, 2 * len(d.shape(flow)))]
    if not pads:
        raise Illegal
    if d.opset < 11:
        return d.node("Pad", [flow], pads=pads)
    parts = [flow, d.constant(pads, np.int64)]
    if d.chance(0.4):
        parts.append(d.constant(0.0, d.dtype))
    return d.node("Pad", parts)
