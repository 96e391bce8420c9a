"""Inputs that a reader knows: what both networks answer, how often they are right, and the guard.

Shifts are made for the domain, so a margin there is 0 or more whatever the slack. How much of the
inputs to come is covered only other inputs can tell. Numerical, all of it.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from reconstruct.numbers.arrays import Array
from reconstruct.pipeline import Result
from reconstruct.reports.measurements import affordable


def _worth(result: Result, most: int) -> int:
    """How many inputs are evaluated for accuracies and the guard: more than for a figure, because
    they are asked for."""
    return affordable(result.target, result.network, most, work=2e11)


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
    count = _worth(result, min(1000, len(examples.x)))
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
    own = result.target.metadata.get("input_shape")
    shape = image_shape(examples.shape or own, x.shape[1])
    lo, hi = float(x.min()), float(x.max())
    first = x[:8]
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


def guard_part(
    result: Result, file: str, slack: float | None, unseen: Array | None
) -> dict[str, Any]:
    """The share with margin ≥ 0 on the domain's own inputs, and on `unseen` ones (rows)."""
    tried = result.domain.sample(32, np.random.default_rng(0))[:32]
    margins = result.margin(tried)
    return {
        "file": file,
        "slack": slack,
        "inputs": len(margins),
        "share": float(np.mean(margins >= 0)),
        "least_margin": float(margins.min()),
        "unseen": None if unseen is None else _unseen(result, unseen),
    }


def _unseen(result: Result, x: Array) -> dict[str, Any] | None:
    """How many are covered, and the largest |f − g| on these and on the others."""
    count = _worth(result, min(10_000, len(x)))
    if not count:
        return None
    with np.errstate(all="ignore"):
        outputs, margins = result.guarded(x[:count])
        covered = margins >= 0
        gaps = np.max(np.abs(outputs - result.target(x[:count])), axis=1)
    return {
        "inputs": count,
        "of": len(x),
        "covered": int(np.count_nonzero(covered)),
        "covered_error": _largest(gaps[covered]),
        "others_error": _largest(gaps[~covered]),
    }


def _largest(gaps: Array) -> float | None:
    """None where there is no input, or an answer that is no number."""
    top = float(gaps.max()) if gaps.size else np.nan
    return top if np.isfinite(top) else None


def image_shape(shape: Sequence[int] | None, size: int) -> tuple[int, int, int] | None:
    """Channels, height and width of inputs that are pictures, grey or in colour; else None."""
    kept = [int(n) for n in shape or ()]
    while len(kept) > 3 and kept[0] == 1:  # a batch of one
        kept = kept[1:]
    if len(kept) == 2:
        kept = [1, *kept]
    if len(kept) != 3 or prod(kept) != size or kept[0] not in (1, 3):
        return None
    channels, height, width = kept
    return (channels, height, width) if 1 < height * width <= 2**16 else None


def data_url(x: Array, shape: tuple[int, int, int], lo: float, hi: float) -> str:
    """The input as a PNG in a URL, `lo` black and `hi` white."""
    share = (np.asarray(x, dtype=np.float64).reshape(shape) - lo) / (hi - lo if hi > lo else 1.0)
    levels = np.clip(np.round(255 * share), 0, 255).astype(np.uint8)
    return "data:image/png;base64," + base64.b64encode(png(levels)).decode()


def png(levels: Array) -> bytes:
    """Channels × height × width of grey levels 0 … 255 as a PNG file."""
    channels, height, width = levels.shape
    rows = np.moveaxis(levels, 0, -1).reshape(height, -1)
    lines = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(rows))
    kind = 0 if channels == 1 else 2  # grey or colour, by the PNG specification
    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, body) for name, body in parts)


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
