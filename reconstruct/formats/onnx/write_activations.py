"""Activations written as ONNX nodes, in basic steps where onnxruntime has no float64 kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from reconstruct.formats.onnx.draft import Draft
from reconstruct.networks import Clip, Elu, LeakyRelu, Relu, Selu


def write_activation(op: Any, source: str, name: str, draft: Draft) -> None:
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
