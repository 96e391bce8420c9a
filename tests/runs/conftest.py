"""The command line, a small target and a finished run."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from reconstruct.cli import main
from reconstruct.formats import save
from tests.cli.conftest import cli, target
from tests.constructions.targets import mlp

__all__ = ["cli", "target"]

DOMAIN = ("--domain", "-1,1", "--samples", "100", "--bounds", "crown")


@pytest.fixture(scope="session")
def _finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    save(mlp([3, 4, 2], 0), folder / "target.onnx", dtype=np.float64)
    words = ["run", str(folder / "target.onnx"), "-o", str(folder / "out"), *DOMAIN, "--quiet"]
    assert main(words) == 0
    return folder / "out"


@pytest.fixture
def out(_finished, tmp_path):
    """The directory of a finished run of `target`, to be spoilt."""
    return Path(shutil.copytree(_finished, tmp_path / "out"))
