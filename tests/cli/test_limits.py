"""Limits that a user sets: of time and of threads."""

from __future__ import annotations

import numpy as np
import pytest

from reconstruct.formats import save
from reconstruct.networks import Network
from reconstruct.numbers.parallel import at_most_threads, cpu_count


@pytest.fixture
def slow(tmp_path):
    """A network whose maps take conjugate gradients some steps."""
    rng = np.random.default_rng(0)
    path = tmp_path / "slow.onnx"
    save(Network.mlp([rng.normal(size=(30, 30)), rng.normal(size=(30, 30))]), path)
    return path


def test_a_run_that_is_out_of_time_is_resumed(cli, slow, tmp_path) -> None:
    words = ("run", slow, "-o", tmp_path / "out", "--domain", "0,1", "--solver", "cg")
    code, stdout, stderr = cli(*words, "--time-limit", "1e-9", "--quiet")
    assert code == 3 and stdout == ""
    assert "the time limit of 1e-09 s is over before all maps are solved" in stderr
    assert "nothing was solved yet, so nothing is kept: give a longer --time-limit" in stderr
    assert "--resume" not in stderr and not (tmp_path / "out").exists()
    code, stdout, _ = cli(*words, "--resume", "--time-limit", "600")
    assert code == 0 and "CERTIFIED" in stdout
    code, _, stderr = cli(*words, "--force", "--time-limit", "-1")
    assert code == 2 and "--time-limit must be a number of seconds > 0, not -1" in stderr


def test_threads_are_those_asked_for() -> None:
    before = cpu_count()
    with at_most_threads(1):
        assert cpu_count() == 1
        with at_most_threads(3):
            assert cpu_count() == 3
        assert cpu_count() == 1
    assert cpu_count() == before
