"""The Khatri-Rao operator `K s = M2 diag(s) M1` and its adjoint, without ever forming `K`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reconstruct.khatri_rao.engines import Engine, Threads
from reconstruct.khatri_rao.storage import (
    Frozen,
    Matrix,
    Vector,
    as_csr,
    is_sparse,
    scaled,
    to_dense,
)

TILE_ROWS = 1024  # a tile of M1, of M2' and their product stay in the second-level cache


class KhatriRao:
    """The linear map `K : R^n → R^(m×k)`, `K s = M2 diag(s) M1`.

    With row-major `vec`, `vec(K s) = (M2 ⊙ M1ᵀ) s`, where `⊙` is the column-wise Khatri-Rao
    product; the adjoint is `Kᵀ Y = diag(M2ᵀ Y M1ᵀ)`, because
    `⟨K s, Y⟩ = Σ_l s_l (M2ᵀ Y M1ᵀ)_ll`. Each costs `2·n·m·k` flops, and memory beyond the two
    matrices is one tile per worker.

    Parameters: `M1` of shape `n × k` and `M2` of shape `m × n`, dense (float32 or float64) or
    scipy.sparse; `engine` (default: `Threads()`, all processors). Both are kept in the precision
    in which they come; `M2` is stored transposed so that a tile of hidden units is contiguous in
    both. `apply` and `adjoint` compute in `dtype`, tile by tile.
    """

    def __init__(self, M1: Frozen, M2: Frozen, *, engine: Engine | None = None) -> None:
        self.M1: Any
        self.M2T: Any
        self.sparse = is_sparse(M1) or is_sparse(M2)
        if self.sparse:
            self.M1, self.M2T = as_csr(M1), as_csr(as_csr(M2).T)
        else:
            self.M1, self.M2T = np.ascontiguousarray(M1), np.ascontiguousarray(np.asarray(M2).T)
        self.engine: Engine = Threads() if engine is None else engine

    def scaled(self, first: int, second: int) -> KhatriRao:
        """The operator of `2^first M1` and `2^second M2`, on the same engine."""
        if first == second == 0:
            return self
        return KhatriRao(scaled(self.M1, first), scaled(self.M2T, second).T, engine=self.engine)

    @property
    def width(self) -> int:
        """Hidden width `n`: the number of unknowns."""
        return int(self.M1.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """Shape `(m, k)` of the right-hand side."""
        return int(self.M2T.shape[1]), int(self.M1.shape[1])

    @property
    def rows(self) -> int:
        """Number of equations `m·k`."""
        m, k = self.shape
        return m * k

    def __repr__(self) -> str:
        m, k = self.shape
        kind = "sparse" if self.sparse else str(self.M1.dtype)
        return f"KhatriRao(m={m}, k={k}, width={self.width}, {kind})"

    def apply(self, s: Vector, dtype: DTypeLike = np.float64) -> Matrix:
        """`M2 diag(s) M1`, of shape `m × k`."""
        scale = np.asarray(s, dtype=dtype)
        return self._sum_tiles(scale, np.asarray)

    def magnitude(self, s: Vector) -> Matrix:
        """`|M2| diag(|s|) |M1|`: what the entries of `apply(s)` are summed from.

        One unit in the last place of it is the best residual that rounding `s` can be expected
        to leave.
        """
        return self._sum_tiles(np.abs(np.asarray(s, dtype=np.float64)), np.abs)

    def adjoint(self, Y: Matrix, dtype: DTypeLike = np.float64) -> Vector:
        """`diag(M2ᵀ Y M1ᵀ)`, a vector of length `n`."""
        right = np.ascontiguousarray(Y, dtype=dtype)
        out = np.empty(self.width, dtype=dtype)

        def work(rows: slice) -> None:
            for part in _tiles(rows):
                M1, M2T = self._tile(self.M1[part], dtype), self._tile(self.M2T[part], dtype)
                out[part] = _adjoint_tile(M1, M2T, right)

        self.engine.map(work, self._shares())
        return out

    def entries(self) -> int:
        """`nnz(K) = Σ_l nnz(M2[:, l]) · nnz(M1[l, :])` of sparse matrices; all if dense."""
        if not self.sparse:
            return self.rows * self.width
        return int(np.diff(self.M1.indptr).astype(np.int64) @ np.diff(self.M2T.indptr))

    def squared_norm(self) -> float:
        """`‖K‖_F² = Σ_l ‖M1[l, :]‖² ‖M2[:, l]‖²`."""
        return float(_row_squares(self.M1) @ _row_squares(self.M2T))

    def dense(self) -> NDArray[np.float64]:
        """The matrix `K` itself, `m·k × n` in row-major order: for small sizes."""
        m, k = self.shape
        M1, M2T = self._tile(self.M1, np.float64), self._tile(self.M2T, np.float64)
        out = np.empty((m, k, self.width))
        np.multiply(M2T.T[:, None, :], M1.T[None, :, :], out=out)
        return out.reshape(m * k, self.width)

    def gram(self) -> NDArray[np.float64]:
        """`KᵀK = (M1 M1ᵀ) ∘ (M2ᵀ M2)`, `n × n` (proofs_check: Khatri-Rao and Hadamard)."""
        M1, M2T = self._tile(self.M1, np.float64), self._tile(self.M2T, np.float64)
        return np.asarray((M1 @ M1.T) * (M2T @ M2T.T))

    # Tiles

    @staticmethod
    def _tile(rows: Frozen, dtype: DTypeLike) -> Matrix:
        return np.asarray(to_dense(rows), dtype=dtype)

    def _shares(self) -> list[slice]:
        return self.engine.shares(self.width, 2.0 * self.width * self.rows)

    def _sum_tiles(self, s: Vector, part_of: Callable[[Matrix], Matrix]) -> Matrix:
        """Sum over tiles of `part_of(M2) diag(s) part_of(M1)`, in the dtype of `s`."""

        def work(rows: slice) -> Matrix:
            out = np.zeros(self.shape, dtype=s.dtype)
            for part in _tiles(rows):
                M1 = part_of(self._tile(self.M1[part], s.dtype))
                M2T = part_of(self._tile(self.M2T[part], s.dtype))
                out += _apply_tile(M1, M2T, s[part, None])
            return out

        parts = self.engine.map(work, self._shares())
        total = parts[0]
        for part in parts[1:]:
            total += part
        return total


def _apply_tile(M1: Matrix, M2T: Matrix, s: Matrix) -> Matrix:
    """`M2 diag(s) M1` of one tile; the smaller of the two factors is the one that is scaled."""
    if M1.shape[1] <= M2T.shape[1]:
        return np.asarray(M2T.T @ (M1 * s))
    return np.asarray((M2T * s).T @ M1)


def _adjoint_tile(M1: Matrix, M2T: Matrix, Y: Matrix) -> Vector:
    """`diag(M2ᵀ Y M1ᵀ)` of one tile; the row products run over the smaller of the two."""
    if M1.shape[1] <= M2T.shape[1]:
        return np.asarray(np.einsum("ij,ij->i", M2T @ Y, M1))
    return np.asarray(np.einsum("ij,ij->i", M1 @ Y.T, M2T))


def _row_squares(matrix: Frozen) -> NDArray[np.float64]:
    if is_sparse(matrix):
        return np.asarray(matrix.multiply(matrix).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))


def _tiles(rows: slice) -> list[slice]:
    return [
        slice(start, min(start + TILE_ROWS, rows.stop))
        for start in range(rows.start, rows.stop, TILE_ROWS)
    ]
