"""Inputs as pictures: a PNG written by hand, so that a page shows them without any package."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from math import prod

import numpy as np

from reconstruct.numbers.arrays import Array

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GREY, COLOUR = 0, 2  # of the PNG specification
MOST_PIXELS = 2**16


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
    return (channels, height, width) if 1 < height * width <= MOST_PIXELS else None


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
    kind = GREY if channels == 1 else COLOUR
    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(name, body) for name, body in parts)


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
