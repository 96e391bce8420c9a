"""`--memory` is a limit: what is expected to take more is refused before any work."""

from __future__ import annotations

from pathlib import Path

import pytest

import reconstruct as rc
from reconstruct.errors import InputError
from tests.constructions.targets import mlp


def test_a_run_that_would_take_more_is_refused_with_advice(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"may take 0\.0093 GiB.*expected to take.*grouped"):
        rc.run(mlp([5, 12, 3], 0), tmp_path / "out", domain=(-1, 1), memory=10**7)
    assert not (tmp_path / "out").exists()


def test_a_run_within_its_memory_is_made(tmp_path: Path) -> None:
    done = rc.run(mlp([2, 3, 1], 0), tmp_path / "out", domain=(-1, 1), memory=2**30)
    assert done.report["verdict"] == "certified"
