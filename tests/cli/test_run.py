"""`reconstruct run` as a user meets it: files, exit codes, refusals, resume."""

from __future__ import annotations

import json
import os

import numpy as np
import onnxruntime
import pytest

import reconstruct.runs.files as run_files
from reconstruct.constructions import wide
from reconstruct.errors import InputError, UnsupportedError
from reconstruct.formats import load, save
from reconstruct.networks import Network
from reconstruct.runs.files import FILES
from tests.constructions.targets import mlp
from tests.constructions.test_live import normed_mlp
from tests.constructions.test_wide import brought, swapped


def test_a_run_writes_everything_and_is_certified(cli, target, tmp_path):
    out = tmp_path / "out"
    code, stdout, stderr = cli("run", target, "-o", out, "--domain", "-1,1")
    assert code == 0, stderr
    assert stdout.startswith("CERTIFIED (rigorous)")
    assert sorted(os.listdir(out)) == sorted([*FILES, "target"])
    report = json.loads((out / "report.json").read_text())
    assert report["verdict"] == "certified" and report["error"]["certified_bound"] < 1e-9
    norms = np.load(out / "norms.npz", allow_pickle=False)
    keys = {f"layer1.norm1.{part}" for part in ("weight", "bias", "running_mean", "running_var")}
    assert keys <= set(norms.files)
    assert cli("check", out)[0] == 0


@pytest.mark.parametrize(
    "construction",
    [
        ["wide"],
        ["factored"],
        ["deep", "--block", "2"],
        ["stacked", "--layers", "2", "--ratio", "1.5"],
        ["wide", "--activation", "selu"],
    ],
    ids=" ".join,
)
def test_onnxruntime_agrees_with_the_library_and_the_target(cli, target, tmp_path, construction):
    out = tmp_path / "out"
    cli("run", target, "-o", out, "--domain", "-1,1", "--construction", *construction)
    x = np.random.default_rng(0).uniform(-1, 1, size=(100, 3))
    expected = load(target)(x)
    for name in ("network.onnx", "network_folded.onnx"):
        session = onnxruntime.InferenceSession(out / name, providers=["CPUExecutionProvider"])
        (y,) = session.run(None, {session.get_inputs()[0].name: x})
        np.testing.assert_allclose(y, load(out / name)(x), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(y, expected, rtol=1e-10, atol=1e-10)
    kinds = {type(n.op).__name__ for n in load(out / "network_folded.onnx").nodes}
    assert "Norm" not in kinds


@pytest.mark.parametrize(
    "options",
    [
        ["--construction", "factored"],
        ["--construction", "deep", "--block", "2", "--ratio", "2"],
        ["--weights", "uniform"],
        ["--activation", "hardtanh"],
        ["--solver", "cg"],
        ["--bounds", "interval"],
        ["--density", "0.6", "--ratio", "2"],
    ],
    ids=" ".join,
)
def test_every_option_is_certified_and_checked(cli, target, tmp_path, options):
    code, _, stderr = cli("run", target, "-o", tmp_path / "out", "--domain", "-1,1", *options)
    assert code == 0, stderr
    code, stdout, _ = cli("check", tmp_path / "out")
    assert code == 0 and stdout.startswith("ACCEPTED")


def test_exact_solve_and_its_certificate(cli, tmp_path):
    save(mlp([2, 2, 1], 1), tmp_path / "small.npz")
    code, _, stderr = cli(
        "run",
        tmp_path / "small.npz",
        "-o",
        tmp_path / "out",
        "--domain",
        "-1,1",
        "--solver",
        "exact",
    )
    assert code == 0, stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["rigor"] == "exact" and report["certificate"]["exact_identity"]
    assert cli("check", tmp_path / "out")[0] == 0


def test_json_is_the_report_and_quiet_is_quiet(cli, target, tmp_path):
    code, stdout, stderr = cli(
        "run", target, "-o", tmp_path / "out", "--domain", "-1,1", "--json", "--quiet"
    )
    assert code == 0 and stderr == ""
    assert json.loads(stdout) == json.loads((tmp_path / "out" / "report.json").read_text())


def test_a_missing_domain_is_said(cli, target, tmp_path):
    code, _, stderr = cli("run", target, "-o", tmp_path / "out")
    assert code == 0 and "[-1, 1]" in stderr


def test_a_frozen_network_of_ones_own(cli, tmp_path):
    save(mlp([3, 5, 2], 5), tmp_path / "target.onnx")
    save(brought(np.random.default_rng(0)), tmp_path / "frozen.onnx")
    code, stdout, stderr = cli(
        "run",
        tmp_path / "target.onnx",
        "-o",
        tmp_path / "out",
        "--domain",
        "-1,1",
        "--frozen",
        tmp_path / "frozen.onnx",
    )
    assert code == 0, stdout + stderr
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["error"]["float64_max"] < 1e-9


def test_singular_signs_fail_with_the_rank(cli, tmp_path):
    save(Network.mlp([np.random.default_rng(0).normal(size=(3, 3))]), tmp_path / "t.npz")
    code, _, stderr = cli(
        "run",
        tmp_path / "t.npz",
        "-o",
        tmp_path / "out",
        "--domain",
        "-1,1",
        "--ratio",
        "1.0",
        "--weights",
        "rademacher",
    )
    assert code == 1
    assert "of 9 needed" in stderr


def refusal(cli, *words):
    """Exit code 2 and one sentence on stderr, no traceback."""
    code, stdout, stderr = cli(*words)
    assert code == 2, (stdout, stderr)
    assert stdout == ""
    assert stderr.count("\n") == 1 and stderr.startswith("reconstruct: ")
    assert "Traceback" not in stderr
    return stderr


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: None, "no such file"),
        (lambda p: p.mkdir(), "directory"),
        (lambda p: p.write_bytes(b""), "empty"),
        (lambda p: p.write_bytes(os.urandom(999)), "not an ONNX model"),
    ],
)
def test_bad_target_files(cli, tmp_path, make, words):
    path = tmp_path / "t.onnx"
    make(path)
    out = tmp_path / "out"
    assert words in refusal(cli, "run", path, "-o", out, "--domain", "-1,1")
    assert not out.exists()


def test_a_truncated_model(cli, target, tmp_path):
    target.write_bytes(target.read_bytes()[:-200])
    refusal(cli, "run", target, "-o", tmp_path / "out", "--domain", "-1,1")


def test_pickles_are_never_loaded(cli, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (open, (str(tmp_path / "exploded"), "w"))

    np.savez(tmp_path / "t.npz", W1=np.array([Bomb()], dtype=object))
    assert "pickle" in refusal(cli, "run", tmp_path / "t.npz", "-o", tmp_path / "out")
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers(cli, tmp_path, value):
    np.savez(tmp_path / "t.npz", W1=np.array([[1.0, value]]))
    message = refusal(cli, "run", tmp_path / "t.npz", "-o", tmp_path / "out")
    assert "1 of 2 entries are NaN or infinite" in message


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        ("1,-1", "lo = 1 and hi = -1"),
        ("0,0:1,1", "3 inputs, but the domain has 2"),
        ("-inf,1", "bounded"),
        ("a,b", "number"),
        ("missing.vnnlib", "no such file"),
    ],
)
def test_bad_domains(cli, target, tmp_path, domain, words):
    out = tmp_path / "out"
    assert words in refusal(cli, "run", target, "-o", out, "--domain", domain)
    assert not out.exists()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_values_beyond_float64_are_refused(cli, target, tmp_path):
    out = tmp_path / "out"
    message = refusal(cli, "run", target, "-o", out, "--domain=-1e308,1e308")
    assert "smaller domain" in message
    assert not out.exists()


def test_frozen_networks_that_do_not_fit(cli, tmp_path):
    save(mlp([3, 5, 2], 5), tmp_path / "t.onnx")
    rng = np.random.default_rng(0)
    save(brought(rng, width=14), tmp_path / "narrow.onnx")
    save(swapped(brought(rng)), tmp_path / "late.onnx")
    run = ("run", tmp_path / "t.onnx", "-o", tmp_path / "out", "--frozen")
    message = refusal(cli, *run, tmp_path / "narrow.onnx", "--domain", "-1,1")
    assert "map 1" in message and "15" in message and "14 neurons" in message
    assert "norm after the activation" in refusal(
        cli, *run, tmp_path / "late.onnx", "--domain", "-1,1"
    )
    assert "give one of them" in refusal(
        cli, *run, tmp_path / "narrow.onnx", "--seed", "1", "--domain", "-1,1"
    )


def test_an_impossible_sparse_draw_is_refused_before_any_work(cli, target, tmp_path):
    message = refusal(
        cli, "run", target, "-o", tmp_path / "out", "--domain", "-1,1", "--density", "0.05"
    )
    assert "zero pattern allows rank" in message and "would be enough" in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--ratio", "0.5"],
        ["--density", "2"],
        ["--rank", "2"],
        ["--block", "2"],
        ["--construction", "deep", "--block", "0"],
        ["--samples", "0"],
        ["--tolerance", "-1"],
        ["--seed", "-4"],
    ],
    ids=" ".join,
)
def test_bad_options(cli, target, tmp_path, options):
    refusal(cli, "run", target, "-o", tmp_path / "out", "--domain", "-1,1", *options)
    assert not (tmp_path / "out").exists()


def test_an_existing_output_is_left_alone_without_force(cli, target, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("precious")
    run = ("run", target, "-o", out, "--domain", "-1,1")
    assert "not empty" in refusal(cli, *run)
    assert os.listdir(out) == ["mine.txt"]
    assert cli(*run, "--force")[0] == 0
    assert (out / "mine.txt").read_text() == "precious"
    (tmp_path / "file").write_text("x")
    assert "must be a directory" in refusal(
        cli, "run", target, "-o", tmp_path / "file", "--domain", "-1,1"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_output(cli, target, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    refusal(cli, "run", target, "-o", tmp_path / "locked" / "out", "--domain", "-1,1")


def test_an_output_below_a_file_cannot_be_made(cli, target, tmp_path):
    (tmp_path / "file").write_text("x")
    out = tmp_path / "file" / "out"
    assert "cannot be written" in refusal(cli, "run", target, "-o", out, "--domain", "-1,1")


def test_an_interrupted_run_is_resumed(cli, target, tmp_path, monkeypatch):
    out = tmp_path / "out"
    run = ("run", target, "-o", out, "--domain", "-1,1")
    solve = wide.WidePlan.solve
    solved = []

    def interrupted(self, tasks, *rest):
        if tasks[0].index == 2 and len(solved) == 1:
            raise KeyboardInterrupt
        solved.append(tasks[0].index)
        return solve(self, tasks, *rest)

    monkeypatch.setattr(wide.WidePlan, "solve", interrupted)
    code, _, stderr = cli(*run)
    assert code == 130 and "--resume" in stderr
    assert os.listdir(out) == [".partial"]
    assert "--resume" in refusal(cli, *run)
    other = refusal(cli, *run, "--resume", "--seed", "9")
    assert "another target" in other and other.endswith("or --force to start anew\n")
    solved.append("resumed")
    assert cli(*run, "--resume")[0] == 0
    assert solved == [1, "resumed", 2]
    assert sorted(os.listdir(out)) == sorted([*FILES, "target"])


def test_a_bug_is_an_internal_error_without_a_traceback(cli, target, tmp_path, monkeypatch):
    def broken(*args):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(wide.WidePlan, "solve", broken)
    code, _, stderr = cli("run", target, "-o", tmp_path / "out", "--domain", "-1,1")
    assert code == 4 and "internal error: ZeroDivisionError" in stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("activation", "dtype", "refused"),
    [("gelu", "float64", True), ("gelu", "float32", False), ("silu", "float64", False)],
)
def test_what_cannot_be_written_is_refused_before_anything_is_solved(
    cli, target, tmp_path, monkeypatch, activation, dtype, refused
):
    def solved(*args):
        raise ZeroDivisionError("solved")

    monkeypatch.setattr(wide.WidePlan, "solve", solved)
    words = ("--activation", activation, "--dtype", dtype)
    code, _, stderr = cli("run", target, "-o", tmp_path / "out", "--domain", "-1,1", *words)
    assert (code == 2) == refused and ("has Gelu in float64" in stderr) == refused
    assert "--resume" not in stderr


def test_a_target_with_live_norms_on_a_box_is_told_to_be_given_inputs(cli, tmp_path):
    """No joint bound is looked for: none of live norms could be certified."""
    save(normed_mlp(1e-5), tmp_path / "t.npz")
    same = ("--samples", 50, "--tolerance", 1)
    code, stdout, stderr = cli("run", tmp_path / "t.npz", "-o", tmp_path / "a", *same)
    assert code == 3 and "give inputs as the domain" in stderr and "no domain given" in stderr
    assert "tried: joint bound: left out" in stdout
    np.savez(tmp_path / "x.npz", x=np.ones((2, 4)))
    words = ("-o", tmp_path / "b", "--domain", tmp_path / "x.npz", *same)
    code, stdout, stderr = cli("run", tmp_path / "t.npz", *words)
    assert code == 0 and stderr == "" and "tried:" not in stdout


def test_a_refusal_is_not_preceded_by_notes_of_the_run(cli, target, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.json").write_text("{}")
    code, _, stderr = cli("run", target, "-o", tmp_path / "out")
    assert code == 2 and "no domain given" not in stderr and stderr.count("\n") == 1


@pytest.mark.parametrize("error", [ZeroDivisionError("oops"), MemoryError(), InputError("no")])
def test_what_was_solved_is_kept_whatever_fails_afterwards(
    cli, target, tmp_path, monkeypatch, error
):
    """The network cannot be written: the maps need not be solved again."""

    def broken(*args):
        raise error

    out = tmp_path / "out"
    run = ("run", target, "-o", out, "--domain", "-1,1")
    with monkeypatch.context() as patch:
        patch.setattr(run_files, "write_networks", broken)
        code, _, stderr = cli(*run)
    assert code == (4 if isinstance(error, ZeroDivisionError) else 2)
    assert stderr.rstrip().endswith("what was solved so far is kept, use --resume to go on")
    assert len(list((out / ".partial").glob("site-*.npz"))) == 2
    monkeypatch.setattr(wide.WidePlan, "solve", broken)  # nothing is left to solve
    assert cli(*run, "--resume")[0] == 0


def test_nothing_is_kept_where_going_on_cannot_help(cli, target, tmp_path, monkeypatch):
    def unwritable(*args):
        raise UnsupportedError("its numbers do not fit")

    monkeypatch.setattr(run_files, "write_networks", unwritable)
    code, _, stderr = cli("run", target, "-o", tmp_path / "out", "--domain", "-1,1")
    assert code == 2 and stderr.rstrip().endswith("its numbers do not fit")
    assert not (tmp_path / "out").exists()


def test_an_interrupt_before_anything_is_begun_leaves_nothing_to_go_on_with(
    cli, target, tmp_path, monkeypatch
):
    def interrupted(*args, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("reconstruct.runs.run.draw", interrupted)
    code, _, stderr = cli("run", target, "-o", tmp_path / "out", "--domain", "-1,1")
    assert (code, stderr) == (130, "reconstruct: interrupted\n")
    assert not (tmp_path / "out").exists()


def test_adaptive_bounds_are_certified_with_their_tree_and_checked(cli, target, tmp_path):
    out = tmp_path / "out"
    words = ("--domain", "-1,1", "--bounds", "adaptive", "--bounds-seconds", "0.3")
    code, _, stderr = cli("run", target, "-o", out, *words)
    assert code == 0, stderr
    tree = bytes.fromhex(json.loads((out / "certificate.json").read_text())["tree"])
    assert tree.count(0) == len(tree) - tree.count(0) + 1 > 1
    assert cli("check", out)[0] == 0


def test_a_time_for_bounds_goes_with_adaptive_ones(cli, target, tmp_path):
    words = ("--domain", "-1,1", "--bounds", "crown", "--bounds-seconds", "3")
    code, _, stderr = cli("run", target, "-o", tmp_path / "out", *words)
    assert code == 2 and "goes with --bounds adaptive, but the bounds are crown" in stderr


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_few_inputs_are_bounded_by_branch_and_bound_and_verify_finds_the_same_tree(
    cli, tmp_path, dtype
):
    """Three inputs, three layers: CROWN could not show that these shifts suffice, nor could
    another tree."""
    path, out, again = (tmp_path / name for name in ("target.onnx", "out", "again"))
    save(mlp([3, 8, 8, 8, 2], 1), path, dtype=np.float64)
    words = ("--domain", "-1,1", "--tolerance", "1e-4")
    assert cli("run", path, "-o", out, *words, "--dtype", dtype)[0] == 0
    assert cli("verify", path, out / "network.onnx", *words, "-o", again)[0] == 0
    made, found = (json.loads((one / "certificate.json").read_text()) for one in (out, again))
    assert made["tree"] is not None and found["tree"] == made["tree"]
    assert found["method"] == "layered" and found["bound"] == made["bound"]
