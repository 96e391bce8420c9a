"""Pairs with known answers: right in rational arithmetic, proved where that is said, decided alike
by who is not told."""

import csv
import runpy
import sys
from fractions import Fraction

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.cli import main
from reconstruct.equivalence.planted import KINDS, _network, plant
from reconstruct.equivalence.witness import evaluate_exact
from reconstruct.errors import InputError
from reconstruct.networks.graph import Network
from reconstruct.runs.verify import verify_instances

SIZES = [(1, 1), (2, 3, 1), (3, 4, 4, 2)]


def exact_gap(pair, point) -> Fraction:
    both = (evaluate_exact(network, point) for network in (pair.target, pair.candidate))
    return max(abs(a - b) for a, b in zip(*both, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", SIZES)
def test_the_difference_is_what_is_said_and_nowhere_more(kind, sizes):
    pair = plant(kind, sizes, np.random.default_rng(3))
    rng = np.random.default_rng(1)
    points = [*pair.box.corners(8, rng), *pair.box.sample(20, rng)]
    if pair.corner is not None:
        near = np.array(pair.corner) * (1 - 1e-3 * rng.random((5, sizes[0])))
        points += list(near)
        assert exact_gap(pair, pair.corner) == pair.difference > 0
    others = [p for p in points if pair.corner is None or tuple(p) != pair.corner]
    gaps = [exact_gap(pair, point) for point in others]
    assert all(gap < pair.difference or gap == pair.difference == 0 for gap in gaps)
    assert pair.answer == ("sat" if kind == "more" else "unsat")
    assert kind not in ("more", "less") or max(gaps) > 0, "it differs near the corner too"


def least_input(network: Network, box) -> float:
    """The least value that a unit of the first activation takes on the box."""
    first = network.mixing_nodes()[0].op
    weight = np.asarray(first.weight)
    middle, reach = weight @ (box.lo + box.hi) / 2, abs(weight) @ (box.hi - box.lo) / 2
    return float(np.min(middle - reach + first.bias))


def test_units_touch_their_kinks_or_stay_away_from_them():
    rng = np.random.default_rng(0)
    near, far = (plant(kind, (3, 4, 2), rng) for kind in ("near", "far"))
    assert least_input(near.candidate, near.box) == 0
    assert least_input(far.candidate, far.box) > 0.5


def test_twins_agree_in_real_numbers_and_not_in_float32():
    pair = plant("twin", (3, 4, 2), np.random.default_rng(0))
    points = np.float32(pair.box.sample(50, np.random.default_rng(0))).astype(float)
    single = pair.target(points, dtype=np.float32) - pair.candidate(points, dtype=np.float32)
    assert np.abs(single).max() > 10 * pair.tolerance
    assert all(exact_gap(pair, point) == 0 for point in points[:5])


def test_a_folder_is_decided_by_who_is_not_told_and_its_proofs_are_accepted(tmp_path):
    made = rc.pairs(tmp_path / "made", sizes=((2, 3, 1),), count=len(KINDS), seed=5)
    assert {answer.kind for answer in made} == set(KINDS)
    with (tmp_path / "made" / "answers.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["answer"] for row in rows] == [answer.answer for answer in made]
    for row in rows:
        assert row["certificate"], row["pair"]
        assert rc.check(tmp_path / "made" / row["certificate"]).accepted
    found = verify_instances(tmp_path / "made" / "instances.csv", tmp_path / "out", time_limit=20)
    assert [instance.result for instance in found] == [row["answer"] for row in rows]


def test_differences_as_one_network_are_decided_alike(tmp_path, capsys):
    made = rc.pairs(tmp_path / "made", sizes=((2, 3, 1),), count=4, seed=5)
    with (tmp_path / "made" / "instances_difference.csv").open("a") as file:
        file.write("onnx/missing.onnx,vnnlib/pair_000_difference.vnnlib,5\n")
    lines = tmp_path / "made" / "instances_difference.csv"
    found = list(verify_instances(lines, tmp_path / "out", time_limit=20))
    assert [instance.result for instance in found] == [*(m.answer for m in made), "error"]
    assert "no such file" in found[-1].note
    assert all(rc.check(tmp_path / "out" / f"{i:03d}").accepted for i in range(4))
    words = [str(tmp_path / "made" / name) for name in ("onnx/pair_000_target.onnx",) * 2]
    asked = tmp_path / "made/vnnlib/pair_000_difference.vnnlib"
    assert main(["verify", *words, "--property", str(asked)]) == 2
    assert "about one network" in capsys.readouterr().err


def test_the_same_seed_gives_the_same_bytes_and_the_script_another_folder(tmp_path, monkeypatch):
    for name in ("a", "b"):
        rc.pairs(tmp_path / name, sizes=((2, 2),), count=4, seed=7)
    files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*.*n*"))
    assert any(path.suffix == ".onnx" for path in files)
    kept = [path for path in files if path.suffix in (".onnx", ".vnnlib", ".csv")]
    assert all((tmp_path / "a" / p).read_bytes() == (tmp_path / "b" / p).read_bytes() for p in kept)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["generate_properties.py", "8"])
    runpy.run_path(str(tmp_path / "a" / "generate_properties.py"))
    one, other = (p / "onnx/pair_000_target.onnx" for p in (tmp_path / "a", tmp_path / "seed-8"))
    assert one.read_bytes() != other.read_bytes()


def test_sizes_that_are_none_are_said(tmp_path, capsys):
    assert main(["pairs", "-o", str(tmp_path / "p"), "--sizes", "2-x"]) == 2
    assert "2-4-1,3-6-6-2" in capsys.readouterr().err
    with pytest.raises(InputError, match="at least two sizes"):
        plant("far", (3,), np.random.default_rng(0))
    with pytest.raises(InputError, match="smaller sizes"):
        _network([(np.array([[1 / 3]]), np.zeros(1))])
