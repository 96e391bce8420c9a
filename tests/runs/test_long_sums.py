"""Sums of thousands of terms are written in blocks in float64 too; shorter ones as they are."""

from __future__ import annotations

import json

import numpy as np
import pytest

import reconstruct as rc
from proofs_check.certificates import check
from proofs_check.reader import read_plain
from reconstruct.equivalence.witness import evaluate_exact
from reconstruct.formats import load, save
from reconstruct.networks import Dense, Network, Select
from reconstruct.networks.blocks import COARSE, LONG, joined, long_sums


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run whose second map takes 40 · 36 · 1.5 = 2,160 hidden units."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("long")
    sizes = [(36, 3), (40, 36), (2, 40)]
    weights = [rng.normal(size=shape) / np.sqrt(shape[1]) for shape in sizes]
    target = Network.mlp(weights, [rng.normal(size=len(w)) for w in weights])
    save(target, folder / "target.npz", dtype=None)
    rc.run(folder / "target.npz", folder / "out", domain=(-1, 1), samples=50, guard=True)
    return folder


def test_it_is_in_blocks_and_both_readers_read_the_same(made) -> None:
    network = load(made / "out" / "network.onnx")
    assert json.loads((made / "out" / "report.json").read_text())["recipe"]["blocks"] is True
    assert any(isinstance(node.op, Select) for node in network.nodes) and not long_sums(network)
    blocks = [node.op for node in network.nodes if ".part" in node.name]
    assert max(op.shape[1] for op in blocks if isinstance(op, Dense)) == COARSE.block
    assert read_plain(made / "out" / "network.onnx").same(network)
    whole = joined(network)
    assert long_sums(whole) and len(whole.nodes) < len(network.nodes)
    x = np.random.default_rng(1).uniform(-1, 1, 3)
    assert evaluate_exact(whole, x) == evaluate_exact(network, x)
    assert check(made / "out").accepted


def test_it_is_rebuilt_and_serves_as_a_frozen_network(made) -> None:
    path = made / "out" / "network.onnx"
    before = path.read_bytes()
    rc.rebuild(made / "out")
    assert path.read_bytes() == before
    frozen = {"frozen": path, "construction": rc.Wide(), "domain": (-1, 1), "samples": 50}
    again = rc.run(made / "target.npz", made / "again", **frozen)
    assert joined(again.network).same(joined(load(path)))


def test_the_bound_of_an_evaluation_is_smaller_by_it(made, monkeypatch) -> None:
    monkeypatch.setattr("reconstruct.runs.run.long_sums", lambda network: False)
    plain = rc.run(made / "target.npz", made / "plain", domain=(-1, 1), samples=50).certificate
    error = json.loads((made / "out" / "report.json").read_text())["error"]
    assert error["float64_bound"] < plain.float64_bound / 8
    assert error["certified_bound"] < 1.01 * plain.bound


def test_shorter_sums_stay() -> None:
    for terms in (LONG - 1, LONG):
        network = Network.mlp([np.ones((terms, 2)), np.ones((1, terms))], None)
        assert long_sums(network) == (terms == LONG)
