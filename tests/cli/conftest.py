"""A small target on disk, and the command line as a function."""

from __future__ import annotations

import numpy as np
import pytest

from reconstruct.cli import main
from reconstruct.formats import save
from tests.constructions.targets import mlp


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "target.onnx"
    save(mlp([3, 4, 2], 0), path, dtype=np.float64)
    return path


@pytest.fixture
def cli(capsys):
    """Run a command; its exit code, stdout and stderr."""

    def run(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
