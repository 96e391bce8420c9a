"""Studies: rows that resume byte by byte, grids that are refused in a sentence, pages that read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.errors import InputError
from reconstruct.studies import STUDIES, Finding, Parameter, Study, run_study
from reconstruct.studies.sparsity import threshold
from reconstruct.studies.study import Evidence, Panel, mean, trials
from tests.constructions.test_fitted import small_cnn
from tests.khatri_rao import test_mpi as ranks

ROOT = Path(__file__).resolve().parents[2]

SMALL = {
    "sparsity": {"d": "3", "ratio": "1.5", "p": "0.3,1"},
    "width": {"ratio": "0.3", "fit": "weights,data"},
    "depth": {"d": "4", "block": "1,2", "ratio": "1,2"},
    "conditioning": {"d": "4", "ratio": "1,2", "weights": "gaussian,sparse"},
    "blocks": {"d": "8", "block": "1,4", "ratio": "1.5"},
    "stacked": {"d": "3", "layers": "1,2", "ratio": "1.3"},
    "live": {"d": "3", "eps": "1e-3,1e-6", "delta": "1e-3,1e-9"},
}


def test_live_norms_err_by_eps_and_by_the_square_of_delta(tmp_path):
    """Three digits of eps are three of the first error, six of δ more than ten of the second."""
    rows = run_study(STUDIES["live"], tmp_path / "out", grid=SMALL["live"], seeds=2)
    for seed in (0, 1):
        own = [row for row in rows if row["seed"] == seed]
        exact = {row["eps"]: row["exact_error"] for row in own}
        assert 100 < exact[1e-3] / exact[1e-6] < 10_000
        near = {row["delta"]: row["approximate_error"] for row in own if row["eps"] == 1e-3}
        assert near[1e-9] < 1e-10 * near[1e-3] or near[1e-9] < 1e-13


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_gives_rows_findings_and_a_page(name, tmp_path, figures):
    study = STUDIES[name]
    rows = run_study(study, tmp_path / "out", grid=SMALL[name], seeds=1)
    assert len(rows) == len(trials(study.grid(SMALL[name]), 1))
    written = (tmp_path / "out" / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in written] == [dict(row) for row in rows]
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    first = study.findings(rows)[0]
    assert study.question in page and first.evidence.value in page
    assert page.count("<svg") == 1


def test_killed_at_any_byte_and_resumed_gives_the_same_rows(tmp_path):
    study, out = STUDIES["sparsity"], tmp_path / "out"
    run_study(study, out, grid=SMALL["sparsity"], seeds=3)
    whole = (out / "rows.jsonl").read_bytes()
    rng = np.random.default_rng(0)
    for cut in [0, *rng.integers(1, len(whole), size=4), len(whole)]:
        (out / ".partial").mkdir()
        shutil.copy(out / "study.json", out / ".partial")
        (out / ".partial" / "rows.jsonl").write_bytes(whole[:cut])
        run_study(study, out, grid=SMALL["sparsity"], seeds=3, resume=True)
        assert (out / "rows.jsonl").read_bytes() == whole


def test_processes_give_the_rows_of_one(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    run_study(STUDIES["sparsity"], one, grid=SMALL["sparsity"], seeds=2)
    run_study(STUDIES["sparsity"], two, grid=SMALL["sparsity"], seeds=2, jobs=2)
    assert (one / "rows.jsonl").read_bytes() == (two / "rows.jsonl").read_bytes()


WORDS = ["study", "sparsity", "--grid", "d=3", "--grid", "p=0.3,1", "--seeds", "3"]


def test_two_ranks_give_the_rows_of_one(tmp_path):
    done = ranks.run("command", tmp_path, *WORDS, "-o", "two")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("rows.jsonl") == 1
    grid = {"d": "3", "p": "0.3,1"}
    run_study(STUDIES["sparsity"], tmp_path / "one", grid=grid, seeds=3)
    one, two = ((tmp_path / name / "rows.jsonl").read_bytes() for name in ("one", "two"))
    assert one == two


def test_killed_in_the_middle_and_resumed_gives_the_same_rows(tmp_path):
    words = ["study", "stacked", "--grid", "d=5", "--grid", "layers=2", "--seeds", "5", "--quiet"]
    command = [sys.executable, "-m", "reconstruct", *words, "-o"]
    around = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    run_study(STUDIES["stacked"], tmp_path / "whole", grid={"d": "5", "layers": "2"}, seeds=5)
    whole = (tmp_path / "whole" / "rows.jsonl").read_bytes()
    cut, rows = tmp_path / "cut", tmp_path / "cut" / ".partial" / "rows.jsonl"
    running = subprocess.Popen([*command, str(cut)], env=around)
    while running.poll() is None and not (rows.exists() and rows.read_bytes().count(b"\n") >= 2):
        time.sleep(0.005)
    running.kill()
    running.wait()
    assert rows.read_bytes() != whole and whole.startswith(rows.read_bytes())
    subprocess.run([*command, str(cut), "--resume"], env=around, check=True)
    assert (cut / "rows.jsonl").read_bytes() == whole and not rows.exists()


def test_an_existing_folder_and_another_question_are_refused(tmp_path):
    out = tmp_path / "out"
    run_study(STUDIES["stacked"], out, grid=SMALL["stacked"], seeds=1)
    with pytest.raises(InputError, match="exists and is not empty; use --force"):
        run_study(STUDIES["stacked"], out, grid=SMALL["stacked"], seeds=1)
    (out / ".partial").mkdir()
    shutil.copy(out / "study.json", out / ".partial")
    with pytest.raises(InputError, match="another grid or other seeds"):
        run_study(STUDIES["stacked"], out, grid=SMALL["stacked"], seeds=2, resume=True)


def test_force_replaces_the_files_of_a_study_and_no_others(tmp_path):
    """A directory given by mistake, with --force, keeps what no study wrote."""
    (tmp_path / "out" / "kept").mkdir(parents=True)
    others = [tmp_path / "out" / name for name in ("thesis.tex", "kept/mine.npz", "rows.txt")]
    for path in others:
        path.write_text("mine")
    stale = tmp_path / "out" / "kept" / "stacked-7.npz"
    stale.write_bytes(b"of an earlier study")
    run_study(STUDIES["stacked"], tmp_path / "out", grid=SMALL["stacked"], seeds=1, force=True)
    assert all(path.read_text() == "mine" for path in others) and not stale.exists()


def brought(folder: Path, **more: np.ndarray) -> dict[str, str]:
    """A small network on images and data of one's own, as the grid of the width study."""
    target, rng = small_cnn(1), np.random.default_rng(0)
    rc.save(target, folder / "mine.onnx")
    np.savez(folder / "mine.npz", x=rng.random((40, 2, 5, 5)), **more)
    return {"target": str(folder / "mine.onnx"), "data": str(folder / "mine.npz")}


def test_a_network_and_data_of_ones_own(tmp_path):
    grid = brought(tmp_path) | {"ratio": "0.4,1.5", "fit": "data"}
    rows = run_study(STUDIES["width"], tmp_path / "out", grid=grid, seeds=1)
    assert [row["accuracy"] for row in rows][1] == rows[1]["target_accuracy"] == 1.0
    assert rows[0]["error"] > 100 * rows[1]["error"]
    labelled = brought(tmp_path, y=np.arange(40) % 3) | {"ratio": "1.5", "fit": "data"}
    (row,) = run_study(STUDIES["width"], tmp_path / "labelled", grid=labelled, seeds=1)
    assert row["accuracy"] == row["target_accuracy"] < 1.0


def test_training_on_from_the_fit_recognises_more(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed (extra `torch`)")
    grid = {"ratio": "0.25", "fit": "data,tuned"}
    fit, tuned = run_study(STUDIES["width"], tmp_path / "out", grid=grid, seeds=1)
    assert tuned["accuracy"] > fit["accuracy"] + 0.05


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"data": "digits"}, "belong together: give both as files"),
        ({"target": "missing.onnx"}, "missing.onnx: "),
    ],
)
def test_a_subject_that_is_not_whole_is_refused(tmp_path, given, message):
    grid = brought(tmp_path) | {"ratio": "0.4", "fit": "data"} | given
    with pytest.raises(InputError, match=message):
        run_study(STUDIES["width"], tmp_path / "out", grid=grid, seeds=1)
    bad = brought(tmp_path, y=np.linspace(0, 1, 40)) | {"ratio": "0.4", "fit": "data"}
    with pytest.raises(InputError, match="labels are whole numbers from 0 on"):
        run_study(STUDIES["width"], tmp_path / "bad", grid=bad, seeds=1)


@pytest.mark.parametrize(
    ("study", "grid", "message"),
    [
        ("sparsity", {"p": "1.2"}, r"p must lie between 1e-06 and 1 .* but is 1\.2"),
        ("sparsity", {"d": "0"}, "d must lie between 1 and 64 .* but is 0"),
        ("sparsity", {"d": "four"}, "d must be a whole number .* but is 'four'"),
        ("sparsity", {"q": "1"}, "has no parameter 'q'; it has d, ratio, p"),
        ("conditioning", {"weights": "cauchy"}, "must be one of gaussian, .* but is 'cauchy'"),
    ],
)
def test_bad_grids_in_one_sentence(study, grid, message, tmp_path):
    with pytest.raises(InputError, match=message):
        run_study(STUDIES[study], tmp_path / "out", grid=grid)
    assert not (tmp_path / "out").exists()


def test_the_command_line(cli_study):
    code, out, err = cli_study("stacked", "--grid", "d=3", "--grid", "layers=1", "--seeds", "1")
    assert code == 0 and "Σ widths" in out and "rows.jsonl" in out
    code, _, err = cli_study("stackd")
    assert code == 2 and "no study 'stackd'; there are sparsity, width" in err
    code, _, err = cli_study("stacked", "--grid", "d")
    assert code == 2 and "NAME=VALUE" in err


@pytest.fixture
def cli_study(tmp_path, capsys):
    from reconstruct.cli import main

    def call(*words: str):
        code = main(["study", *words, "-o", str(tmp_path / "out"), "--force"])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_a_threshold_lies_where_half_is_reached():
    rows = [{"p": p, "full": full} for p, n in ((0.2, 0), (0.4, 1), (0.6, 4)) for full in _of(n)]
    assert threshold(rows) == pytest.approx(0.4 + 0.2 * (0.5 - 0.25) / 0.75)
    assert threshold([row for row in rows if row["p"] < 0.5]) is None


def _of(count: int) -> list[bool]:
    return [i < count for i in range(4)]


def _coin(point, seed):
    heads = int(np.random.default_rng(seed).integers(2))
    return {"heads": heads, "of": np.array(seed)} if heads else {"heads": heads}


def test_a_study_of_ones_own_is_one_file(tmp_path):
    study = Study(
        name="coin",
        question="Does it fall on heads?",
        parameters=(Parameter("side", "which", (1,), 1, 2),),
        seeds=10,
        trial=_coin,
        findings=lambda rows: [
            Finding(f"{mean(rows, 'heads'):.1f} heads.", "more throws", Evidence.MEASURED)
        ],
        panels=lambda rows: [Panel("seed", "heads", "side")],
    )
    rows = run_study(study, tmp_path / "out")
    kept = list((tmp_path / "out" / "kept").glob("*.npz"))
    assert len(kept) == sum(row["heads"] for row in rows) > 0
    assert set(rows[0]) == {"side", "seed", "heads"}
    assert rc.studies.STUDIES is STUDIES
