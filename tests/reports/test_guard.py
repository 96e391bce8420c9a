"""How much the guard covers: of the data, and of inputs that were not given."""

from __future__ import annotations

import json

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.cli import main
from reconstruct.errors import InputError
from reconstruct.formats import save
from reconstruct.reports.words import unseen_error
from tests.constructions.targets import mlp
from tests.networks.test_images import small_network

RNG = np.random.default_rng(0)
GIVEN = RNG.uniform(0, 0.5, (6, 2, 6, 6))
NEAR, FAR = RNG.uniform(0, 0.5, (5, 2, 6, 6)), RNG.uniform(-30, 30, (4, 2, 6, 6))
UNSEEN = np.concatenate([GIVEN[:3], NEAR, FAR])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("unseen")
    save(small_network(), place / "cnn.onnx")
    np.savez(place / "images.npz", x=GIVEN, x_unseen=UNSEEN)
    return place


def test_unseen_inputs_of_the_file_are_measured(folder, capsys):
    words = ["--domain", str(folder / "images.npz"), "--samples", "20"]
    assert main(["run", str(folder / "cnn.onnx"), "-o", str(folder / "out"), *words]) == 0
    said = " ".join(capsys.readouterr().out.split())
    report = json.loads((folder / "out" / "report.json").read_text())
    guard, unseen = report["guard"], report["guard"]["unseen"]
    assert guard["inputs"] == 6 and guard["share"] == 1.0
    target = rc.load(folder / "cnn.onnx")
    result = rc.reconstruct(target, rc.draw(target), domain=rc.Points(GIVEN))
    covered = result.margin(UNSEEN) >= 0
    gaps = np.abs(result.network(UNSEEN) - target(UNSEEN)).max(axis=1)
    assert covered[:3].all() and not covered[-4:].any()
    assert (unseen["inputs"], unseen["of"], unseen["covered"]) == (12, 12, covered.sum())
    assert unseen["covered_error"] == pytest.approx(gaps[covered].max(), rel=0.5, abs=1e-13)
    assert unseen["covered_error"] < 1e-9 < 1e-3 < unseen["others_error"]
    assert unseen["others_error"] == pytest.approx(gaps[~covered].max())
    assert "margin ≥ 0 100.00 % of 6 given inputs (numerical)" in said
    assert f"{100 * covered.mean():.2f} % of 12 unseen inputs; largest |f − g| on these" in said
    page = (folder / "out" / "report.html").read_text()
    assert "100.00 % of 6 given inputs" in page and "% of 12 unseen inputs; largest" in page


def test_the_library_takes_unseen_inputs_too(tmp_path):
    target = mlp([3, 4, 2], 0)
    x, far = np.eye(3), np.full((2, 3), 1e4)
    outcome = rc.run(target, tmp_path / "a", domain=rc.Points(x), unseen=far, samples=3)
    assert outcome.report["guard"]["unseen"]["covered"] == 0
    assert outcome.report["guard"]["unseen"]["covered_error"] is None
    outcome = rc.run(target, tmp_path / "b", domain=(-1, 1), guard=True, unseen=x, samples=3)
    assert outcome.report["guard"]["unseen"]["covered"] == 3
    assert rc.run(target, tmp_path / "c", domain=(-1, 1), samples=3).report["guard"] is None


def test_unseen_inputs_without_a_guard_or_of_another_shape_are_refused(folder, tmp_path):
    target = mlp([3, 4, 2], 0)
    with pytest.raises(InputError, match="the guard is tried, but this run writes none; add --gu"):
        rc.run(target, tmp_path / "out", domain=(-1, 1), unseen=np.eye(3))
    with pytest.raises(InputError, match=r"x_unseen: the network has 3 inputs, but .* have 4"):
        rc.run(target, tmp_path / "out", domain=rc.Points(np.eye(3)), unseen=np.eye(4))
    np.savez(folder / "bad.npz", x=GIVEN, x_unseen=UNSEEN.transpose(0, 2, 3, 1))
    with pytest.raises(InputError, match=r"bad\.npz: x_unseen: .* 2×6×6 .* images of 6×6×2"):
        rc.run(folder / "cnn.onnx", tmp_path / "out", domain=folder / "bad.npz")
    assert not (tmp_path / "out").exists()


def test_an_answer_that_is_no_number_is_not_shown_as_none():
    unseen = {"inputs": 3, "covered": 1, "covered_error": 1e-9, "others_error": None}
    assert unseen_error(unseen, "covered") == "1e-09"
    assert unseen_error(unseen, "others") == "not a number"
    assert unseen_error({**unseen, "covered": 3}, "others") == "–"
