"""The Khatri-Rao operator `K s = M2 diag(s) M1` and its adjoint, without ever forming `K`; and M1,
M2, W as they come: checked at the boundary, dense or sparse, scaled by powers of two.

Rests on proofs_check: row-major-index, kronecker-khatri-rao, mixed-product, vec-identity, adjoint,
gram-hadamard, kronecker-rank.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from reconstruct.errors import InputError
from reconstruct.khatri_rao import ranks
from reconstruct.numbers.arrays import to_dense
from reconstruct.numbers.parallel import cpu_count, parallel_map

Vector: TypeAlias = NDArray[np.floating[Any]]
Matrix: TypeAlias = NDArray[np.floating[Any]]
Stored: TypeAlias = Any  # Matrix or scipy.sparse array

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


@dataclass(frozen=True)
class Tiles:
    """How work is shared out."""

    # Measured on maps of 16 × 16 to 256 × 256: tiles of M1, M2ᵀ and their product that stay in the
    # second-level cache are up to a third quicker; shorter ones keep BLAS waiting.
    size: int = 5 << 18  # bytes
    rows: int = 256
    parallel: float = 1e7  # flops below which handing tiles to threads costs more than it saves
    shared: float = 2e8  # flops below which a sum over ranks costs more than it saves


TILES = Tiles()


class KhatriRao(LinearOperator):  # type: ignore[misc]
    """The linear map `K : R^n → R^(m×k)`, `K s = M2 diag(s) M1`.

    With row-major `vec`, `vec(K s) = (M2 ⊙ M1ᵀ) s`, where `⊙` is the column-wise Khatri-Rao
    product; the adjoint is `Kᵀ Y = diag(M2ᵀ Y M1ᵀ)`, because
    `⟨K s, Y⟩ = Σ_l s_l (M2ᵀ Y M1ᵀ)_ll`. Each costs `2·n·m·k` flops, and memory beyond the two
    matrices is one tile per thread.

    Parameters: `M1` of shape `n × k` and `M2` of shape `m × n`, dense (float32 or float64) or
    scipy.sparse. Both are kept in the precision in which they come; `M2` is stored transposed so
    that a tile of hidden units is contiguous in both. Products compute in `dtype`, tile by tile,
    on all threads, and inside of `ranks.over_ranks` on all ranks: a sum over hidden units is the
    sum of the ranks' parts. Vectors and matrices are whole on every rank.

    It is a linear operator of SciPy too, of shape `(m·k, n)`: `K @ s`, `K.T @ y`, `lsmr(K, w)`.
    """

    def __init__(self, M1: Stored, M2: Stored) -> None:
        M1, M2 = (one if hasattr(one, "shape") else np.asarray(one) for one in (M1, M2))
        self.sparse = sparse.issparse(M1) or sparse.issparse(M2)
        as_rows: Callable[[Any], Any] = sparse.csr_array if self.sparse else np.ascontiguousarray
        self.M1, self.M2T = as_rows(M1), as_rows(M2.T)
        self.width = int(M1.shape[0])  # hidden width n: the number of unknowns
        self.map_shape = int(M2.shape[0]), int(M1.shape[1])
        self._weights = {self.M1.dtype: (self.M1, self.M2T)}
        self._comm: Any = ranks.current() if 2.0 * self.width * self.rows >= TILES.shared else None
        super().__init__(np.dtype(np.float64), (self.rows, self.width))

    @property
    def rows(self) -> int:
        """Number of equations `m·k`."""
        m, k = self.map_shape
        return m * k

    def __repr__(self) -> str:
        m, k = self.map_shape
        kind = "sparse" if self.sparse else str(self.M1.dtype)
        return f"KhatriRao(m={m}, k={k}, width={self.width}, {kind})"

    def scaled(self, first: int, second: int) -> KhatriRao:
        """The operator of `2^first M1` and `2^second M2`."""
        if first == second == 0:
            return self
        return KhatriRao(scaled(self.M1, first), scaled(self.M2T, second).T)

    def in_precision(self, dtype: DTypeLike) -> None:
        """Keep the weights in `dtype` too: an iteration would convert them in every step."""
        kind = np.dtype(dtype)
        if not self.sparse:
            self._weights[kind] = tuple(one.astype(kind, copy=False) for one in (self.M1, self.M2T))

    def apply(self, s: Vector) -> Matrix:
        """`M2 diag(s) M1`, of shape `m × k`, in float64."""
        given = np.asarray(s, dtype=np.float64)
        return self._summed(np.float64, lambda tile, part: tile.forward(given[part]))[0]

    def magnitude(self, s: Vector) -> Matrix:
        """`|M2| diag(|s|) |M1|`: what the entries of `apply(s)` are summed from.

        One unit in the last place of it is the best residual that rounding `s` can be expected
        to leave.
        """
        given = np.abs(np.asarray(s, dtype=np.float64))
        return self._summed(np.float64, lambda tile, part: tile.absolute().forward(given[part]))[0]

    def apply_transposed(self, Y: Matrix) -> Vector:
        """`diag(M2ᵀ Y M1ᵀ)`, a vector over hidden units, in float64."""
        out = np.empty(self.width)
        right = self._turned(np.asarray(Y, dtype=np.float64))

        def work(share: slice) -> None:
            for part, tile in self._tiles(share, np.float64):
                out[part] = tile.adjoint(right)

        own = self._own()
        list(parallel_map(work, self._shares(own)))
        if self._comm is not None:
            counts = [part.stop - part.start for part in self._held_by_each()]
            self._comm.Allgatherv(out[own].copy(), (out, counts))
        return out

    def normal(self, Y: Matrix, dtype: DTypeLike = np.float64) -> tuple[float, Matrix]:
        """`‖Kᵀ Y‖²` and `K Kᵀ Y`: an iteration's two products in one pass over the weights.

        A tile is still in the cache when its second product comes.
        """
        right = np.ascontiguousarray(self._turned(np.asarray(Y, dtype=dtype)))
        image, squares = self._summed(dtype, lambda tile, part: tile.there_and_back(right))
        return squares, image

    def squared_norm(self) -> float:
        """`‖K‖_F² = Σ_l ‖M1[l, :]‖² ‖M2[:, l]‖²`."""
        return float(_row_squares(self.M1) @ _row_squares(self.M2T))

    def entries(self) -> int:
        """`nnz(K) = Σ_l nnz(M2[:, l]) · nnz(M1[l, :])` of sparse matrices; all if dense."""
        if not self.sparse:
            return self.rows * self.width
        return int(np.diff(self.M1.indptr).astype(np.int64) @ np.diff(self.M2T.indptr))

    def dense(self) -> NDArray[np.float64]:
        """The matrix `K` itself, `m·k × n` in row-major order: for small sizes."""
        m, k = self.map_shape
        M1, M2T = (np.asarray(to_dense(part), np.float64) for part in (self.M1, self.M2T))
        out = np.empty((m, k, self.width))
        np.multiply(M2T.T[:, None, :], M1.T[None, :, :], out=out)
        return out.reshape(m * k, self.width)

    def gram(self) -> NDArray[np.float64]:
        """`KᵀK = (M1 M1ᵀ) ∘ (M2ᵀ M2)`, `n × n` (proofs_check: gram-hadamard)."""
        M1, M2T = (np.asarray(to_dense(part), np.float64) for part in (self.M1, self.M2T))
        return np.asarray((M1 @ M1.T) * (M2T @ M2T.T))

    # For SciPy

    def _matvec(self, s: Vector) -> Vector:
        return self.apply(np.ravel(s)).ravel()

    def _rmatvec(self, y: Vector) -> Vector:
        return self.apply_transposed(np.reshape(y, self.map_shape))

    # Tiles, threads, ranks

    def _turned(self, Y: Matrix) -> Matrix:
        """A matrix of the map's shape as tiles take and give it; and back."""
        m, k = self.map_shape
        return Y.T if k > m else Y

    def _own(self) -> slice:
        """The hidden units that this rank works on."""
        if self._comm is None:
            return slice(0, self.width)
        return self._held_by_each()[int(self._comm.Get_rank())]

    def _held_by_each(self) -> list[slice]:
        return _split(slice(0, self.width), int(self._comm.Get_size()))

    def _shares(self, own: slice) -> list[slice]:
        few = 2.0 * (own.stop - own.start) * self.rows < TILES.parallel
        return [own] if few else _split(own, cpu_count())

    def _tiles(self, share: slice, dtype: DTypeLike) -> Iterator[tuple[slice, _Tile]]:
        """The tiles of a share, converted to `dtype` one at a time where they are of another; one
        without units where there are more shares than units."""
        m, k = self.map_shape
        kind = np.dtype(dtype)
        rows = max(TILES.rows, TILES.size // ((m + k + min(m, k)) * kind.itemsize))
        M1, M2T = self._weights.get(kind, (self.M1, self.M2T))
        scratch = np.empty((min(rows, share.stop - share.start), min(m, k)), kind)
        for start in range(share.start, max(share.stop, share.start + 1), rows):
            part = slice(start, min(start + rows, share.stop))
            first, second = (to_dense(one[part]).astype(kind, copy=False) for one in (M1, M2T))
            yield part, _Tile(first, second, scratch[: part.stop - part.start])

    def _summed(
        self, dtype: DTypeLike, term: Callable[[_Tile, slice], tuple[float, Matrix]]
    ) -> tuple[Matrix, float]:
        """The sums over all tiles of the matrices and of the numbers that `term` makes of each.

        Over ranks it is one all-reduce of `m·k + 1` numbers.
        """
        own = self._own()

        def work(share: slice) -> tuple[float, Matrix]:
            terms = (term(tile, part) for part, tile in self._tiles(share, dtype))
            total, image = next(terms)
            for number, matrix in terms:
                total += number
                image += matrix
            return total, image

        found = list(parallel_map(work, self._shares(own)))
        number, image = found[0]
        for more, matrix in found[1:]:
            number += more
            image += matrix
        image = np.ascontiguousarray(self._turned(image))
        if self._comm is None:
            return image, number
        packed = np.append(image.ravel().astype(np.float64), number)
        whole = np.empty_like(packed)
        self._comm.Allreduce(packed, whole)
        return whole[:-1].reshape(self.map_shape).astype(dtype), float(whole[-1])


class _Tile:
    """Rows of `M1` (`T × k`) and of `M2ᵀ` (`T × m`): the arithmetic of some hidden units.

    With rows `a_l` of the larger and `b_l` of the smaller factor, so that element-wise work is
    done on the smaller,

        adjoint: out_l = a_lᵀ Y b_l,      forward: Σ_l s_l a_l b_lᵀ.

    A matrix of the map's shape comes and goes transposed where `k > m`.
    """

    def __init__(self, M1: Matrix, M2T: Matrix, scratch: Matrix) -> None:
        wide = M1.shape[1] > M2T.shape[1]
        self._large, self._small = (M1, M2T) if wide else (M2T, M1)
        self._scratch = scratch

    def absolute(self) -> _Tile:
        """The tile of absolute values."""
        made = _Tile.__new__(_Tile)
        made._large, made._small = np.abs(self._large), np.abs(self._small)
        made._scratch = self._scratch
        return made

    def adjoint(self, Y: Matrix) -> Vector:
        """`diag(M2ᵀ Y M1ᵀ)`."""
        np.matmul(self._large, Y, out=self._scratch)
        return np.asarray(np.einsum("ij,ij->i", self._scratch, self._small))

    def forward(self, s: Vector) -> tuple[float, Matrix]:
        """`M2 diag(s) M1`; the number beside it stands for nothing."""
        np.multiply(self._small, s[:, None], out=self._scratch)
        return 0.0, self._large.T @ self._scratch

    def there_and_back(self, Y: Matrix) -> tuple[float, Matrix]:
        """`‖z‖²` and `M2 diag(z) M1` of `z = diag(M2ᵀ Y M1ᵀ)`."""
        z = self.adjoint(Y)
        return float(z @ z), self.forward(z)[1]


def _split(units: slice, count: int) -> list[slice]:
    """Contiguous shares of about equal length, none empty unless there are too few units."""
    length = units.stop - units.start
    edges = [units.start + length * i // count for i in range(count + 1)]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def _row_squares(matrix: Stored) -> NDArray[np.float64]:
    if sparse.issparse(matrix):
        return np.asarray(matrix.multiply(matrix).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))


# --- M1, M2 and W as they come ------------------------------------------------------------------


def checked_system(
    M1: Any, M2: Any, W: Any, *, rational: bool = False
) -> tuple[Stored, Stored, NDArray[Any]]:
    """The three arrays as floats, or InputError that names the argument and both shapes.

    With `rational`, Fractions are taken, too.
    """
    first, second, right = (
        _checked(name, array, rational) for name, array in (("M1", M1), ("M2", M2), ("W", W))
    )
    check_shapes(first.shape, second.shape, right.shape)
    return first, second, right if right.dtype == object else np.asarray(to_dense(right), float)


def checked_pair(M1: Any, M2: Any) -> tuple[Stored, Stored]:
    """M1 (`n × k`) and M2 (`m × n`) as float arrays that fit together."""
    first, second = _checked("M1", M1), _checked("M2", M2)
    check_shapes(first.shape, second.shape)
    return first, second


def check_shapes(
    M1: tuple[int, ...], M2: tuple[int, ...], W: tuple[int, ...] | None = None
) -> None:
    """Whether M1 (`n × k`), M2 (`m × n`) and W (`m × k`) fit together."""
    if M1[0] != M2[1]:
        raise InputError(
            f"M1 must have as many rows as M2 has columns (the hidden width n), but M1 has shape "
            f"{M1} and M2 has shape {M2}; M1 is n × k and M2 is m × n"
        )
    needed = (M2[0], M1[1])
    if W is not None and needed != W:
        raise InputError(
            f"W must have shape (m, k) = {needed} to match M2 of shape {M2} and M1 of shape {M1}, "
            f"but has shape {W}; transpose it or check the order of the arguments"
        )


def _checked(name: str, value: Any, rational: bool = False) -> Any:
    array = sparse.csr_array(value) if sparse.issparse(value) else np.asarray(value)
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(
            f"{name} must be a matrix with at least one row and one column, but has shape "
            f"{array.shape}; reshape it to two dimensions"
        )
    if rational and array.dtype == object:
        flat: list[Any] = array.ravel().tolist()
        if all(isinstance(entry, Real) and math.isfinite(entry) for entry in flat):
            return np.array([Fraction(entry) for entry in flat], object).reshape(array.shape)
    if array.dtype.kind not in "biuf":
        raise InputError(
            f"{name} must hold real numbers, but has dtype {array.dtype}; convert it to float64"
        )
    if array.dtype not in FLOATS:
        array = array.astype(np.float64)
    values = entries(array)
    bad = int(values.size - np.count_nonzero(np.isfinite(values)))
    if bad:
        raise InputError(
            f"{name} of shape {array.shape} must be finite, but {bad} of its entries are NaN or "
            "infinite; repair the weights it came from"
        )
    return array


def entries(matrix: Stored) -> Matrix:
    """The stored entries, in any shape."""
    return np.asarray(matrix.data if sparse.issparse(matrix) else matrix)


def largest(matrix: Stored) -> float:
    """`max |entry|`, 0 for an empty matrix."""
    values = entries(matrix)
    return float(np.maximum(np.max(values, initial=0.0), -np.min(values, initial=0.0)))


def scaled(matrix: Stored, power: int) -> Stored:
    """`2^power · matrix`; no copy if the power is 0."""
    if power == 0:
        return matrix
    if sparse.issparse(matrix):
        out = matrix.copy()
        out.data = np.ldexp(out.data, power)
        return out
    return np.ldexp(matrix, power)
