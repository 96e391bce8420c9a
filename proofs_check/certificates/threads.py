"""Blocks of rows side by side: each is a proof of its own, and what they give is kept in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

Item = TypeVar("Item")
Found = TypeVar("Found")


def side_by_side(function: Callable[[Item], Found], items: Sequence[Item]) -> Iterator[Found]:
    """`function(item)` for every item, in their order, on as many threads as there are processors.

    The first is done alone and fills what is kept for the others. Matrix products take one thread
    each; no more blocks are under way, or wait, than there are threads.
    """
    count = processors()
    if len(items) < 3 or count == 1:
        yield from map(function, items)
        return

    def quietly(item: Item) -> Found:
        with np.errstate(all="ignore"):  # threads do not take it over from who started them
            return function(item)

    yield function(items[0])
    waiting: deque[Future[Found]] = deque()
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(count) as pool:
        try:
            for item in items[1:]:
                waiting.append(pool.submit(quietly, item))
                if len(waiting) > count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def processors() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every platform
        return os.cpu_count() or 1
