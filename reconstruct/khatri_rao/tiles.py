"""The arithmetic of one tile of hidden units.

A tile of `M1` is `T × k`, one of `M2ᵀ` is `T × m`. Element-wise work is done on the smaller of the
two.

Where the processor has AVX-512, products go through a tile block by block, in one call of NumPy for
all blocks: there OpenBLAS multiplies small matrices where they are, and larger ones after copying
them into an order of its own, which takes a third as long as the product itself for 64 × 64, and a
tenth for 256 × 256. What is summed over a tile is then summed over its blocks, which pays for maps
up to about 100 × 100. On other processors every product is copied first, and tiles are multiplied
whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reconstruct.khatri_rao.scratch import Scratch
from reconstruct.khatri_rao.storage import Matrix, Vector
from reconstruct.numbers.threads import blas_kernels

TILE_BYTES = 5 << 18  # of M1, M2' and their product: beside BLAS's own, in the second-level cache
TILE_ROWS, MOST_ROWS = 1024, 4096  # of a tile: enough where no length fits the cache, or any does
SMALL_PRODUCT = (
    10**6
)  # multiplications up to which OpenBLAS does not rearrange its arguments first,
IN_PLACE = frozenset({"SkylakeX", "Cooperlake", "SapphireRapids"})  # by these of its kernels
BLOCK_UNIT = 12  # rows that the kernels of small products take at a time, or a multiple of them
BLOCK_ROWS = 120  # of a block, at most: more gain nothing
SUMMED_ROWS = 96  # of a block: sums over shorter ones cost more than they save
WHOLE_REGISTERS = 32  # entries: rows of a multiple of them are quick in BLAS

_vecdot: Any = getattr(np, "vecdot", None)  # since NumPy 2


def tile_rows(m: int, k: int, dtype: np.dtype[Any]) -> int:
    """Hidden units in a tile: as many as the cache has room for.

    Not fewer than twice the map's longer side, though, up to TILE_ROWS: the sum over tiles, which
    costs `m·k` additions for each, would take longer than is saved. Tiles in float64 are copies,
    as a rule, so that they count twice.
    """
    wide = dtype.itemsize // 4
    fitting = TILE_BYTES // (wide * (m + k + min(m, k)) * dtype.itemsize)
    enough = min(2 * max(m, k), TILE_ROWS // wide)
    return min(max(fitting, enough), MOST_ROWS)


def tiles(share: slice, size: int, unit: int) -> list[slice]:
    """The tiles of a share, of about `size` hidden units: of equal length, so that none is short,
    and of whole units; the last one has what is left."""
    length = share.stop - share.start
    count = max(1, -(-length // size))
    step = unit * max(1, -(-length // (count * unit)))
    return [
        slice(start, min(start + step, share.stop))
        for start in range(share.start, share.stop, step)
    ]


def block_rows(rows: int, m: int, k: int) -> int:
    """Hidden units in a block, so that its products by `m × k` are small.

    All `rows` if they are few, if `m × k` is large (then no block of a whole unit is small), and
    where BLAS knows of no small products.
    """
    small = SMALL_PRODUCT if IN_PLACE & blas_kernels() else 0
    size = small // (m * k) // BLOCK_UNIT * BLOCK_UNIT
    return min(rows, size, BLOCK_ROWS) if size else rows


def unit_rows(rows: int, m: int, k: int) -> int:
    """What the length of a tile is a multiple of: a block, if tiles of `rows` have several."""
    block = block_rows(rows, m, k)
    return block if block < rows else BLOCK_UNIT


def summed_rows(rows: int, m: int, k: int) -> int:
    """Hidden units in a block of the products that are summed; all where blocks are too short."""
    size = block_rows(rows, m, k)
    return size if size >= SUMMED_ROWS else rows


def scratch_bytes(m: int, k: int) -> int:
    """What a thread keeps for tiles in float32 and for weights that float64 products convert."""
    total = 0
    for dtype, across in (
        (np.dtype(np.float32), min(m, k)),
        (np.dtype(np.float64), m + k + min(m, k)),
    ):
        size = tile_rows(m, k, dtype)
        rows = size + -size % unit_rows(size, m, k)
        sums = -(-rows // summed_rows(size, m, k))
        total += dtype.itemsize * (rows * across + (sums + 2) * m * k)
    return total


def is_wide(m: int, k: int) -> bool:
    """Whether a map is worked on transposed: `M2ᵀ` is the smaller factor then."""
    return k > m


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
        self._back = _blocks(block_rows(rows, a, b), large, self._product)
        size = summed_rows(rows, a, b)
        forth = _blocks(size, large, self._product)
        targets: list[Matrix | None] = [None]
        self._sums: Matrix | None = None
        if size < rows:
            flat = scratch.array("sums", (-(-rows // size), a * b), small.dtype)
            self._sums = flat.reshape(-1, a, b)
            targets = [self._sums[: rows // size], self._sums[-1]]
        self._forth = [
            (part.swapaxes(-1, -2), product, target)
            for (part, product), target in zip(forth, targets, strict=False)
        ]

    def absolute(self, scratch: Scratch) -> Tile:
        """The tile of absolute values."""
        M1, M2T = self._pair
        return Tile(np.abs(M1), np.abs(M2T), scratch)

    def adjoint(self, Y: Matrix, out: Vector) -> None:
        """`out = diag(M2ᵀ Y M1ᵀ)`."""
        for rows, product in self._back:
            np.matmul(rows, Y, out=product)
        self._row_dots(self._product, self._small, out)

    def apply(self, s: Vector, out: Matrix) -> None:
        """`out = M2 diag(s) M1`."""
        np.copyto(self._product, s[:, None])  # in two steps: quicker than by one number per row
        np.multiply(self._small, self._product, out=self._product)
        for columns, product, target in self._forth:
            np.matmul(columns, product, out=out if target is None else target)
        if self._sums is not None:
            np.add.reduce(self._sums, axis=0, out=out)

    def round_trip(self, Y: Matrix, z: Vector, out: Matrix) -> None:
        """`z = diag(M2ᵀ Y M1ᵀ)` and `out = M2 diag(z) M1`, while the tile is in the cache."""
        self.adjoint(Y, z)
        self.apply(z, out)


def _blocks(size: int, first: Matrix, second: Matrix) -> list[tuple[Matrix, Matrix]]:
    """The rows of two matrices: blocks of `size` in a stack, then what is left; or all as one."""
    rows = len(first)
    if size >= rows:
        return [(first, second)]
    whole = rows - rows % size
    stacks = [one[:whole].reshape(-1, size, one.shape[1]) for one in (first, second)]
    rest = [(first[whole:], second[whole:])] if whole < rows else []
    return [(stacks[0], stacks[1]), *rest]


def _by_einsum(A: Matrix, B: Matrix, out: Vector) -> None:
    """The products of equal rows."""
    np.einsum("ij,ij->i", A, B, out=out)


def _by_blas(A: Matrix, B: Matrix, out: Vector) -> None:
    """The products of equal rows, a call of BLAS for each: a third quicker where that fits."""
    _vecdot(A, B, out=out)
