"""Many calls of one function, shared out: over the ranks of a job, or over threads.

Who runs a job says how work is dealt out (`dealing`); rooms that know nothing of ranks call
`dealt_out` and get the same results in the same order, whoever made them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Deal = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], Iterable[Any]]

MOST_SENT = 2**22  # numbers that go with one call to another rank, at most

_deal: ContextVar[Deal | None] = ContextVar("deal", default=None)


@contextmanager
def dealing(deal: Deal) -> Iterator[None]:
    """Deal the calls of `dealt_out` inside with `deal`; threads started inside do not inherit."""
    token = _deal.set(deal)
    try:
        yield
    finally:
        _deal.reset(token)


def shareable(numbers: int) -> bool:
    """Whether calls are dealt out here, and ones that take so many numbers along are worth it."""
    return _deal.get() is not None and numbers <= MOST_SENT


def dealt_out(
    function: Callable[..., Any],
    items: Sequence[tuple[Any, ...]],
    *,
    numbers: int,
    pool: ThreadPoolExecutor | None = None,
) -> list[Any]:
    """`function(*item)` for every item, in the items' order.

    `numbers` go with each call. On other ranks `function` has to be one of a module, and to raise
    nothing: an error there ends the job.
    """
    deal = _deal.get()
    if deal is not None and len(items) > 1 and numbers <= MOST_SENT:
        return list(deal(function, items))
    if pool is not None and len(items) > 1:
        return list(pool.map(lambda item: function(*item), items))
    return [function(*item) for item in items]
