"""All threads of the package: one pool, one BLAS thread in each worker, and what a machine has.

Element-wise work between matrix products is bound by memory and runs on one core inside NumPy, so
that blocks side by side with single-threaded BLAS beat one multi-threaded BLAS call.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Made = TypeVar("Made")

_lock = threading.Lock()
_inside = 0  # callers that want one BLAS thread now
_before: list[int] = []  # BLAS threads before the first of them
_most: int | None = None
_here = threading.local()


def cpu_count() -> int:
    """Number of processors that this process may use, or fewer inside of `at_most_threads`."""
    if _most is not None:
        return _most
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


def parallel_map(function: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[Made]:
    """`function(item)` for every item, on all processors; results in the order of the items.

    What becomes of the results is joined in their order, so that the outcome has the same bits
    whatever the number of threads. No more results wait than there are threads. Inside of another
    `parallel_map` the items are done in turn: the processors are busy already. Every task has
    ended when an error or an interrupt goes on.
    """
    left = iter(items)
    count = 1 if getattr(_here, "busy", False) else cpu_count()
    ahead = list(islice(left, 2))
    with one_blas_thread():
        if count == 1 or len(ahead) < 2:
            yield from map(function, chain(ahead, left))
            return
        ignored: dict[str, Any] = dict(np.geterr())  # settings that do not pass over to threads

        def task(item: Item) -> Made:
            with np.errstate(**ignored):
                return function(item)

        pool = _pool(count)
        waiting: deque[Future[Made]] = deque()
        try:
            for item in chain(ahead, left):
                waiting.append(pool.submit(task, item))
                if len(waiting) > count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            wait(waiting)


@functools.cache
def _pool(count: int) -> ThreadPoolExecutor:
    """The one pool; starting threads anew for each of thousands of small maps would cost more."""
    return ThreadPoolExecutor(count, initializer=setattr, initargs=(_here, "busy", True))


if hasattr(os, "register_at_fork"):  # a forked process has the pool but none of its threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


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


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while any caller is inside.

    The limit is global to the process, so callers are counted: the first one sets it and the last
    one restores it, whatever the order in which threads leave.
    """
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = [library.get_num_threads() for library in _libraries()]
            _set_threads([1] * len(_before))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _set_threads(_before)


@functools.cache
def _libraries() -> list[Any]:
    """The BLAS libraries that are loaded; the scan takes milliseconds, so it is done once."""
    return [one for one in ThreadpoolController().lib_controllers if one.user_api == "blas"]


def _set_threads(counts: list[int]) -> None:
    for library, count in zip(_libraries(), counts, strict=True):
        library.set_num_threads(count)
