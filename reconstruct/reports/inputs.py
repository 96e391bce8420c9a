"""Inputs that a reader knows: what both networks answer, and how often they are right.

Numerical, all of it: it illustrates and proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reconstruct.networks import Network
from reconstruct.numbers.arrays import Array
from reconstruct.pipeline import Result
from reconstruct.reports.effort import affordable
from reconstruct.reports.pixels import data_url, image_shape

SHOWN = 8
MOST_INPUTS = 1000
WORK = 2e11  # multiplications for the accuracies: more than for a figure, they are asked for


@dataclass(frozen=True, eq=False)
class ShownInputs:
    """Inputs as rows; their labels where they are known; their shape where they are pictures."""

    x: Array
    y: Array | None = None
    shape: Sequence[int] | None = None


def inputs_part(result: Result, examples: ShownInputs | None) -> dict[str, Any] | None:
    """Answers on the examples, accuracies where labels are known; None without examples."""
    if examples is None:
        return None
    count = affordable(result.target, result.network, min(MOST_INPUTS, len(examples.x)), WORK)
    if not count:
        return None
    x = examples.x[:count].reshape(count, -1)
    g, f = result.target(x), result.network(x)
    return {
        "count": count,
        "of": len(examples.x),
        "accuracy": _accuracy(result, examples, x, g, f),
        "shown": _shown(result, examples, x, g, f),
    }


def _classes(outputs: Array) -> Array | None:
    return outputs.argmax(axis=1) if outputs.shape[1] > 1 else None


def _accuracy(
    result: Result, examples: ShownInputs, x: Array, g: Array, f: Array
) -> dict[str, float] | None:
    """The shares recognised by the target, the frozen network as drawn, and with its norms."""
    if examples.y is None or g.shape[1] < 2:
        return None
    labels = np.asarray(examples.y)[: len(x)]
    answers = {"target": g, "frozen": result.frozen.network(x), "network": f}
    return {name: float(np.mean(v.argmax(axis=1) == labels)) for name, v in answers.items()} | {
        "same": float(np.mean(g.argmax(axis=1) == f.argmax(axis=1)))
    }


def _shown(
    result: Result, examples: ShownInputs, x: Array, g: Array, f: Array
) -> list[dict[str, Any]]:
    shape = image_shape(examples.shape or _own_shape(result.target), x.shape[1])
    lo, hi = float(x.min()), float(x.max())
    first = x[:SHOWN]
    margins, ours, theirs = result.margin(first), _classes(g), _classes(f)
    return [
        {
            "image": None if shape is None else data_url(row, shape, lo, hi),
            "label": None if examples.y is None else int(examples.y[i]),
            "target": None if ours is None else int(ours[i]),
            "network": None if theirs is None else int(theirs[i]),
            "difference": float(np.max(np.abs(f[i] - g[i]))),
            "margin": float(margins[i]),
        }
        for i, row in enumerate(first)
    ]


def _own_shape(network: Network) -> Sequence[int] | None:
    shape = network.metadata.get("input_shape")
    return None if shape is None else list(shape)
