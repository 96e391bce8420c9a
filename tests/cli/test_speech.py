"""A reader that goes away and a full disk do not change what a command has found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from reconstruct.formats import save
from tests.constructions.targets import mlp

VERIFY = ("--domain=-1,1", "--samples", "100")


@pytest.fixture
def other(tmp_path):
    path = tmp_path / "other.onnx"
    save(mlp([3, 4, 2], 1), path, dtype=np.float64)
    return path


def spoken(stdout: int, *words: object, stderr: int = subprocess.PIPE) -> tuple[int, str]:
    """Exit code and stderr of the command in a process of its own, as a shell starts it."""
    command = [sys.executable, "-m", "reconstruct", *map(str, words)]
    done = subprocess.run(command, stdout=stdout, stderr=stderr, text=True, check=False)
    return done.returncode, done.stderr


@pytest.fixture
def unread():
    """The writing end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


def test_a_closed_pipe_leaves_the_exit_code_of_the_verdict(target, other, unread):
    assert spoken(unread, "--help") == (0, "")
    assert spoken(unread, "inspect", target) == (0, "")
    assert spoken(unread, "verify", target, target, *VERIFY) == (0, "")
    assert spoken(unread, "verify", target, other, *VERIFY) == (1, "")
    assert spoken(unread, "inspect", "missing.onnx", stderr=unread)[0] == 2


def test_a_run_whose_reader_is_gone_is_written_and_certified(cli, target, tmp_path, unread):
    out = tmp_path / "out"
    assert spoken(unread, "run", target, "-o", out, *VERIFY, "--json", stderr=unread)[0] == 0
    assert cli("check", out)[0] == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_stdout_is_one_sentence(target, other):
    said = "reconstruct: stdout cannot be written (No space left on device), so what it said is "
    with open("/dev/full", "wb") as full:
        assert spoken(full.fileno(), "inspect", target) == (2, f"{said}lost\n")
        assert spoken(full.fileno(), "verify", target, other, *VERIFY) == (1, f"{said}lost\n")
