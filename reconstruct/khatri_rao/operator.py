"""The Khatri-Rao operator `K s = M2 diag(s) M1` and its adjoint, without ever forming `K`.

Rests on proofs_check: row-major-index, kronecker-khatri-rao, mixed-product, vec-identity, adjoint,
gram-hadamard, kronecker-rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse.linalg import LinearOperator

from reconstruct.khatri_rao.engines import Engine, Threads
from reconstruct.khatri_rao.scratch import Scratch
from reconstruct.khatri_rao.storage import (
    Matrix,
    Powers,
    Stored,
    Vector,
    chunks,
    is_sparse,
    scaled,
    to_dense,
    units,
)
from reconstruct.khatri_rao.tiles import Tile, is_wide, tile_rows, tiles, unit_rows

TileSum: TypeAlias = Callable[[slice, Tile, Matrix], None]  # units, their tile, what to add


class KhatriRao(LinearOperator):  # type: ignore[misc]
    """The linear map `K : R^n → R^(m×k)`, `K s = M2 diag(s) M1`.

    With row-major `vec`, `vec(K s) = (M2 ⊙ M1ᵀ) s`, where `⊙` is the column-wise Khatri-Rao
    product; the adjoint is `Kᵀ Y = diag(M2ᵀ Y M1ᵀ)`, because
    `⟨K s, Y⟩ = Σ_l s_l (M2ᵀ Y M1ᵀ)_ll`. Each costs `2·n·m·k` flops, and memory beyond the two
    matrices is one tile per worker.

    Parameters: `M1` of shape `n × k` and `M2` of shape `m × n`, dense (float32 or float64),
    scipy.sparse, or `Drawn` tile by tile; `engine` (default: `Threads()`, all processors). Both
    are kept in the precision in which they come; `M2` is stored transposed so that a tile of
    hidden units is contiguous in both. The two products compute in `dtype`, tile by tile;
    vectors over hidden units have the part that this engine's holder has (all of it on threads).

    It is a linear operator of SciPy too, of shape `(m·k, n)`: `K @ s`, `K.T @ y`, `lsmr(K, w)`.
    """

    def __init__(self, M1: Stored, M2: Stored, *, engine: Engine | None = None) -> None:
        engine = Threads() if engine is None else engine
        M1, M2 = (one if hasattr(one, "shape") else np.asarray(one) for one in (M1, M2))
        sparse, width = is_sparse(M1) or is_sparse(M2), int(M1.shape[0])
        held = engine.held(width)
        first, second = (units(one, held, sparse=sparse) for one in (M1, M2.T))
        self._given: tuple[Stored, Stored] | None = M1, M2
        self._set_up(first, second, width, engine)

    @classmethod
    def of_parts(cls, M1: Stored, M2T: Stored, width: int, *, engine: Engine) -> KhatriRao:
        """The operator of `width` units from the rows that this holder has of M1 and M2ᵀ."""
        operator = cls.__new__(cls)
        operator._given = None
        operator._set_up(M1, M2T, width, engine)
        return operator

    def _set_up(self, M1: Any, M2T: Any, width: int, engine: Engine) -> None:
        self.engine, self.M1, self.M2T = engine, M1, M2T
        self.width = width  # hidden width n: the number of unknowns
        self.map_shape = int(M2T.shape[1]), int(M1.shape[1])
        self.sparse = is_sparse(M1)
        self._ready: dict[np.dtype[Any], tuple[Matrix, Matrix]] = {}  # tiles that are slices
        if isinstance(self.M1, np.ndarray) and self.M1.dtype == self.M2T.dtype:
            self._ready[self.M1.dtype] = self.M1, self.M2T
        self._scratch = Scratch()
        super().__init__(np.dtype(np.float64), (self.rows, self.width))

    @property
    def held(self) -> int:
        """Number of hidden units that this holder has."""
        return int(self.M1.shape[0])

    @property
    def rows(self) -> int:
        """Number of equations `m·k`."""
        m, k = self.map_shape
        return m * k

    def __repr__(self) -> str:
        m, k = self.map_shape
        kind = "sparse" if self.sparse else str(self.M1.dtype)
        return f"KhatriRao(m={m}, k={k}, width={self.width}, {kind})"

    def scaled(self, first: Powers, second: Powers) -> KhatriRao:
        """The operator of `2^first M1` and `2^second M2`, on the same engine.

        A power for all units, or one for each that this holder has.
        """
        if not (np.any(first) or np.any(second)):
            return self
        M1, M2T = scaled(self.M1, first), scaled(self.M2T, second)
        operator = KhatriRao.of_parts(M1, M2T, self.width, engine=self.engine)
        if self._given is not None and self.engine.holders > 1:
            every = [self.of_all_units(power) for power in (first, second)]
            M1, M2 = self._given
            operator._given = scaled(M1, every[0]), scaled(M2.T, every[1]).T
        return operator

    def of_all_units(self, power: Powers) -> Powers:
        """What this holder knows of its own units, of all units."""
        return power if isinstance(power, int) else self.engine.gather(power, self.width)

    def whole(self) -> KhatriRao:
        """The operator with all units in this address space: itself, on threads."""
        if self.engine.holders == 1:
            return self
        if self._given is None:
            raise ValueError("this operator was made from parts and cannot be made whole")
        return KhatriRao(*self._given)

    def prepare(self, dtype: DTypeLike) -> None:
        """Keep stored weights in `dtype` too: an iteration would convert them in every step."""
        wanted = np.dtype(dtype)
        if self._ready and wanted not in self._ready:
            self._ready[wanted] = self.M1.astype(wanted), self.M2T.astype(wanted)

    def apply(self, s: Vector, dtype: DTypeLike = np.float64) -> Matrix:
        """`M2 diag(s) M1`, of shape `m × k`."""
        given = np.asarray(s, dtype=dtype)

        def add(part: slice, tile: Tile, out: Matrix) -> None:
            tile.apply(given[part], out)

        return self._sum_tiles(given.dtype, add)

    def magnitude(self, s: Vector) -> Matrix:
        """`|M2| diag(|s|) |M1|`: what the entries of `apply(s)` are summed from.

        One unit in the last place of it is the best residual that rounding `s` can be expected
        to leave.
        """
        given = np.abs(np.asarray(s, dtype=np.float64))

        def add(part: slice, tile: Tile, out: Matrix) -> None:
            tile.absolute(self._scratch).apply(given[part], out)

        return self._sum_tiles(given.dtype, add)

    def apply_transposed(self, Y: Matrix, dtype: DTypeLike = np.float64) -> Vector:
        """`diag(M2ᵀ Y M1ᵀ)`, a vector over hidden units."""
        right = self._right(Y, dtype)
        out = np.empty(self.held, dtype=dtype)

        def work(share: slice) -> None:
            for part, tile in self._tiles(share, out.dtype):
                if self.engine.stopping:
                    return
                tile.adjoint(right, out[part])

        self.engine.map(work, self._shares())
        return out

    def round_trip(self, Y: Matrix, dtype: DTypeLike = np.float64) -> tuple[Vector, Matrix]:
        """`z = Kᵀ Y` and `K z`: an iteration's two products in one pass over the weights.

        A tile is still in the cache, or still drawn, when its second product comes.
        """
        right = self._right(Y, dtype)
        z = np.empty(self.held, dtype=dtype)

        def add(part: slice, tile: Tile, out: Matrix) -> None:
            tile.round_trip(right, z[part], out)

        return z, self._sum_tiles(z.dtype, add, products=2)

    def inner(self, a: Vector, b: Vector) -> float:
        """`⟨a, b⟩` of two vectors over hidden units."""
        return float(self.engine.add(np.array([a @ b], dtype=np.float64))[0])

    def squared_norm(self) -> float:
        """`‖K‖_F² = Σ_l ‖M1[l, :]‖² ‖M2[:, l]‖²`."""
        pairs = zip(chunks(self.M1), chunks(self.M2T), strict=True)
        total = sum(float(_row_squares(a) @ _row_squares(b)) for a, b in pairs)
        return float(self.engine.add(np.array([total]))[0])

    def entries(self) -> int:
        """`nnz(K) = Σ_l nnz(M2[:, l]) · nnz(M1[l, :])` of sparse matrices; all if dense."""
        if not self.sparse:
            return self.rows * self.width
        return int(np.diff(self.M1.indptr).astype(np.int64) @ np.diff(self.M2T.indptr))

    def dense(self) -> NDArray[np.float64]:
        """The matrix `K` itself, `m·k × n` in row-major order: for small sizes."""
        m, k = self.map_shape
        M1, M2T = (np.asarray(to_dense(part), np.float64) for part in (self.M1, self.M2T))
        out = np.empty((m, k, self.held))
        np.multiply(M2T.T[:, None, :], M1.T[None, :, :], out=out)
        return out.reshape(m * k, self.held)

    def gram(self) -> NDArray[np.float64]:
        """`KᵀK = (M1 M1ᵀ) ∘ (M2ᵀ M2)`, `n × n` (proofs_check: gram-hadamard)."""
        M1, M2T = (np.asarray(to_dense(part), np.float64) for part in (self.M1, self.M2T))
        return np.asarray((M1 @ M1.T) * (M2T @ M2T.T))

    # For SciPy

    def _matvec(self, s: Vector) -> Vector:
        return self.apply(np.ravel(s)).ravel()

    def _rmatvec(self, y: Vector) -> Vector:
        return self.apply_transposed(np.reshape(y, self.map_shape))

    # Tiles

    def _turned(self, Y: Matrix) -> Matrix:
        """A matrix of the map's shape as tiles take and give it; and back."""
        return Y.T if is_wide(*self.map_shape) else Y

    def _right(self, Y: Matrix, dtype: DTypeLike) -> Matrix:
        """`Y` as tiles take it: from a line of the cache on, for small products are made where
        their factors are, and would take a tenth longer from anywhere else."""
        turned = self._turned(np.asarray(Y))
        right = self._scratch.array("right", (turned.shape[0], turned.shape[1]), dtype)
        np.copyto(right, turned, casting="same_kind")
        return right

    def _tiles(self, share: slice, dtype: np.dtype[Any]) -> Iterable[tuple[slice, Tile]]:
        """The tiles of a share: made once by each thread, if the weights are at hand."""
        key = share.start, share.stop, dtype
        found: Iterable[tuple[slice, Tile]] | None = self._scratch.kept.get(key)
        if found is None:
            size = tile_rows(*self.map_shape, dtype)
            parts = tiles(share, size, unit_rows(size, *self.map_shape))
            if dtype not in self._ready:
                return self._converted(parts, dtype)
            M1, M2T = self._ready[dtype]
            found = [(part, Tile(M1[part], M2T[part], self._scratch)) for part in parts]
            self._scratch.kept[key] = found
        return found

    def _converted(self, parts: list[slice], dtype: np.dtype[Any]) -> Iterator[tuple[slice, Tile]]:
        """Tiles one after the other, in the same memory if they have to be converted: then those
        of a length are one. The first is the longest, so that its memory is enough for all."""
        in_place = dtype in (self.M1.dtype, self.M2T.dtype)
        made: dict[int, Tile] = {}
        for part in parts:
            rows = part.stop - part.start
            first = self._scratch.converted("M1", self.M1[part], dtype)
            second = self._scratch.converted("M2T", self.M2T[part], dtype)
            if in_place or rows not in made:
                made[rows] = Tile(first, second, self._scratch)
            yield part, made[rows]

    def _shares(self, products: int = 1) -> list[slice]:
        return self.engine.shares(self.held, 2.0 * products * self.held * self.rows)

    def _sum_tiles(self, dtype: np.dtype[Any], add: TileSum, products: int = 1) -> Matrix:
        """The sum over all tiles of what `add` makes of each."""
        m, k = self.map_shape
        shape = (k, m) if is_wide(m, k) else (m, k)

        def work(share: slice) -> Matrix:
            total = np.zeros(shape, dtype=dtype)
            out = self._scratch.array("sum", shape, dtype)
            for part, tile in self._tiles(share, dtype):
                if self.engine.stopping:
                    break
                add(part, tile, out)
                total += out
            return total

        parts = self.engine.map(work, self._shares(products))
        total = parts[0]
        for part in parts[1:]:
            total += part
        return self.engine.add(np.ascontiguousarray(self._turned(total)))


def _row_squares(matrix: Stored) -> NDArray[np.float64]:
    if is_sparse(matrix):
        return np.asarray(matrix.multiply(matrix).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))
