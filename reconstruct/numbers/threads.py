"""One BLAS thread while tiles run side by side, and what this machine has."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_holders = 0
_before: list[int] = []
_most: int | None = None


def cpu_count() -> int:
    """Number of processors that this process may use, or fewer inside of `at_most_threads`."""
    try:
        found = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every platform
        found = os.cpu_count() or 1
    return found if _most is None else _most


@contextmanager
def at_most_threads(count: int | None) -> Iterator[None]:
    """Work with so many threads inside, BLAS included; None leaves it as it is."""
    global _most
    if count is None:
        yield
        return
    before, kept = _most, [library.get_num_threads() for library in _libraries()]
    _most = count
    _set_threads([count] * len(kept))
    try:
        yield
    finally:
        _most = before
        _set_threads(kept)


def physical_memory() -> int | None:
    """Bytes of memory in this machine, None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


@functools.cache
def _libraries() -> list[Any]:
    """The BLAS libraries that are loaded; the scan takes milliseconds, so it is done once."""
    return [one for one in ThreadpoolController().lib_controllers if one.user_api == "blas"]


@functools.cache
def blas_kernels() -> frozenset[str]:
    """For which processors the kernels of BLAS were written, in the words of OpenBLAS."""
    return frozenset(str(getattr(one, "architecture", None)) for one in _libraries())


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while any holder is inside.

    The limit is global to the process, so holders are counted: the first one sets it and the last
    one restores it, whatever the order in which threads leave.
    """
    global _holders, _before
    with _lock:
        if _holders == 0:
            _before = [library.get_num_threads() for library in _libraries()]
            _set_threads([1] * len(_before))
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                _set_threads(_before)


def _set_threads(counts: list[int]) -> None:
    for library, count in zip(_libraries(), counts, strict=True):
        library.set_num_threads(count)
