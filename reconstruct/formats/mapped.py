"""Weights that stay in their file: blocks of them are read when they are needed."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reconstruct.errors import InputError

Array = NDArray[Any]
RELEASE = 2**26  # bytes read, after which their pages are given back: 64 MiB


class MappedFile:
    """A file whose tensors are looked at through memory that counts for nobody for long."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._file = path.open("rb")
        self._state = self._stat()
        self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        self._read = 0

    def tensor(self, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """The numbers at an offset, still in the file."""
        count = int(np.prod(shape, dtype=np.int64))
        flat = np.frombuffer(self._map, dtype.newbyteorder("<"), count, offset)
        return flat.reshape(shape)

    def copied(self, part: Array) -> Array:
        """A part of such a tensor in memory; the file must be as it was when it was opened."""
        out = np.array(part, dtype=part.dtype.newbyteorder("="), order="K")
        self._read += out.nbytes
        if self._read > RELEASE:
            self._read = 0
            if self._stat() != self._state:
                raise InputError(
                    f"{self.name} was changed while it was read; leave it alone and start again"
                )
            if hasattr(mmap, "MADV_DONTNEED"):  # the system keeps what it has room for
                self._map.madvise(mmap.MADV_DONTNEED)
        return out

    def _stat(self) -> tuple[int, int]:
        found = os.fstat(self._file.fileno())
        return found.st_size, found.st_mtime_ns


class FileBlocks:
    """A matrix in a file, by its rows and columns."""

    keep_bytes = 0

    def __init__(self, file: MappedFile, array: Array) -> None:
        self._file, self._array = file, array

    ndim = 2

    @property
    def shape(self) -> tuple[int, int]:
        return int(self._array.shape[0]), int(self._array.shape[1])

    @property
    def size(self) -> int:
        return int(self._array.size)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self._array.dtype.newbyteorder("="))

    @property
    def T(self) -> FileBlocks:
        """The same numbers, rows for columns."""
        return FileBlocks(self._file, self._array.T)

    def rows(self, start: int, stop: int) -> Array:
        return self._file.copied(self._array[start:stop])

    def columns(self, start: int, stop: int) -> Array:
        return self._file.copied(self._array[:, start:stop])
