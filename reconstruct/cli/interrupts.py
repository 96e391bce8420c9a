"""A Ctrl-C that cannot get lost.

Python drops whatever is raised inside of a destructor or the callback of a weak reference, and
imports run these by the thousand: an interrupt that falls into one would be forgotten. So it is
written down as well, and raised again where work goes on.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_heard = False


@contextmanager
def listening() -> Iterator[None]:
    """Interrupts are remembered inside, unless somebody else handles them already."""
    global _heard
    ours = threading.current_thread() is threading.main_thread()
    if not (ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler):
        yield
        return
    _heard = False
    signal.signal(signal.SIGINT, _hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _heard = False


def check() -> None:
    """Raise KeyboardInterrupt, in the main thread, if there was one that ended nothing."""
    if _heard and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


def _hear(number: int, frame: FrameType | None) -> None:
    global _heard
    _heard = True
    raise KeyboardInterrupt
