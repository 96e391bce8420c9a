"""The arithmetic of one tile of hidden units, in scratch memory that is used again.

A tile of `M1` is `T × k`, one of `M2ᵀ` is `T × m`. Element-wise work is done on the smaller of the
two. Fresh memory of this size comes as untouched pages from the system, which would cost more than
the work itself on small maps: every thread keeps its own.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reconstruct.khatri_rao.storage import Matrix, Stored, Vector, to_dense

TILE_ROWS = 1024  # a tile of M1, of M2' and their product stay in the second-level cache
TILE_ENTRIES = 1 << 18  # of both together: small maps have longer tiles, to spare calls


class Scratch(threading.local):
    """Arrays by name, one set per thread, valid until the same name is asked for again."""

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[Any]] = {}

    def array(self, name: str, shape: tuple[int, int], dtype: DTypeLike) -> NDArray[Any]:
        """An array of any content; the rows may be fewer than last time, at no cost."""
        found = self._arrays.get(name)
        fits = found is not None and found.dtype == dtype and found.shape[1] == shape[1]
        if found is None or not fits or len(found) < shape[0]:
            found = self._arrays[name] = np.empty(shape, dtype)
        return found[: shape[0]]

    def converted(self, name: str, rows: Stored, dtype: DTypeLike) -> Matrix:
        """Dense rows in `dtype`: themselves if they are that already."""
        dense = to_dense(rows)
        if dense.dtype == dtype:
            return dense
        out = self.array(name, (dense.shape[0], dense.shape[1]), dtype)
        np.copyto(out, dense, casting="same_kind")
        return out


def tile_rows(m: int, k: int) -> int:
    """Hidden units in a tile: a multiple of TILE_ROWS, four at most."""
    return TILE_ROWS * min(max(TILE_ENTRIES // ((m + k) * TILE_ROWS), 1), 4)


def tiles(share: slice, size: int) -> list[slice]:
    """The tiles of a share, `size` hidden units each."""
    return [
        slice(start, min(start + size, share.stop))
        for start in range(share.start, share.stop, size)
    ]


def apply_tile(M1: Matrix, M2T: Matrix, s: Vector, out: Matrix, scratch: Scratch) -> None:
    """`out = M2 diag(s) M1` of one tile; the smaller of the two factors is the one scaled."""
    first = M1.shape[1] <= M2T.shape[1]
    small = M1 if first else M2T
    scaled = scratch.array("scaled", (small.shape[0], small.shape[1]), out.dtype)
    np.multiply(small, s[:, None], out=scaled)
    if first:
        np.matmul(M2T.T, scaled, out=out)
    else:
        np.matmul(scaled.T, M1, out=out)


def adjoint_tile(M1: Matrix, M2T: Matrix, Y: Matrix, out: Vector, scratch: Scratch) -> None:
    """`out = diag(M2ᵀ Y M1ᵀ)` of one tile; the row products run over the smaller of the two."""
    large, small, right = (M2T, M1, Y) if M1.shape[1] <= M2T.shape[1] else (M1, M2T, Y.T)
    product = scratch.array("product", (small.shape[0], small.shape[1]), out.dtype)
    np.matmul(large, right, out=product)
    np.einsum("ij,ij->i", product, small, out=out)


def round_trip_tile(
    M1: Matrix, M2T: Matrix, Y: Matrix, z: Vector, out: Matrix, scratch: Scratch
) -> None:
    """`z = diag(M2ᵀ Y M1ᵀ)` and `out = M2 diag(z) M1` of one tile, while it is in the cache."""
    first = M1.shape[1] <= M2T.shape[1]
    large, small, right = (M2T, M1, Y) if first else (M1, M2T, Y.T)
    product = scratch.array("product", (small.shape[0], small.shape[1]), out.dtype)
    np.matmul(large, right, out=product)
    np.einsum("ij,ij->i", product, small, out=z)
    np.multiply(small, z[:, None], out=product)
    if first:
        np.matmul(M2T.T, product, out=out)
    else:
        np.matmul(product.T, M1, out=out)
