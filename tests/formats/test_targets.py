"""Real networks made by others: loaded, and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from reconstruct.formats import load

from .models import SHARED, in_float64, run

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/targets is not there")
FILES = sorted(p for p in SHARED.glob("*/*") if p.suffix in (".onnx", ".npz", ".nnet"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_loads_and_agrees(path):
    network = load(path)
    assert network.metadata["format"] == path.suffix[1:]
    if path.suffix == ".onnx":
        compare(network, path)


def compare(network, path):
    content = path.read_bytes()
    shape = network.metadata["input_shape"]
    double = in_float64(content)
    images = len(shape) == 4  # onnxruntime has no Conv in float64
    for seed in range(3):
        x = np.random.default_rng(seed).uniform(-0.5, 0.5, shape)
        theirs = network(x.ravel()) if images else run(double, x).ravel()
        size = max(1.0, np.abs(theirs).max())
        folded = path.name == "fc_matMul.onnx"
        tolerance = 1e-6 if folded else 1e-12  # constants of the file are folded in its float32
        assert np.abs(theirs - network(x.ravel())).max() <= tolerance * size
        single = run(content, x.astype(np.float32)).ravel()
        assert np.abs(single - network(x.ravel(), np.float32)).max() <= 1e-5 * size


@pytest.mark.parametrize("name", ["1_1", "3_5"])
def test_both_forms_of_an_acas_network_agree(name):
    stem = SHARED / "acasxu" / f"ACASXU_run2a_{name}_batch_2000"
    text, binary = load(stem.with_suffix(".nnet")), load(stem.with_suffix(".onnx"))
    assert text.maps == binary.maps
    pairs = zip(text.mixing_nodes(), binary.mixing_nodes(), strict=True)
    for a, b in pairs:
        assert np.abs(a.op.weight - b.op.weight).max() <= 9e-7
        assert np.abs(a.op.bias - b.op.bias).max() <= 9e-7
