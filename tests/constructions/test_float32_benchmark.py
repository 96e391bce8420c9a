"""The benchmark of float32 errors: one row for each setting, measured on the written file."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import float32 as benchmark
from benchmarks import half
from reconstruct.bounds import Adaptive, Crown
from reconstruct.formats import save
from reconstruct.networks import Box, Network
from tests.certificates.building import random_target

pytest.importorskip("onnxruntime")


def test_all_and_none_of_the_measures(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(benchmark, "SAMPLES", 200)
    monkeypatch.setattr(benchmark, "NEARBY", 40)
    save(random_target(np.random.default_rng(0), (2, 6, 6, 2)), tmp_path / "t.onnx")
    none = benchmark.measure_one(tmp_path / "t.onnx", "-1,1", benchmark.Setting(Crown()))
    taken = {"balance": True, "feedback": True}
    chosen = benchmark.Setting(Adaptive(boxes=64), **taken, ratio=2.0)
    whole = benchmark.measure_one(tmp_path / "t.onnx", "-1,1", chosen)
    words = "adaptive, balance, feedback"
    assert whole["measures"] == words
    assert none["measures"] == "crown" and none["boxes"] is None and whole["boxes"] > 1
    for row in (none, whole):  # the frozen network's float32 error, and the target's own
        assert 0 < row["target_error"] < row["error"] < 1e-3
        assert row["factor"] == pytest.approx(row["error"] / row["target_error"])


def test_sums_in_blocks_with_headroom_are_bounded_in_float32(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(benchmark, "SAMPLES", 200)
    monkeypatch.setattr(benchmark, "NEARBY", 40)
    save(random_target(np.random.default_rng(0), (2, 8, 8, 2)), tmp_path / "t.onnx")
    chosen = benchmark.Setting(Crown(), feedback=True, blocks=True, headroom=True)
    row = benchmark.measure_one(tmp_path / "t.onnx", "-1,1", chosen)
    assert row["measures"] == "crown, feedback, blocks, headroom"
    assert row["error"] <= row["float32_bound"] <= 1000 * row["target_float32_bound"]
    assert row["bound"] <= row["float64_bound"] < row["float32_bound"]


def test_short_formats_are_rounded_to_nearest() -> None:
    x = np.array([1 + 2.0**-9, 1 + 3 * 2.0**-8, -(1 + 2.0**-8), 70_000.0, np.inf])
    found = half.bfloat16(x)
    np.testing.assert_array_equal(found, [1.0, 1 + 2.0**-6, -1.0, 70_144.0, np.inf])
    np.testing.assert_array_equal(half.float16(x), [*x[:3], np.inf, np.inf])


def test_an_identity_loses_what_its_format_loses() -> None:
    net = Network.mlp([np.eye(2)])
    row = half.half_errors(net, net, Box(0.5, 1.0).of_size(2))
    assert row["float16_error"] == row["bfloat16_error"] == 0.0  # inputs are of the format
    third = Network.mlp([np.eye(2) / 3])
    row = half.half_errors(third, third, Box(0.5, 1.0).of_size(2))
    assert 2.0**-13 < row["bfloat16_error"] < 2.0**-7 and row["float16_error"] < 2.0**-10


def test_settings_are_told_apart() -> None:
    rows = [(one.measures, one.ratio) for one in benchmark.settings(64, "full")]
    assert len(set(rows)) == len(rows)
    assert [*rows[:5]] == [(o.measures, o.ratio) for o in benchmark.settings(64, "quick")]
