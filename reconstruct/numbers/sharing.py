"""Many calls of one function on threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def dealt_out(
    function: Callable[..., Any],
    items: Sequence[tuple[Any, ...]],
    *,
    numbers: int = 0,
    pool: ThreadPoolExecutor | None = None,
) -> list[Any]:
    """`function(*item)` for every item, in the items' order."""
    if pool is not None and len(items) > 1:
        return list(pool.map(lambda item: function(*item), items))
    return [function(*item) for item in items]
