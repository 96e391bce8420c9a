"""Tiny data for trainings of a second; everything here is skipped where torch is not installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

if importlib.util.find_spec("torch") is None:  # test_available.py says so, with the reason
    here = Path(__file__).parent
    collect_ignore = [p.name for p in here.glob("test_*.py") if p.name != "test_available.py"]


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """One thread: the tests run beside others, and the models are tiny."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def images():
    """48 images of 1 × 6 × 6 in three classes that a bright row tells apart."""
    from reconstruct.training.data import split

    rng = np.random.default_rng(0)
    y = np.arange(48) % 3
    x = 0.1 * rng.standard_normal((48, 1, 6, 6))
    x[np.arange(48), 0, 2 * y] += 1.0
    return split("rows", x, y, 3)
