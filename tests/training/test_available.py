"""Without torch the package works as before, and what needs it says how to get it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

import reconstruct
from reconstruct.cli import main
from reconstruct.errors import MissingDependencyError


@pytest.fixture(autouse=True)
def one_thread():
    """Nothing here computes: torch is neither needed nor loaded."""


def test_nothing_of_torch_is_loaded_without_need():
    code = "import sys, reconstruct; reconstruct.training; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_without_torch_the_message_names_the_extra(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for name in reconstruct.training.__all__:
        vars(reconstruct.training).pop(name, None)
    match = r"training\.tunable needs the package 'torch'.*pip install 'reconstruct\[torch\]'"
    with pytest.raises(MissingDependencyError, match=match):
        _ = reconstruct.training.tunable
    assert main(["train", "-o", str(tmp_path / "out")]) == 2
    assert "reconstruct[torch]" in capsys.readouterr().err


def test_the_other_tests_of_training_run():
    """They are left out of the collection without torch; this line says so in the summary."""
    reason = "torch is not installed: nothing of training and bridge is tested"
    torch = pytest.importorskip("torch", reason=reason)
    assert tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 4)
