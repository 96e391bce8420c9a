"""One run at a time in an output directory, and nothing finished is replaced unasked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import reconstruct.formats.onnx.external as onnx_external
import reconstruct.formats.onnx.write as onnx_write
import reconstruct.runs.files as run_files
import reconstruct.runs.run as run_module
import reconstruct.runs.verify as verify_module
from reconstruct.formats import load, save
from reconstruct.formats.files import Limits
from reconstruct.runs.files import FILES
from tests.constructions.targets import mlp

DOMAIN = ("--domain", "-1,1", "--samples", "100")
SLOW = """
import sys, time
import reconstruct.runs.run as run
from reconstruct.cli import main

def stay(*given, **named):
    print("working", flush=True)
    time.sleep(600)

run.reconstruct = stay
main(sys.argv[1:])
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@contextmanager
def begun(target: Path, out: Path) -> Iterator[subprocess.Popen[str]]:
    """A run in another process that has begun and does not end."""
    words = [sys.executable, "-c", SLOW, "run", str(target), "-o", str(out), *DOMAIN]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "working\n"
        yield process
        process.kill()


@pytest.fixture(scope="module")
def working(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where such a run works, for those who are refused there and leave it as it is."""
    folder = tmp_path_factory.mktemp("working")
    save(mlp([3, 4, 2], 0), folder / "target.onnx", dtype=np.float64)
    with begun(folder / "target.onnx", folder / "out"):
        yield folder / "out"


@pytest.mark.parametrize("more", [(), ("--force",), ("--resume",)], ids=str)
def test_a_second_run_into_the_same_output_is_refused(cli, target, working, more):
    out = working
    before = contents(out)
    code, stdout, stderr = cli("run", target, "-o", out, *DOMAIN, *more)
    assert (code, stdout) == (2, "")
    assert stderr == (
        f"reconstruct: {out}: another run is working in this output directory; wait until it has "
        f"ended, or choose another with -o\n"
    )
    assert contents(out) == before and "key" in os.listdir(out / ".partial")


def test_a_killed_run_leaves_no_lock(cli, target, tmp_path):
    out = tmp_path / "out"
    with begun(target, out) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert cli("run", target, "-o", out, *DOMAIN, "--resume")[0] == 0
    assert not (out / ".partial").exists()
    assert cli("check", out)[0] == 0


def test_verify_is_refused_where_a_run_works(cli, target, working):
    out, before = working, contents(working)
    code, _, stderr = cli("verify", target, target, "-o", out, *DOMAIN, "--force")
    assert code == 2 and "another run is working" in stderr
    assert contents(out) == before


@pytest.mark.parametrize("more", [(), ("--seed", "5"), ("--dtype", "float32")], ids=str)
def test_resume_does_not_replace_a_finished_run(cli, target, tmp_path, more):
    out = tmp_path / "out"
    run = ("run", target, "-o", out, *DOMAIN)
    assert cli(*run)[0] == 0
    before = contents(out)
    code, stdout, stderr = cli(*run, "--resume", *more)
    assert (code, stdout) == (2, "")
    assert "no interrupted run to resume" in stderr and "--force" in stderr
    assert contents(out) == before
    assert cli(*run, "--resume", "--force", "--seed", "5")[0] == 0
    assert contents(out) != before


def test_a_forced_run_that_was_interrupted_is_resumed(cli, target, tmp_path, monkeypatch):
    out = tmp_path / "out"
    run = ("run", target, "-o", out, *DOMAIN)
    assert cli(*run)[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "reconstruct", interrupt)
        assert cli(*run, "--seed", "5", "--force")[0] == 130
    assert cli(*run, "--seed", "6", "--resume")[0] == 2
    assert cli(*run, "--seed", "5", "--resume")[0] == 0
    assert not (out / ".partial").exists()


def interrupt(*given, **named):
    raise KeyboardInterrupt


def test_verify_leaves_nothing_after_a_refusal(cli, target, tmp_path):
    other, out = tmp_path / "other.onnx", tmp_path / "out"
    save(mlp([3, 4, 5], 0), other, dtype=np.float64)
    code, _, stderr = cli("verify", target, other, "-o", out, *DOMAIN)
    assert code == 2 and "--resume" not in stderr
    assert not out.exists()
    assert cli("verify", target, target, "-o", out, *DOMAIN)[0] == 0


def test_commands_without_resume_do_not_advise_it(cli, target, tmp_path, monkeypatch):
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(verify_module, "conclude", interrupt)
        code, _, stderr = cli("verify", target, target, "-o", out, *DOMAIN)
    assert (code, stderr) == (130, "reconstruct: interrupted\n")
    assert not out.exists()
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "reconstruct", interrupt)
        assert cli("demo", "-o", out, "--quiet")[2] == "reconstruct: interrupted\n"
        assert not out.exists()
        assert "--resume" in cli("run", target, "-o", out, *DOMAIN)[2]
    assert os.listdir(out) == [".partial"]
    code, _, stderr = cli("verify", target, target, "-o", out, *DOMAIN)
    assert code == 2 and "--force" in stderr and "--resume" not in stderr


@pytest.mark.parametrize("more", [(), ("--force",), ("--resume",)], ids=str)
def test_a_staging_place_that_is_a_link_is_not_followed(cli, target, tmp_path, more):
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    elsewhere.mkdir()
    for name in ("site-0.npz", "key", "mine.txt"):
        (elsewhere / name).write_text("precious")
    before = contents(elsewhere)
    (out / ".partial").symlink_to(elsewhere)
    code = cli("run", target, "-o", out, *DOMAIN, *more)[0]
    assert code == (0 if more == ("--force",) else 2)
    assert contents(elsewhere) == before


def test_a_network_beyond_one_protobuf_message_is_published_whole(
    cli, target, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    for module in (onnx_write, onnx_external):
        monkeypatch.setattr(module, "LIMITS", Limits(message=100, beside=16))
    code, stdout, stderr = cli("run", target, "-o", out, *DOMAIN)
    assert code == 0, stderr
    data = {"network.onnx.data", "network_folded.onnx.data"}
    assert set(os.listdir(out)) == {*FILES, "target", *data}
    assert stdout.startswith("CERTIFIED") and cli("check", out)[0] == 0
    x = np.random.default_rng(0).uniform(-1, 1, size=(20, 3))
    for name in ("network.onnx", "network_folded.onnx"):
        np.testing.assert_allclose(load(out / name)(x), load(target)(x), rtol=1e-9, atol=1e-9)
    weights = bytearray((out / "network.onnx.data").read_bytes())
    weights[5] ^= 1  # a digit of the first weight
    (out / "network.onnx.data").write_bytes(weights)
    assert cli("check", out)[0] != 0


def test_a_large_guarded_network_has_its_weights_beside_it(cli, target, tmp_path, monkeypatch):
    onnxruntime = pytest.importorskip("onnxruntime")
    out = tmp_path / "out"
    for module in (onnx_write, onnx_external):
        monkeypatch.setattr(module, "LIMITS", Limits(message=100, beside=16))
    monkeypatch.setattr(run_files, "MOST_FOLDED", 10)
    assert cli("run", target, "-o", out, *DOMAIN, "--guard")[0] == 0
    written = {"network.onnx.data", "network_guarded.onnx", "network_guarded.onnx.data"}
    assert set(os.listdir(out)) == {*FILES, "target", *written} - {"network_folded.onnx"}
    x = np.random.default_rng(0).uniform(-1, 1, size=(20, 3))
    session = onnxruntime.InferenceSession(out / "network_guarded.onnx")
    value, margin = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(value, load(target)(x), rtol=1e-9, atol=1e-9)
    assert margin.shape == (20, 1) and (margin >= 0).all()
