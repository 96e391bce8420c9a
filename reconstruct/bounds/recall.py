"""Bounds of functionals that were asked for before.

A certificate asks for the rows that the shifts were chosen by, and a row costs as much again: it is
found by its bits. A row takes 32 bytes here, whatever its length.
"""

from __future__ import annotations

from hashlib import blake2b
from threading import Lock

import numpy as np

from reconstruct.numbers.arrays import Array, Range

DIGEST = 16  # bytes that name a row
KEYS = np.dtype(f"S{DIGEST}")


class Recall:
    """Rows and their bounds by the value that they are functionals of; threads may share it."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Array, Array]] = {}
        self._lock = Lock()

    def __getstate__(self) -> dict[str, tuple[Array, Array]]:
        return self._known  # a lock does not travel

    def __setstate__(self, known: dict[str, tuple[Array, Array]]) -> None:
        self._known, self._lock = known, Lock()

    def find(self, name: str, keys: Array) -> tuple[Array, Array]:
        """The ends (rows, 2) of the rows of these keys, and which of them are not known."""
        ends, fresh = np.empty((len(keys), 2)), np.ones(len(keys), dtype=bool)
        if name in self._known:
            known, values = self._known[name]
            place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
            fresh = known[place] != keys
            ends[~fresh] = values[place[~fresh]]
        return ends, np.flatnonzero(fresh)

    def keep(self, name: str, keys: Array, found: Range) -> None:
        """Remember the bounds of some rows."""
        ends = np.stack(found, axis=1)
        with self._lock:
            if name in self._known:
                known, values = self._known[name]
                keys, ends = np.concatenate([known, keys]), np.concatenate([values, ends])
            keys, first = np.unique(keys, return_index=True)
            self._known[name] = keys, ends[first]


def keys_of(forms: Array, offsets: Array) -> Array:
    """Names of functionals, by their bits."""
    rows = np.concatenate([forms, offsets[:, None]], axis=1)
    names = [blake2b(row.tobytes(), digest_size=DIGEST).digest() for row in rows]
    return np.array(names, dtype=KEYS)
