"""How a command starts: what it needs is loaded once, and nothing else of the process changes."""

from __future__ import annotations

import gc
import sys

import pytest

from reconstruct import cli
from reconstruct.cli import commands, main


@pytest.fixture
def fresh(monkeypatch) -> None:
    """`inspect` as if it had not been used yet."""
    monkeypatch.setattr(cli, "commands", commands)  # as it was, in the end
    monkeypatch.delitem(sys.modules, commands.__name__)


@pytest.mark.parametrize("collecting", [True, False])
def test_garbage_is_collected_after_a_start_as_it_was_before(fresh, collecting) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if collecting else gc.disable)()
        assert main(["inspect", "nowhere.onnx"]) == 2
        assert gc.isenabled() is collecting
    finally:
        (gc.enable if before else gc.disable)()
        gc.unfreeze()


def test_only_the_first_start_keeps_what_it_finds_from_the_collector(fresh) -> None:
    gc.unfreeze()
    try:
        assert main(["inspect", "nowhere.onnx"]) == 2
        assert gc.get_freeze_count() > 0
        gc.unfreeze()
        assert main(["inspect", "nowhere.onnx"]) == 2
        assert gc.get_freeze_count() == 0
    finally:
        gc.unfreeze()
