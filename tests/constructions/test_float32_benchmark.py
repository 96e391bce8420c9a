"""The benchmark of float32 errors: one row for each setting, measured on the written file."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import float32 as benchmark
from reconstruct.bounds import Adaptive, Crown
from reconstruct.formats import save
from tests.certificates.building import random_target

pytest.importorskip("onnxruntime")


def test_all_and_none_of_the_measures(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(benchmark, "SAMPLES", 200)
    monkeypatch.setattr(benchmark, "NEARBY", 40)
    save(random_target(np.random.default_rng(0), (2, 6, 6, 2)), tmp_path / "t.onnx")
    none = benchmark.measure_one(tmp_path / "t.onnx", "-1,1", benchmark.Setting(Crown()))
    chosen = benchmark.Setting(Adaptive(boxes=64), True, True, True, True, 2.0)
    whole = benchmark.measure_one(tmp_path / "t.onnx", "-1,1", chosen)
    assert whole["measures"] == "adaptive, small slack, balanced units, feedback, raised shifts"
    assert none["measures"] == "crown" and none["leaves"] is None and whole["leaves"] > 1
    for row in (none, whole):  # the frozen network's float32 error, and the target's own
        assert 0 < row["target_error"] < row["error"] < 1e-3
        assert row["factor"] == pytest.approx(row["error"] / row["target_error"])


def test_settings_are_told_apart() -> None:
    rows = [(one.measures, one.ratio) for one in benchmark.settings(64, "full")]
    assert len(set(rows)) == len(rows) == 15
    assert [*rows[:2]] == [(o.measures, o.ratio) for o in benchmark.settings(64, "quick")]
