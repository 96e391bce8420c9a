"""Sentences about data: what is said of given inputs, of one, and of a witness among them."""

from __future__ import annotations

import json

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.certificates.certify import conclude
from reconstruct.errors import UnsupportedError
from reconstruct.formats import save
from reconstruct.reports.page import diagram, opening, rows_of, witness_section
from reconstruct.reports.reading import read_run
from reconstruct.reports.words import domain_text, members, verdict_line
from tests.constructions.targets import mlp
from tests.networks.test_images import small_network


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two networks that differ by 0.25 everywhere, as files."""
    folder = tmp_path_factory.mktemp("pair")
    target = rc.Network.mlp([np.ones((2, 3))], [np.zeros(2)])
    other = rc.Network.mlp([np.ones((2, 3))], [np.full(2, 0.25)])
    save(target, folder / "g.npz")
    save(other, folder / "f.npz")
    return folder / "g.npz", folder / "f.npz"


def refuted(pair, domain, tmp_path):
    outcome = rc.verify(*pair, domain=domain, output=tmp_path / "out")
    return outcome.report, read_run(tmp_path / "out")


def test_a_witness_among_data_is_one_of_them(pair, tmp_path):
    report, run = refuted(pair, rc.Points(np.eye(3)), tmp_path)
    line = verdict_line(report)
    assert line.startswith("REFUTED (exact): |f − g| ≥ 0.25 at one of these 3 inputs")
    words = str(witness_section(run))
    assert "one of those that were given" in words and "strictly inside" not in words
    assert report["error"]["samples"] == 3


def test_a_witness_in_a_box_lies_inside_of_it(pair, tmp_path):
    report, run = refuted(pair, (-1, 1), tmp_path)
    assert "at an input inside [-1, 1]^3" in verdict_line(report)
    assert "strictly inside the domain" in str(witness_section(run))


def test_a_witness_near_data_lies_in_one_of_the_boxes(pair, tmp_path):
    report, _ = refuted(pair, rc.Points(np.eye(3), 0.5), tmp_path)
    assert "at an input inside the boxes of radius 0.5 around these 3 inputs" in verdict_line(
        report
    )


@pytest.mark.parametrize(("rigor", "word"), [("exact", "Exact: "), ("rigorous", "Rigorous: ")])
def test_page_and_terminal_call_a_refutation_alike(pair, tmp_path, rigor, word):
    report, _ = refuted(pair, rc.Points(np.eye(3)), tmp_path)
    report["rigor"] = rigor
    path = tmp_path / "out" / "report.json"
    path.write_text(json.dumps(report))
    text = str(opening(read_run(tmp_path / "out")))
    assert f"{word}the witness was replayed" in text
    assert verdict_line(report).startswith(f"REFUTED ({rigor})")


def test_one_input_is_this_input():
    lone = {"kind": "points", "inputs": 1, "lo": [0], "hi": [0]}
    assert domain_text(lone) == "this input"
    assert domain_text({**lone, "inputs": 2}) == "these 2 inputs"
    assert members(lone, 1) == "1 given input"
    many = {**lone, "inputs": 60}
    assert (
        members(many, 60) == "60 given inputs" and members(many, 32) == "32 of the 60 given inputs"
    )
    assert members({"kind": "box"}, 32) == "32 inputs of the domain"
    near = {**lone, "kind": "boxes", "radius": 0.5}
    assert domain_text(near) == "the box of radius 0.5 around this input"


def test_each_given_input_is_sampled_once():
    target = mlp([3, 4, 2], 0)
    x = np.random.default_rng(0).normal(size=(7, 3))
    assert conclude(target, target, domain=rc.Points(x)).search.samples == 7
    assert conclude(target, target, domain=rc.Points(x), samples=5).search.samples == 5


def test_the_diagram_shows_values_beside_the_layers_that_make_them(tmp_path):
    """A 3×3 kernel of the target is a hidden layer and the value itself in the frozen network."""
    target = small_network()
    outcome = rc.run(target, tmp_path / "out", domain=rc.Points(np.zeros((1, 72))), samples=2)
    rows = rows_of(outcome.report)
    (value,), made = next(row for row in rows if "3×3 kernel" in row[0][0][2])
    assert value[2] == "3×6×6, 3×3 kernel, Relu" and not value[3]
    assert [hidden for *_, hidden in made] == [True, False] and made[1][1:] == value[1:]
    assert "3×6×6, 3×3 kernel, Relu<" in str(diagram(rows, "f"))
    with pytest.raises(UnsupportedError, match=r"margin.* use network\.onnx, the same"):
        rc.load(tmp_path / "out" / "network_guarded.onnx")
