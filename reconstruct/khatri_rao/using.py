"""The engine and the checkpoint of a stretch of work, for calls deep inside that name neither.

with using(engine=Mpi(), checkpoint=FolderCheckpoint(path)):
    …every `solve` in here that is not told otherwise…
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from reconstruct.khatri_rao.checkpoint import Checkpoint
from reconstruct.khatri_rao.engines import Engine


@dataclass(frozen=True)
class Surroundings:
    """What `solve` uses where its arguments say nothing."""

    engine: Engine | None = None
    checkpoint: Checkpoint | None = None


_current: ContextVar[Surroundings] = ContextVar("surroundings", default=Surroundings())  # noqa: B039


def surroundings() -> Surroundings:
    """What is in use here, in this thread."""
    return _current.get()


@contextmanager
def using(*, engine: Engine | None = None, checkpoint: Checkpoint | None = None) -> Iterator[None]:
    """Use an engine, a checkpoint or both inside; what is not given stays as it was.

    Threads that are started inside do not inherit it.
    """
    inside = surroundings()
    if engine is not None:
        inside = replace(inside, engine=engine)
    if checkpoint is not None:
        inside = replace(inside, checkpoint=checkpoint)
    token = _current.set(inside)
    try:
        yield
    finally:
        _current.reset(token)
