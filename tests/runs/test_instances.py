"""VNN-LIB 2.0 properties of two networks, one by one and as a benchmark's folder."""

from __future__ import annotations

import csv
import json
import shlex
from fractions import Fraction

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.cli import main
from reconstruct.equivalence.export import pair_property
from reconstruct.formats.vnnlib import read_pair
from reconstruct.reports.page import command
from reconstruct.runs import given

HEAD = """(vnnlib-version <2.0>)
(declare-network f (declare-input X_f real [2]) (declare-output Y_f real [1]))
(declare-network g (isomorphic-to f) (declare-input X_g real [2]) (declare-output Y_g real [1]))
(assert (and (<= X_f[0] 0.1) (>= X_f[0] -0.1)))
(assert (and (<= X_f[1] 1) (>= X_f[1] (- 1))))
(assert (== X_f[0] X_g[0]))
(assert (== X_f[1] X_g[1]))
"""
OR = "(assert (or (> Y_g[0] (+ Y_f[0] 0.05)) (< Y_g[0] (- Y_f[0] 0.05))))"
AND = "(assert (and (> Y_g[0] (+ Y_f[0] 0.05)) (< Y_g[0] (- Y_f[0] 0.05))))"


def read(text):
    return read_pair(text.encode())


@pytest.mark.parametrize(("claim", "never"), [(OR, False), (AND, True)])
def test_box_and_tolerance_are_those_of_the_text(claim, never):
    found = read(HEAD + claim)
    assert found.networks == ("f", "g") and found.never is never and not found.closed
    assert found.tolerance == Fraction(1, 20) and found.hi == (Fraction(1, 10), 1)
    assert Fraction(float(found.box.hi[0])) >= Fraction(1, 10)  # outward, the limit inward
    assert Fraction(found.limit) <= Fraction(1, 20)
    assert found.broken_by((0.0, 0.0), Fraction(51, 1000))
    assert not found.broken_by((0.2, 0.0), Fraction(51, 1000))
    assert not found.broken_by((0.0, 0.0), Fraction(1, 20))


def test_what_export_writes_is_read_back():
    box = rc.Box([-0.5, 0.25], [0.5, 0.75])
    found = read(pair_property(box, 3, 0.125))
    assert found.tolerance == Fraction(1, 8) and found.closed and found.outputs == 3
    assert found.limit < 0.125 and found.box.same(box) and not found.never


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD + OR.replace("Y_g", "Z_g"), "declares no such"),
        (HEAD + OR.replace("Y_g[0]", "Y_g[1]"), "has the shape"),
        (HEAD + OR.replace("Y_f[0]", "X_f[0]"), "the same output of both"),
        (HEAD.replace("X_g[1]", "X_f[1]") + OR, "must have the same input"),
        (HEAD, "some output differs"),
        (HEAD + "(assert (> Y_g[0] (+ Y_f[0] 0.05)))", "some output differs"),
        (HEAD.replace("(assert (== X_f[1] X_g[1]))\n", "") + OR, "input 1"),
        (HEAD.replace("X_g real [2]", "X_g real [3]") + OR, r"\[2, 3\]"),
        (HEAD.replace("isomorphic-to f", "isomorphic-to h") + OR, "no such network"),
        (HEAD.replace("0.1)", "inf)") + OR, "finite"),
        (HEAD + OR.replace("Y_f[0] 0.05)) (<", "Y_f[0] 0.06)) (<"), "one tolerance"),
        ("(assert (or))", "one box is needed"),
        (HEAD + "(assert ())", "one box is needed"),
        (HEAD + "(assert (or (and) (> Y_g[0] (+ Y_f[0] 1e900))))", "finite"),
        ("", "declares 0 networks"),
    ],
)
def test_other_properties_are_refused_in_a_sentence(text, words):
    with pytest.raises(rc.InputError, match=words):
        read(text)


@pytest.fixture
def benchmark(tmp_path):
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(4, 2)), rng.normal(size=(1, 4))]
    near = [weights[0], weights[1] + 1e-3]
    far = [weights[0], weights[1] + 1.0]
    for name, pair in (("a", weights), ("near", near), ("far", far)):
        rc.save(rc.Network.mlp(pair), tmp_path / f"{name}.onnx")
    (tmp_path / "p.vnnlib").write_text(HEAD + OR)
    (tmp_path / "never.vnnlib").write_text(HEAD + AND)
    lines = [
        ["[('f', 'a.onnx'), ('g', 'near.onnx')]", "p.vnnlib", "20"],
        ["[('f', 'a.onnx'), ('g', 'far.onnx')]", "never.vnnlib", "20"],
        ["[('f', 'a.onnx'), ('g', 'missing.onnx')]", "p.vnnlib", "20"],
        ["[('f', 'a.onnx'), ('h', 'near.onnx')]", "p.vnnlib", "20"],
        ["nonsense", "p.vnnlib", "20"],
        ["a.onnx", "p.vnnlib", "20"],
    ]
    with open(tmp_path / "instances.csv", "w", newline="") as file:
        csv.writer(file).writerows(lines)
    return tmp_path


def test_a_folder_is_run_line_by_line_and_errors_do_not_stop_it(benchmark, capsys):
    words = ["verify", "--instances", str(benchmark / "instances.csv"), "--timeout", "20"]
    assert main([*words, "-o", str(benchmark / "out"), "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    results = ["unsat", "sat", *["error"] * 4]
    assert [row["result"] for row in found] == results
    assert "never hold" in found[1]["note"] and "f and h" in found[3]["note"]
    assert "speaks of f and g, but the instance has a difference" in found[5]["note"]
    with open(benchmark / "out" / "results.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert [row[4] for row in rows] == results
    assert rc.check(benchmark / "out" / "000").accepted
    assert rc.check(benchmark / "out" / "001").accepted


def test_what_is_no_csv_file_is_refused_in_a_sentence(tmp_path, capsys):
    (tmp_path / "i.csv").write_bytes(b"a.onnx,b.onnx\rp.vnnlib,1\n")
    words = ["verify", "--instances", str(tmp_path / "i.csv"), "--timeout", "1"]
    assert main([*words, "-o", str(tmp_path / "out")]) == 2
    assert "lines of a csv file are needed" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_list_that_is_not_there_is_named(tmp_path, capsys):
    missing = str(tmp_path / "nope.csv")
    assert main(["verify", "--instances", missing, "-o", str(tmp_path / "out")]) == 2
    assert f"{missing}: there is no such file" in capsys.readouterr().err


def test_a_property_reads_each_network_once(benchmark, monkeypatch):
    read, plain = [], given.load

    def load(path, **more):
        read.append(path)
        return plain(path, **more)

    monkeypatch.setattr(given, "load", load)
    pair = [benchmark / name for name in ("a.onnx", "near.onnx")]
    found = rc.verify(*pair, property=benchmark / "p.vnnlib", output=benchmark / "out")
    assert found.answer == "unsat" and read == pair


def test_a_property_gives_domain_and_tolerance(benchmark, capsys):
    pair = [str(benchmark / name) for name in ("a.onnx", "near.onnx")]
    asked = ["--property", str(benchmark / "p.vnnlib")]
    assert main(["verify", *pair, *asked]) == 0
    assert "unsat" in capsys.readouterr().out
    for more in (["--tolerance", "1"], ["--tolerance", "0"], ["--radius", "0"], ["--nnet-header"]):
        assert main(["verify", *pair, *asked, *more]) == 2
        assert f"--property goes without {more[0]}, but both" in capsys.readouterr().err
    listed = ["--instances", str(benchmark / "instances.csv"), "-o", str(benchmark / "no")]
    for option in ("--samples", "--bounds-seconds"):
        assert main(["verify", *listed, option, "5"]) == 2
        assert f"--instances goes without {option}" in capsys.readouterr().err
    assert main(["verify", *pair, *asked, "--timeout", "-1"]) == 2
    assert "the time limit must be a finite number of at least 0" in capsys.readouterr().err
    assert main(["verify", *pair]) == 2 and main(["verify", pair[0]]) == 2
    said = capsys.readouterr().err
    assert "verify needs TARGET and CANDIDATE" in said and "--property" in said


def test_a_property_is_part_of_do_it_again(benchmark, tmp_path):
    paths = [str(benchmark / name) for name in ("a.onnx", "near.onnx", "p.vnnlib")]
    found = rc.verify(*paths[:2], property=paths[2], output=tmp_path / "o")
    assert found.answer == "unsat" and found.asked.networks == ("f", "g")
    words = ["reconstruct", "verify", *paths[:2], "--property", paths[2]]
    assert command(found.report) == shlex.join([*words, "--output", str(tmp_path / "o"), "--force"])
    with pytest.raises(rc.InputError, match="about two networks, but one came; give what it"):
        rc.verify(paths[0], property=paths[2])
    with pytest.raises(rc.InputError, match="as a domain or by a property, but both came; give"):
        rc.verify(*paths[:2], property=paths[2], domain=(0, 1))
