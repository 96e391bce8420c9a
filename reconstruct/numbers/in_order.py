"""One function of many items on all processors, its results in the order of the items.

For blocks of large maps: each is a piece of work of its own, and what becomes of them is joined in
their order. So every bit of the outcome is the same whatever the number of threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Any, TypeVar

import numpy as np

from reconstruct.numbers.threads import cpu_count, one_blas_thread

Item = TypeVar("Item")
Made = TypeVar("Made")

_here = threading.local()


def in_order(function: Callable[[Item], Made], items: Iterable[Item]) -> Iterator[Made]:
    """`function(item)` for every item, one after the other as they are asked for.

    The first item is done alone, so that it can fill what the others find filled. No more results
    wait than there are threads. Products inside take one BLAS thread each, also where there is one
    thread only, and inside of another `in_order` there is. Threads ignore those floating-point
    errors that who asks first ignores: numpy's settings do not pass over to them.
    """
    left = iter(items)
    count = 1 if getattr(_here, "busy", False) else cpu_count()
    with one_blas_thread():
        yield from map(function, islice(left, 1))
        ahead = list(islice(left, 2))
        if count == 1 or len(ahead) < 2:
            yield from map(function, chain(ahead, left))
            return
        with ThreadPoolExecutor(count, initializer=_mark) as pool:
            yield from _dealt(pool, count, _quietly(function), chain(ahead, left))


def _dealt(
    pool: ThreadPoolExecutor,
    count: int,
    function: Callable[[Item], Made],
    items: Iterable[Item],
) -> Iterator[Made]:
    waiting: deque[Future[Made]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def _mark() -> None:
    _here.busy = True


def _quietly(function: Callable[[Item], Made]) -> Callable[[Item], Made]:
    ignored: dict[str, Any] = dict(np.geterr())

    def inside(item: Item) -> Made:
        with np.errstate(**ignored):
            return function(item)

    return inside
