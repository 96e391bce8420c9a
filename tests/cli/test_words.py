"""The words of command line and library: names that say what they are, a verdict for each
arithmetic, and what a person would type."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.cli import main
from reconstruct.cli.parser import build_parser
from reconstruct.reports.page import command, opening
from reconstruct.reports.reading import RunFiles
from reconstruct.reports.words import verdict_line, wanted_verdict
from tests.constructions.test_live import normed_mlp


def test_a_density_is_a_share(cli, target):
    code, _, stderr = cli("inspect", target, "--density", 1.5)
    assert code == 2 and "(0, 1], but is 1.5" in stderr


def test_inspect_counts_what_the_density_keeps(cli, target):
    full, half = (
        json.loads(cli("inspect", target, "--json", *words)[1])["constructions"][0]
        for words in ((), ("--density", 0.5))
    )
    assert half["nonzeros"] == pytest.approx(full["nonzeros"] / 2, abs=1)


REFUSED = [
    ("run TARGET -o OUT --ratio 1e9", "less than a million, but is 1e+09"),
    ("run TARGET -o OUT --slack 2 --domain=-1,1", "the domain is a box; leave it out"),
    ("run TARGET -o OUT --ratio auto", "only one of them came; give both or neither"),
    (
        "run TARGET -o OUT --ratio auto --float32-error 1 --construction deep --block 2",
        "of --construction wide, but the construction is deep; give a number",
    ),
    ("run TARGET -o OUT --radius 1", "give data, or leave the radius out"),
    ("verify TARGET TARGET --property nope.vnnlib", "nope.vnnlib: there is no such file"),
    ("verify TARGET OTHER --domain=-1,1", "target.onnx has 3 and 2, the candidate other.npz has 4"),
    ("export TARGET OTHER --domain=-1,1 --tolerance 1 -o OUT", "candidate other.npz has 4 and 2"),
    ("export TARGET OTHER --domain=-1,1 -o OUT", "but --tolerance did not come; give what"),
    ("export --peft OUT --domain=-1,1 -o OUT", "needs nothing else; leave networks and box out"),
    ("prove --only nope", "reconstruct: --only needs the name of a statement"),
]


@pytest.mark.parametrize(("words", "sentence"), REFUSED)
def test_a_refusal_says_what_came_and_what_to_do(cli, target, tmp_path, words, sentence):
    other = tmp_path / "other.npz"
    rc.save(rc.Network.mlp([np.ones((3, 4)), np.ones((2, 3))]), other)
    places = {"TARGET": target, "OTHER": other, "OUT": tmp_path / "out"}
    code, stdout, stderr = cli(*(places.get(word, word) for word in words.split()))
    assert code == 2 and stdout == "" and sentence in stderr and stderr.count("\n") == 1


@pytest.mark.parametrize("construction", ["wide", "grouped"])
def test_out_of_memory_does_not_advise_what_is_done_already(
    cli, target, tmp_path, monkeypatch, construction
):
    def exhausted(*args):
        raise MemoryError

    words = ("run", target, "-o", tmp_path / "out", "--construction", construction)
    said = [cli(*words, "--memory", "1M")[2]]
    monkeypatch.setattr("reconstruct.runs.run.draw", lambda *args, **more: exhausted())
    said.append(cli(*words)[2])
    for stderr in said:
        assert "lower --ratio" in stderr
        assert ("--construction grouped" in stderr) == (construction == "wide")


def test_out_of_memory_advises_only_what_the_command_has(cli, target, monkeypatch):
    def exhausted(*args):
        raise MemoryError

    monkeypatch.setattr("reconstruct.cli.inspecting.cost", exhausted)
    code, stdout, stderr = cli("inspect", target)
    assert code == 2 and stdout == "" and "--" not in stderr
    assert stderr.endswith("too little for it; use one with more, or a smaller network\n")


def test_a_check_is_a_line_or_two(cli, target, tmp_path):
    assert cli("run", target, "-o", tmp_path / "out", "--quiet", "--domain", "-1,1")[0] == 0
    (first, second), (alone,) = (
        cli("check", tmp_path / "out", *words)[1].splitlines() for words in ((), ("--quiet",))
    )
    assert first == alone and alone.startswith("ACCEPTED: ") and alone.endswith("on the domain")
    assert second.startswith("verified again: bound")
    assert "is not JSON; give a run's OUT" in cli("check", target)[1]


def test_inspect_counts_in_words(cli, tmp_path):
    """A norm whose statistics are live is a norm, and no activation."""
    rc.save(normed_mlp(1e-5, widths=(3, 4, 2)), tmp_path / "t.npz")
    assert "\n2 affine maps, 1 activation, 2 norms, " in cli("inspect", tmp_path / "t.npz")[1]


def test_quiet_is_the_verdict_line(cli, target, tmp_path):
    words = ("--domain", "-1,1", "--samples", 50, "--quiet")
    for start in (("run", target, "-o", tmp_path / "out"), ("verify", target, target)):
        code, stdout, stderr = cli(*start, *words)
        assert code == 0 and stderr == ""
        assert stdout.startswith("CERTIFIED (rigorous): ") and stdout.count("\n") == 1


def test_each_arithmetic_has_its_verdict(cli, target, tmp_path):
    words = ("run", target, "--domain", "-1,1", "--samples", 50, "--force", "-o", tmp_path / "out")
    code, stdout, _ = cli(*words, "--tolerance", 1e-9)
    said = " ".join(stdout.split())
    assert code == 0 and said.startswith("CERTIFIED (rigorous): |f − g| ≤ ")
    assert "real arithmetic proved: at most" in said and "float64 proved: at most" in said
    assert "float32 largest difference found" in said and "above the tolerance 1e-09" in said
    page = (tmp_path / "out" / "report.html").read_text()
    assert '<strong class="standing refuted">float32: </strong>largest difference found' in page


def test_with_float32_the_headline_is_about_float32(cli, target, tmp_path):
    words = ("run", target, "--domain", "-1,1", "--samples", 50, "--force", "--dtype", "float32")
    out = tmp_path / "out"
    code, stdout, _ = cli(*words, "--quiet", "-o", out, "--tolerance", 0.01)
    assert code == 0 and "in real arithmetic; in float32: proved: at most" in stdout
    report = json.loads((out / "report.json").read_text())
    between = (report["error"]["certified_bound"] + report["error"]["float32_max"]) / 2
    for tolerance, words_of_it, tone in (
        (report["error"]["float32_bound"] / 2, "not proved within the tolerance", "undecided"),
        (between, "above the tolerance", "refuted"),
    ):
        report["certificate"]["tolerance"] = tolerance
        line = verdict_line(report)
        assert line.startswith("CERTIFIED (rigorous): |f − g| ≤ ") and words_of_it in line
        assert " in real arithmetic; in float32: " in line
        assert f'class="verdict {tone}"' in str(opening(RunFiles(report)).text)


@pytest.mark.parametrize(
    ("bound", "seen", "tone"),
    [
        (1.0, 0.5, "certified"),
        (1.0, 2.0, "certified"),
        (1.5, 0.5, "undecided"),
        (None, 1.0, "undecided"),
        (None, None, "undecided"),
        (1.5, 1.25, "refuted"),
        (None, 1.25, "refuted"),
    ],
)
def test_a_verdict_in_floats_follows_from_proof_and_measurement(bound, seen, tone):
    error = {"float32_bound": bound, "float32_max": seen}
    report = {"error": error, "certificate": {"tolerance": 1.0}, "options": {"dtype": "float32"}}
    assert wanted_verdict(report).tone == tone


def test_a_file_equals_itself(cli, target):
    code, stdout, _ = cli("verify", target, target, "--domain", "-1,1")
    assert code == 0 and "|f − g| = 0 for every x" in stdout and "tried" not in stdout
    assert "real arithmetic        0: both networks are the same file" in stdout


def test_what_run_returns_is_shown_in_a_line(target, tmp_path):
    outcome = rc.run(target, tmp_path / "out", domain=(-1, 1), samples=50)
    assert repr(outcome).startswith("RunOutcome(CERTIFIED") and len(repr(outcome)) < 300
    shown = outcome._repr_html_()  # in a notebook
    assert "Certified: the two networks agree" in shown and len(shown) < 5000


@pytest.mark.parametrize("name", ["run", "verify", "check", "inspect"])
def test_every_option_says_what_it_does(name):
    commands = build_parser()._subparsers._group_actions[0].choices
    silent = [a.dest for a in commands[name]._actions if not a.help and a.option_strings]
    assert silent == []


def test_do_it_again_can_be_done_again(cli, target, tmp_path):
    words = (
        "run",
        target,
        "--domain",
        "-1,1",
        "--samples",
        50,
        "--solver",
        "direct",
        "--density",
        0.9,
    )
    assert cli(*words, "-o", tmp_path / "out")[0] == 0
    first = json.loads((tmp_path / "out" / "report.json").read_text())
    again = shlex.split(command(first))
    assert again[-1] == "--force" and again[again.index("--solver") + 1] == "direct"
    assert cli(*again[1:])[0] == 0
    second = json.loads((tmp_path / "out" / "report.json").read_text())
    assert second["error"] == first["error"]


def test_a_bundle_travels_with_its_target(cli, target, tmp_path):
    here, there = tmp_path / "out", tmp_path / "elsewhere" / "out"
    assert cli("run", target, "-o", here, "--domain", "-1,1", "--samples", 50)[0] == 0
    there.parent.mkdir()
    here.rename(there)
    moved = target.rename(tmp_path / "mine.onnx")
    assert cli("check", there)[0] == 0  # its own copy is there
    (there / "target" / "target.onnx").unlink()
    code, stdout, _ = cli("check", there)
    assert code == 2 and "target.onnx was not found" in stdout and "--target" in stdout
    code, stdout, _ = cli("check", there, "--target", moved)
    assert code == 0 and stdout.startswith("ACCEPTED")
    code, stdout, _ = cli("check", there, "--target", there / "network.onnx")
    assert code == 1 and "not the file that was certified" in stdout


def test_a_pair_is_a_box_and_a_certificate_saves_itself(target, tmp_path):
    network = rc.load(target)
    result = rc.reconstruct(network, rc.draw(network), domain=(-1, 1))
    np.testing.assert_array_equal(result.domain.lo, -np.ones(3))
    np.testing.assert_array_equal(result.domain.hi, np.ones(3))
    file = tmp_path / "network.onnx"
    rc.save(result.network, file)
    certificate = rc.certify(network, rc.load(file), domain=(-1, 1))
    assert certificate
    certificate.save(tmp_path / "certificate.json", target=target, candidate=file)
    assert rc.check(tmp_path).accepted


@pytest.mark.parametrize("domain", ["-1,1", (-1, 0, 1), None])
def test_other_domains_are_refused_with_a_sentence(target, domain):
    network = rc.load(target)
    with pytest.raises(rc.InputError, match=r"a Box, Points or a pair \(lo, hi\), but is"):
        rc.certify(network, network, domain=domain)


def test_a_word_is_not_a_construction(target):
    with pytest.raises(rc.InputError, match=r"rc\.Wide\(ratio=1\.5\), but is the word 'wide'"):
        rc.draw(rc.load(target), construction="wide")


@pytest.mark.parametrize(("dtype", "name"), [(np.float16, "float16"), (int, "int"), ("x", "x")])
@pytest.mark.parametrize("suffix", ["onnx", "npz"])
def test_other_precisions_are_not_written(target, tmp_path, suffix, dtype, name):
    file = tmp_path / f"other.{suffix}"
    with pytest.raises(rc.InputError, match=f"float32 or float64, but the dtype is {name}:"):
        rc.save(rc.load(target), file, dtype=dtype)
    assert not file.exists()


def test_words_that_mean_nothing_are_refused(target, tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["run", str(target), "-o", str(tmp_path / "out"), "--ratio", "abc"])
    assert stopped.value.code == 2
    assert "argument --ratio: must be a number or auto, but is 'abc'" in capsys.readouterr().err


def test_an_output_without_a_name_is_refused(target, tmp_path, monkeypatch, capsys):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")  # nothing may be left where it runs
    assert main(["run", str(target), "-o", ""]) == main(["study", "depth", "-o", " "]) == 2
    assert capsys.readouterr().err.count("must name a directory, but is empty; write .") == 2
    with pytest.raises(rc.InputError, match="must name a directory, but is empty; write"):
        rc.run(target, "")
    with pytest.raises(rc.InputError, match="must name a directory, but is empty; write"):
        rc.verify(target, target, domain=(0, 1), output=" ")
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("rnu", "a.onnx"), "run"),
        (("run", "a.onnx", "-o", "out", "--domian=0,1"), "--domain"),
        (("run", "a.onnx", "-o", "out", "--construction", "groupd"), "grouped"),
    ],
)
def test_words_that_are_nearly_right_are_answered_with_the_right_one(capsys, words, meant):
    with pytest.raises(SystemExit) as left:
        main(list(words))
    assert left.value.code == 2
    assert capsys.readouterr().err.rstrip().endswith(f"; did you mean {meant}?")


def test_names_of_the_library_that_are_nearly_right():
    with pytest.raises(AttributeError, match="'Grouped'"):
        rc.Groupd  # noqa: B018
    with pytest.raises(AttributeError) as error:
        rc.nothing_like_it  # noqa: B018
    assert "did you mean" not in str(error.value)
