"""`--memory` is a limit: what is expected to take more is refused before any work."""

from __future__ import annotations

from pathlib import Path

import pytest

import reconstruct as rc
from reconstruct.errors import InputError
from reconstruct.progress import OutOfTime, Step
from tests.constructions.targets import mlp


def test_a_run_that_would_take_more_is_refused_with_advice(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"may take 10 MB.*expected to take.*grouped"):
        rc.run(mlp([5, 12, 3], 0), tmp_path / "out", domain=(-1, 1), memory=10**7)
    assert not (tmp_path / "out").exists()


def test_what_the_machine_has_is_the_limit_where_none_is_given(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("reconstruct.runs.run.physical_memory", lambda: 10**6)
    with pytest.raises(InputError, match=r"may take 1 MB of memory \(all that this machine has\)"):
        rc.run(mlp([2, 3, 1], 0), tmp_path / "out", domain=(-1, 1))
    assert rc.run(mlp([2, 3, 1], 0), tmp_path / "out", domain=(-1, 1), memory=2**40).output


def test_a_run_within_its_memory_is_made(tmp_path: Path) -> None:
    done = rc.run(mlp([2, 3, 1], 0), tmp_path / "out", domain=(-1, 1), memory=2**30)
    assert done.report["verdict"] == "certified"


def test_what_is_too_large_is_refused_before_anything_is_drawn(tmp_path, monkeypatch) -> None:
    def drawn(*_: object, **__: object) -> None:
        raise AssertionError("it was drawn")

    monkeypatch.setattr("reconstruct.runs.run.draw", drawn)
    with pytest.raises(InputError, match="--construction grouped"):
        rc.run(mlp([30, 40, 20], 0), tmp_path / "out", domain=rc.Box(-1, 1), memory=2**20)


def test_drawing_ends_with_the_time_limit(tmp_path) -> None:
    def late(step: Step) -> None:
        if step.task.startswith("drawing"):
            raise OutOfTime(step.task)

    with pytest.raises(OutOfTime, match="drawing the frozen network"):
        rc.run(mlp([3, 4, 2], 0), tmp_path / "out", domain=rc.Box(-1, 1), progress=late)
