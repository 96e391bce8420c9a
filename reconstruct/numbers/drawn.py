"""Weights that are drawn when they are needed and never stored: a matrix as a source of tiles."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

TILE = 1024  # hidden units in a tile


class Drawn:
    """A matrix `n × across` whose rows belong to hidden units, given by a way to draw its tiles.

    Parameters: `shape` = (n, across); `draw(i)` gives rows `i·tile … (i+1)·tile` (fewer at the
    end), the same numbers whenever it is asked, from any thread. `M1` is given as `Drawn`, `M2`
    (`m × n`) as the transpose `Drawn(…).T`. Slices of rows are drawn on demand; each thread keeps
    the tile it drew last, and as many tiles are kept for good as `keep_bytes` has room for. Those
    lie side by side, so that rows of several that follow each other are no copy.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        draw: Callable[[int], NDArray[Any]],
        *,
        tile: int = TILE,
        dtype: DTypeLike = np.float32,
        keep_bytes: int = 0,
    ) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.tile = tile
        self.keep_bytes = keep_bytes
        self._draw = draw
        self._start = 0
        self._last = threading.local()
        self._forget()

    ndim = 2

    @property
    def T(self) -> Transposed:
        """The same matrix, `across × n`."""
        return Transposed(self)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Drawn({self.shape[0]} × {self.shape[1]}, {self.dtype})"

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """The rows of a slice (step 1) as an array to read; it may be the one that is kept."""
        start, stop, _ = rows.indices(self.shape[0])
        start, stop = start + self._start, max(stop, start) + self._start
        indices = range(start // self.tile, -(-stop // self.tile))
        if not indices:
            return np.empty((0, self.shape[1]), self.dtype)
        if self._kept.issuperset(indices):
            return self._in_store(indices[0], start, stop)
        parts = []
        for index in indices:
            first = index * self.tile
            parts.append(self._tile(index)[max(start - first, 0) : stop - first])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def part(self, rows: slice) -> Drawn:
        """Some of the rows, still to be drawn."""
        start, stop, _ = rows.indices(self.shape[0])
        other = self._drawing(self._draw)
        other.shape = (stop - start, self.shape[1])
        other._start += start
        return other

    def mapped(self, change: Callable[[NDArray[Any], int], NDArray[Any]]) -> Drawn:
        """The matrix with every tile changed after it is drawn; nothing kept yet.

        `change` gets a tile and the number of its first row in this matrix, which is negative
        where this is a part that begins in the middle of a tile.
        """
        return self._drawing(_Changed(self._draw, change, self.tile, self._start))

    def __getstate__(self) -> dict[str, Any]:
        """For another process: what draws goes along, what was drawn does not."""
        return {**self.__dict__, "_last": None, "_kept": None, "_store": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._last = threading.local()
        self._forget()

    def _drawing(self, draw: Callable[[int], NDArray[Any]]) -> Drawn:
        given: dict[str, Any] = {"tile": self.tile, "dtype": self.dtype}
        other = Drawn(self.shape, draw, keep_bytes=self.keep_bytes, **given)
        other._start = self._start
        return other

    def _tile(self, index: int) -> NDArray[Any]:
        if index in self._kept:
            first = index * self.tile
            return self._in_store(index, first, first + self.tile)
        last: tuple[int, NDArray[Any]] | None = getattr(self._last, "tile", None)
        if last is not None and last[0] == index:
            return last[1]
        # row by row in memory, as stored weights are: products depend on it in their last bits
        drawn = _to_read(np.ascontiguousarray(self._draw(index), dtype=self.dtype))
        if (place := self._place(index)) is None:
            self._last.tile = (index, drawn)
        else:
            self._keep(index, place, drawn)
        return drawn

    def _forget(self) -> None:
        self._kept: set[int] = set()
        self._store: NDArray[Any] | None = None
        self._lock = threading.Lock()

    def _keep(self, index: int, place: int, drawn: NDArray[Any]) -> None:
        with self._lock:
            if self._store is None:
                self._store = np.empty((self._room() * self.tile, self.shape[1]), self.dtype)
            if index not in self._kept:
                self._store[place : place + len(drawn)] = drawn
                self._kept.add(index)  # when it is filled: others look without the lock

    def _room(self) -> int:
        """How many tiles are kept."""
        bytes_each = self.tile * self.shape[1] * self.dtype.itemsize
        return min(self.keep_bytes // max(1, bytes_each), len(self._tiles()))

    def _tiles(self) -> range:
        return range(self._start // self.tile, -(-(self._start + len(self)) // self.tile))

    def _place(self, index: int) -> int | None:
        """The row of the store at which a tile begins; None if the tile is not kept.

        Tiles that are not kept are spread evenly: whoever has a share of the rows has its share of
        the drawing. Kept tiles that follow each other do so in the store.
        """
        tiles, most = self._tiles(), self._room()
        place, end = ((index - tiles.start + i) * most // len(tiles) for i in (0, 1))
        return place * self.tile if place < end else None

    def _in_store(self, index: int, start: int, stop: int) -> NDArray[Any]:
        """Rows of kept tiles that follow each other, the first of which is `index`."""
        store, place = self._store, self._place(index)
        assert store is not None and place is not None
        shift = place - index * self.tile
        return _to_read(store[start + shift : stop + shift])


def _to_read(rows: NDArray[Any]) -> NDArray[Any]:
    """The rows, for others to read: they are asked for again."""
    seen = rows[:]
    seen.flags.writeable = False
    return seen


@dataclass(frozen=True)
class _Changed:
    """Draw, then change: a class and no lambda, so that it can be sent to another process."""

    draw: Callable[[int], NDArray[Any]]
    change: Callable[[NDArray[Any], int], NDArray[Any]]
    tile: int
    start: int

    def __call__(self, index: int) -> NDArray[Any]:
        return self.change(self.draw(index), index * self.tile - self.start)


class Transposed:
    """`Drawn` seen the other way: `across × n`, as `M2` is."""

    ndim = 2

    def __init__(self, source: Drawn) -> None:
        self.T = source
        self.shape = (source.shape[1], source.shape[0])
        self.dtype = source.dtype

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """Rows as an array, for which every tile is drawn: of square matrices, as a rule."""
        return np.ascontiguousarray(self.T[:][:, rows].T)

    def __repr__(self) -> str:
        return f"{self.T!r}.T"


def is_drawn(matrix: Any) -> bool:
    """Whether the matrix is a source of tiles."""
    return isinstance(matrix, Drawn | Transposed)
