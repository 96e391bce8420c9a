"""Worker threads for tiled linear algebra: one BLAS thread per worker.

Element-wise work between the matrix products is memory bound and runs on one core inside NumPy,
so tiles in parallel with single-threaded BLAS beat one multi-threaded BLAS call.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")

_lock = threading.Lock()
_holders = 0
_limiter: Any = None


def cpu_count() -> int:
    """Number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every platform
        return os.cpu_count() or 1


@functools.cache
def _controller() -> Any:
    return ThreadpoolController()  # the scan for loaded libraries takes milliseconds: do it once


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while any holder is inside.

    The limit is global to the process, so holders are counted: the first one sets it and the last
    one restores it, whatever the order in which threads leave.
    """
    global _holders, _limiter
    with _lock:
        if _holders == 0:
            _limiter = _controller().limit(limits=1, user_api="blas")
            _limiter.__enter__()
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                _limiter.__exit__(None, None, None)
                _limiter = None


class Workers:
    """A fixed number of threads, started at first use and ended with the object."""

    def __init__(self, count: int | None = None) -> None:
        self.count = max(1, count if count is not None else cpu_count())
        self._pool: ThreadPoolExecutor | None = None

    def map(self, function: Callable[[slice], T], slices: list[slice]) -> list[T]:
        """Run `function` over `slices` in parallel; results keep the order of `slices`.

        Every task has ended when this returns or raises, an interrupt included.
        """
        with one_blas_thread():
            if len(slices) == 1 or self.count == 1:
                return [function(part) for part in slices]
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="khatri_rao")
            futures = [self._pool.submit(function, part) for part in slices]
            try:
                return [future.result() for future in futures]
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """End the threads; a later `map` starts new ones."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
