"""A run that is interrupted inside a solve goes on after the maps that were solved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reconstruct.runs.run as run_module
from reconstruct.progress import OutOfTime, Step, until


def words(target: Path, out: Path, *more: str) -> list[Any]:
    return [
        "run",
        target,
        "-o",
        out,
        "--domain",
        "-1,1",
        "--solver",
        "cg",
        "--samples",
        "100",
        *more,
    ]


def test_an_interrupted_solve_is_resumed(
    cli: Callable[..., tuple[int, str, str]],
    target: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    assert cli(*words(target, whole))[0] == 0
    true, heard = run_module.reconstruct, list[Step]()

    def interrupted(*given: Any, progress: Any, **named: Any) -> Any:
        def hear(step: Step) -> None:
            heard.append(step)
            if "map 2" in step.task and (step.residual or 1) < 1e-4:
                raise KeyboardInterrupt
            progress(step)

        return true(*given, progress=hear, **named)

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "reconstruct", interrupted)
        assert cli(*words(target, out))[0] == 130
    assert len(list((out / ".partial").glob("site-*.npz"))) == 1
    code, stdout, stderr = cli(*words(target, out, "--resume"))
    assert code == 0, stderr
    assert stdout.startswith("CERTIFIED")
    one, two = np.load(whole / "norms.npz"), np.load(out / "norms.npz")
    for name in one.files:
        assert np.allclose(one[name], two[name], rtol=1e-10, atol=1e-10)
    assert not (out / ".partial").exists()


def test_what_is_solved_when_time_is_over_is_resumed(
    cli: Callable[..., tuple[int, str, str]],
    target: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The directory stays with what was solved, as the sentence says."""
    out = tmp_path / "out"

    def over_in_the_second_map(limit: float, progress: Any) -> Any:
        def hear(step: Step) -> None:
            if "map 2" in step.task and (step.residual or 1) < 1e-4:
                raise OutOfTime(step.task)
            progress(step)

        return hear

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "until", over_in_the_second_map)
        code, _, stderr = cli(*words(target, out, "--time-limit", "600"))
    assert code == 3 and "so far is kept, use --resume" in stderr
    assert len(list((out / ".partial").glob("site-*.npz"))) == 1
    code, stdout, stderr = cli(*words(target, out, "--resume"))
    assert code == 0 and stdout.startswith("CERTIFIED"), stderr


def test_a_time_limit_does_not_take_back_what_is_finished() -> None:
    hear = until(0.0)
    hear(Step("factoring", 1.0, 1.0))
    with pytest.raises(OutOfTime):
        hear(Step("factoring", 0.0, 1.0))
