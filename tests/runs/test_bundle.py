"""A directory that travels: moved, its original deleted, it is still checked."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

import reconstruct.formats.onnx.external as onnx_external
import reconstruct.formats.onnx.write as onnx_write
from reconstruct.certificates.document import Source
from reconstruct.errors import InputError
from reconstruct.formats import load, save
from reconstruct.formats.files import Limits
from reconstruct.networks import Norm
from reconstruct.reports.folder import OutputFolder
from reconstruct.runs.files import FILES, GUARDED, TARGET, left_behind, take_along
from tests.constructions.targets import mlp
from tests.runs.conftest import DOMAIN


def moved(out: Path) -> Path:
    """The directory somewhere else, deeper down."""
    place = out.parent / "far" / "away" / "results"
    place.parent.mkdir(parents=True)
    return Path(shutil.move(out, place))


def test_a_moved_directory_is_checked_without_the_original(cli, target, out):
    content = target.read_bytes()
    target.unlink()
    place = moved(out)
    code, said, _ = cli("check", place)
    assert (code, said[:8]) == (0, "ACCEPTED")
    assert (place / "target" / "target.onnx").read_bytes() == content
    named = json.loads((place / "certificate.json").read_bytes())["target"]
    assert named["path"] == "target/target.onnx"
    assert json.loads((place / "report.json").read_bytes())["target"]["path"] == named["path"]


def test_a_target_named_like_the_network_is_told_apart(cli, tmp_path):
    target = tmp_path / "network.onnx"
    save(mlp([3, 4, 2], 0), target)
    out = tmp_path / "out"
    assert cli("run", target, "-o", out, *DOMAIN)[0] == 0
    target.unlink()
    assert cli("check", out)[0] == 0


def test_the_data_file_of_a_target_travels_too(cli, tmp_path, monkeypatch):
    target = tmp_path / "large.onnx"
    with monkeypatch.context() as patch:
        for module in (onnx_write, onnx_external):
            patch.setattr(module, "LIMITS", Limits(message=100, beside=16))
        save(mlp([3, 4, 2], 0), target)
    data = tmp_path / "large.onnx.data"
    content = data.read_bytes()
    out = tmp_path / "out"
    assert cli("run", target, "-o", out, *DOMAIN)[0] == 0
    target.unlink()
    data.unlink()
    assert (out / "target" / "large.onnx.data").read_bytes() == content
    assert cli("check", moved(out))[0] == 0


def test_both_networks_of_a_comparison_travel(cli, target, tmp_path):
    other = tmp_path / "other.npz"
    save(load(target), other)
    out = tmp_path / "out"
    assert cli("verify", target, other, "-o", out, *DOMAIN)[0] == 0
    target.unlink()
    other.unlink()
    place = moved(out)
    assert sorted(os.listdir(place)) == [
        "candidate",
        "certificate.json",
        "report.html",
        "report.json",
        "target",
    ]
    assert cli("check", place)[0] == 0


def test_a_forced_run_takes_the_earlier_target_away_and_nothing_else(cli, target, tmp_path):
    out, other = tmp_path / "out", tmp_path / "other.onnx"
    save(mlp([3, 4, 2], 1), other)
    assert cli("run", other, "-o", out, *DOMAIN)[0] == 0
    (out / "target" / "notes.txt").write_text("mine")
    assert cli("run", target, "-o", out, *DOMAIN, "--force")[0] == 0
    assert sorted(os.listdir(out / "target")) == ["notes.txt", "target.onnx"]
    assert cli("check", out)[0] == 0


def test_a_run_from_its_own_copy(cli, out):
    assert cli("run", out / "target" / "target.onnx", "-o", out, *DOMAIN, "--force")[0] == 0
    assert cli("check", out)[0] == 0


def test_a_file_where_the_folder_should_be_is_refused_at_once(cli, target, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "target").write_text("mine")
    code, _, said = cli("run", target, "-o", out, *DOMAIN, "--force")
    assert code == 2 and f"{out / 'target'}: a directory for the target is needed" in said
    assert (out / "target").read_text() == "mine"


def test_a_target_that_changed_since_it_was_read_is_refused(target, tmp_path):
    network = load(target)
    save(mlp([3, 4, 2], 1), target)
    with (
        pytest.raises(InputError, match="changed since it was read"),
        OutputFolder(tmp_path / "out") as folder,
    ):
        take_along(network, target, folder, TARGET)
    assert not (tmp_path / "out").exists()


def test_a_network_of_no_file_is_written_to_one(tmp_path):
    network = mlp([3, 4, 2], 0)
    with OutputFolder(tmp_path / "out") as folder:
        source = take_along(network, None, folder, TARGET)
        assert isinstance(source, Source)
        x = np.random.default_rng(0).uniform(-1, 1, (20, 3))
        np.testing.assert_array_equal(source.network(x), network(x))
        assert source.path_from(folder.path) == "target/target.npz"


def test_norms_are_written_with_the_eps_that_they_have(out) -> None:
    norms = {n.name: n.op for n in load(out / "network.onnx").nodes if isinstance(n.op, Norm)}
    with np.load(out / "norms.npz") as arrays:
        found = {name: float(arrays[f"{name}.eps"]) for name in norms}
    assert norms and found == {name: norm.eps for name, norm in norms.items()}


def test_a_guarded_network_of_an_earlier_run_is_known_as_one(tmp_path) -> None:
    assert left_behind(tmp_path) == {*FILES, GUARDED}
