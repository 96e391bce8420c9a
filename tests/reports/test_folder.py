"""The output directory by itself: who may work in it, what stays and what goes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reconstruct.errors import InputError
from reconstruct.reports.folder import OutputFolder


def test_one_at_a_time_until_it_is_published(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with OutputFolder(out) as folder:
        (folder.staging / "a").write_text("1")
        with pytest.raises(InputError, match="another run is working"):
            OutputFolder(out, force=True)
        folder.publish(("a",))
    assert (out / "a").read_text() == "1" and os.listdir(out) == ["a"]
    OutputFolder(out, force=True).discard()
    assert os.listdir(out) == ["a"]


def test_a_forced_run_starts_with_nothing_of_the_last(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt), OutputFolder(out, resume=False) as folder:
        (folder.staging / "network.onnx.data").write_text("old")
        (folder.staging / "deep").mkdir()
        raise KeyboardInterrupt
    with OutputFolder(out, resume=True) as folder:
        assert sorted(os.listdir(folder.staging)) == ["deep", "lock", "network.onnx.data"]
    with OutputFolder(out, force=True) as folder:
        assert os.listdir(folder.staging) == ["lock"]


def test_a_failure_leaves_nothing_unless_it_was_resumed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(ValueError), OutputFolder(out, resume=False):
        raise ValueError
    assert not out.exists()
    with pytest.raises(ValueError), OutputFolder(out, resume=True):
        raise ValueError
    assert os.listdir(out) == [".partial"]


def test_files_of_an_earlier_run_that_this_one_does_not_write_are_gone(tmp_path: Path) -> None:
    with OutputFolder(tmp_path / "out") as folder:
        (folder.staging / "old").write_text("of another network")
        folder.publish(("old",))
    (tmp_path / "out" / "mine").write_text("not of a run")
    with OutputFolder(tmp_path / "out", force=True) as folder:
        (folder.staging / "new").write_text("1")
        folder.publish(("new",), earlier=("old", "never there", "new"))
    assert sorted(os.listdir(tmp_path / "out")) == ["mine", "new"]


def test_a_refusal_leaves_what_is_there_and_no_lock(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("1")
    for resume in (None, False, True):
        with pytest.raises(InputError, match="is not empty"):
            OutputFolder(tmp_path / "out", resume=resume)
    assert os.listdir(tmp_path / "out") == ["mine"]
