"""The engine of one machine: worker threads, one BLAS thread each.

Element-wise work between the matrix products is memory bound and runs on one core inside NumPy,
so tiles in parallel with single-threaded BLAS beat one multi-threaded BLAS call.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
Floats = NDArray[Any]

PARALLEL_FLOPS = 4_000_000  # below this, handing tiles to threads costs more than it saves

_lock = threading.Lock()
_holders = 0
_limiter: Any = None


def cpu_count() -> int:
    """Number of processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every platform
        return os.cpu_count() or 1


def physical_memory() -> int | None:
    """Bytes of memory in this machine, None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


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


class Threads:
    """A fixed number of threads (default: all processors), started at first use."""

    def __init__(self, count: int | None = None) -> None:
        self.count = max(1, count if count is not None else cpu_count())
        self._pool: ThreadPoolExecutor | None = None

    def __repr__(self) -> str:
        return f"Threads({self.count})"

    def held(self, width: int) -> slice:
        """All units: there is one address space."""
        return slice(0, width)

    def shares(self, width: int, flops: float) -> list[slice]:
        """Contiguous shares, the same in every call, so that sums have the same order."""
        if flops < PARALLEL_FLOPS or width < 2 * self.count:
            return [slice(0, width)]
        edges = [width * i // self.count for i in range(self.count + 1)]
        return [slice(a, b) for a, b in itertools.pairwise(edges)]

    def map(self, function: Callable[[slice], T], shares: list[slice]) -> list[T]:
        """Run `function` over `shares` in parallel; results keep their order.

        Every task has ended when this returns or raises, an interrupt included.
        """
        with one_blas_thread():
            if len(shares) == 1 or self.count == 1:
                return [function(part) for part in shares]
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="khatri_rao")
            futures = [self._pool.submit(function, part) for part in shares]
            try:
                return [future.result() for future in futures]
            except BaseException:
                self.close()
                raise

    def add(self, part: Floats) -> Floats:
        """The part is the whole."""
        return part

    def gather(self, part: Floats, width: int) -> Floats:
        """The part is the whole."""
        return part

    def close(self) -> None:
        """End the threads; a later `map` starts new ones."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
