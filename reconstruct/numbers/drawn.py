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
    the tile it drew last, and tiles are kept for good as long as `keep_bytes` lasts.
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
        """The rows of a slice (step 1) as an array."""
        start, stop, _ = rows.indices(self.shape[0])
        start, stop = start + self._start, max(stop, start) + self._start
        parts = []
        for index in range(start // self.tile, -(-stop // self.tile)):
            first = index * self.tile
            parts.append(self._tile(index)[max(start - first, 0) : stop - first])
        if not parts:
            return np.empty((0, self.shape[1]), self.dtype)
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
        return {**self.__dict__, "_last": None, "_kept": {}, "_store": None, "_lock": None}

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
        kept = self._kept.get(index)
        if kept is not None:
            return kept
        last: tuple[int, NDArray[Any]] | None = getattr(self._last, "tile", None)
        if last is not None and last[0] == index:
            return last[1]
        # row by row in memory, as stored weights are: products depend on it in their last bits
        rows = np.ascontiguousarray(self._draw(index), dtype=self.dtype)
        drawn = self._keep(index, rows)
        self._last.tile = (index, drawn)
        return drawn

    def _forget(self) -> None:
        self._kept: dict[int, NDArray[Any]] = {}
        self._store: NDArray[Any] | None = None
        self._lock = threading.Lock()

    def _keep(self, index: int, drawn: NDArray[Any]) -> NDArray[Any]:
        """The tile where it is kept, if there is room: in one array, so that none lies between."""
        room = self.keep_bytes // max(1, self.tile * drawn[:1].nbytes)
        most = min(room, -(-len(self) // self.tile))
        with self._lock:
            if index not in self._kept and len(self._kept) < most:
                if self._store is None:
                    self._store = np.empty((most * self.tile, self.shape[1]), self.dtype)
                start = len(self._kept) * self.tile
                place = self._store[start : start + len(drawn)]
                place[:] = drawn
                self._kept[index] = place  # when it is filled: others look without the lock
        return self._kept.get(index, drawn)


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
