"""A short run of the random graphs: no disagreement with onnxruntime, no internal error."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
WORDS = ["onnx-reader", "--minutes", "5", "--seed", "7"]


def test_random_graphs(tmp_path):
    from benchmarks.attack.campaign import main

    code = main(
        ["onnx-reader", "--cases", "100", "--minutes", "5", "--seed", "7", "-o", str(tmp_path)]
    )
    (row,) = json.loads((tmp_path / "attack.json").read_text())
    assert (code, row["violations"], row["cases"]) == (0, 0, 100), list(tmp_path.iterdir())
    assert row["outcomes"]["agrees"] >= 30


def test_damaged_files_are_read_or_refused_in_a_sentence(tmp_path):
    from benchmarks.attack.campaign import main

    words = ["damaged", "--cases", "300", "--minutes", "5", "--seed", "1"]
    code = main([*words, "-o", str(tmp_path)])
    (row,) = json.loads((tmp_path / "attack.json").read_text())
    assert (code, row["violations"], row["cases"]) == (0, 0, 300), list(tmp_path.iterdir())


def test_a_violation_is_kept_as_files(tmp_path, monkeypatch):
    from benchmarks.attack.campaign import main
    from reconstruct.formats.onnx import read

    monkeypatch.setitem(read.OPERATORS, "Neg", read.OPERATORS["Identity"])
    monkeypatch.setattr(read, "compared", lambda reading, near, unchecked: None)
    code = main(
        ["onnx-reader", "--cases", "120", "--minutes", "5", "--seed", "7", "-o", str(tmp_path)]
    )
    kept = [p for p in tmp_path.iterdir() if p.is_dir()]
    assert code == 1 and kept
    told = json.loads((kept[0] / "violation.json").read_text())
    assert told["outcome"] == "another function" and (kept[0] / "model.onnx").stat().st_size
