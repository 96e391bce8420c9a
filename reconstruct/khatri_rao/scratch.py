"""Memory that is used again, one set per thread.

Fresh memory of the size of a tile comes as untouched pages from the system, which would cost more
than the work itself on small maps.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reconstruct.khatri_rao.storage import Matrix, Stored, to_dense

CACHE_LINE = 64  # bytes


class Scratch(threading.local):
    """Arrays by name, valid until the same name is asked for again.

    `kept` is for whatever else a thread wants to find again.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[Any]] = {}
        self.kept: dict[Any, Any] = {}

    def array(self, name: str, shape: tuple[int, int], dtype: DTypeLike) -> NDArray[Any]:
        """An array of any content; the rows may be fewer than last time, at no cost."""
        found = self._arrays.get(name)
        fits = found is not None and found.dtype == dtype and found.shape[1] == shape[1]
        if found is None or not fits or len(found) < shape[0]:
            found = self._arrays[name] = _aligned(shape, np.dtype(dtype))
        return found[: shape[0]]

    def converted(self, name: str, rows: Stored, dtype: DTypeLike) -> Matrix:
        """Dense rows in `dtype`: themselves if they are that already."""
        dense = to_dense(rows)
        if dense.dtype == dtype:
            return dense
        out = self.array(name, (dense.shape[0], dense.shape[1]), dtype)
        np.copyto(out, dense, casting="same_kind")
        return out


def _aligned(shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array that begins at a line of the cache: the stores of a row would touch two each."""
    size = shape[0] * shape[1] * dtype.itemsize
    raw = np.empty(size + CACHE_LINE, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + size].view(dtype).reshape(shape)
