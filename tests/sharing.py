"""What takes long to make and is only looked at: made once, whichever worker needs it first."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable
from typing import TypeVar

import pytest

Made = TypeVar("Made")


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[], Made]) -> Made:
    """What `make` gives, from the first worker of this test run that asks for it by this name.

    The others wait for it and read its pickle, so that what one test does to it no other sees.
    """
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent  # of all workers
    kept = root / f"{name}.pickle"
    with open(root / f"{name}.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_bytes(pickle.dumps(make()))
    made: Made = pickle.loads(kept.read_bytes())
    return made
