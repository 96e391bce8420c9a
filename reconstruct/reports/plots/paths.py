"""Curves as path data: two digits behind the point, and no more points than a screen can show."""

from __future__ import annotations

import numpy as np

from reconstruct.numbers.arrays import Array, Vector

COLUMN = 0.5  # drawing units: finer than a pixel at the size at which pages show figures
MARKERS = ("o", "x", "<", "v", "s")


def coordinate(value: float) -> str:
    """12.34 without trailing zeros, and without a sign before 0."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def through(x: Vector, y: Vector) -> str:
    """A line through the points, broken where one of them has no place."""
    known = np.isfinite(x) & np.isfinite(y)
    ends = np.flatnonzero(np.diff(np.concatenate([[False], known, [False]]).astype(np.int8)))
    return "".join(_stroke(x[a:b], y[a:b]) for a, b in ends.reshape(-1, 2))


def _stroke(x: Vector, y: Vector) -> str:
    kept = thinned(x, y)
    words = [f"{coordinate(a)} {coordinate(b)}" for a, b in zip(x[kept], y[kept], strict=True)]
    words = [word for i, word in enumerate(words) if i == 0 or word != words[i - 1]]
    return f"M{words[0]}h0" if len(words) == 1 else "M" + "L".join(words)


def thinned(x: Vector, y: Vector) -> Array:
    """Indices of first, lowest, highest and last point of each column of pixels."""
    columns = np.floor(x / COLUMN)
    if len(x) < 4 or (np.diff(x) < 0).any():
        return np.arange(len(x))
    starts = np.concatenate([[0], np.flatnonzero(np.diff(columns)) + 1])
    if len(x) <= 4 * len(starts):
        return np.arange(len(x))
    column = np.repeat(np.arange(len(starts)), np.diff([*starts, len(x)]))
    order = np.lexsort((y, column))
    last = np.concatenate([starts[1:], [len(x)]]) - 1
    return np.unique(np.concatenate([starts, last, order[starts], order[last]]))


def marker(shape: str, x: float, y: float, radius: float) -> str:
    """One of MARKERS around a point."""
    a, b, r = x, y, radius
    if shape == "o":
        size, width = coordinate(r), coordinate(2 * r)
        return f"M{_pair(a - r, b)}a{size} {size} 0 1 0 {width} 0a{size} {size} 0 1 0 -{width} 0z"
    if shape == "x":
        r *= 0.8
        down = f"M{_pair(a - r, b - r)}L{_pair(a + r, b + r)}"
        return f"{down}M{_pair(a - r, b + r)}L{_pair(a + r, b - r)}"
    corners = {
        "<": ((-r, 0.0), (r, -r), (r, r)),
        "v": ((-r, -r), (r, -r), (0.0, r)),
        "s": ((-r, -r), (r, -r), (r, r), (-r, r)),
    }[shape]
    scale = 0.85 if shape == "s" else 1.0
    return "M" + "L".join(_pair(a + scale * i, b + scale * j) for i, j in corners) + "z"


def markers(shape: str, x: Vector, y: Vector, radius: float) -> str:
    """The shape at every point that has a place; points that no screen tells apart are one."""
    known = np.isfinite(x) & np.isfinite(y)
    places = np.round(np.stack([x[known], y[known]], axis=-1) / COLUMN, 1) * COLUMN
    seen = dict.fromkeys(map(tuple, places.tolist()))
    return "".join(marker(shape, a, b, radius) for a, b in seen)


def _pair(x: float, y: float) -> str:
    return f"{coordinate(x)} {coordinate(y)}"
