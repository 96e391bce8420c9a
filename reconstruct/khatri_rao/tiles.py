"""The arithmetic of one tile of hidden units.

A tile of `M1` is `T × k`, one of `M2ᵀ` is `T × m`. Element-wise work is done on the smaller of the
two.

The products of a small map go through a tile block by block, in one call of NumPy for all blocks:
OpenBLAS multiplies small matrices where they are, and larger ones after copying them into an order
of its own, which for 64 × 64 takes a third as long as the product itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from reconstruct.khatri_rao.scratch import Scratch
from reconstruct.khatri_rao.storage import Matrix, Vector

TILE_ROWS = 1024  # a tile of M1, of M2' and their product stay in the second-level cache
TILE_BYTES = 1 << 20  # of both together: small maps have longer tiles, to spare calls
SMALL_PRODUCT = 10**6  # multiplications up to which OpenBLAS does not rearrange its arguments first
BLOCK_ROWS, LEAST_ROWS = 128, 64  # of a block: fewer lose more than they save
WHOLE_REGISTERS = 32  # entries: rows of a multiple of them are quick in BLAS

_vecdot: Any = getattr(np, "vecdot", None)  # since NumPy 2


def tile_rows(m: int, k: int, dtype: np.dtype[Any]) -> int:
    """Hidden units in a tile: a multiple of TILE_ROWS, four at most; half of that in float64.

    Tiles in float64 are copies, as a rule, so that they count twice.
    """
    wide = dtype.itemsize // 4
    least = max(TILE_ROWS // wide, 1)
    return least * min(max(TILE_BYTES // (wide * (m + k) * least * dtype.itemsize), 1), 4)


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


def scratch_bytes(m: int, k: int) -> int:
    """What a thread keeps for tiles in float32 and for weights that float64 products convert."""
    total = 0
    for dtype, across in (
        (np.dtype(np.float32), min(m, k)),
        (np.dtype(np.float64), m + k + min(m, k)),
    ):
        rows = tile_rows(m, k, dtype)
        blocks = -(-rows // block_rows(rows, m, k))
        total += dtype.itemsize * (rows * across + (blocks + 2) * m * k)
    return total


def is_wide(m: int, k: int) -> bool:
    """Whether a map is worked on transposed: `M2ᵀ` is the smaller factor then."""
    return k > m


class _Part(NamedTuple):
    """Blocks of equal length in a stack, or what is left: rows, their transpose, the product by
    them and its place among the sums; None where the part is the whole tile."""

    rows: Matrix
    columns: Matrix
    product: Matrix
    sums: Matrix | None


class Tile:
    """Rows of `M1` and `M2ᵀ`, and the views of them and of scratch memory that products need.

    A matrix of the map's shape comes and goes transposed where `is_wide`. With rows `a_l` of the
    larger and `b_l` of the smaller factor,

        adjoint: out_l = a_lᵀ Y b_l,      apply: out = Σ_l s_l a_l b_lᵀ.

    Preparing takes as long as the product of a block, in which other threads wait for Python: a
    tile is made once and used in every step, where the weights stay where they are.
    """

    def __init__(self, M1: Matrix, M2T: Matrix, scratch: Scratch) -> None:
        large, small = (M1, M2T) if is_wide(M2T.shape[1], M1.shape[1]) else (M2T, M1)
        (rows, b), a = small.shape, large.shape[1]
        self._pair = M1, M2T
        self._small, self._product = small, scratch.array("product", (rows, b), small.dtype)
        self._row_dots = _by_blas if _vecdot and b % WHOLE_REGISTERS == 0 else _by_einsum
        size = block_rows(rows, a, b)
        self._sums: Matrix | None = None
        if size < rows:
            sums = scratch.array("sums", (-(-rows // size), a * b), small.dtype)
            self._sums = sums.reshape(-1, a, b)
        self._parts = _parts(large, self._product, self._sums, size)

    def absolute(self, scratch: Scratch) -> Tile:
        """The tile of absolute values."""
        M1, M2T = self._pair
        return Tile(np.abs(M1), np.abs(M2T), scratch)

    def adjoint(self, Y: Matrix, out: Vector) -> None:
        """`out = diag(M2ᵀ Y M1ᵀ)`."""
        for part in self._parts:
            np.matmul(part.rows, Y, out=part.product)
        self._row_dots(self._product, self._small, out)

    def apply(self, s: Vector, out: Matrix) -> None:
        """`out = M2 diag(s) M1`."""
        np.copyto(self._product, s[:, None])  # in two steps: quicker than by one number per row
        np.multiply(self._small, self._product, out=self._product)
        for part in self._parts:
            np.matmul(part.columns, part.product, out=out if part.sums is None else part.sums)
        if self._sums is not None:
            np.add.reduce(self._sums, axis=0, out=out)

    def round_trip(self, Y: Matrix, z: Vector, out: Matrix) -> None:
        """`z = diag(M2ᵀ Y M1ᵀ)` and `out = M2 diag(z) M1`, while the tile is in the cache."""
        self.adjoint(Y, z)
        self.apply(z, out)


def _parts(large: Matrix, product: Matrix, sums: Matrix | None, size: int) -> list[_Part]:
    """The blocks as one stack, and the rows that are left as they are."""
    if sums is None:
        return [_Part(large, large.T, product, None)]
    count = len(large) // size
    whole = count * size
    stack, products = (one[:whole].reshape(count, size, -1) for one in (large, product))
    parts = [_Part(stack, stack.transpose(0, 2, 1), products, sums[:count])]
    if whole < len(large):
        rest = large[whole:]
        parts.append(_Part(rest, rest.T, product[whole:], sums[count]))
    return parts


def _by_einsum(A: Matrix, B: Matrix, out: Vector) -> None:
    """The products of equal rows."""
    np.einsum("ij,ij->i", A, B, out=out)


def _by_blas(A: Matrix, B: Matrix, out: Vector) -> None:
    """The products of equal rows, a call of BLAS for each: a third quicker where that fits."""
    _vecdot(A, B, out=out)
