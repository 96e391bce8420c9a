"""A weight matrix too large to be held: its rows or columns are made when they are needed.

They are drawn from a seed or read from a file, a block at a time along the longer side of the
matrix, so that no analysis holds more than a block. What it computes is what `Dense` computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from reconstruct.errors import InputError
from reconstruct.networks.maps.dense import Dense
from reconstruct.networks.maps.mixing import Mixing
from reconstruct.numbers.arrays import Array, Matrix, Vector, dense, frozen_array
from reconstruct.numbers.drawn import TILE, Drawn
from reconstruct.numbers.in_order import in_order
from reconstruct.numbers.rounding import smallest

Made = TypeVar("Made")

BLOCK = 2**21  # entries that are taken at once: 16 MiB in float64


class Blocks(Protocol):
    """A matrix of `shape` by its rows and columns; the same numbers whenever they are asked for.

    Up to `keep_bytes` of them are kept while a system with it is solved.
    """

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def keep_bytes(self) -> int: ...

    @property
    def size(self) -> int: ...

    def rows(self, start: int, stop: int) -> Array: ...

    def columns(self, start: int, stop: int) -> Array: ...


@dataclass(frozen=True, eq=False)
class DrawnBlocks:
    """A drawn matrix, `hidden` being the axis of its hidden units: 0 of an M1, 1 of an M2."""

    source: Drawn
    hidden: int
    keep_bytes: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        n, across = self.source.shape
        return (n, across) if self.hidden == 0 else (across, n)

    @property
    def size(self) -> int:
        return self.source.shape[0] * self.source.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.source.dtype

    def rows(self, start: int, stop: int) -> Array:
        return self.source[start:stop] if self.hidden == 0 else self._across(start, stop).T

    def columns(self, start: int, stop: int) -> Array:
        return self.source[start:stop].T if self.hidden == 1 else self._across(start, stop)

    def _across(self, start: int, stop: int) -> Array:
        """Some columns of the source, for which every tile is drawn."""
        count, step = self.source.shape[0], self.source.tile
        tiles = (self.source[i : i + step][:, start:stop] for i in range(0, count, step))
        return np.concatenate(list(tiles))


@dataclass(frozen=True, eq=False)
class _Changed:
    """Blocks with every entry changed on its own."""

    inner: Blocks
    change: Callable[[Array], Array]
    keep_bytes: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    @property
    def size(self) -> int:
        return self.inner.size

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    def rows(self, start: int, stop: int) -> Array:
        return self.change(self.inner.rows(start, stop))

    def columns(self, start: int, stop: int) -> Array:
        return self.change(self.inner.columns(start, stop))


@dataclass(frozen=True)
class _Extent:
    """What one look at all entries tells."""

    least: float
    largest: float
    nonzeros: int


@dataclass(frozen=True, eq=False)
class Tiled(Mixing):
    """`h ↦ W h + b` for a W in `blocks`."""

    kind = "Affine"
    in_memory = False

    blocks: Blocks
    bias: Vector

    def __init__(self, blocks: Blocks, bias: ArrayLike | None = None) -> None:
        offset = np.zeros(blocks.shape[0]) if bias is None else frozen_array(bias)
        if offset.shape != (blocks.shape[0],):
            raise InputError(
                f"a weight of shape {blocks.shape} needs a bias of {blocks.shape[0]} numbers, but "
                f"got shape {offset.shape}"
            )
        object.__setattr__(self, "blocks", blocks)
        object.__setattr__(self, "bias", offset)

    @property
    def shape(self) -> tuple[int, int]:
        return self.blocks.shape

    @property
    def weight(self) -> Blocks:
        return self.blocks

    @property
    def tall(self) -> bool:
        """Whether it is cut into blocks of rows, not of columns."""
        return self.shape[0] > self.shape[1]

    def parts(self) -> Iterator[tuple[slice, Array]]:
        """The matrix along its longer side: rows of a tall one, columns of another."""
        yield from self._made(lambda part, block: block)

    def _made(self, make: Callable[[slice, Array], Made]) -> Iterator[tuple[slice, Made]]:
        """What is made of every block, on all processors, drawing or reading them included."""
        length, across = max(self.shape), min(self.shape)
        step = max(1, BLOCK // across // TILE) * TILE
        take = self.blocks.rows if self.tall else self.blocks.columns

        def one(part: slice) -> tuple[slice, Made]:
            return part, make(part, take(part.start, part.stop))

        return in_order(one, [slice(i, min(i + step, length)) for i in range(0, length, step)])

    def linear(self, rows: Array) -> Array:
        return self._times(rows, lambda part: part.astype(rows.dtype, copy=False))

    def absolute(self, reach: Array) -> Array:
        return self._times(reach, lambda part: np.abs(dense(part)))

    def _times(self, rows: Array, change: Callable[[Array], Array]) -> Array:
        """`rows @ change(W)ᵀ`, a block at a time."""
        out = np.zeros((*rows.shape[:-1], self.shape[0]), rows.dtype)

        def product(part: slice, block: Array) -> Array:
            return np.asarray((rows if self.tall else rows[..., part]) @ change(block).T)

        for part, found in self._made(product):
            if self.tall:
                out[..., part] = found
            else:
                out += found
        return out

    def pull(self, form: Array, size: int) -> Array:
        rows = form.reshape(-1, form.shape[-1])
        out = np.zeros((len(rows), self.shape[1]), form.dtype)

        def product(part: slice, block: Array) -> Array:
            taken = rows[:, part] if self.tall else rows
            return np.asarray(taken @ block.astype(form.dtype, copy=False))

        for part, found in self._made(product):
            if self.tall:
                out += found
            else:
                out[:, part] = found
        return out.reshape(*form.shape[:-1], -1)

    def tile(self, start: int, stop: int) -> Array:
        return dense(self.blocks.rows(start, stop))

    def columns(self, start: int, stop: int) -> Array:
        return dense(self.blocks.columns(start, stop))

    def signs(self) -> tuple[Tiled, Tiled]:
        return (
            Tiled(_Changed(self.blocks, lambda part: np.maximum(dense(part), 0.0))),
            Tiled(_Changed(self.blocks, lambda part: np.minimum(dense(part), 0.0))),
        )

    def hidden_rows(self, start: int, stop: int) -> Dense:
        return Dense.over(self.blocks.rows(start, stop), self.bias[start:stop])

    def hidden_inputs(self, start: int, stop: int) -> Dense:
        return Dense.over(self.blocks.columns(start, stop))

    @property
    def kernels(self) -> tuple[Matrix, ...]:
        """The matrix as a source of tiles, which keeps what it may."""
        length, across = max(self.shape), min(self.shape)
        take = self.blocks.rows if self.tall else self.blocks.columns
        draw = _Tile(take, self.tall, length)
        kept: dict[str, Any] = {"dtype": self.blocks.dtype, "keep_bytes": self.blocks.keep_bytes}
        source = Drawn((length, across), draw, tile=TILE, **kept)
        return (source if self.tall else source.T,)

    @property
    def matrix(self) -> Matrix:
        """The whole of it, in memory."""
        return self.blocks.rows(0, self.shape[0])

    @cached_property
    def _extent(self) -> _Extent:
        found = [extent for _, extent in self._made(lambda part, block: _extent_of(block))]
        least, largest = min(e.least for e in found), max(e.largest for e in found)
        return _Extent(least, largest, sum(e.nonzeros for e in found))

    @property
    def least(self) -> float:
        return self._extent.least

    @property
    def largest(self) -> float:
        return self._extent.largest

    @property
    def nonzeros(self) -> int:
        return self._extent.nonzeros

    def arrays(self) -> dict[str, Array]:
        return {"weight": self.matrix, "bias": self.bias}

    def held(self) -> dict[str, Array]:
        """The bias; the entries are looked at when they are first asked for their extent."""
        return {"bias": self.bias}


def _extent_of(block: Array) -> _Extent:
    if not np.isfinite(block).all():
        raise InputError("its weight must be finite numbers, but has others")
    return _Extent(smallest(block), float(np.abs(block).max()), int(np.count_nonzero(block)))


@dataclass(frozen=True)
class _Tile:
    """Draws tile i; a class and no lambda, so that it can be sent to another process."""

    take: Callable[[int, int], Array]
    tall: bool
    length: int

    def __call__(self, index: int) -> Array:
        part = self.take(index * TILE, min((index + 1) * TILE, self.length))
        return np.ascontiguousarray(part if self.tall else part.T)
