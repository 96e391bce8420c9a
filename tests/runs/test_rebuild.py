"""The compact form: target, seed and norms give the same bits again, or it is said why not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from reconstruct.formats import save
from tests.constructions.targets import mlp
from tests.networks.test_images import small_network
from tests.runs.conftest import DOMAIN


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


WAYS = [
    ("--seed", "7"),
    ("--construction", "factored", "--rank", "2", "--tolerance", "9"),
    ("--construction", "deep", "--block", "2"),
    ("--weights", "uniform", "--density", "0.9", "--ratio", "2.5"),
    ("--activation", "leakyrelu", "--dtype", "float32"),
    ("--activation", "hardtanh", "--guard"),
    ("--dtype", "float32"),
]


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_the_same_bits_for_every_way_of_drawing(cli, target, tmp_path, way):
    out = tmp_path / "out"
    code, _, said = cli("run", target, "-o", out, *DOMAIN, *way)
    assert code in (0, 3), said
    before = contents(out)
    for name in list(before):
        if name.startswith("network"):
            (out / name).unlink()
    target.unlink()
    code, said, wrong = cli("rebuild", out)
    assert code == 0, wrong
    assert contents(out) == before
    digest = json.loads(before["certificate.json"])["candidate"]["sha256"]
    first, *files = said.splitlines()
    assert first == f"REBUILT: the bytes are those of the certificate (sha256 {digest})"
    assert files[0] == str(out / "network.onnx")


def test_check_says_how_networks_that_were_left_out_come_back(cli, out, tmp_path):
    whole, compact = out, tmp_path / "compact"
    shutil.copytree(whole, compact)
    for name in ("network.onnx", "network_folded.onnx"):
        (compact / name).unlink()
    code, said, hint = cli("check", compact)
    assert (code, said[:7]) == (2, "MISSING")
    assert f"reconstruct rebuild {compact}" in hint
    assert cli("rebuild", compact, "--quiet")[0] == 0
    for name in ("network.onnx", "network_folded.onnx", "norms.npz"):
        assert (compact / name).read_bytes() == (whole / name).read_bytes()
    assert cli("check", compact)[0] == 0


def test_a_network_of_images_on_data(cli, tmp_path):
    """Convolutions, a guard and data: three networks are written, and rebuilt, alike."""
    target, out = tmp_path / "images.onnx", tmp_path / "out"
    save(small_network(), target)
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(1).uniform(size=(5, 2, 6, 6)))
    code, _, said = cli("run", target, "-o", out, "--domain", tmp_path / "x.npz")
    assert code == 0, said
    target.unlink()
    (out / "network.onnx").unlink()
    code, said, wrong = cli("rebuild", out)
    assert code == 0, wrong
    assert [Path(line).name for line in said.splitlines()[1:]] == [
        "network.onnx",
        "network_folded.onnx",
        "network_guarded.onnx",
    ]
    assert cli("check", out)[0] == 0


def test_a_brought_network_needs_its_file(cli, target, tmp_path):
    first, out = tmp_path / "first", tmp_path / "out"
    assert cli("run", target, "-o", first, *DOMAIN)[0] == 0
    brought = first / "network.onnx"
    assert cli("run", target, "-o", out, *DOMAIN, "--frozen", brought)[0] == 0
    before = contents(out)
    code, _, said = cli("rebuild", out)
    assert code == 2 and "was brought in network.onnx, not drawn from a seed" in said
    assert cli("rebuild", out, "--frozen", brought)[0] == 0
    assert contents(out) == before
    code, _, said = cli("rebuild", out, "--frozen", first / "network_folded.onnx")
    assert code == 2 and "not the frozen network of the run" in said
    code, _, said = cli("rebuild", first, "--frozen", brought)
    assert code == 2 and "this was drawn" in said


def test_other_norms_are_not_the_certified_network(cli, out):
    with np.load(out / "norms.npz") as kept:
        arrays = dict(kept)
    name = next(n for n in arrays if n.endswith(".weight"))
    arrays[name] = arrays[name] * (1 + 2.0**-50)
    np.savez(out / "norms.npz", **arrays)
    before = contents(out)
    code, _, said = cli("rebuild", out)
    assert code == 2 and "not, bit for bit, the network.onnx of the certificate" in said
    assert "sha256 differs, the frozen weights are those of the report" in said
    assert contents(out) == before
    del arrays[name]
    np.savez(out / "norms.npz", **arrays)
    code, _, said = cli("rebuild", out)
    assert code == 2 and "norms are not of this network" in said


@pytest.mark.parametrize(
    ("change", "needle"),
    [
        ({"recipe": None}, "says nothing of how the frozen network was made"),
        ({"recipe": {"seed": 1}}, "some part is missing or of another kind"),
    ],
    ids=str,
)
def test_a_report_that_does_not_tell_enough(cli, out, change, needle):
    report = json.loads((out / "report.json").read_bytes())
    (out / "report.json").write_text(json.dumps({**report, **change}))
    code, _, said = cli("rebuild", out)
    assert code == 2 and needle in said


def test_another_target_is_refused_and_a_moved_one_found(cli, tmp_path, out):
    moved = tmp_path / "moved.onnx"
    (out / "target" / "target.onnx").rename(moved)
    assert cli("rebuild", out)[0] == 2
    assert cli("rebuild", out, "--target", moved)[0] == 0
    save(mlp([3, 4, 2], 1), moved)
    code, _, said = cli("rebuild", out, "--target", moved)
    assert code == 2 and "not the target of the run" in said


def test_an_interrupted_run_is_not_cleared(cli, out):
    (out / ".partial").mkdir()
    (out / ".partial" / "key").write_text("{}")
    code, _, said = cli("rebuild", out)
    assert code == 2 and "an interrupted run lies there" in said
    assert (out / ".partial" / "key").exists()


def test_another_seed_is_not_the_certified_network(cli, out):
    report = json.loads((out / "report.json").read_bytes())
    report["recipe"]["seed"] = 1
    (out / "report.json").write_text(json.dumps(report))
    code, _, said = cli("rebuild", out)
    assert code == 2 and "sha256 differs, so do the frozen weights" in said


def test_bits_decide_and_not_a_hash_of_weights(cli, out):
    """Older versions hashed weights otherwise; what counts is the network of the certificate."""
    report = json.loads((out / "report.json").read_bytes())
    report["frozen"]["sha256"] = "0" * 64
    (out / "report.json").write_text(json.dumps(report))
    assert cli("rebuild", out)[0] == 0


def test_a_directory_that_cannot_be_written_is_named_with_what_rebuild_can_do(
    cli, out, monkeypatch
):
    def refused(handle):
        raise PermissionError(13, "permission denied")

    monkeypatch.setattr("reconstruct.reports.folder._hold", refused)
    code, _, said = cli("rebuild", out)
    assert code == 2 and "(permission denied); copy it to where you may write, and" in said
    assert " -o" not in said
