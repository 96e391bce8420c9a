"""Room for float32: what is written for it is bounded in it, re-proved, and no worse for it."""

from __future__ import annotations

import json
import pickle
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

import reconstruct as rc
from reconstruct.constructions.chain import find_shift
from reconstruct.formats import load, save
from reconstruct.networks import Box, Network, Select
from reconstruct.runs.files import Forms, with_headroom
from tests.networks.test_images import small_network
from tests.runs.conftest import DOMAIN

WAY = {"domain": (-1, 1), "samples": 100, "bounds": rc.Crown()}


@pytest.fixture
def deep_target(tmp_path):
    """Six layers: errors grow from one to the next, beyond the room that shifts have anyway."""
    rng = np.random.default_rng(5)
    sizes = [2, 8, 8, 8, 8, 8, 2]
    weights = [rng.standard_normal((m, k)) * 1.6 / np.sqrt(k) for k, m in pairwise(sizes)]
    path = tmp_path / "deep.npz"
    save(Network.mlp(weights, [rng.standard_normal(len(w)) for w in weights]), path, dtype=None)
    return path


def figures(folder) -> dict:
    return json.loads((folder / "report.json").read_text())["error"]


def test_the_shifts_of_the_report_are_those_of_the_file(deep_target, tmp_path) -> None:
    out = tmp_path / "out"
    rc.run(deep_target, out, **WAY, dtype="float32", tolerance=0.01)
    report = json.loads((out / "report.json").read_text())
    norms = np.load(out / "norms.npz")
    hidden = [norms[name] for name in norms.files if name.endswith("norm1.bias")]
    told = [row["shift_max"] for row in report["layers"]]
    np.testing.assert_allclose(told, [np.abs(beta).max() for beta in hidden], rtol=1e-3)


def test_float64_is_written_as_before(cli, deep_target, tmp_path) -> None:
    out = tmp_path / "out"
    assert cli("run", deep_target, *DOMAIN, "-o", out)[0] == 0
    assert not any(isinstance(node.op, Select) for node in load(out / "network.onnx").nodes)
    assert json.loads((out / "report.json").read_text())["recipe"]["blocks"] is False


def test_a_network_in_blocks_is_a_frozen_network_like_any_other(cli, deep_target, tmp_path) -> None:
    out, again = tmp_path / "out", tmp_path / "again"
    rc.run(deep_target, out, **WAY, dtype="float32", tolerance=0.01)
    frozen = out / "network.onnx"
    assert any(isinstance(node.op, Select) for node in load(frozen).nodes)
    code, _, said = cli("run", deep_target, *DOMAIN, "-o", again, "--frozen", frozen)
    assert code == 0, said
    assert not any(isinstance(node.op, Select) for node in load(again / "network.onnx").nodes)


def test_convolutions_get_room_channel_by_channel(monkeypatch) -> None:
    """Shifts are per channel: the worst position tells what a channel lacks."""
    tight = partial(find_shift, slack=2.0**-12)  # so that something is lacking in a small network
    monkeypatch.setattr("reconstruct.constructions.chain.find_shift", tight)
    target, box = small_network(), Box(-1.0, 1.0)
    result = rc.reconstruct(target, rc.draw(target, rc.Wide(1.5)), domain=box, dtype=np.float32)
    forms = Forms(np.dtype(np.float32), guarded=False, blocks=True)
    grown = with_headroom(result, forms, np.inf)
    before, after = ({n: s.beta for n, s in found.norms.items()} for found in (result, grown))
    assert any(np.any(before[name] != after[name]) for name in before)
    bounds = [
        rc.certify(target, forms.spelled(found.network), domain=box, tolerance=1.0)
        for found in (result, grown)
    ]
    assert bounds[1].float32_bound < bounds[0].float32_bound < np.inf
    assert bounds[1].float32_bound < 1000 * bounds[1].target_float32_bound


def test_what_was_asked_of_bounds_travels_with_a_result() -> None:
    target = Network.mlp([np.eye(2), np.ones((1, 2))], None)
    result = rc.reconstruct(target, rc.draw(target, rc.Wide(1.5)), domain=(-1, 1))
    again = pickle.loads(pickle.dumps(result))
    forms = np.array([[1.0, 2.0]])
    assert np.array_equal(
        again.known.functionals("act1", forms), result.known.functionals("act1", forms)
    )
