"""The arithmetic of one tile of hidden units, in scratch memory that is used again.

A tile of `M1` is `T × k`, one of `M2ᵀ` is `T × m`. Element-wise work is done on the smaller of the
two. Fresh memory of this size comes as untouched pages from the system, which would cost more than
the work itself on small maps: every thread keeps its own.

The products of a small map go through a tile block by block, in one call of NumPy for all blocks:
OpenBLAS multiplies small matrices where they are, and larger ones after copying them into an order
of its own, which for 64 × 64 takes a third as long as the product itself.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reconstruct.khatri_rao.storage import Matrix, Stored, Vector, to_dense

TILE_ROWS = 1024  # a tile of M1, of M2' and their product stay in the second-level cache
TILE_BYTES = 1 << 20  # of both together: small maps have longer tiles, to spare calls
SMALL_PRODUCT = 10**6  # multiplications up to which OpenBLAS does not rearrange its arguments first
CACHE_LINE = 64  # bytes
BLOCK_ROWS, LEAST_ROWS = 128, 64  # of a block: fewer lose more than they save


class Scratch(threading.local):
    """Arrays by name, one set per thread, valid until the same name is asked for again."""

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[Any]] = {}

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


def tile_rows(m: int, k: int, dtype: np.dtype[Any]) -> int:
    """Hidden units in a tile: a multiple of TILE_ROWS, four at most."""
    return TILE_ROWS * min(max(TILE_BYTES // ((m + k) * TILE_ROWS * dtype.itemsize), 1), 4)


def tiles(share: slice, size: int) -> list[slice]:
    """The tiles of a share, `size` hidden units each."""
    return [
        slice(start, min(start + size, share.stop))
        for start in range(share.start, share.stop, size)
    ]


def block_rows(rows: int, m: int, k: int) -> int:
    """Hidden units in a block, so that its products by `m × k` are small.

    All `rows` if they are few, and if `m × k` is large: then short blocks would cost more.
    """
    size = SMALL_PRODUCT // (m * k)
    if rows <= size or size < LEAST_ROWS:
        return rows
    return min(BLOCK_ROWS, size // LEAST_ROWS * LEAST_ROWS)


def apply_tile(M1: Matrix, M2T: Matrix, s: Vector, out: Matrix, scratch: Scratch) -> None:
    """`out = M2 diag(s) M1` of one tile; the smaller of the two factors is the one scaled."""
    first = M1.shape[1] <= M2T.shape[1]
    small = M1 if first else M2T
    scaled = scratch.array("product", (small.shape[0], small.shape[1]), out.dtype)
    np.multiply(small, s[:, None], out=scaled)
    if first:
        _inner(M2T, scaled, out, scratch)
    else:
        _inner(scaled, M1, out, scratch)


def adjoint_tile(M1: Matrix, M2T: Matrix, Y: Matrix, out: Vector, scratch: Scratch) -> None:
    """`out = diag(M2ᵀ Y M1ᵀ)` of one tile; the row products run over the smaller of the two."""
    large, small, right = _by_size(M1, M2T, Y)
    product = scratch.array("product", (small.shape[0], small.shape[1]), out.dtype)
    _outer(large, right, product)
    np.einsum("ij,ij->i", product, small, out=out)


def round_trip_tile(
    M1: Matrix, M2T: Matrix, Y: Matrix, z: Vector, out: Matrix, scratch: Scratch
) -> None:
    """`z = diag(M2ᵀ Y M1ᵀ)` and `out = M2 diag(z) M1` of one tile, while it is in the cache."""
    adjoint_tile(M1, M2T, Y, z, scratch)
    apply_tile(M1, M2T, z, out, scratch)


def _by_size(M1: Matrix, M2T: Matrix, Y: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """The factor to multiply by Y (or its transpose, row by row), the other one, and that Y."""
    if M1.shape[1] <= M2T.shape[1]:
        return M2T, M1, Y
    return M1, M2T, np.ascontiguousarray(Y.T)


def _outer(rows: Matrix, right: Matrix, out: Matrix) -> None:
    """`out = rows · right`, a block of rows at a time."""
    size = block_rows(len(rows), *right.shape)
    whole = len(rows) // size * size
    if size < whole:
        np.matmul(_stacked(rows[:whole], size), right, out=_stacked(out[:whole], size))
        rows, out = rows[whole:], out[whole:]
    if len(rows):
        np.matmul(rows, right, out=out)


def _inner(left: Matrix, right: Matrix, out: Matrix, scratch: Scratch) -> None:
    """`out = leftᵀ · right`, summed over blocks of rows."""
    size = block_rows(len(left), *out.shape)
    if size == len(left):
        np.matmul(left.T, right, out=out)
        return
    count = len(left) // size
    whole, rest = count * size, len(left) % size > 0
    sums = scratch.array("blocks", (count + rest, out.size), out.dtype).reshape(-1, *out.shape)
    stack = _stacked(left[:whole], size).transpose(0, 2, 1)
    np.matmul(stack, _stacked(right[:whole], size), out=sums[:count])
    if rest:
        np.matmul(left[whole:].T, right[whole:], out=sums[count])
    np.add.reduce(sums, axis=0, out=out)


def _stacked(rows: Matrix, size: int) -> Matrix:
    """Rows as a stack of blocks: the same memory."""
    return rows.reshape(-1, size, rows.shape[1])
